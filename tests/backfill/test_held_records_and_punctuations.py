"""A backfill fires a punctuation behind the record that makes it due, where that has waited."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pystreams import (
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Retry,
    StreamsBuilder,
    Topology,
)
from tests.backfill.in_process import Row, run
from tests.backfill.live import outcome_of
from tests.backfill.test_history_task import CONFIG


class Ticking(Processor[str, str, str, str]):
    """Forwards records, and a tick every 10 ms."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        context.schedule(10, PunctuationType.STREAM_TIME, self.tick)

    def process(self, record: Record[str, str]) -> None:
        self._context.forward(record)

    def tick(self, time_ms: int) -> None:
        self._context.forward(Record("-", "tick", time_ms))


def asking() -> Topology:
    async def upper(value: str) -> str:
        return value.upper()

    builder = StreamsBuilder()
    builder.stream("in").map_values_async(upper).process(Ticking).to("out")
    return builder.build()


def asking_again() -> Topology:
    asked: set[str] = set()

    def upper(value: str) -> str:
        if value not in asked:
            asked.add(value)
            raise TimeoutError("no answer")
        return value.upper()

    builder = StreamsBuilder()
    answered = builder.stream("in").map_values(upper, retry=Retry(on=TimeoutError, backoff_ms=1))
    answered.process(Ticking).to("out")
    return builder.build()


@pytest.mark.parametrize("topology", [asking, asking_again])
def test_punctuations_of_a_backfill_come_behind_their_records(
    topology: Callable[[], Topology], tmp_path: Path
) -> None:
    rows = [Row("in", 0, offset, 5 * offset, b"k", b"v%d" % offset) for offset in range(5)]

    results = run(topology(), CONFIG, rows, {"in": 1}, tmp_path)

    values = [record[1] for record in outcome_of(results).outputs["out"]]
    assert values == [b"V0", b"tick", b"V1", b"V2", b"tick", b"V3", b"V4", b"tick"]
