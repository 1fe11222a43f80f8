"""A commit waits for calls under way, but no longer than the broker waits for the commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pystreams import ProcessingError, StreamsBuilder, Topology, serdes
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import Application

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulation

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


def blocking(app: Application, blocks_ms: int) -> Topology:
    """Calls of which those that a commit waits for take a while each, one after the other."""

    async def answered(value: str) -> str:
        app.clock.advance_ms(blocks_ms if value == "slow" else 0)
        return value.upper()

    builder = StreamsBuilder()
    answers = builder.stream("in", **TEXT).map_values_async(
        answered, max_in_flight=100, timeout_ms=5000
    )
    answers.to("out", **TEXT)
    return builder.build()


def feed(app: Application) -> None:
    """Write a hundred records; a simulated process makes every other call only when it waits."""
    for number in range(100):
        value = b"slow" if number % 2 else b"quick"
        app.broker.produce("in", b"k", value, app.clock.now_ms())


def step_until_it_fails(process: SimulatedProcess, app: Application) -> None:
    for _ in range(100):
        process.step()
        app.clock.advance_ms(100)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_calls_that_take_longer_together_than_the_broker_waits_for_a_commit_are_told(
    tmp_path: Path, guarantee: str
) -> None:
    """Each is in time, but they stand in each other's way."""
    app = Application(tmp_path, guarantee, commit_interval_ms=4000)
    poll_ms = 10_000 if guarantee == "at_least_once" else 60_000
    config = {"consumer.max.poll.interval.ms": poll_ms}
    process = app.process(topology=blocking(app, 300), config=config)
    process.start()
    feed(app)
    key = "producer.transaction.timeout.ms is 10000"
    if guarantee == "at_least_once":
        key = "consumer.max.poll.interval.ms is 10000"

    with pytest.raises(ProcessingError, match=f"a commit has waited .*{key} ms.*to_thread"):
        step_until_it_fails(process, app)

    assert app.committed() in {None, 0}


def test_calls_that_take_as_long_together_as_a_commit_may_wait_are_waited_for(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "at_least_once", commit_interval_ms=500)
    process = app.process(topology=blocking(app, 10))
    process.start()
    feed(app)

    app.run_until_processed(process)

    assert len(app.broker.committed_records("out")) == 100
    process.stop()
