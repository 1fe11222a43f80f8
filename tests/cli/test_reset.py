"""`pystreams reset`: its options; what it does to brokers is tested with the runtime."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from pystreams import TopicPartition
from pystreams.cli.commands.applications.reset import Beginning, reset
from pystreams.testing.simulation import Faults, ManualClock, SimulatedBroker
from pystreams.testing.simulation.admin import SimulatedAdmin
from pystreams.testing.simulation.faults import Lifeline

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = [TopicPartition("in", 0), TopicPartition("in", 1)]
NOWHERE: dict[str, Any] = {
    "to_earliest": False,
    "to_latest": False,
    "to_offset": None,
    "to_datetime": None,
}


@pytest.fixture
def admin() -> SimulatedAdmin:
    """Of a broker with five records in one partition, at 0 to 4 s, the first deleted; none else."""
    faults = Faults(0)
    broker = SimulatedBroker(ManualClock(), faults)
    broker.create_topic("in", 2)
    broker.append("in", 0, [(b"k", b"v", second * 1000, ()) for second in range(5)])
    broker.log(PARTITIONS[0]).delete_before(1)
    return SimulatedAdmin(broker, Lifeline("reset", faults))


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(reset, list(arguments))


@pytest.mark.parametrize(
    ("given", "offsets"),
    [
        ({"to_earliest": True}, [1, 0]),
        ({"to_latest": True}, [5, 0]),
        ({"to_offset": 3}, [3, 0]),
        ({"to_offset": 0}, [1, 0]),
        ({"to_datetime": datetime.fromtimestamp(3, UTC)}, [3, 0]),
        ({"to_datetime": datetime.fromtimestamp(9, UTC)}, [5, 0]),
    ],
)
def test_input_is_read_from_where_the_options_say(
    admin: SimulatedAdmin, given: dict[str, Any], offsets: list[int]
) -> None:
    new_offsets = Beginning(**NOWHERE | given).new_offsets()

    assert new_offsets is not None
    assert new_offsets(admin, PARTITIONS) == dict(zip(PARTITIONS, offsets, strict=True))


def test_without_an_option_the_reset_policies_say_it() -> None:
    assert Beginning(**NOWHERE).new_offsets() is None


def test_two_beginnings_are_wrong_usage() -> None:
    answer = invoke("--application-id", "app", "--to-latest", "--to-offset", "3")

    assert answer.exit_code == 2
    assert "exclude each other" in answer.stderr


def test_it_must_know_the_application() -> None:
    answer = invoke("-c", "bootstrap.servers=nobody.invalid:9092")

    assert answer.exit_code == 2
    assert "name the topology, or at least --application-id" in answer.stderr


def test_an_application_with_two_names_is_wrong_usage() -> None:
    answer = invoke("--application-id", "a", "-c", "application.id=b")

    assert answer.exit_code == 2
    assert "--application-id a and -c application.id=b contradict" in answer.stderr


def test_an_application_without_brokers_is_wrong_configuration() -> None:
    answer = invoke("--application-id", "app")

    assert answer.exit_code == 2
    assert "bootstrap.servers" in answer.stderr


def test_without_a_broker_the_exit_code_says_so(tmp_path: Path) -> None:
    settings = {
        "bootstrap.servers": "127.0.0.1:1",
        "request.timeout.ms": "1500",
        "state.dir": str(tmp_path),
    }
    words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]

    assert invoke("--application-id", "app", *words).exit_code == 3
    assert list(tmp_path.iterdir()) == []
