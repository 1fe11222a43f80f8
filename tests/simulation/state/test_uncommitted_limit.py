"""`statestore.uncommitted.max.bytes`: looked at after every single put, never exceeded."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from pystreams import Processor, ProcessorContext, PunctuationType, Stores, StreamsBuilder, serdes
from pystreams.testing.simulation import (
    Faults,
    ManualClock,
    SimulatedBroker,
    SimulatedDisk,
    SimulatedProcess,
)
from tests.variants import first_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pystreams import Record, Topology

pytestmark = pytest.mark.simulation

LIMIT_BYTES = 64 * 1024


@dataclass
class Gauge:
    """Adds up what the stores of one thread hold uncommitted, whenever it is asked."""

    highest: int = 0
    process: SimulatedProcess | None = None
    stores: list[Any] = field(default_factory=list)

    def look(self) -> None:
        assert self.process is not None
        [thread] = self.process.threads
        held = sum(
            task.state_manager.uncommitted_bytes() for task in thread._manager.tasks.values()
        )
        self.highest = max(self.highest, held)


class Keeper(Processor[str, str, str, str]):
    """Keeps the last value of each key, looking at the gauge after each put."""

    def __init__(
        self, gauge: Gauge, stores: list[str], written: Callable[[str], str] = str
    ) -> None:
        self._gauge = gauge
        self._names = stores
        self._written = written

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._stores = [context.get_state_store(name) for name in self._names]

    def process(self, record: Record[str, str]) -> None:
        for store in self._stores:
            store.put(record.key, self._written(record.value))
            self._gauge.look()


def keeping(gauge: Gauge, stores: int, written: Callable[[str], str] = str) -> Topology:
    """Writes each record, or what is made of its value, to several stores."""
    builder = StreamsBuilder()
    names = [f"store-{number}" for number in range(stores)]
    for name in names:
        supplier = Stores.persistent_key_value_store(name)
        builder.add_state_store(
            Stores.key_value_store_builder(supplier, serdes.STRING, serdes.STRING)
        )
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(lambda: Keeper(gauge, names, written), stores=names)
    return builder.build()


def reducing_and_keeping(gauge: Gauge, written: Callable[[str], str] = str) -> Topology:
    """A cached table, whose flushes write to a second store of the same task."""
    builder = StreamsBuilder()
    supplier = Stores.persistent_key_value_store("second")
    builder.add_state_store(Stores.key_value_store_builder(supplier, serdes.STRING, serdes.STRING))
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    table = stream.group_by_key().reduce(lambda _, new: new, name="first", caching=True)
    table.to_stream().process(lambda: Keeper(gauge, ["second"], written), stores=["second"])
    return builder.build()


def run(
    topology: Topology,
    gauge: Gauge,
    root: Path,
    records: list[tuple[str, str]],
    *,
    cache_bytes: int = 0,
    poll_records: int = 1000,
    partitions: int = 2,
) -> SimulatedProcess:
    """Process all records with commits that only the limit asks for."""
    clock, faults = ManualClock(), Faults(1)
    broker = SimulatedBroker(clock, faults, session_timeout_ms=10_000_000)
    broker.create_topic("in", partitions)
    for key, value in records:
        broker.produce("in", key.encode(), value.encode(), 0)
    config = {
        "application.id": "app",
        "commit.interval.ms": 1_000_000,
        "statestore.uncommitted.max.bytes": LIMIT_BYTES,
        "statestore.cache.max.bytes": cache_bytes,
        "max.poll.records": poll_records,
    }
    process = SimulatedProcess(topology, config, broker, SimulatedDisk(root, faults))
    gauge.process = process
    process.start()
    left = len(records)
    while left:
        left -= process.step()
    gauge.look()
    return process


def varied(seed: int, count: int, keys: int, largest: int) -> list[tuple[str, str]]:
    random = Random(seed)
    return [
        (f"key-{random.randrange(keys)}", "v" * random.choice([1, random.randrange(largest)]))
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", first_of(*range(5)))
@pytest.mark.parametrize("keys", [10, 1000, 100_000])
@pytest.mark.parametrize("stores", [1, 3])
def test_the_limit_is_never_exceeded_whatever_the_sizes_and_keys(
    seed: int, keys: int, stores: int, tmp_path: Path
) -> None:
    gauge = Gauge()
    poll_records = [1, 7, 50, 500, 1000][seed]

    run(
        keeping(gauge, stores),
        gauge,
        tmp_path,
        varied(seed, 1500, keys, 2000),
        poll_records=poll_records,
    )

    assert gauge.highest <= LIMIT_BYTES


def test_new_keys_after_a_long_time_of_known_ones_do_not_exceed_it(tmp_path: Path) -> None:
    gauge = Gauge()
    known = [("known", "v" * 100)] * 3000
    new = [(f"new-{number}", "v" * 100) for number in range(2000)]

    run(keeping(gauge, 2), gauge, tmp_path, known + new)

    assert gauge.highest <= LIMIT_BYTES


def test_commits_are_no_more_than_one_and_a_half_times_the_bytes_need(tmp_path: Path) -> None:
    gauge = Gauge()
    records = [(f"key-{number}", "v" * (number * 37 % 1000)) for number in range(3000)]
    written = sum(len(key) + len(value) for key, value in records)

    process = run(keeping(gauge, 1), gauge, tmp_path, records)

    [thread] = process.threads
    assert thread._committer.commits <= 1.5 * written / LIMIT_BYTES + 1


def value_of_size(size: str) -> str:
    return "v" * int(size)


def expanding(seed: int, largest: int) -> tuple[list[tuple[str, str]], int]:
    """Small records that say how much is to be written, the largest first, and the sum of it."""
    random = Random(seed)
    sizes = [largest, *(round(10 * (largest / 10) ** random.random()) for _ in range(1500))]
    records = [(f"key-{number}", f"{size}") for number, size in enumerate(sizes)]
    return records, sum(len(key) + int(size) for key, size in records)


@pytest.mark.parametrize("largest", [1000, 10_000, 20_000])
@pytest.mark.parametrize("stores", [1, 3])
def test_values_much_larger_than_what_was_read_do_not_exceed_it(
    stores: int, largest: int, tmp_path: Path
) -> None:
    gauge = Gauge()
    records, written = expanding(largest, largest // stores)

    process = run(keeping(gauge, stores, value_of_size), gauge, tmp_path, records)

    [thread] = process.threads
    assert gauge.highest <= LIMIT_BYTES
    assert thread._committer.commits <= 1.5 * stores * written / LIMIT_BYTES + 1


def test_a_small_record_that_writes_more_than_all_before_exceeds_it_once(tmp_path: Path) -> None:
    gauge = Gauge()
    large = LIMIT_BYTES // 4
    quiet = [(f"quiet-{number}", "1000") for number in range(200)]
    records = [*quiet, ("a", f"{large}"), *quiet, ("b", f"{large}"), *quiet, ("c", f"{large}")]

    run(keeping(gauge, 1, value_of_size), gauge, tmp_path, records)

    assert gauge.highest <= LIMIT_BYTES + large


@pytest.mark.parametrize("tasks", [1, 4])
def test_the_first_transaction_does_not_exceed_it_with_records_of_up_to_a_quarter(
    tasks: int, tmp_path: Path
) -> None:
    """Small records fill it, and the large one comes when each task has seen none."""
    for number in range(20):
        gauge = Gauge()
        small = 10 + 2 * number
        records = [(f"quiet-{each}", "1000") for each in range(small)]
        records += [(f"loud-{each}", f"{LIMIT_BYTES // 4 - 10}") for each in range(5)]

        run(
            keeping(gauge, 1, value_of_size),
            gauge,
            tmp_path / str(number),
            records,
            partitions=tasks,
        )

        assert gauge.highest <= LIMIT_BYTES


def test_the_first_flush_of_a_cache_does_not_exceed_it_when_it_writes_much_more_than_was_cached(
    tmp_path: Path,
) -> None:
    gauge = Gauge()
    records = [(f"key-{number}", "300") for number in range(2000)]

    run(
        reducing_and_keeping(gauge, value_of_size),
        gauge,
        tmp_path,
        records,
        cache_bytes=10_000_000,
    )

    assert LIMIT_BYTES / 2 < gauge.highest <= LIMIT_BYTES


@pytest.mark.parametrize("cache_bytes", [10_000, 10_000_000])
@pytest.mark.parametrize("keys", [100, 100_000])
def test_what_a_flushed_cache_writes_downstream_counts_as_well(
    cache_bytes: int, keys: int, tmp_path: Path
) -> None:
    gauge = Gauge()

    run(
        reducing_and_keeping(gauge),
        gauge,
        tmp_path,
        varied(3, 2000, keys, 1000),
        cache_bytes=cache_bytes,
    )

    assert gauge.highest <= LIMIT_BYTES


def test_a_record_larger_than_the_limit_is_processed_alone(tmp_path: Path) -> None:
    gauge = Gauge()
    records = [("a", "v" * 10), ("b", "v" * 2 * LIMIT_BYTES), ("c", "v" * 10)]

    process = run(keeping(gauge, 1), gauge, tmp_path, records)

    assert 2 * LIMIT_BYTES <= gauge.highest <= 2 * LIMIT_BYTES + 10
    process.stop()


def test_what_a_processor_writes_at_its_start_does_not_keep_large_records_out(
    tmp_path: Path,
) -> None:
    class Eager(Keeper):
        def init(self, context: ProcessorContext[str, str]) -> None:
            super().init(context)
            self._stores[0].put("started", "yes")

    gauge = Gauge()
    builder = StreamsBuilder()
    supplier = Stores.persistent_key_value_store("store")
    builder.add_state_store(Stores.key_value_store_builder(supplier, serdes.STRING, serdes.STRING))
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(lambda: Eager(gauge, ["store"]), stores=["store"])

    run(builder.build(), gauge, tmp_path, [("a", "v" * 2 * LIMIT_BYTES)])

    assert gauge.highest >= 2 * LIMIT_BYTES


class Ticking(Keeper):
    """Writes new keys once a second, without any input."""

    ticks = 0

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        context.schedule(1000, PunctuationType.WALL_CLOCK_TIME, self._tick)

    def _tick(self, now_ms: int) -> None:
        self.ticks += 1
        for number in range(20):
            self._stores[0].put(f"{self.ticks}-{number}", self._written("500"))
            self._gauge.look()


def ticking(
    gauge: Gauge, root: Path, written: Callable[[str], str] = value_of_size
) -> SimulatedProcess:
    """Let a punctuation fire two hundred times while nothing is read."""
    clock, faults = ManualClock(), Faults(1)
    broker = SimulatedBroker(clock, faults, session_timeout_ms=10_000_000)
    broker.create_topic("in", 1)
    builder = StreamsBuilder()
    supplier = Stores.persistent_key_value_store("store")
    builder.add_state_store(Stores.key_value_store_builder(supplier, serdes.STRING, serdes.STRING))
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(lambda: Ticking(gauge, ["store"], written), stores=["store"])
    config = {
        "application.id": "app",
        "commit.interval.ms": 1_000_000,
        "statestore.uncommitted.max.bytes": LIMIT_BYTES,
    }
    process = SimulatedProcess(builder.build(), config, broker, SimulatedDisk(root, faults))
    gauge.process = process
    process.start()
    for _ in range(200):
        clock.advance_ms(1000)
        process.step()
    return process


def test_what_punctuations_write_without_any_input_does_not_exceed_it(tmp_path: Path) -> None:
    gauge = Gauge()

    process = ticking(gauge, tmp_path)

    [thread] = process.threads
    written = thread.statistics().max_uncommitted_bytes
    assert LIMIT_BYTES / 2 < written <= gauge.highest <= LIMIT_BYTES
    assert thread._committer.commits <= 1.5 * 200 * 20 * 510 / LIMIT_BYTES + 1


def test_punctuations_that_fire_first_when_much_is_uncommitted_do_not_exceed_it(
    tmp_path: Path,
) -> None:
    class Late(Ticking):
        def _tick(self, now_ms: int) -> None:
            self._stores[0].put("late", self._written("12000"))
            self._gauge.look()

    gauge = Gauge()
    clock, faults = ManualClock(), Faults(1)
    broker = SimulatedBroker(clock, faults, session_timeout_ms=10_000_000)
    broker.create_topic("in", 1)
    records = [(f"key-{number}", "1000") for number in range(60)]
    for key, value in records:
        broker.produce("in", key.encode(), value.encode(), 0)
    builder = StreamsBuilder()
    supplier = Stores.persistent_key_value_store("store")
    builder.add_state_store(Stores.key_value_store_builder(supplier, serdes.STRING, serdes.STRING))
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(lambda: Late(gauge, ["store"], value_of_size), stores=["store"])
    config = {
        "application.id": "app",
        "commit.interval.ms": 1_000_000,
        "statestore.uncommitted.max.bytes": LIMIT_BYTES,
    }
    process = SimulatedProcess(builder.build(), config, broker, SimulatedDisk(tmp_path, faults))
    gauge.process = process
    process.start()
    left = len(records)
    while left:
        left -= process.step()
    clock.advance_ms(1000)
    process.step()

    assert LIMIT_BYTES / 2 < gauge.highest <= LIMIT_BYTES


def test_punctuations_that_write_more_than_the_limit_are_committed_at_once(tmp_path: Path) -> None:
    def much(size: str) -> str:
        return "v" * int(size) * 10

    gauge = Gauge()

    process = ticking(gauge, tmp_path, much)

    [thread] = process.threads
    assert LIMIT_BYTES < gauge.highest < 2 * LIMIT_BYTES, "one round of punctuations, not two"
    assert thread.statistics().uncommitted_bytes == 0
