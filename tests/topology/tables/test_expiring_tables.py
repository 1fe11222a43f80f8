"""Tables whose rows expire: which go, when, and what those downstream are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Record,
    SlidingWindows,
    StoreEngine,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyError,
    serdes,
)
from pystreams.stores.kinds.expiring import rows as expiring_rows
from pystreams.testing import TopologyTestDriver

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
NUMBERS: Any = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}
TTL_MS = 100
CACHED: Any = {"statestore.cache.max.bytes": 1_000_000}
Told = list[tuple[Any, Any, int]]


def kept(name: str = "kept", **options: Any) -> Materialized[Any, Any]:
    return Materialized(name=name, ttl_ms=TTL_MS, caching=False, **options)


class Driven:
    """A driver of a topology from "in" to "out"."""

    def __init__(
        self,
        topology: Topology,
        values: Any = serdes.STRING,
        directory: Path | None = None,
        **config: Any,
    ) -> None:
        self.driver = TopologyTestDriver(topology, config, state_directory=directory)
        self.topic = self.driver.create_input_topic("in", serdes.STRING, serdes.STRING)
        self.output = self.driver.create_output_topic("out", serdes.STRING, values)

    def pipe(self, *records: tuple[str, str | None, int]) -> Told:
        """Pipe (key, value, timestamp); return what came out of it."""
        for key, value, timestamp in records:
            self.topic.pipe_input(key, value, timestamp=timestamp)
        return [(found.key, found.value, found.timestamp) for found in self.output.read_records()]

    def rows(self, store: str = "kept") -> dict[Any, Any]:
        return dict(self.driver.get_key_value_store(store).all())

    def logged(self, store: str = "kept") -> list[tuple[bytes | None, bool, int]]:
        """Key, whether it has a value, and timestamp of each changelog record."""
        records = self.driver.produced_raw(f"test-driver-{store}-changelog")
        return [(key, value is not None, time) for key, value, time, _ in records]


def table_of(**options: Any) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("in", materialized=kept(**options), **TEXT)
    table.to_stream().to("out", **TEXT)
    return builder.build()


@pytest.fixture(params=StoreEngine)
def engine(request: pytest.FixtureRequest) -> StoreEngine:
    chosen: StoreEngine = request.param
    return chosen


# ---------------------------------------------------------------------- when rows go


def test_a_row_goes_once_a_record_is_later_by_more_than_its_time(engine: StoreEngine) -> None:
    driven = Driven(table_of(store_type=engine))

    assert driven.pipe(("a", "1", 0), ("b", "2", 100)) == [("a", "1", 0), ("b", "2", 100)]
    assert driven.pipe(("b", "3", 101)) == [("a", None, 101), ("b", "3", 101)]
    assert driven.rows() == {"b": "3"}


def test_an_update_begins_the_time_of_its_row_anew(engine: StoreEngine) -> None:
    driven = Driven(table_of(store_type=engine))
    driven.pipe(("a", "1", 0), ("a", "2", 90))

    assert driven.pipe(("b", "3", 180)) == [("b", "3", 180)]
    assert driven.pipe(("b", "4", 191)) == [("a", None, 191), ("b", "4", 191)]


def test_a_deleted_row_is_not_told_again(engine: StoreEngine) -> None:
    driven = Driven(table_of(store_type=engine))
    driven.pipe(("a", "1", 0), ("a", None, 5))

    assert driven.pipe(("b", "2", 500)) == [("b", "2", 500)]


def test_earlier_rows_go_first(engine: StoreEngine) -> None:
    driven = Driven(table_of(store_type=engine))
    driven.pipe(("c", "1", 30), ("a", "2", 20), ("b", "3", 10), ("d", "4", 20))

    gone = driven.pipe(("z", "5", 500))

    assert [key for key, value, _ in gone if value is None] == ["b", "a", "d", "c"]


def test_a_late_row_that_is_over_already_is_told_and_goes(engine: StoreEngine) -> None:
    driven = Driven(table_of(store_type=engine))
    driven.pipe(("a", "1", 500))

    assert driven.pipe(("b", "2", 50)) == [("b", "2", 50), ("b", None, 500)]
    assert driven.rows() == {"a": "1"}


def test_rows_that_go_are_deleted_in_the_changelog(engine: StoreEngine) -> None:
    driven = Driven(table_of(store_type=engine))
    driven.pipe(("a", "1", 0), ("b", "2", 200))

    assert driven.logged() == [(b"a", True, 0), (b"a", False, 200), (b"b", True, 200)]


def test_what_one_record_expires_is_told_before_the_next_in_any_portions(
    engine: StoreEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiring_rows, "PORTION_BYTES", 2048)
    driven = Driven(table_of(store_type=engine))
    driven.pipe(*((f"k{number}", "v", number) for number in range(9)))

    told = driven.pipe(("k7", "w", 500), ("k8", "w", 501))

    assert sorted(key for key, value, _ in told if value is None) == [f"k{n}" for n in range(9)]
    assert told[-1] == ("k8", "w", 501)
    assert driven.rows() == {"k7": "w", "k8": "w"}


def test_a_cached_table_tells_deletions_with_its_other_changes(engine: StoreEngine) -> None:
    builder = StreamsBuilder()
    table = builder.table(
        "in", materialized=Materialized(name="kept", ttl_ms=TTL_MS, store_type=engine), **TEXT
    )
    table.to_stream().to("out", **TEXT)
    driven = Driven(builder.build(), **CACHED)
    driven.pipe(("a", "1", 0), ("b", "2", 50))

    assert driven.pipe(("b", "3", 120)) == [("a", None, 120), ("b", "3", 120)]
    assert driven.pipe(("b", "4", 500)) == [("b", "4", 500)]


# ---------------------------------------------------------------------- as what they go


def sums(builder: StreamsBuilder, table: KTable[Any, str]) -> None:
    """Sum up all rows of a table: right only if old values are."""
    every: Any = table.group_by(lambda _, value: ("all", int(value)), **NUMBERS)
    total = every.reduce(lambda a, b: a + b, lambda a, b: a - b, caching=False)
    total.to_stream().to("out", **NUMBERS)


def last_sum(topology: Topology, *records: tuple[str, str | None, int], **config: Any) -> int:
    driven = Driven(topology, serdes.LONG, **config)
    sent = driven.pipe(*records)
    number: int = sent[-1][1]
    return number


RECORDS = (("a", "1", 0), ("b", "10", 50), ("c", "100", 90), ("b", "20", 155), ("a", "2", 160))
"""The second row of b comes when its first is over; c and a are there at the end as well."""


def test_sums_over_a_table_forget_what_has_gone() -> None:
    builder = StreamsBuilder()
    sums(builder, builder.table("in", materialized=kept(), **TEXT))

    assert last_sum(builder.build(), *RECORDS) == 122
    assert last_sum(builder.build(), *RECORDS, ("d", "1000", 200)) == 1022


def test_sums_over_a_table_made_of_an_expiring_one_forget_it_too() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", materialized=kept(), **TEXT)
    sums(builder, table.map_values(lambda value: str(2 * int(value)), name="doubled", **TEXT))

    assert last_sum(builder.build(), *RECORDS, ("d", "1000", 200)) == 2044


MADE: dict[str, Callable[[KTable[Any, str]], KTable[Any, str]]] = {
    "filter": lambda table: table.filter(
        lambda _, value: bool(value), materialized=kept("m", **TEXT)
    ),
    "map_values": lambda table: table.map_values(str, materialized=kept("m", **TEXT)),
    "join": lambda table: table.join(
        table.map_values(lambda _: "0"), lambda a, _: a, materialized=kept("m", **TEXT)
    ),
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("cache", [{}, CACHED])
def test_sums_over_a_made_table_that_expires_by_itself(made: str, cache: Any) -> None:
    """Its parent keeps rows for ever, and so does not tell what its own have become."""
    builder = StreamsBuilder()
    sums(builder, MADE[made](builder.table("in", name="parent", **TEXT)))

    records = (*RECORDS, ("d", "1000", 200))
    assert last_sum(builder.build(), *records, **cache) == 1022


def test_an_aggregation_begins_anew_when_its_row_is_over(engine: StoreEngine) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", **TEXT).group_by_key()
    counts = grouped.count(name="kept", ttl_ms=TTL_MS, store_type=engine, caching=False)
    counts.to_stream().to("out", **NUMBERS)
    driven = Driven(builder.build(), serdes.LONG)

    assert driven.pipe(("a", "", 0), ("a", "", 100)) == [("a", 1, 0), ("a", 2, 100)]
    assert driven.pipe(("a", "", 201)) == [("a", None, 201), ("a", 1, 201)]


def test_its_own_row_is_told_over_even_if_others_leave_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expiring_rows, "PORTION_BYTES", 1)
    builder = StreamsBuilder()
    counts = builder.stream("in", **TEXT).group_by_key().count(ttl_ms=TTL_MS, caching=False)
    counts.to_stream().to("out", **NUMBERS)
    driven = Driven(builder.build(), serdes.LONG)
    driven.pipe(*((f"k{number}", "", number) for number in range(5)))

    told = driven.pipe(("k4", "", 500))

    assert told[:3] == [("k0", None, 500), ("k4", None, 500), ("k4", 1, 500)]
    assert [key for key, value, _ in told[3:] if value is None] == ["k1", "k2", "k3"]


def test_a_stream_meets_no_row_that_is_over() -> None:
    builder = StreamsBuilder()
    table = builder.table("rows", materialized=kept(), **TEXT)
    stream = builder.stream("in", **TEXT)
    stream.left_join(table, lambda value, row: f"{value}{row}").to("out", **TEXT)
    driven = Driven(builder.build())
    rows = driven.driver.create_input_topic("rows", serdes.STRING, serdes.STRING)
    rows.pipe_input("a", "1", timestamp=0)
    rows.pipe_input("b", "2", timestamp=60)
    rows.pipe_input("c", "3", timestamp=120)

    assert driven.pipe(("a", "x", 1), ("b", "x", 1)) == [("a", "xNone", 1), ("b", "x2", 1)]


# ---------------------------------------------------------------------- over restarts


def test_the_stream_time_is_kept_over_a_restart(tmp_path: Path) -> None:
    driven = Driven(table_of(), directory=tmp_path)
    driven.pipe(("a", "1", 0), ("b", "2", 90), ("b", None, 100))
    driven.driver.close()

    driven = Driven(table_of(), directory=tmp_path)

    assert driven.pipe(("late", "3", 0)) == [("late", "3", 0)]
    assert driven.pipe(("c", "4", 101))[:2] == [("a", None, 101), ("late", None, 101)]


def test_a_shorter_time_makes_rows_go_at_the_next_start(tmp_path: Path) -> None:
    driven = Driven(table_of(), directory=tmp_path)
    driven.pipe(("a", "1", 0), ("b", "2", 90))
    driven.driver.close()

    builder = StreamsBuilder()
    shorter: Any = Materialized(name="kept", ttl_ms=10, caching=False)
    builder.table("in", materialized=shorter, **TEXT).to_stream().to("out", **TEXT)
    driven = Driven(builder.build(), directory=tmp_path)

    assert driven.rows() == {"b": "2"}
    assert driven.pipe(("c", "3", 90)) == [("a", None, 90), ("c", "3", 90)]


def test_a_longer_time_lets_rows_that_are_there_live_on(tmp_path: Path) -> None:
    driven = Driven(table_of(), directory=tmp_path)
    driven.pipe(("a", "1", 0), ("b", "2", 90))
    driven.driver.close()

    builder = StreamsBuilder()
    longer: Any = Materialized(name="kept", ttl_ms=1000, caching=False)
    builder.table("in", materialized=longer, **TEXT).to_stream().to("out", **TEXT)
    driven = Driven(builder.build(), directory=tmp_path)

    assert driven.pipe(("c", "3", 1000)) == [("c", "3", 1000)]
    assert driven.pipe(("c", "4", 1001)) == [("a", None, 1001), ("c", "4", 1001)]


# ---------------------------------------------------------------------- stores of processors


class Keeping(Processor[str, str, str, str]):
    """Puts each value, and sends on what the store has of all keys."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.store: Any = context.get_state_store("kept")

    def process(self, record: Record[str, str]) -> None:
        before = self.store.get(record.key)
        self.store.put(record.key, record.value)
        rows = ",".join(key for key, _ in self.store.all())
        self.context.forward(record.with_value(f"{before} {rows}"))


