"""TLS and each SASL mechanism reach every client: of the application, and of the commands."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.broker.application import Application
from tests.broker.backfill.spark_processes import OPTIONS_FOR_FEW_ROWS
from tests.broker.reading import produce, read_all
from tests.broker.security.credentials import CREDENTIALS
from tests.broker.security.secured_broker import PASSWORD, USER, SecuredBroker
from tests.broker.security.token_endpoint import token_endpoint
from tests.variants import first_of

pytestmark = pytest.mark.broker

TOPOLOGY = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
names = builder.global_table("{name}-names", key_serde=serdes.STRING, value_serde=serdes.STRING)
orders = builder.stream("{name}-in", key_serde=serdes.STRING, value_serde=serdes.STRING)
named = orders.join(names, lambda key, value: key, lambda order, name: name)
by_name = named.select_key(lambda key, value: value).group_by_key(
    key_serde=serdes.STRING, value_serde=serdes.STRING, name="by-name"
)
by_name.count(name="counts").to_stream().to("{name}-out", key_serde=serdes.STRING)
"""
"""All clients: of a thread, its producer, admin; of restores, and of global tables."""


COMMAND_LIMIT_S = 800.0
"""A limit, no target: Spark takes minutes on a machine that has much else to do."""


@dataclass(frozen=True)
class Secured:
    """An application that shows who it is in one way, and its commands."""

    application: Application
    file: Path
    topology: Path

    def ran(self, *words: str, text: str = "") -> str:
        """Run a command with the configuration; return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "pystreams", *words, "--config", str(self.file)],
            input=text,
            check=False,
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT_S,
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(params=first_of(*CREDENTIALS))
def way(
    request: pytest.FixtureRequest, secured: SecuredBroker, unique_name: str, tmp_path: Path
) -> Iterator[Secured]:
    name = f"secured-{unique_name}"
    for stem in ("names", "in", "out", "dead"):
        secured.create_topic(f"{name}-{stem}")
    produce(secured.plaintext, f"{name}-names", [(b"a", b"alice")])
    topology = tmp_path / "orders.py"
    topology.write_text(TOPOLOGY.format(name=name))
    file = tmp_path / "application.properties"
    with token_endpoint(USER) as endpoint:
        settings = {
            "application.id": name,
            "state.dir": str(tmp_path / "state"),
            "processing.guarantee": "exactly_once_v2",
            **CREDENTIALS[request.param](secured, endpoint),
        }
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        with Application(name, tmp_path, topology, {}) as application:
            yield Secured(application, file, topology)


def counted(secured: SecuredBroker, name: str) -> list[int]:
    return [
        int.from_bytes(message.value() or b"")
        for message in read_all(secured.plaintext, f"{name}-out")
    ]


def test_an_application_runs_restores_and_is_looked_after(
    secured: SecuredBroker, way: Secured
) -> None:
    name, application = way.application.id, way.application
    produce(secured.plaintext, f"{name}-in", [(b"a", b"1")])
    with application.running("--config", str(way.file)) as running:
        running.wait_until(lambda: counted(secured, name) == [1], "the first count")
        running.stop()
    shutil.rmtree(application.state_directory)
    way.ran("produce", str(way.topology), f"{name}-in", text="a\t2\n")
    with application.running("--config", str(way.file)) as running:
        running.wait_until(lambda: counted(secured, name) == [1, 2], "the count after a restore")
        running.stop()

    assert f"{name}-counts-changelog" in way.ran("topics", "list")
    assert name in way.ran("status", name, "--json")
    assert "alice\t2" in way.ran("consume", str(way.topology), f"{name}-out")
    way.ran("dlq", "list", f"{name}-dead")
    assert f"{name}-counts-changelog" in way.ran("reset", str(way.topology))


@pytest.mark.spark
@pytest.mark.timeout(1000)
@pytest.mark.sweep
def test_workers_of_a_backfill_read_and_write_with_the_same_credentials(
    secured: SecuredBroker, way: Secured, tmp_path: Path
) -> None:
    name = way.application.id
    produce(secured.plaintext, f"{name}-in", [(b"a", b"1"), (b"a", b"2")])

    words = ("backfill", str(way.topology), "--master", "local[1]", "--publish-outputs")
    way.ran(*words, *OPTIONS_FOR_FEW_ROWS, "--output", str(tmp_path / "staged"))

    assert counted(secured, name)[-1] == 2


@pytest.mark.spark
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("way", first_of("SCRAM-SHA-512", "PLAIN", "mTLS"), indirect=True)
def test_an_export_reaches_brokers_as_the_application_does(
    secured: SecuredBroker, way: Secured, tmp_path: Path
) -> None:
    """It reads through Spark's Kafka connector, whose client is Java's."""
    name, application = way.application.id, way.application
    produce(secured.plaintext, f"{name}-in", [(b"a", b"1"), (b"a", b"2")])
    with application.running("--config", str(way.file)) as running:
        running.wait_until(lambda: counted(secured, name)[-1:] == [2], "the count")
        running.stop()
    exported = tmp_path / "exported"

    words = ("export", str(way.topology), "--master", "local[1]")
    told = way.ran(*words, *OPTIONS_FOR_FEW_ROWS, "--output", str(exported))

    rows = parquet.read_table(exported / "counts").to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [("alice", 2)]
    assert PASSWORD not in told
