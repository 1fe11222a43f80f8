"""What a commit lets go of is part of it, however the flush of one cache fills another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pystreams import (
    BufferConfig,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    Suppressed,
    Topology,
    ValueAndTimestamp,
    serdes,
)
from pystreams.errors import FatalStreamsError
from pystreams.runtime.adapters.loop_thread import make_call
from pystreams.topology.contracts.held_records import Call, CallLimits
from tests.simulation.applications import Application

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulation

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
COUNTS: Any = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}
CACHED = {"statestore.cache.max.bytes": 10_000_000}
KEYS = "abcdefgh"
"""Some of each of three partitions."""


class EndTogether:
    """Calls that end when any task waits for one: those of all tasks."""

    def __init__(self, begun: list[tuple[Call, CallLimits]]) -> None:
        self.waited_s = 0.0
        self._begun = begun

    def begin(self, call: Call, limits: CallLimits) -> None:
        self._begun.append((call, limits))

    def wait(self, timeout_s: float) -> bool:
        for call, limits in self._begun:
            asyncio.run(make_call(call, limits))
        self._begun.clear()
        return True

    def cancel(self) -> None:
        self._begun.clear()


async def answered(value: str) -> str:
    return value


def into_a_cache() -> Topology:
    builder = StreamsBuilder()
    answers = builder.stream("in", **TEXT).map_values_async(answered, max_in_flight=9)
    counts = answers.group_by_key().count(name="counts", caching=True)
    counts.to_stream().to("out", **COUNTS)
    return builder.build()


def into_a_suppression() -> Topology:
    builder = StreamsBuilder()
    answers = builder.stream("in", **TEXT).map_values_async(answered, max_in_flight=9)
    counts = answers.group_by_key().count(name="counts", caching=False)
    soon: Suppressed[Any] = Suppressed.until_time_limit(1, BufferConfig.unbounded())
    counts.suppress(soon).to_stream().to("out", **COUNTS)
    return builder.build()


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "exactly_once", "at_least_once"])
@pytest.mark.parametrize("build", [into_a_cache, into_a_suppression])
def test_an_answer_that_comes_while_another_task_waits_for_its_own_is_part_of_the_commit(
    build: Callable[[], Topology], guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee, partitions=3)
    process = app.process(topology=build(), config=CACHED)
    begun: list[tuple[Call, CallLimits]] = []
    process.async_calls = partial(EndTogether, begun)
    process.start()
    app.feed(*KEYS)
    app.run_until_processed(process)
    process.stop()

    again = app.process(topology=build(), config=CACHED, disk=process.disk)
    again.start()
    app.clock.advance_ms(10)
    app.feed(*KEYS.upper())  # Later ones let go what is in a suppression.
    app.run_until_processed(again)

    assert {(key, 1) for key in KEYS} <= set(app.outputs())


class Writes(Processor[str, int, str, int]):
    """Writes into the store of another table."""

    def __init__(self, store: str, value: int | None) -> None:
        self._name, self._value = store, value
        self._written = 0

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._store: Any = context.get_state_store(self._name)

    def process(self, record: Record[str, int]) -> None:
        self._written += 1
        value = self._written if self._value is None else self._value
        key = record.key if self._value is None else f"from-{record.key}"
        self._store.put(key, ValueAndTimestamp(value, record.timestamp))


def writing(tables: int, *, in_a_circle: bool = False) -> Topology:
    """Below each table but the first something writes into the store of the one before."""
    builder = StreamsBuilder()
    counts = [
        builder.stream(f"in{number}", **TEXT).group_by_key().count(name=f"S{number}", caching=True)
        for number in range(tables)
    ]
    for number in range(0 if in_a_circle else 1, tables):
        store = f"S{(number - 1) % tables}"
        value = None if in_a_circle else 100
        counts[number].to_stream().process(lambda s=store, v=value: Writes(s, v), stores=[store])  # type: ignore[misc]
    counts[0].to_stream().to("out", **COUNTS)
    return builder.build()


def fed(app: Application, tables: int) -> None:
    for number in range(tables):
        app.broker.create_topic(f"in{number}", 1)
        app.broker.produce(f"in{number}", b"k", b"x", app.clock.now_ms())


@pytest.mark.parametrize("tables", [2, 3, 4])
def test_a_table_that_another_one_writes_to_at_its_flush_is_flushed_once_more(
    tables: int, tmp_path: Path
) -> None:
    app = Application(tmp_path, "exactly_once_v2")
    fed(app, tables)
    process = app.process(topology=writing(tables), config=CACHED)
    process.start()

    for _ in range(40):
        process.step()

    expected = {f"{'from-' * number}k": 100 for number in range(1, tables)} | {"k": 1}
    assert dict(app.outputs()) == expected


def test_tables_that_write_into_each_other_without_an_end_are_told(tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once_v2")
    fed(app, 2)
    process = app.process(topology=writing(2, in_a_circle=True), config=CACHED)
    process.start()

    def run() -> None:
        for _ in range(40):
            process.step()

    with pytest.raises(FatalStreamsError, match=r"0_0: .*without an end \(S1\): .*caching=False"):
        run()
    assert app.outputs() == []