@pytest.mark.parametrize(
    "supplier",
    [
        Stores.persistent_key_value_store("kept"),
        Stores.in_memory_key_value_store("kept"),
    ],
)
def test_rows_of_a_processor_s_store_go_by_the_time_of_its_records(supplier: Any) -> None:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(supplier, *TEXT.values(), ttl_ms=TTL_MS))
    builder.stream("in", **TEXT).process(Keeping, stores=["kept"]).to("out", **TEXT)
    driven = Driven(builder.build())

    seen = driven.pipe(("a", "1", 0), ("b", "2", 60), ("c", "3", 101), ("b", "4", 400))

    assert [value for _, value, _ in seen] == ["None a", "None a,b", "None b,c", "2 b"]
    assert [entry for entry in driven.logged() if not entry[1]] == [
        (b"a", False, 101),
        (b"b", False, 400),
        (b"c", False, 400),
    ]


# ---------------------------------------------------------------------- what is refused

REFUSED: dict[str, Callable[[StreamsBuilder], Any]] = {
    "no whole number": lambda _: Materialized(name="s", ttl_ms=1.5),  # type: ignore[arg-type]
    "0 ms": lambda _: Materialized(name="s", ttl_ms=0),
    "a versioned table": lambda _: Materialized(name="s", ttl_ms=TTL_MS, history_retention_ms=1000),
    "a versioned supplier": lambda _: Materialized(
        ttl_ms=TTL_MS, supplier=Stores.persistent_versioned_key_value_store("s", 1000)
    ),
    "a store of limited size": lambda _: Materialized(
        ttl_ms=TTL_MS, supplier=Stores.lru_map("s", 5)
    ),
    "a global table": lambda b: b.global_table("in", materialized=kept(), **TEXT),
    "windows": lambda b: (
        b.stream("in")
        .group_by_key()
        .windowed_by(TimeWindows.of_size_with_no_grace(5))
        .count(ttl_ms=TTL_MS)
    ),
    "sliding windows": lambda b: (
        b.stream("in")
        .group_by_key()
        .windowed_by(SlidingWindows.of_time_difference_and_grace(5, 0))
        .count(ttl_ms=TTL_MS)
    ),
    "a builder of limited size": lambda _: Stores.key_value_store_builder(
        Stores.lru_map("s", 5), ttl_ms=TTL_MS
    ),
    "a builder of 0 ms": lambda _: Stores.key_value_store_builder(
        Stores.in_memory_key_value_store("s"), ttl_ms=0
    ),
    "a global store of a topology": lambda _: Topology().add_global_store(
        expiring_builder(), "source", "topic", "keep", Processor
    ),
    "a global store": lambda b: (
        b.add_global_store(expiring_builder(), "topic", Processor, **TEXT),
        b.build(),
    ),
    "a read-only store": lambda _: Topology().add_read_only_state_store(
        expiring_builder(), "source", "topic", "keep", Processor
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_time_to_live_is_refused_where_rows_can_t_expire(what: str) -> None:
    with pytest.raises(TopologyError, match="ttl_ms"):
        REFUSED[what](StreamsBuilder())


def expiring_builder() -> Any:
    return Stores.key_value_store_builder(
        Stores.in_memory_key_value_store("s"), serdes.STRING, serdes.STRING, ttl_ms=TTL_MS
    )


def test_an_optimized_table_that_expires_rows_keeps_its_changelog() -> None:
    builder = StreamsBuilder()
    builder.table("rows", **TEXT, materialized=kept()).to_stream().to("out")
    builder.table("others", **TEXT, materialized=Materialized(name="others")).to_stream().to(
        "out-2"
    )

    topology = builder.build({"topology.optimization": "reuse.ktable.source.topics"})

    assert topology.source_changelogs.keys() == {"others"}
    assert topology.stores["kept"].logging
