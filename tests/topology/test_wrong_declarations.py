"""Mistakes are refused while the topology is declared or built, with the cure in the message."""

# mypy: disable-error-code="arg-type, call-overload, return-value"
# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystreams import (
    Consumed,
    EmitStrategy,
    Grouped,
    KStream,
    Materialized,
    Processor,
    Repartitioned,
    StreamsBuilder,
    TableJoined,
    TimeWindows,
    TopologyError,
    aggregations,
)
from pystreams.serdes import STRING


class Nothing(Processor[str, str, None, None]):
    """Takes records and keeps them to itself."""


NOTHING = Nothing()


def test_two_nodes_of_one_name(builder: StreamsBuilder) -> None:
    builder.stream("in").filter(lambda key, value: True, name="same").peek(print, name="same")

    with pytest.raises(TopologyError, match="two nodes are named 'same'"):
        builder.build()


def test_two_stores_of_one_name(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in").group_by_key()
    grouped.count(name="same")
    grouped.reduce(max, name="same")

    with pytest.raises(TopologyError, match="two different state stores are named 'same'"):
        builder.build()


def test_two_equal_aggregations_of_one_name_are_two_stores(builder: StreamsBuilder) -> None:
    builder.stream("in").group_by_key().count(name="same", node_name="first")
    builder.stream("other").group_by_key().count(name="same", node_name="second")

    message = r"two different state stores are named 'same' \(processors 'first', 'second'\)"
    with pytest.raises(TopologyError, match=message):
        builder.build()


def test_two_tables_of_one_name_are_two_stores(builder: StreamsBuilder) -> None:
    builder.table("in", name="same")
    builder.table("other", name="same")

    with pytest.raises(TopologyError, match="two different state stores are named 'same'"):
        builder.build()


def test_topic_read_as_stream_and_as_table(builder: StreamsBuilder) -> None:
    builder.stream("in")
    builder.table("in")

    with pytest.raises(TopologyError, match="'in' is read by two sources"):
        builder.build()


@pytest.mark.parametrize("arguments", [{}, {"topics": "in", "pattern": "in.*"}, {"topics": []}])
def test_stream_without_topics_or_with_both(builder: StreamsBuilder, arguments: Any) -> None:
    with pytest.raises(TopologyError, match="topics or a pattern, one of the two"):
        builder.stream(**arguments)


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 250, "..", 7])
def test_name_that_kafka_refuses(builder: StreamsBuilder, name: Any) -> None:
    stream = builder.stream("in")
    groups = stream.to_table().group_by(two)
    with pytest.raises(TopologyError, match="249"):
        stream.filter(lambda key, value: True, name=name)
    for declare in (
        lambda: groups.reduce(two, two, name=name),
        lambda: groups.aggregate(str, three, three, name=name),
    ):
        with pytest.raises(TopologyError):
            declare()


def test_unknown_option_is_named_with_the_nearest_right_one(builder: StreamsBuilder) -> None:
    with pytest.raises(TopologyError, match="no option key_sered: did you mean key_serde"):
        builder.stream("in", key_sered=STRING)  # type: ignore[call-arg]


def test_options_both_as_keywords_and_as_object(builder: StreamsBuilder) -> None:
    with pytest.raises(TopologyError, match=r"keywords \(name\) or in Consumed"):
        builder.stream("in", consumed=Consumed(), name="read")


def test_options_object_of_another_operation(builder: StreamsBuilder) -> None:
    wrong: Any = Grouped()

    with pytest.raises(TopologyError, match="count takes Materialized"):
        builder.stream("in").group_by_key().count(materialized=wrong)


@pytest.mark.parametrize("serde", ["string", str, type(STRING), 7])
def test_serde_that_is_none(builder: StreamsBuilder, serde: Any) -> None:
    with pytest.raises(TopologyError, match="value_serde must be a serde"):
        builder.stream("in", value_serde=serde)


def test_unknown_offset_reset(builder: StreamsBuilder) -> None:
    wrong: Any = "first"

    with pytest.raises(TopologyError, match="offset_reset 'first' is none of earliest"):
        builder.stream("in", offset_reset=wrong)


def test_extractor_that_is_no_function(builder: StreamsBuilder) -> None:
    wrong: Any = "now"

    with pytest.raises(TopologyError, match="timestamp_extractor must be a function"):
        builder.stream("in", timestamp_extractor=wrong)


