"""What a thread says that it does, to whoever looks while user code is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Retry,
    StreamsBuilder,
    serdes,
)
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import Application

pytestmark = pytest.mark.simulation

STRINGS: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


class Onlooker:
    """Looks at the thread from within the user's code."""

    def __init__(self) -> None:
        self.process: SimulatedProcess | None = None
        self.seen: list[str] = []

    def look(self, *_: object) -> None:
        assert self.process is not None
        [thread] = self.process.threads
        self.seen.append(thread.metadata().at_work)


def in_a_step(builder: StreamsBuilder, onlooker: Onlooker) -> None:
    builder.stream("in", **STRINGS).foreach(onlooker.look)


def in_a_punctuation(builder: StreamsBuilder, onlooker: Onlooker) -> None:
    class Punctuating(Processor[str, str, None, None]):
        def init(self, context: ProcessorContext[None, None]) -> None:
            context.schedule(100, PunctuationType.WALL_CLOCK_TIME, onlooker.look)

        def process(self, record: Record[str, str]) -> None:
            """Nothing."""

    builder.stream("in", **STRINGS).process(Punctuating)


def behind_a_cache(builder: StreamsBuilder, onlooker: Onlooker) -> None:
    counts = builder.stream("in", **STRINGS).group_by_key().count(name="counts")
    counts.to_stream().foreach(onlooker.look)


def in_a_call_again(builder: StreamsBuilder, onlooker: Onlooker) -> None:
    calls: list[str] = []

    def answer(_: str, value: str) -> None:
        calls.append(value)
        if len(calls) == 1:
            raise TimeoutError("no answer")
        onlooker.look()

    builder.stream("in", **STRINGS).foreach(answer, retry=Retry(on=TimeoutError))


def behind_a_batch(builder: StreamsBuilder, onlooker: Onlooker) -> None:
    def all_of(values: list[str]) -> list[str]:
        onlooker.look()
        return values

    builder.stream("in", **STRINGS).map_values_batch(all_of).to("out", **STRINGS)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (in_a_step, "task 0_0 is at the record at in-0 offset 0"),
        (in_a_punctuation, "task 0_0 fires a punctuation on the wall clock"),
        (behind_a_cache, "task 0_0 forwards what its record caches hold"),
        (in_a_call_again, "task 0_0 is at a record that it held back (retry="),
        (behind_a_batch, "task 0_0 is at the record at in-0 offset 0"),
    ],
)
def test_whoever_looks_while_user_code_is_called_is_told_where_the_thread_is(
    place: Callable[[StreamsBuilder, Onlooker], None], told: str, tmp_path: Path
) -> None:
    app, builder, onlooker = Application(tmp_path, "at_least_once"), StreamsBuilder(), Onlooker()
    place(builder, onlooker)
    cached = {"statestore.cache.max.bytes": 1_000_000}
    onlooker.process = process = app.process(topology=builder.build(), config=cached)
    process.start()
    app.feed("a")
    app.run_until_processed(process)
    while not onlooker.seen:
        process.step()
        app.clock.advance_ms(10)

    assert onlooker.seen[0].startswith(told)
    assert process.threads[0].metadata().at_work == ""
