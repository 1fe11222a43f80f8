"""Suppression of a table: which changes go on, when, and as what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    BufferConfig,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Record,
    RecordMetadata,
    StoreEngine,
    StreamsBuilder,
    Suppressed,
    SuppressionBufferFullError,
    TaskId,
    Topology,
    TopologyError,
    serdes,
)
from pystreams.testing import TopologyTestDriver

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
FOREVER_MS = 2**63 - 1
unbounded = BufferConfig.unbounded


def suppressing(suppressed: Suppressed[Any]) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("in", **TEXT)
    table.suppress(suppressed).to_stream().to("out", **TEXT)
    return builder.build()


def limited(time_to_wait_ms: int, config: BufferConfig | None = None) -> Suppressed[Any]:
    return Suppressed.until_time_limit(time_to_wait_ms, config or unbounded())


class Driven:
    """A driver of a topology from "in" to "out"."""

    def __init__(self, topology: Topology, directory: Path | None = None) -> None:
        config = {"default.key.serde": "string", "default.value.serde": "string"}
        self.driver = TopologyTestDriver(topology, config, state_directory=directory)
        self.topic = self.driver.create_input_topic("in", serdes.STRING, serdes.STRING)
        self.output = self.driver.create_output_topic("out", serdes.STRING, serdes.STRING)

    def pipe(self, *records: tuple[str, str | None, int]) -> list[tuple[Any, Any, int]]:
        """Pipe (key, value, timestamp); return what came out of it."""
        for key, value, timestamp in records:
            self.topic.pipe_input(key, value, timestamp=timestamp)
        return [(found.key, found.value, found.timestamp) for found in self.output.read_records()]


@pytest.fixture(params=StoreEngine)
def engine(request: pytest.FixtureRequest) -> StoreEngine:
    chosen: StoreEngine = request.param
    return chosen


# ---------------------------------------------------------------------- when changes go on


def test_a_wait_of_nothing_sends_each_change_on_at_once(engine: StoreEngine) -> None:
    driven = Driven(suppressing(limited(0, unbounded(store_type=engine))))

    assert driven.pipe(("hey", "1", 5)) == [("hey", "1", 5)]
    assert driven.pipe(("hey", None, 6)) == [("hey", None, 6)]


def test_the_last_change_goes_on_once_its_key_has_waited(engine: StoreEngine) -> None:
    driven = Driven(suppressing(limited(10, unbounded(store_type=engine))))

    assert driven.pipe(("a", "1", 0), ("a", "2", 8), ("tick", "", 9)) == []
    assert driven.pipe(("tick", "", 10)) == [("a", "2", 8)]


def test_time_is_that_of_the_records_and_never_falls() -> None:
    driven = Driven(suppressing(limited(10)))

    assert driven.pipe(("a", "1", 50), ("late", "2", 45)) == []
    assert driven.pipe(("later", "3", 30)) == [("later", "3", 30)]


def test_changes_of_one_time_go_on_in_order_of_their_keys() -> None:
    driven = Driven(suppressing(limited(1)))

    gone = driven.pipe(("b", "1", 0), ("ab", "2", 0), ("a", "3", 0), ("tick", "", 1))

    assert [key for key, _, _ in gone] == ["a", "ab", "b"]


def test_a_deletion_goes_on_as_any_other_change() -> None:
    """Although nothing of the key went on before: who knows what went on before a restart."""
    driven = Driven(suppressing(limited(5)))

    assert driven.pipe(("a", "1", 0), ("a", None, 1), ("tick", "", 9)) == [("a", None, 1)]


def test_two_suppressions_in_a_row_wait_one_after_the_other() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", **TEXT)
    twice = table.suppress(limited(5)).suppress(limited(20))
    twice.to_stream().to("out", **TEXT)
    driven = Driven(builder.build())

    assert driven.pipe(("a", "1", 0), ("a", "2", 6), ("tick", "", 19)) == []
    assert driven.pipe(("tick", "", 100)) == [("a", "2", 6)]


# ---------------------------------------------------------------------- as what they go on


def test_a_change_goes_on_with_headers_and_origin_of_its_own_record() -> None:
    seen: list[tuple[Any, RecordMetadata | None]] = []

    class Look(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            self.context = context

        def process(self, record: Record[str, str]) -> None:
            seen.append((record.headers, self.context.record_metadata()))

    builder = StreamsBuilder()
    builder.table("in", **TEXT).suppress(limited(5)).to_stream().process(Look)
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
        topic.pipe_input("a", "1", timestamp=0, headers=(("h", b"1"),))
        topic.pipe_input("a", "2", timestamp=1, headers=(("h", b"2"),))
        topic.pipe_input("tick", "", timestamp=9, headers=(("h", b"3"),))

    assert seen == [((("h", b"2"),), RecordMetadata("in", 0, 1))]


def test_a_deletion_goes_on_with_the_headers_of_its_own_record() -> None:
    driven = Driven(suppressing(limited(5)))
    driven.topic.pipe_input("a", "1", timestamp=0, headers=(("of", b"value"),))
    driven.topic.pipe_input("a", None, timestamp=9, headers=(("of", b"deletion"),))

    assert driven.output.read_records() == [Record("a", None, 9, (("of", b"deletion"),))]


def test_a_record_that_lets_others_go_is_itself_again_after_them() -> None:
    """What follows the table beside the suppression sees its own record."""
    seen: list[tuple[Any, Any, RecordMetadata | None]] = []

    class Look(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            self.context = context

        def process(self, record: Record[str, str]) -> None:
            seen.append((record.key, record.headers, self.context.record_metadata()))

    builder = StreamsBuilder()
    table = builder.table("in", **TEXT)
    table.suppress(limited(5)).to_stream().to("out", **TEXT)
    table.to_stream().process(Look)
    driven = Driven(builder.build())
    driven.pipe(("a", "1", 0), ("b", "2", 9))

    assert seen == [
        ("a", (), RecordMetadata("in", 0, 0)),
        ("b", (), RecordMetadata("in", 0, 1)),
    ]


def summed(table: KTable[str, str]) -> KTable[str, str]:
    """Add what comes and subtract what goes, as text."""
    grouped = table.group_by(lambda _, value: ("all", value), **TEXT)
    return grouped.aggregate(
        str,
        lambda _key, value, so_far: f"{so_far}+{value}",
        lambda _key, value, so_far: f"{so_far}-{value}",
        value_serde=serdes.STRING,
    )


def test_a_sum_over_a_suppressed_table_subtracts_what_was_added() -> None:
    """Kafka Streams subtracts the value before the newest, which was never added."""
    builder = StreamsBuilder()
    summed(builder.table("in", **TEXT).suppress(limited(10))).to_stream().to("out", **TEXT)
    driven = Driven(builder.build())
    driven.pipe(("a", "1", 0), ("a", "2", 1), ("tick", "x", 20))

    told = driven.pipe(("a", "3", 21), ("a", "4", 22), ("tick", "y", 50))

    assert [value for _, value, _ in told] == ["+2+y", "+2+y-2+4"]


def test_a_filter_below_says_nothing_of_rows_that_never_went_on() -> None:
    """Kafka Streams deletes there what nobody has seen."""
    builder = StreamsBuilder()
    table = builder.table("in", **TEXT).suppress(limited(10))
    table.filter(lambda _, value: value.startswith("yes")).to_stream().to("out", **TEXT)
    driven = Driven(builder.build())

    assert driven.pipe(("a", "yes", 0), ("a", "no", 1), ("tick", "", 20)) == []
    assert driven.pipe(("a", "yes", 21), ("tick", "", 50)) == [("a", "yes", 21)]
    assert driven.pipe(("a", "no", 51), ("tick", "", 70)) == [("a", None, 51)]


def test_who_looks_into_the_table_sees_what_went_on() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", **TEXT).suppress(limited(10))
    asked = builder.stream("asked", **TEXT)
    asked.left_join(table, lambda _, row: str(row)).to("out", **TEXT)
    driven = Driven(builder.build())
    ask = driven.driver.create_input_topic("asked", serdes.STRING, serdes.STRING)

    def row(time: int) -> Any:
        ask.pipe_input("a", "?", timestamp=time)
        return driven.output.read_records()[-1].value

    assert row(0) == "None"
    driven.pipe(("a", "1", 1))
    assert row(2) == "None"
    driven.pipe(("tick", "", 11))
    assert row(12) == "1"
    driven.pipe(("a", "2", 13), ("a", "3", 14))
    assert row(15) == "1"
    driven.pipe(("tick", "", 30))
    assert row(31) == "3"


@pytest.mark.parametrize("left", [True, False])
def test_a_suppressed_table_is_joined_with_another_one(*, left: bool) -> None:
    builder = StreamsBuilder()
    suppressed = builder.table("in", **TEXT).suppress(limited(10))
    other = builder.table("other", **TEXT)
    tables = (suppressed, other) if left else (other, suppressed)
    joined = tables[0].outer_join(tables[1], lambda some, more: f"({some},{more})")
    joined.to_stream().to("out", **TEXT)
    driven = Driven(builder.build())
    others = driven.driver.create_input_topic("other", serdes.STRING, serdes.STRING)

    def shown(one_side: str | None, other_side: str | None) -> str:
        return f"({one_side},{other_side})" if left else f"({other_side},{one_side})"

    others.pipe_input("B", "2", timestamp=0)
    assert driven.pipe() == [("B", shown(None, "2"), 0)]
    assert driven.pipe(("A", "1", 0), ("B", "1", 1)) == []
    others.pipe_input("A", "2", timestamp=2)
    assert driven.pipe() == [("A", shown(None, "2"), 2)]
    assert driven.pipe(("tick", "", 12)) == [
        ("A", shown("1", "2"), 2),
        ("B", shown("1", "2"), 1),
    ]


# ---------------------------------------------------------------------- how much may wait


def test_beyond_its_records_the_earliest_goes_early(engine: StoreEngine) -> None:
    config = BufferConfig.max_records(1, store_type=engine)
    driven = Driven(suppressing(limited(FOREVER_MS, config)))

    assert driven.pipe(("a", "1", 100), ("a", "2", 101)) == []
    assert driven.pipe(("b", "3", 102)) == [("a", "2", 101)]
    assert driven.pipe(("c", "4", 50)) == [("c", "4", 50)]


def test_beyond_its_bytes_the_earliest_go_early(engine: StoreEngine) -> None:
    """A key and a value of a byte and a topic of two count 32."""
    config = BufferConfig.max_bytes(70, store_type=engine)
    driven = Driven(suppressing(limited(FOREVER_MS, config)))

    assert driven.pipe(("a", "1", 1), ("b", "2", 2)) == []
    assert driven.pipe(("c", "3", 3)) == [("a", "1", 1)]
    assert driven.pipe(("d", "x" * 70, 4)) == [("b", "2", 2), ("c", "3", 3), ("d", "x" * 70, 4)]


def test_no_room_sends_each_change_on_at_once() -> None:
    driven = Driven(suppressing(limited(FOREVER_MS, BufferConfig.max_records(0))))

    assert driven.pipe(("a", "1", 3), ("a", None, 1)) == [("a", "1", 3), ("a", None, 1)]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (BufferConfig.max_records(1), r"2 keys \(max_records: 1\).*\(max_bytes: none\)"),
        (BufferConfig.max_bytes(60), r"2 keys \(max_records: none\).*64 bytes \(max_bytes: 60\)"),
    ],
)
def test_a_full_buffer_that_must_not_let_go_early_is_an_error(
    config: BufferConfig, told: str, engine: StoreEngine
) -> None:
    config = BufferConfig(**(vars(config) | {"store_type": engine})).shut_down_when_full()
    driven = Driven(suppressing(limited(FOREVER_MS, config).with_name("waiting")))
    driven.pipe(("a", "1", 1))

    with pytest.raises(SuppressionBufferFullError, match=told) as error:
        driven.pipe(("b", "2", 2))

    assert (error.value.task_id, error.value.node) == (TaskId(0, 0), "waiting")
    for part in ("task 0_0", "'waiting'", "'waiting-store'", "unbounded()", "emit_early_when_full"):
        assert part in str(error.value)


def test_what_is_due_goes_before_room_is_asked_for() -> None:
    config = BufferConfig.max_records(1).shut_down_when_full()
    driven = Driven(suppressing(limited(5, config)))

    assert driven.pipe(("a", "1", 1), ("b", "2", 6)) == [("a", "1", 1)]


# ---------------------------------------------------------------------- over restarts


def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    """Neither what waits, nor its room, nor the time, which a late record does not turn back."""
    topology = suppressing(limited(10, BufferConfig.max_records(2)))
    driven = Driven(topology, tmp_path)
    driven.pipe(("a", "1", 50), ("b", "2", 55))
    driven.driver.close()

    driven = Driven(topology, tmp_path)

    assert driven.pipe(("late", "3", 30)) == [("late", "3", 30)]
    assert driven.pipe(("c", "4", 56)) == [("a", "1", 50)]


# ---------------------------------------------------------------------- names and stores


def test_names_are_kafkas() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", **TEXT)
    table.suppress(limited(1)).to_stream().to("out", **TEXT)
    table.suppress(limited(1).with_name("slower")).to_stream().to("out", **TEXT)
    topology = builder.build()

    assert set(topology.stores) == {
        "in-STATE-STORE-0000000000",
        "KTABLE-SUPPRESS-STATE-STORE-0000000004",
        "slower-store",
    }
    # The name has used up no number.
    assert {"KTABLE-SUPPRESS-0000000003", "slower", "KTABLE-TOSTREAM-0000000007"} <= set(
        topology.nodes
    )


@pytest.mark.parametrize(
    ("config", "logging", "log_config"),
    [
        (unbounded(), True, {}),
        (
            unbounded().with_logging_enabled({"retention.ms": "1000"}),
            True,
            {"retention.ms": "1000"},
        ),
        (unbounded().with_logging_disabled(), False, {}),
    ],
)
def test_the_changelog_is_as_asked_for(
    config: BufferConfig, log_config: dict[str, str], *, logging: bool
) -> None:
    builder = suppressing(limited(1, config).with_name("slower")).stores["slower-store"]

    assert builder.logging is logging
    assert builder.changelog_config == log_config
    assert builder.changelog_defaults(0) == {"cleanup.policy": "compact"}


def test_a_buffer_without_a_changelog_works_as_any_other() -> None:
    driven = Driven(suppressing(limited(1, unbounded().with_logging_disabled())))

    assert driven.pipe(("a", "1", 0), ("b", "2", 1)) == [("a", "1", 0)]
    assert not any("SUPPRESS" in topic for topic in driven.driver.produced_topic_names())


def test_a_buffer_is_on_disk_unless_it_is_to_be_in_memory() -> None:
    for config, engine in (
        (unbounded(), StoreEngine.ROCKSDB),
        (unbounded(store_type=StoreEngine.IN_MEMORY), StoreEngine.IN_MEMORY),
        (BufferConfig.max_records(1, store_type=StoreEngine.IN_MEMORY), StoreEngine.IN_MEMORY),
        (BufferConfig.max_bytes(1, store_type=StoreEngine.IN_MEMORY), StoreEngine.IN_MEMORY),
    ):
        builder: Any = suppressing(limited(1, config.with_no_bound()).with_name("s")).stores
        assert builder["s-store"].spec.engine is engine


def test_serdes_are_the_tables_or_the_defaults() -> None:
    builder = StreamsBuilder()
    builder.table("in").suppress(limited(1)).to_stream().to("out")
    driven = Driven(builder.build())

    assert driven.pipe(("a", "1", 0), ("b", "2", 1)) == [("a", "1", 0)]


def test_a_missing_serde_is_told_with_its_line() -> None:
    builder = StreamsBuilder()
    lengths = builder.table("in", **TEXT).map_values(len)
    lengths.suppress(limited(1)).to_stream().foreach(lambda *_: None)

    with pytest.raises(
        TopologyError,
        match=r"suppress\(\.\.\.\) at tests/topology/tables/test_suppress.py:\d+: suppression "
        r"'KTABLE-SUPPRESS-0000000004' has no value serde.*Give value_serde=\.\.\. to what makes",
    ):
        TopologyTestDriver(builder.build())


def test_a_value_that_does_not_fit_its_serde_goes_to_the_handler() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", **TEXT).map_values(
        lambda value: 1 if value == "bad" else value,  # type: ignore[arg-type,return-value]
        value_serde=serdes.STRING,
    )
    table.suppress(limited(0)).to_stream().to("out", **TEXT)
    config = {"processing.exception.handler": "continue"}
    with TopologyTestDriver(builder.build(), config) as driver:
        topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
        output = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
        topic.pipe_input("a", "bad", timestamp=0)
        topic.pipe_input("b", "good", timestamp=1)

        assert output.read_key_values() == [("b", "good")]


# ---------------------------------------------------------------------- what is refused


def test_a_versioned_table_is_refused() -> None:
    """And what is made of it without a store of its own."""
    builder = StreamsBuilder()
    history: Any = Materialized(name="history", history_retention_ms=60_000)
    table = builder.table("in", materialized=history, **TEXT)
    for versioned in (table, table.filter(lambda _, value: value != "")):
        with pytest.raises(TopologyError, match="is a versioned table"):
            versioned.suppress(limited(1))


def test_windows_of_a_table_without_windows_are_refused_with_the_way_up() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", **TEXT).filter(lambda *_: True, node_name="kept")
    until_closed: Suppressed[Any] = Suppressed.until_window_closes(unbounded())

    with pytest.raises(TopologyError, match="KTABLE-SOURCE-0000000002 -> kept"):
        table.suppress(until_closed)


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda: Suppressed.until_window_closes(BufferConfig.max_records(1)), "final results"),
        (lambda: limited(-1), "time_to_wait_ms must be 0 or more"),
        (lambda: BufferConfig.max_records(-1), "max_records must be 0 or more"),
        (lambda: BufferConfig.max_bytes(-1), "max_bytes must be 0 or more"),
        (lambda: limited(1).with_name("no name"), "can't be the name of a node"),
        (lambda: Suppressed.until_time_limit(1, 5), "must be a BufferConfig"),  # type: ignore[arg-type]
        (lambda: suppressing(5), "needs a Suppressed"),  # type: ignore[arg-type]
    ],
)
def test_what_could_not_work_is_refused(ask: Callable[[], object], why: str) -> None:
    with pytest.raises(TopologyError, match=why):
        ask()


# ---------------------------------------------------------------------- how it is asked for


def test_configurations_are_equal_however_they_were_made() -> None:
    early = BufferConfig.max_records(2).with_max_bytes(4)

    assert BufferConfig.max_bytes(4).with_max_records(2) == early
    assert early.shut_down_when_full().emit_early_when_full() == early
    assert early.shut_down_when_full() != early
    assert early.with_no_bound() == unbounded()
    assert unbounded().with_max_records(2).with_max_bytes(4).emit_early_when_full() == early
    assert unbounded().with_logging_disabled().with_logging_enabled() == unbounded()
    assert unbounded().with_logging_enabled({"a": "1"}).with_max_bytes(4).log_config == {"a": "1"}


def test_bounds_and_names_are_kept_through_a_long_chain() -> None:
    config = (
        BufferConfig.unbounded()
        .emit_early_when_full()
        .with_max_records(3)
        .with_max_bytes(4)
        .with_max_records(5)
        .with_max_bytes(6)
    )
    suppressed = limited(2, config).with_name("first").with_name("second")

    assert suppressed == Suppressed.until_time_limit(
        2, BufferConfig.max_records(5).with_max_bytes(6)
    ).with_name("second")
    strict = config.shut_down_when_full().with_max_records(10)
    assert Suppressed.until_window_closes(strict).buffer_config == strict