def test_unknown_store_type() -> None:
    wrong: Any = "memory"

    with pytest.raises(TopologyError, match="store_type must be a StoreEngine"):
        Materialized(store_type=wrong)


def test_no_partitions() -> None:
    with pytest.raises(TopologyError, match="1 or more, not 0"):
        Repartitioned(num_partitions=0)


def test_topic_to_write_that_is_no_name(builder: StreamsBuilder) -> None:
    wrong: Any = None

    with pytest.raises(TopologyError, match="name of a topic"):
        builder.stream("in").to(wrong)


def test_table_named_twice(builder: StreamsBuilder) -> None:
    with pytest.raises(TopologyError, match=r"put the name into Materialized\(name"):
        builder.table("in", name="a", materialized=Materialized(caching=False))


def test_join_with_what_is_neither_table_nor_stream(builder: StreamsBuilder) -> None:
    wrong: Any = "other"

    with pytest.raises(TopologyError, match="joined with a KTable, GlobalKTable or KStream"):
        builder.stream("in").join(wrong, lambda a, b: a)


def test_outer_join_of_a_stream_is_with_a_stream_and_has_windows(builder: StreamsBuilder) -> None:
    stream: Any = builder.stream("in")
    with pytest.raises(TopologyError, match="outer_join: a stream is joined with a KStream here"):
        stream.outer_join(builder.table("t"), max)
    with pytest.raises(TopologyError, match="outer_join of two streams needs windows, such as"):
        stream.outer_join(builder.stream("other"), max)


@pytest.mark.parametrize("wrong", ["on_window_close", EmitStrategy.on_window_close, None])
def test_emit_strategy_that_is_none(builder: StreamsBuilder, wrong: Any) -> None:
    windows = builder.stream("in").group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))

    with pytest.raises(TopologyError, match=r"emit_strategy takes .*on_window_close\(\), .* not"):
        windows.emit_strategy(wrong)


def test_streams_of_two_builders(builder: StreamsBuilder) -> None:
    other = StreamsBuilder()

    with pytest.raises(TopologyError, match="two StreamsBuilders"):
        builder.stream("in").merge(other.stream("in"))
    with pytest.raises(TopologyError, match="two StreamsBuilders"):
        builder.stream("in").join(other.table("table"), lambda a, b: a)


WRONG_ARGUMENTS: dict[str, tuple[Callable[[KStream[str, str]], object], str]] = {
    "merge, nothing": (lambda words: words.merge(None), "merge takes a stream, not None"),
    "merge, a table": (
        lambda words: words.merge(words.to_table()),
        r"merge takes a stream, not .*; to_stream\(\) makes one of a table",
    ),
    "retry": (
        lambda words: words.map_values(str.upper, retry=3),
        r"retry must be a Retry, as in Retry\(on=TimeoutError\), not 3",
    ),
    "stores": (
        lambda words: words.process(Nothing, stores=None, name="work"),
        "processor 'work': stores must be a list of names, not None",
    ),
    "file": (
        lambda words: words.print(file="/tmp/x"),
        "print: file must be one that is open for writing.* not '/tmp/x'",
    ),
    "chain": (
        lambda words: words.split().branch(lambda key, value: True, chain="x"),
        r"branch: chain takes a function of \(stream\), not 'x'",
    ),
    "chain, a number": (
        lambda words: words.split().default_branch(chain=lambda stream: 5),
        "branch: its chain must return a stream or None, not 5",
    ),
    "log_config": (
        lambda words: words.to_table(log_config=["retention.ms"]),
        r"log_config must be topic settings by their names.* not \['retention.ms'\]",
    ),
}


@pytest.mark.parametrize(("declare", "told"), WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS)
def test_an_argument_of_another_kind_is_told_where_it_is_given(
    builder: StreamsBuilder, declare: Callable[[KStream[str, str]], object], told: str
) -> None:
    words = builder.stream("in", key_serde=STRING, value_serde=STRING)

    with pytest.raises(TopologyError, match=told):
        declare(words)


@pytest.mark.parametrize("topics", [5, b"abc", object])
def test_topics_that_are_no_names(builder: StreamsBuilder, topics: Any) -> None:
    with pytest.raises(TopologyError, match="stream takes the name of a topic, or a list of names"):
        builder.stream(topics)


class WithoutAnEnd:
    """Processes records, and has nothing else of a processor."""

    def init(self, context: object) -> None:
        """Keep nothing."""

    def process(self, record: object) -> None:
        """Do nothing."""

    transform = process


