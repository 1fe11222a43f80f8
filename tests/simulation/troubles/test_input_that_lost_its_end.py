"""A source topic whose brokers have lost what was read of it already: its log ends before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pystreams import TopicPartition
from pystreams.errors import InputLossError
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from tests.simulation.applications import Application, stored_counts
from tests.variants import first_of

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

PARTITION = TopicPartition("in", 0)
GUARANTEES = first_of("exactly_once_v2", "at_least_once", "exactly_once")
STEPS = 100


def counted(app: Application) -> SimulatedProcess:
    """Return a process that runs, and has counted ten records."""
    process = app.process()
    app.feed(*"aaaaabbbbb")
    process.start()
    app.run_until_processed(process)
    return process


def lose_end(app: Application) -> None:
    app.broker.settle()
    app.broker.log(PARTITION).lose_end(6)


def stopped_by_loss(process: SimulatedProcess) -> str:
    """Return why a process ends."""
    try:
        for _ in range(STEPS):
            process.step()
    except InputLossError as error:
        return str(error)
    raise AssertionError("it goes on")


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_running_application_stops_and_counts_nothing_twice(guarantee: str, tmp_path: Path) -> None:
    app = Application(tmp_path, guarantee)
    process = counted(app)
    lose_end(app)

    told = stopped_by_loss(process)

    assert "in-0 ends at offset 6, and group" in told
    assert "goes on at offset 10" in told
    assert "pystreams reset" in told
    assert max(count for _, count in app.outputs()) == 5


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_start_is_refused_each_time(guarantee: str, tmp_path: Path) -> None:
    app = Application(tmp_path, guarantee)
    process = counted(app)
    process.stop()
    lose_end(app)
    app.feed("a")

    for _ in range(2):
        process.start()
        assert "in-0 ends at offset 7" in stopped_by_loss(process)
        process.stop()

    assert app.committed() == 10
    assert stored_counts(process) == {"a": 5, "b": 5}


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_whose_offset_was_set_to_the_end_goes_on_with_the_state(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    process = counted(app)
    process.stop()
    lose_end(app)
    app.broker.group.commit({PARTITION: CommittedOffset(6, "")})
    app.feed("a", "c")

    process.start()
    app.run_until_processed(process)
    process.stop()

    assert stored_counts(process) == {"a": 6, "b": 5, "c": 1}
