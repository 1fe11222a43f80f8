"""The loop, where a punctuation on stream time waits for a record that is called again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pystreams import (
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Retry,
    Stores,
    StreamsBuilder,
    Topology,
    serdes,
)
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import Application
from tests.simulation.state.test_uncommitted_limit import LIMIT_BYTES, Gauge

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulation

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
INTERVAL_MS = 10


class Ticking(Processor[str, str, str, str]):
    """Forwards records, and a tick now and then."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        context.schedule(INTERVAL_MS, PunctuationType.STREAM_TIME, self.tick)

    def process(self, record: Record[str, str]) -> None:
        self._context.forward(record)

    def tick(self, time_ms: int) -> None:
        self._context.forward(Record("-", "tick", time_ms))


class Writing(Processor[str, str, None, None]):
    """Writes a tenth of the limit now and then."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge

    def init(self, context: ProcessorContext[None, None]) -> None:
        self._store: Any = context.get_state_store("store")
        context.schedule(INTERVAL_MS, PunctuationType.STREAM_TIME, self.tick)

    def process(self, record: Record[str, str]) -> None: ...

    def tick(self, time_ms: int) -> None:
        for number in range(10):
            self._store.put(f"{time_ms} {number}", "x" * (LIMIT_BYTES // 100))
            self._gauge.look()


class Service:
    """Answers each question when it is asked again."""

    def __init__(self) -> None:
        self._asked: set[str] = set()

    def __call__(self, value: str) -> str:
        if value not in self._asked:
            self._asked.add(value)
            raise TimeoutError("no answer")
        return value.upper()


def ticking() -> Topology:
    builder = StreamsBuilder()
    answered = builder.stream("in", **TEXT).map_values(Service(), retry=Retry(on=TimeoutError))
    answered.process(Ticking).to("out", **TEXT)
    return builder.build()


def writing(gauge: Gauge) -> Topology:
    builder = StreamsBuilder()
    supplier = Stores.persistent_key_value_store("store")
    builder.add_state_store(Stores.key_value_store_builder(supplier, serdes.STRING, serdes.STRING))
    answered = builder.stream("in", **TEXT).map_values(Service(), retry=Retry(on=TimeoutError))
    answered.process(lambda: Writing(gauge), stores=["store"])
    return builder.build()


def feed(app: Application, records: int) -> None:
    """Write records of which each makes a punctuation due."""
    for number in range(records):
        app.broker.produce("in", b"k", b"v%d" % number, number * INTERVAL_MS)


def go_on(app: Application, process: SimulatedProcess, seconds: int) -> None:
    for _ in range(10 * seconds):
        process.step()
        app.clock.advance_ms(100)


def test_it_fires_without_a_commit_and_before_the_next_record(tmp_path: Path) -> None:
    app = Application(tmp_path, "at_least_once", commit_interval_ms=1_000_000)
    process = app.process(topology=ticking())
    process.start()
    feed(app, 3)

    go_on(app, process, seconds=5)

    values = [message.message_value for message in app.broker.committed_records("out")]
    assert values == [b"V0", b"tick", b"V1", b"tick", b"V2", b"tick"]
    assert not app.committed()
    process.stop()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once", "exactly_once_v2"])
def test_all_come_in_order_on_any_guarantee(guarantee: str, tmp_path: Path) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process(topology=ticking())
    process.start()
    feed(app, 3)

    app.run_until_processed(process)

    values = [message.message_value for message in app.broker.committed_records("out")]
    assert values == [b"V0", b"tick", b"V1", b"tick", b"V2", b"tick"]
    process.stop()


def test_what_it_writes_does_not_exceed_the_limit_of_what_is_uncommitted(tmp_path: Path) -> None:
    app = Application(
        tmp_path,
        "at_least_once",
        commit_interval_ms=1_000_000,
        statestore_uncommitted_max_bytes=LIMIT_BYTES,
    )
    gauge = Gauge()
    gauge.process = process = app.process(topology=writing(gauge))
    process.start()
    feed(app, 60)

    go_on(app, process, seconds=20)

    [thread] = process.threads
    assert LIMIT_BYTES / 2 < gauge.highest <= LIMIT_BYTES
    assert 6 <= thread._committer.commits <= 12
    process.stop()