def test_a_processor_of_no_base_class_is_told_to_have_one(builder: StreamsBuilder) -> None:
    wrong: Any = WithoutAnEnd
    with pytest.raises(TopologyError, match=r"no method close: .* be a subclass of Processor"):
        builder.stream("in").process(wrong)
    with pytest.raises(TopologyError, match=r"close: .* a subclass of ValueTransformerWithKey"):
        builder.table("table").transform_values(wrong)


def test_state_store_that_is_no_builder(builder: StreamsBuilder) -> None:
    wrong: Any = "store"

    with pytest.raises(TopologyError, match="takes a store builder, not 'store'"):
        builder.add_state_store(wrong)


@pytest.mark.parametrize("operation", ["process", "process_values"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Nothing(), r"processor 'work' takes a supplier .* such as Nothing or lambda: Nothing\("),
        (lambda: NOTHING, "supplier of processor 'work' returned the same object twice"),
        (dict, "processor 'work': its supplier returned {}, which has no method process"),
    ],
)
def test_supplier_that_makes_no_processor_for_each_task(
    builder: StreamsBuilder, operation: str, wrong: Any, message: str
) -> None:
    with pytest.raises(TopologyError, match=message):
        getattr(builder.stream("in"), operation)(wrong, name="work")


def test_supplier_is_called_twice_when_it_is_declared_and_not_when_built(
    builder: StreamsBuilder,
) -> None:
    made: list[Nothing] = []

    def supply() -> Nothing:
        made.append(Nothing())
        return made[-1]

    builder.stream("in").process(supply)
    builder.build()

    assert len(made) == 2


def one(value: str) -> Any:
    """Take the value alone."""


def two(key: str, value: str) -> Any:
    """Take both."""


def three(key: str, value: str, so_far: str) -> Any:
    """Take three."""


OTHER: Any = two
THREE: Any = three


@pytest.mark.parametrize(
    "declare",
    [
        lambda s: s.filter(one),
        lambda s: s.filter_not(one),
        lambda s: s.map(one),
        lambda s: s.map_values(one, with_key=True),
        lambda s: s.flat_map(one),
        lambda s: s.flat_map_values(two),
        lambda s: s.select_key(one),
        lambda s: s.peek(one),
        lambda s: s.foreach(one),
        lambda s: s.print(mapper=one),
        lambda s: s.split().branch(one),
        lambda s: s.to(two),
        lambda s: s.group_by(one),
        lambda s: s.group_by_key().reduce(one),
        lambda s: s.group_by_key().aggregate(one, three),
        lambda s: s.group_by_key().aggregate(str, two),
        lambda s: s.group_by_key().aggregate(aggregations.mean(OTHER)),
        lambda s: s.group_by_key().aggregate(aggregations.top_n(3, by=OTHER)),
        lambda s: s.distinct(within_ms=1, by=one),
        lambda s: s.join(s.to_table(), one),
        lambda s: s.left_join(s.to_table(), two, with_key=True),
        lambda s: s.process(one),
        lambda s: s.process_values(one),
        lambda s: s.to_table().filter(one),
        lambda s: s.to_table().filter_not(one),
        lambda s: s.to_table().map_values(two),
        lambda s: s.to_table().to_stream(one),
        lambda s: s.to_table().group_by(one),
        lambda s: s.to_table().group_by(two).reduce(two, one),
        lambda s: s.to_table().group_by(two).aggregate(str, three, two),
    ],
)
def test_function_of_other_parameters(builder: StreamsBuilder, declare: Any) -> None:
    with pytest.raises(TopologyError, match=r"calls its function with \("):
        declare(builder.stream("in"))


def test_function_of_other_parameters_is_shown_with_the_cure(builder: StreamsBuilder) -> None:
    stream: Any = builder.stream("in")

    expected = (
        r"map_values calls its function with \(value\), but two takes \(key, value\); "
        r"with_key=True calls it with \(key, value\)"
    )
    with pytest.raises(TopologyError, match=expected):
        stream.map_values(two)


async def awaited(key: str, value: str) -> Any:
    """Take both, and time."""


