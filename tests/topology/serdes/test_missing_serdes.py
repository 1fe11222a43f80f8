"""Missing serdes: refused when the application is made, with the user's line and the cure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from pystreams import (
    JoinWindows,
    KafkaStreams,
    KStream,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Record,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyError,
    serdes,
)
from pystreams.testing import TopologyTestDriver

Strings = KStream[str, str]
KEY: dict[str, Any] = {"key_serde": serdes.STRING}
VALUE: dict[str, Any] = {"value_serde": serdes.STRING}
NOTHING: dict[str, Any] = {}
WINDOWS = JoinWindows.of_time_difference_with_no_grace(10)
DEFAULTS = {"default.key.serde": "string", "default.value.serde": "string"}


def value_of(_key: str, value: str) -> Any:
    """Does not say of which type the new keys are."""
    return value


def joined(left: str, right: str | None) -> Any:
    """Does not say of which type the new values are."""
    return f"{left}{right}"


def upper(value: str) -> Any:
    """Does not say it either."""
    return value.upper()


class Keeps(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        self.store: Any = context.get_state_store("kept")

    def process(self, record: Record[str, str]) -> None:
        self.store.put(record.key, record.value)


class Case(NamedTuple):
    """A declaration without a serde.

    Attributes:
        declare: Declares it, with the options that it needs or without.
        cure: The options.
        told: What the first line of the error says of place, cause and cure.
    """

    declare: Callable[[StreamsBuilder, Strings, dict[str, Any]], object]
    cure: dict[str, Any]
    told: tuple[str, str, str]


CASES = {
    "group_by_key after select_key": Case(
        lambda _, s, cure: s.select_key(value_of).group_by_key(**cure).count(name="c"),
        KEY,
        ("count(", "select_key(", "key_serde=... to the group_by(...) or group_by_key(...) before"),
    ),
    "group_by": Case(
        lambda _, s, cure: s.group_by(value_of, **cure).count(),
        KEY,
        ("count(", "group_by(", "key_serde=... to the group_by(...)"),
    ),
    "reduce": Case(
        lambda _, s, cure: s.map_values(upper).group_by_key(**cure).reduce(joined),
        VALUE,
        ("reduce(", "map_values(", "value_serde=... to reduce(...)"),
    ),
    "aggregate": Case(
        lambda _, s, cure: s.group_by_key().aggregate(str, lambda _k, v, _a: v, **cure),
        VALUE,
        (
            "aggregate(",
            "state store 'KSTREAM-AGGREGATE-STATE-STORE-",
            "value_serde=... to aggregate(",
        ),
    ),
    "aggregate of mapped values": Case(
        lambda _, s, cure: (
            s.map_values(upper).group_by_key().aggregate(str, lambda _k, v, _a: v, **cure)
        ),
        VALUE,
        ("aggregate(", "has no value serde. Give", "value_serde=... to aggregate("),
    ),
    "aggregate of other groups": Case(
        lambda b, _, cure: (
            b.table("t", **KEY, **VALUE).group_by(lambda k, v: (v, k), **cure).count()
        ),
        KEY | VALUE,
        (
            "count(",
            "-repartition' has no key serde: group_by(",
            "key_serde=... to the group_by(",
        ),
    ),
    "repartition": Case(
        lambda _, s, cure: s.map(lambda k, v: (v, k)).repartition(**cure).foreach(value_of),
        KEY | VALUE,
        ("repartition(", "map(", "key_serde=... to repartition(...)"),
    ),
    "to": Case(
        lambda _, s, cure: s.select_key(value_of).to("out", **cure),
        KEY,
        ("to(", "select_key(", "key_serde=... to to(...)"),
    ),
    "to a topic by a function": Case(
        lambda _, s, cure: s.map_values(upper).to(lambda _k, _v, _r: "out", **cure),
        VALUE,
        ("to(", "map_values(", "value_serde=... to to(...)"),
    ),
    "to, of a table's new values": Case(
        lambda b, _, cure: (
            b.table("t", **KEY, **VALUE).map_values(upper).to_stream().to("out", **cure)
        ),
        VALUE,
        ("to(", "map_values(", "value_serde=... to to(...)"),
    ),
    "to_table": Case(
        lambda _, s, cure: s.select_key(value_of).to_table(name="t", **cure),
        KEY,
        ("to_table(", "select_key(", "key_serde=... to to_table(...)"),
    ),
    "a table's own store": Case(
        lambda b, _, cure: b.table("t", **KEY, **VALUE).map_values(upper, name="mapped", **cure),
        VALUE,
        (
            "map_values(",
            "state store 'mapped' has no value serde",
            "value_serde=... to map_values(",
        ),
    ),
    "join with a table": Case(
        lambda b, s, cure: (
            s.map_values(upper)
            .select_key(value_of)
            .join(b.table("t", **KEY, **VALUE), joined, **cure)
        ),
        VALUE,
        ("join(", "map_values(", "value_serde=..."),
    ),
    "kept join of tables": Case(
        lambda b, _, cure: b.table("t", **KEY, **VALUE).join(
            b.table("u", **KEY, **VALUE), joined, name="both", **cure
        ),
        VALUE,
        ("join(", "state store 'both'", "type). Give value_serde=... to join(...), or set"),
    ),
    "left table of a join by a foreign key": Case(
        lambda b, _, cure: (
            b.table("t", **KEY, **VALUE)
            .map_values(upper, **cure)
            .join(b.table("u", **KEY, **VALUE), joined, foreign_key=str.upper)
        ),
        VALUE,
        ("join(", ": map_values(", "type). Give value_serde=... to what makes the left table"),
    ),
    "right table of a join by a foreign key": Case(
        lambda b, _, cure: b.table("t", **KEY, **VALUE).join(
            b.table("u", **KEY, **VALUE).map_values(upper, **cure), joined, foreign_key=str.upper
        ),
        VALUE,
        ("join(", ": map_values(", "type). Give value_serde=... to what makes the right table"),
    ),
    "kept join by a foreign key": Case(
        lambda b, _, cure: b.table("t", **KEY, **VALUE).left_join(
            b.table("u", **KEY, **VALUE), joined, foreign_key=str.upper, name="fk", **cure
        ),
        VALUE,
        ("left_join(", "state store 'fk'", "type). Give value_serde=... to left_join(...), or"),
    ),
    "to, of a join's new values": Case(
        lambda b, s, cure: s.join(b.table("t", **KEY, **VALUE), joined).to("out", **cure),
        VALUE,
        ("to(", ": join(", "to a serde of one type). Give value_serde=... to to(...)"),
    ),
    "to, of what was computed in batches": Case(
        lambda _, s, cure: s.map_values_batch(list).to("out", **cure),
        VALUE,
        ("to(", ": map_values_batch(", "to a serde of one type). Give value_serde=... to to(...)"),
    ),
    "join with a versioned table": Case(
        lambda b, s, cure: s.map_values(upper).join(
            b.table("t", **KEY, **VALUE).to_stream().to_table(name="v", history_retention_ms=9000),
            joined,
            grace_period_ms=10,
            **cure,
        ),
        VALUE,
        ("join(", "map_values(", "type). Give value_serde=... to join(...), or set"),
    ),
    "join of streams": Case(
        lambda b, s, cure: s.left_join(
            b.stream("other", **KEY, **VALUE).map_values(upper), joined, WINDOWS, **cure
        ),
        {"other_value_serde": serdes.STRING},
        ("left_join(", "state store", "other_value_serde=... for the right stream, to left_join("),
    ),
    "stream": Case(
        lambda b, _, cure: b.stream("plain", **VALUE, **cure),
        KEY,
        (
            "stream(",
            "source 'KSTREAM-SOURCE-0000000001' (plain) has no key serde",
            "to stream(...)",
        ),
    ),
    "table": Case(
        lambda b, _, cure: b.table("plain", **KEY, **cure),
        VALUE,
        ("table(", "has no value serde", "value_serde=... to table(...)"),
    ),
    "processor's store": Case(
        lambda b, s, cure: (
            b.add_state_store(
                Stores.key_value_store_builder(
                    Stores.persistent_key_value_store("kept"), **(VALUE | cure)
                )
            ),
            s.process(Keeps, stores=["kept"]),
        ),
        KEY,
        (
            "add_state_store(",
            "state store 'kept' has no key serde. Give",
            "key_serde=... to the Stores...",
        ),
    ),
}


def topology_of(case: Case, cure: dict[str, Any]) -> Topology:
    builder = StreamsBuilder()
    case.declare(builder, builder.stream("in", **KEY, **VALUE), cure)
    return builder.build()


@pytest.mark.parametrize("name", CASES)
def test_a_missing_serde_is_refused_with_line_and_cure(name: str) -> None:
    case = CASES[name]
    with pytest.raises(TopologyError) as refused:
        TopologyTestDriver(topology_of(case, NOTHING))

    message = str(refused.value).splitlines()[0]
    place, what, cure = case.told
    assert message.startswith(f"{place}...) at ")
    assert "test_missing_serdes.py:" in message
    assert what in message
    assert cure in message
    assert message.endswith(".serde in the configuration")


@pytest.mark.parametrize("name", CASES)
def test_its_cure_works(name: str) -> None:
    case = CASES[name]
    TopologyTestDriver(topology_of(case, case.cure)).close()
    TopologyTestDriver(topology_of(case, NOTHING), DEFAULTS).close()


@pytest.mark.parametrize("kind", ["join", "left_join"])
def test_a_stream_whose_keys_are_new_takes_the_serde_of_the_table_it_is_joined_with(
    kind: str,
) -> None:
    builder = StreamsBuilder()
    table = builder.table("t", **KEY, **VALUE)
    moved = getattr(builder.stream("in", **KEY, **VALUE).select_key(value_of), kind)(table, joined)
    moved.to("out", **VALUE)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("t", serdes.STRING, serdes.STRING).pipe_input("x", "row")
        driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("a", "x")
        out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
        assert out.read_key_values() == [("x", "xrow")]


class Forwards(Processor[str, str, Any, Any]):
    """Does not say what it forwards."""


@pytest.mark.parametrize(
    ("operation", "argument", "says"),
    [
        ("map_values", upper, "its function's annotated return type"),
        ("process", Forwards, "its class's type parameters"),
    ],
)
def test_what_could_say_the_type_of_new_values_is_told(
    operation: str, argument: Any, says: str
) -> None:
    builder = StreamsBuilder()
    getattr(builder.stream("in", **KEY, **VALUE), operation)(argument).to("out", **KEY)

    with pytest.raises(TopologyError, match=f"{operation}.* makes new values, and whether") as told:
        TopologyTestDriver(builder.build())

    assert f"({says} would say so to a serde of one type). Give" in str(told.value)


def test_lines_are_those_of_the_calls() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", **KEY, **VALUE)
    begin = test_lines_are_those_of_the_calls.__code__.co_firstlineno
    (
        stream.select_key(value_of)
        .group_by_key()
        .count()
    )  # fmt: skip

    with pytest.raises(TopologyError) as refused:
        TopologyTestDriver(builder.build())

    message = str(refused.value)
    assert f"test_missing_serdes.py:{begin + 7}: repartition topic" in message
    assert f"test_missing_serdes.py:{begin + 5} makes new keys" in message


def test_all_that_is_missing_is_told_at_once() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", **KEY, **VALUE)
    stream.select_key(value_of).to("a")
    stream.map_values(upper).to("b")

    with pytest.raises(TopologyError) as refused:
        TopologyTestDriver(builder.build())

    assert [line.partition(" has ")[2][:13] for line in str(refused.value).splitlines()] == [
        "no key serde:",
        "no value serd",
    ]


def test_an_application_is_refused_before_it_has_clients() -> None:
    builder = StreamsBuilder()
    builder.stream("in", **KEY, **VALUE).select_key(value_of).group_by_key().count()
    config = {"application.id": "app", "bootstrap.servers": "nowhere:1"}

    with pytest.raises(TopologyError, match="has no key serde"):
        KafkaStreams(builder.build(), config)
    KafkaStreams(builder.build(), config | DEFAULTS)


def test_nodes_of_a_topology_are_told_by_their_lines_too() -> None:
    topology = Topology()
    topology.add_source("source", "in", **KEY, **VALUE)
    topology.add_sink("sink", "out", "source", **KEY)

    with pytest.raises(
        TopologyError, match=r"add_sink\(...\) at .*test_missing_serdes.py:\d+: sink"
    ):
        TopologyTestDriver(topology)


def test_the_own_store_of_mapped_values_is_told_to_be_of_new_ones() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", **KEY, **VALUE)
    table.map_values(upper, materialized=Materialized(name="upper"))

    with pytest.raises(TopologyError, match=r"'upper' has no value serde: map_values\(\.\.\.\) at"):
        KafkaStreams(builder.build(), {"application.id": "a", "bootstrap.servers": "none:1"})


TUMBLING = TimeWindows.of_size_with_no_grace(10)
SESSIONS = SessionWindows.of_inactivity_gap_with_no_grace(5)
OfWindowed = Callable[[KTable[Any, str], KTable[str, str]], KStream[Any, Any]]
OF_WINDOWED_KEYS: dict[str, OfWindowed] = {
    "join by a foreign key": lambda table, rows: table.join(
        rows, joined, foreign_key=str
    ).to_stream(),
    "left join by a foreign key": lambda table, rows: table.left_join(
        rows, joined, foreign_key=str
    ).to_stream(),
    "outer join of streams": lambda table, _: table.to_stream().outer_join(
        table.to_stream(), lambda left, right: f"{left}{right}", WINDOWS
    ),
    "windows of windowed keys": lambda table, _: (
        table.to_stream().group_by_key().windowed_by(TUMBLING).count().to_stream()
    ),
}


def results_of_windowed_keys(
    operation: OfWindowed, windows: TimeWindows | SessionWindows, source: dict[str, Any]
) -> list[tuple[Any, ...]]:
    builder = StreamsBuilder()
    groups = builder.stream("in", **source).group_by_key()
    windowed: Any = groups.windowed_by(windows)
    results = operation(windowed.reduce(lambda _so_far, value: value), builder.table("t"))
    results.to("out")
    with TopologyTestDriver(builder.build(), DEFAULTS) as driver:
        driver.create_input_topic("t", serdes.STRING, serdes.STRING).pipe_input("1", "row")
        given = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
        given.pipe_input("a", "1", timestamp=1)
        given.pipe_input("b", "2", timestamp=90)
        return driver.produced_raw("out")


@pytest.mark.parametrize("windows", [TUMBLING, SESSIONS], ids=["windows", "sessions"])
@pytest.mark.parametrize("operation", OF_WINDOWED_KEYS)
def test_the_key_inside_of_windowed_keys_takes_the_default_wherever_they_are_written(
    operation: str, windows: TimeWindows | SessionWindows
) -> None:
    declare = OF_WINDOWED_KEYS[operation]

    by_default = results_of_windowed_keys(declare, windows, NOTHING)

    assert by_default
    assert by_default == results_of_windowed_keys(declare, windows, KEY | VALUE)
