"""What the loop does for a record, counted in calls: not more where other tasks or topics are."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pystreams
from pystreams import (
    JoinWindows,
    Processor,
    ProcessorContext,
    PunctuationType,
    Stores,
    StreamsBuilder,
    serdes,
)
from pystreams.testing.simulation import (
    Faults,
    ManualClock,
    SimulatedBroker,
    SimulatedDisk,
    SimulatedProcess,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pystreams import Record, Topology

pytestmark = pytest.mark.simulation

COMMIT_MS = 100
STORES = ("first", "second", "third", "fourth")
COUNTED = tuple(
    str(Path(pystreams.__file__).parent / part) for part in ("runtime", "stores", "topology")
)


class Keeping(Processor[str, str, str, str]):
    """Puts each record into all stores, and looks at the clock once an hour."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._stores = [context.get_state_store(name) for name in STORES]
        context.schedule(3_600_000, PunctuationType.WALL_CLOCK_TIME, lambda _: None)

    def process(self, record: Record[str, str]) -> None:
        for store in self._stores:
            store.put(record.key, record.value)


def keeping(*, caching: bool) -> Topology:
    builder = StreamsBuilder()
    for name in STORES:
        supplier = Stores.in_memory_key_value_store(name)
        store = Stores.key_value_store_builder(supplier, serdes.STRING, serdes.STRING)
        builder.add_state_store(store.with_caching_enabled() if caching else store)
    # Two topics, so that a task may wait for one of them.
    stream = builder.stream(["in", "more"], key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(Keeping, stores=STORES)
    return builder.build()


def joining() -> Topology:
    builder = StreamsBuilder()
    left, right = (
        builder.stream(topic, key_serde=serdes.STRING, value_serde=serdes.STRING)
        for topic in ("in", "more")
    )
    windows = JoinWindows.of_time_difference_and_grace(10, 0)
    joined: Any = left.join(right, lambda value, other: f"{value}{other}", windows)
    joined.to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
    return builder.build()


class CountingClock(ManualClock):
    """Counts how often it is looked at."""

    looks = 0

    def monotonic_ms(self) -> float:
        self.looks += 1
        return super().monotonic_ms()


def running(
    topology: Topology, root: Path, partitions: int, clock: ManualClock, **config: Any
) -> tuple[SimulatedBroker, SimulatedProcess]:
    """A process of one thread, all of whose tasks run and have nothing to do."""
    faults = Faults(0)
    broker = SimulatedBroker(clock, faults, session_timeout_ms=10**9)
    for topic in ("in", "more", "out"):
        broker.create_topic(topic, partitions)
    settings = {name.replace("_", "."): value for name, value in config.items()}
    process = SimulatedProcess(
        topology,
        {"application.id": "app", "commit.interval.ms": COMMIT_MS, **settings},
        broker,
        SimulatedDisk(root, faults),
    )
    process.start()
    [thread] = process.threads
    while thread.statistics().tasks_running < partitions:
        process.step()
        clock.advance_ms(COMMIT_MS)
    return broker, process


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Count calls of our own functions, and how often generators of ours go on."""
    calls: Counter[str] = Counter()

    def count(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(COUNTED):
            calls[f"{Path(code.co_filename).stem}.{code.co_qualname}"] += 1

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def calls_of_a_record(root: Path, partitions: int, config: dict[str, Any]) -> Counter[str]:
    """What is called for one record and its commit, and while nothing comes after it."""
    clock = ManualClock(1_000_000)
    caching = config.get("statestore_cache_max_bytes", 0) > 0
    broker, process = running(keeping(caching=caching), root, partitions, clock, **config)

    def one_record(number: int) -> None:
        broker.append("in", number % partitions, [(b"key", b"value", number, ())])
        while not process.step():
            pass
        for _ in range(3):
            clock.advance_ms(COMMIT_MS)
            process.step()

    for number in range(partitions):
        one_record(number)
    with counted_calls() as calls:
        one_record(partitions)
    assert calls["task.StreamTask.process"] == calls["task.StreamTask.post_commit"] == 1
    return calls


@pytest.mark.parametrize(
    "config",
    [
        {"processing_guarantee": "at_least_once"},
        {"processing_guarantee": "exactly_once"},
        {"processing_guarantee": "exactly_once_v2"},
        {"processing_guarantee": "exactly_once_v2", "statestore_cache_max_bytes": 1 << 20},
        {"processing_guarantee": "exactly_once_v2", "max_task_idle_ms": 50},
        {"processing_guarantee": "exactly_once_v2", "max_task_idle_ms": -1},
    ],
    ids=lambda config: " ".join(map(str, config.values())),
)
def test_a_record_costs_no_more_where_more_tasks_rest(
    config: dict[str, Any], tmp_path: Path
) -> None:
    few = calls_of_a_record(tmp_path / "few", 20, config)
    many = calls_of_a_record(tmp_path / "many", 60, config)

    assert many - few == Counter()


def test_topics_that_alternate_cost_no_more_looks_at_the_clock_than_one_after_the_other(
    tmp_path: Path,
) -> None:
    """A run goes over both: it is measured, sent and timed once."""
    looks = {}
    for name, apart_ms in (("alternating", 1), ("one after the other", 1000)):
        clock = CountingClock(1_000_000)
        broker, process = running(
            joining(), tmp_path / name, 1, clock, processing_guarantee="exactly_once_v2"
        )
        for number in range(500):
            broker.append("in", 0, [(b"key", b"left", 2 * number, ())])
            broker.append("more", 0, [(b"key", b"right", 2 * number + apart_ms, ())])
        before, processed = clock.looks, 0
        while processed < 1000:
            processed += process.step()
        looks[name] = clock.looks - before

    assert looks["alternating"] < 1.5 * looks["one after the other"]
    assert looks["alternating"] < 1000 / 5
