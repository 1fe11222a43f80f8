"""What a process tells of its records after tasks have moved away: all numbers of the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import Retry, StreamsBuilder, Topology, serdes
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import PATIENCE, Application, running_tasks

pytestmark = pytest.mark.simulation

PARTITIONS = 4
KEYS = [f"k{number}" for number in range(20)]
PUBLISHED_EVERY_MS = 100


def all_in_trouble() -> Topology:
    """Return one that calls a function again with each record, and then drops it."""
    tried: set[str] = set()

    def fails(value: str) -> str:
        if value not in tried:
            tried.add(value)
            raise TimeoutError
        raise ValueError(value)

    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    failing = stream.map_values(fails, retry=Retry(on=TimeoutError, max=1, backoff_ms=1))
    failing.to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
    return builder.build()


def test_what_was_dropped_and_called_again_stays_beside_what_was_processed(tmp_path: Path) -> None:
    app = Application(
        tmp_path,
        "at_least_once",
        partitions=PARTITIONS,
        processing_exception_handler="continue",
    )
    process, other = (app.process(name, all_in_trouble()) for name in ("p0", "p1"))
    process.start()
    for key in KEYS:
        app.broker.produce("in", key.encode(), key.encode(), app.clock.now_ms())
    [thread] = process.threads

    def step(*processes: SimulatedProcess) -> None:
        for each in processes:
            each.step()
        app.clock.advance_ms(PUBLISHED_EVERY_MS)

    for _ in range(PATIENCE):
        step(process)
        if thread.statistics().dropped_records == len(KEYS):
            break
    other.start()
    for _ in range(PATIENCE):
        step(process, other)
        if len(running_tasks(process)) == len(running_tasks(other)):
            break
    step(process)

    told = thread.statistics()
    assert len(running_tasks(process)) == PARTITIONS / 2
    assert told.processed_records == len(KEYS)
    assert told.dropped_records == len(KEYS)
    assert told.calls_again == len(KEYS)
