"""A run ends with the record that asks for it, and with the one that lets such a record go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pystreams import (
    Materialized,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Stores,
    StreamsBuilder,
    Topology,
    serdes,
)
from tests.runtime.running_task import RunningTask

GRACE_MS = 50
RECORD_BYTES = 1000


class Scheduling(Processor[str, str, None, None]):
    """Schedules a punctuation at its first record."""

    def init(self, context: ProcessorContext[None, None]) -> None:
        self._context = context
        self._scheduled = False

    def process(self, record: Record[str, str]) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._context.schedule(10, PunctuationType.STREAM_TIME, lambda _: None)


class Storing(Processor[str, str, None, None]):
    """Stores much for each record."""

    def init(self, context: ProcessorContext[None, None]) -> None:
        self._store: Any = context.get_state_store("stored")

    def process(self, record: Record[str, str]) -> None:
        self._store.put(record.key, "x" * RECORD_BYTES)


def behind_a_join(processor: type[Processor[str, str, None, None]], *stores: str) -> Topology:
    """Return a topology that processes records once they have waited."""
    builder = StreamsBuilder()
    for name in stores:
        supplied = Stores.in_memory_key_value_store(name)
        builder.add_state_store(
            Stores.key_value_store_builder(supplied, serdes.STRING, serdes.STRING)
        )
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    table = builder.table(
        "rows",
        key_serde=serdes.STRING,
        value_serde=serdes.STRING,
        materialized=Materialized(name="rows", history_retention_ms=60_000),
    )
    joined = stream.left_join(table, lambda value, _: value, grace_period_ms=GRACE_MS)
    joined.process(processor, stores=stores)
    return builder.build()


def processed_of_five(topology: Topology, directory: Path, room_bytes: int | None) -> int:
    """Return how many of five records a run processes; the first leaves the join at the second."""
    running = RunningTask(topology, directory=directory)
    running.read(*((f"k{number}", "v", number * 100) for number in range(5)))
    run = running.task.next_run(10)
    assert run is not None
    assert len(run) == 5
    processed = running.task.process(run, room_bytes=room_bytes)
    assert running.task.buffered_records() == 5 - processed
    running.task.close()
    return processed


def test_run_ends_with_the_record_that_lets_one_go_which_schedules_a_punctuation(
    tmp_path: Path,
) -> None:
    """On stream time it is due right after that record."""
    assert processed_of_five(behind_a_join(Scheduling), tmp_path, None) == 2


def test_run_ends_with_the_record_that_lets_one_go_which_uses_up_the_room(tmp_path: Path) -> None:
    topology = behind_a_join(Storing, "stored")

    assert processed_of_five(topology, tmp_path, room_bytes=3 * RECORD_BYTES // 2) == 2