@pytest.mark.parametrize(
    ("declare", "called_with"),
    [
        (lambda s: s.flat_map_values(two), "key, value"),
        (lambda s: s.map_values_batch(two), "keys, values"),
        (lambda s: s.map_values_async(awaited), "key, value"),
        (lambda s: s.join(s.to_table(), three), "key, value, row"),
        (lambda s: s.to_table().join(s.to_table(), three), "key, value, other_value"),
        (lambda s: s.to_table().join(s.to_table(), two, foreign_key=two), "key, value"),
    ],
)
def test_the_key_is_offered_by_operations_that_can_give_it(
    builder: StreamsBuilder, declare: Any, called_with: str
) -> None:
    with pytest.raises(TopologyError, match=rf"; with_key=True calls it with \({called_with}\)$"):
        declare(builder.stream("in"))


@pytest.mark.parametrize(
    "declare",
    [
        lambda s: s.group_by_key().aggregate(one, three),
        lambda s: s.group_by_key().reduce(three),
        lambda s: s.group_by_key().aggregate(aggregations.mean(OTHER)),
        lambda s: s.process(one),
        lambda s: s.to_table().transform_values(one),
        lambda s: s.to("out", partitioner=lambda a, b, c, d, e: 0),
        lambda s: StreamsBuilder().stream("in", timestamp_extractor=THREE),
    ],
)
def test_no_key_is_offered_by_operations_that_have_no_such_option(
    builder: StreamsBuilder, declare: Any
) -> None:
    with pytest.raises(TopologyError, match=r"calls its function with \(") as refused:
        declare(builder.stream("in"))

    assert "with_key" not in str(refused.value)


@pytest.mark.parametrize("given", [None, 7])
@pytest.mark.parametrize(
    ("declare", "taken"),
    [
        (lambda s, it: s.filter(it), "key, value"),
        (lambda s, it: s.group_by_key().reduce(it), "so_far, value"),
        (lambda s, it: s.group_by_key().aggregate(it, three), ""),
        (lambda s, it: s.group_by_key().aggregate(str, it), "key, value, so_far"),
        (lambda s, it: s.group_by_key().cogroup(it), "key, value, so_far"),
        (lambda s, it: s.to_table().group_by(two).reduce(it, two), "so_far, value"),
        (lambda s, it: s.to_table().group_by(two).reduce(two, it), "so_far, value"),
        (lambda s, it: s.to_table().group_by(two).aggregate(it, three, three), ""),
        (
            lambda s, it: s.to_table().group_by(two).aggregate(str, it, three),
            "group, value, so_far",
        ),
        (
            lambda s, it: s.to_table().group_by(two).aggregate(str, three, it),
            "group, value, so_far",
        ),
    ],
)
def test_what_is_no_function(builder: StreamsBuilder, declare: Any, taken: str, given: Any) -> None:
    with pytest.raises(TopologyError, match=rf"takes a function of \({taken}\), not {given}"):
        declare(builder.stream("in"), given)


@pytest.mark.parametrize("function", [str, int, max, print, "{}".format])
def test_built_in_functions_are_taken_at_their_word(builder: StreamsBuilder, function: Any) -> None:
    builder.stream("in").map_values(function)


@pytest.mark.parametrize("operation", ["to", "repartition"])
def test_a_partitioner_of_other_parameters_is_refused(
    builder: StreamsBuilder, operation: str
) -> None:
    wrong: Any = lambda key: 0  # noqa: E731 - what is tried
    arguments = ("out",) if operation == "to" else ()

    message = r"partitioner calls .* \(topic, key, value, num_partitions\), but .* takes \(key\)"
    with pytest.raises(TopologyError, match=message):
        getattr(builder.stream("in"), operation)(*arguments, partitioner=wrong)


def test_functions_of_options_with_other_parameters_are_refused(builder: StreamsBuilder) -> None:
    wrong: Any = lambda record: 0  # noqa: E731 - likewise

    with pytest.raises(TopologyError, match=r"extractor calls .* \(record, partition_time\), but"):
        builder.stream("in", timestamp_extractor=wrong)
    with pytest.raises(TopologyError, match=r"other_partitioner calls .* \(topic, key, value"):
        TableJoined(other_partitioner=wrong)


@pytest.mark.parametrize("operation", ["table", "global_table"])
def test_an_option_of_a_store_given_to_the_table_is_told_where_to_go(
    builder: StreamsBuilder, operation: str
) -> None:
    with pytest.raises(TopologyError, match=r"ttl_ms .*: materialized=Materialized\(ttl_ms=...\)"):
        getattr(builder, operation)("in", ttl_ms=5)
