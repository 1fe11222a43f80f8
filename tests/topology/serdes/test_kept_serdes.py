"""Which serdes stay after operations that make new keys and values."""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from pystreams import (
    CogroupedKStream,
    FixedKeyProcessor,
    JoinWindows,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Processor,
    ProcessorContext,
    Record,
    Serde,
    SerializationError,
    SessionWindowedCogroupedKStream,
    SessionWindowedKStream,
    SessionWindows,
    StreamsBuilder,
    StreamsError,
    TimeWindowedCogroupedKStream,
    TimeWindowedKStream,
    TimeWindows,
    TopologyError,
    ValueTransformerWithKey,
    serde_of,
    serdes,
)
from pystreams.registry import SchemaRegistry
from pystreams.testing import TopologyTestDriver

Stream = KStream[Any, Any]
LINES = r"\S*test_kept_serdes\.py:\d+"


@dataclass(frozen=True)
class Customer:
    name: str


class Money(int):
    pass


CUSTOMER = serdes.json_of(Customer)
MONEY = serde_of(lambda money: b"%d" % money, Money, "money", value_type=Money)


def text(key: Any, value: Any) -> str:
    return "new"


def no_text(key: Any, value: Any) -> str | None:
    return None


def number(key: Any, value: Any) -> int:
    return 7


def truth(key: Any, value: Any) -> bool:
    return True


def anything(key: Any, value: Any) -> Any:
    return "new"


def customer(key: Any, value: Any) -> Customer:
    return Customer("new")


def unresolved(key: Any, value: Any) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
    return "new"


class Selector:
    def __call__(self, key: Any, value: Any) -> str:
        return "new"


def of_three(prefix: str, key: Any, value: Any) -> str:
    return prefix


def missing(key_serde: Serde[Any], operation: Callable[[Stream], Stream]) -> list[str]:
    """Return what has no serde behind an operation that is written to a topic: keys, values."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=key_serde, value_serde=serdes.LONG)
    operation(stream).to("out")
    try:
        with TopologyTestDriver(builder.build()):
            return []
    except TopologyError as error:
        return [part for part in ("key", "value") if f"has no {part} serde" in str(error)]


@pytest.mark.parametrize(
    ("serde", "selector", "kept"),
    [
        (serdes.STRING, text, True),
        (serdes.STRING, no_text, True),
        (serdes.STRING, Selector(), True),
        (serdes.STRING, functools.partial(of_three, "new"), True),
        (serdes.LONG, number, True),
        (serdes.INT, number, True),
        (serdes.LONG, truth, False),
        (serdes.STRING, number, False),
        (serdes.STRING, anything, False),
        (serdes.STRING, unresolved, False),
        (serdes.STRING, lambda key, _: key, False),
        (serdes.STRING, str.__add__, False),
        (serdes.JSON, text, False),
        (serdes.JSON, anything, False),
        (CUSTOMER, customer, True),
        (CUSTOMER, text, False),
        (serdes.UUID, lambda *_: uuid.UUID(int=1), False),
        (serde_of(str.encode, bytes.decode), text, False),
        (MONEY, number, False),
    ],
)
def test_a_key_serde_stays_if_it_and_the_function_say_the_same_type(
    serde: Serde[Any], selector: Callable[[Any, Any], Any], kept: bool
) -> None:
    assert (missing(serde, lambda stream: stream.select_key(selector)) == []) is kept


def pair(key: Any, value: Any) -> tuple[str, int]:
    return "new", 1


def other_value(key: Any, value: Any) -> tuple[str, float]:
    return "new", 1.5


def other_key(key: Any, value: Any) -> tuple[bytes, int]:
    return b"new", 1


def pairs(key: Any, value: Any) -> list[tuple[str, int]]:
    return [("new", 1)]


def generated(key: Any, value: Any) -> Iterator[tuple[str, int]]:
    yield "new", 1


def loose(key: Any, value: Any) -> Iterable[Any]:
    return [("new", 1)]


def three(key: Any, value: Any) -> Any:
    return ("new", 1)


@pytest.mark.parametrize(
    ("operation", "lost"),
    [
        (lambda stream: stream.map(pair), []),
        (lambda stream: stream.map(other_value), ["value"]),
        (lambda stream: stream.map(other_key), ["key"]),
        (lambda stream: stream.map(three), ["key", "value"]),
        (lambda stream: stream.flat_map(pairs), []),
        (lambda stream: stream.flat_map(generated), []),
        (lambda stream: stream.flat_map(loose), ["key", "value"]),
        (lambda stream: stream.map(three, key_serde=serdes.STRING), ["value"]),
        (
            lambda stream: stream.flat_map(loose, key_serde=serdes.STRING, value_serde=serdes.LONG),
            [],
        ),
        (lambda stream: stream.select_key(anything, key_serde=serdes.STRING), []),
    ],
)
def test_pairs_keep_the_serdes_whose_types_they_are(
    operation: Callable[[Stream], Stream], lost: list[str]
) -> None:
    assert missing(serdes.STRING, operation) == lost


def test_what_is_kept_writes_the_repartition_topic_and_the_store() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.LONG)
    counts = stream.group_by(text).count(name="counts")
    counts.to_stream(text).to("out")

    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", serdes.STRING, serdes.LONG).pipe_input("a", 1)
        out = driver.create_output_topic("out", serdes.STRING, serdes.LONG)
        assert out.read_key_values() == [("new", 1)]


def test_a_tables_groups_keep_the_serdes_too() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", key_serde=serdes.STRING, value_serde=serdes.LONG)
    table.group_by(pair).count().to_stream().to("out")

    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", serdes.STRING, serdes.LONG).pipe_input("a", 1)
        out = driver.create_output_topic("out", serdes.STRING, serdes.LONG)
        assert out.read_key_values() == [("new", 1)]


def test_a_tables_new_keys_may_be_given_their_serde() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", key_serde=serdes.STRING, value_serde=serdes.LONG)
    table.to_stream(lambda *_: 7, key_serde=serdes.LONG).to("out")

    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", serdes.STRING, serdes.LONG).pipe_input("a", 1)
        out = driver.create_output_topic("out", serdes.LONG, serdes.LONG)
        assert out.read_key_values() == [(7, 1)]
    to_stream: Any = table.to_stream
    with pytest.raises(TopologyError, match="a key_serde with a key_mapper only"):
        to_stream(key_serde=serdes.LONG)


def test_a_serde_that_is_given_is_taken_before_the_kept_one() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.LONG, value_serde=serdes.LONG)
    stream.select_key(number, key_serde=serdes.INT).to("out")

    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", serdes.LONG, serdes.LONG).pipe_input(1, 1)
        assert driver.produced_raw("out")[0][0] == b"\x00\x00\x00\x07"


def test_a_function_that_returns_another_type_than_it_says_writes_nothing() -> None:
    def wrong(key: str, value: int) -> str:
        return value  # type: ignore[return-value]

    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.LONG)
    stream.select_key(wrong).to("out")

    with TopologyTestDriver(builder.build()) as driver:
        values = driver.create_input_topic("in", serdes.STRING, serdes.LONG)
        with pytest.raises(SerializationError, match=rf"to at {LINES}\) can't write"):
            values.pipe_input("a", 1)
        assert driver.produced_raw("out") == []


@pytest.mark.parametrize(
    ("operation", "method"),
    [
        (lambda stream: stream.to("out", value_serde=serdes.STRING), "to"),
        (lambda stream: stream.repartition(value_serde=serdes.STRING).to("out"), "repartition"),
        (lambda stream: stream.to_table(name="t", value_serde=serdes.STRING), "to_table"),
        (
            lambda stream: stream.group_by_key().reduce(
                lambda _, new: new, name="r", value_serde=serdes.STRING
            ),
            "reduce",
        ),
    ],
)
def test_a_serde_of_the_wrong_type_is_told_with_the_users_line(
    operation: Callable[[Stream], object], method: str
) -> None:
    builder = StreamsBuilder()
    operation(builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.LONG))

    with TopologyTestDriver(builder.build()) as driver:
        values = driver.create_input_topic("in", serdes.STRING, serdes.LONG)
        with pytest.raises(StreamsError, match=rf"\({method} at {LINES}\)"):
            values.pipe_input("a", 1)


# ---------------------------------------------------------------------- new values, everywhere


def plus(value: int) -> int:
    return value + 1


def both(value: int, other: int) -> int:
    return value + other


def maybe(value: int, other: int | None) -> int | None:
    return other


def adding(key: str, value: int, so_far: int) -> int:
    return so_far + value


def taking(key: str, value: int, so_far: int) -> int:
    return so_far - value


def all_plus(values: list[int]) -> list[int]:
    return [value + 1 for value in values]


def some(value: int) -> Iterator[int]:
    yield value


def two_of_a_kind(value: int) -> tuple[int, int]:
    return value, value


async def answer(value: int) -> int:
    return value + 1


def answered(value: int) -> Awaitable[int]:
    return answer(value)


def untyped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as one that does not say what it returns."""
    if inspect.iscoroutinefunction(function):

        async def told_later(*arguments: Any) -> Any:
            return await function(*arguments)

        made: Any = told_later
    else:

        def told(*arguments: Any) -> Any:
            return function(*arguments)

        made = told
    made.__signature__ = inspect.signature(function)
    return cast("Callable[..., Any]", made)


class Increases(FixedKeyProcessor[str, int, int]):
    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context

    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record.with_value(record.value + 1))


class Moves(Processor[str, int, str, int]):
    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context

    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record)


class MovesMore(Moves):
    """Says it by its base."""


class Transforms(ValueTransformerWithKey[str, int, int]):
    def transform(self, key: str, value: int | None) -> int | None:
        return value


class TransformsUnsaid:
    """Has no base of ours, but an annotation."""

    def init(self, context: Any) -> None: ...

    def close(self) -> None: ...

    def transform(self, key: str, value: int | None) -> int | None:
        return value


LONGS: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}
TEXTS: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
JOINED = JoinWindows.of_time_difference_with_no_grace(10)
WINDOWS = TimeWindows.of_size_with_no_grace(10)
SESSIONS = SessionWindows.of_inactivity_gap_with_no_grace(10)

Declare = Callable[[StreamsBuilder, Callable[[Any], Any]], Any]
"""Declares an operation with functions as another function leaves them; returns what it makes."""


def stream_of(builder: StreamsBuilder, topic: str = "in") -> KStream[str, int]:
    return builder.stream(topic, **LONGS)


def table_of(builder: StreamsBuilder, topic: str = "rows") -> KTable[str, int]:
    return builder.table(topic, **LONGS)


def grouped(builder: StreamsBuilder) -> KGroupedStream[str, int]:
    return stream_of(builder).group_by_key()


def joined_with_itself(stream: KStream[str, int], joiner: Any) -> KStream[str, int]:
    return stream.join(stream, joiner, JOINED)


NEW_VALUES: dict[str, Declare] = {
    "KStream.map_values": lambda b, f: stream_of(b).map_values(f(plus)),
    "KStream.map_values, with_key": lambda b, f: stream_of(b).map_values(f(number), with_key=True),
    "KStream.map_values_batch": lambda b, f: stream_of(b).map_values_batch(f(all_plus)),
    "KStream.map_values_async": lambda b, f: stream_of(b).map_values_async(f(answer)),
    "KStream.map_values_async, awaitable": lambda b, f: stream_of(b).map_values_async(f(answered)),
    "KStream.flat_map_values": lambda b, f: stream_of(b).flat_map_values(f(some)),
    "KStream.flat_map_values, tuple": lambda b, f: stream_of(b).flat_map_values(f(two_of_a_kind)),
    "KStream.join, table": lambda b, f: stream_of(b).join(table_of(b), f(both)),
    "KStream.left_join, table": lambda b, f: stream_of(b).left_join(table_of(b), f(maybe)),
    "KStream.join, table's type": lambda b, f: b.stream("texts", **TEXTS).join(
        table_of(b), f(both)
    ),
    "KStream.join, stream": lambda b, f: stream_of(b).join(stream_of(b, "on"), f(both), JOINED),
    "KStream.outer_join, other's type": lambda b, f: b.stream("texts", **TEXTS).outer_join(
        stream_of(b), f(maybe), JOINED
    ),
    "KStream.join, itself": lambda b, f: joined_with_itself(stream_of(b), f(both)),
    "KStream.join, global table": lambda b, f: stream_of(b).join(
        b.global_table("g", **LONGS), lambda key, _: key, f(both)
    ),
    "KStream.left_join, global table's type": lambda b, f: b.stream("texts", **TEXTS).left_join(
        b.global_table("g", **LONGS), lambda key, _: key, f(maybe)
    ),
    "KGroupedStream.aggregate": lambda b, f: grouped(b).aggregate(int, f(adding)),
    "KGroupedTable.aggregate": lambda b, f: (
        table_of(b).group_by(pair).aggregate(int, f(adding), f(taking))
    ),
    "TimeWindowedKStream.aggregate": lambda b, f: (
        grouped(b).windowed_by(WINDOWS).aggregate(int, f(adding))
    ),
    "SessionWindowedKStream.aggregate": lambda b, f: (
        grouped(b).windowed_by(SESSIONS).aggregate(int, f(adding), lambda _, one, two: one + two)
    ),
    "CogroupedKStream.aggregate": lambda b, f: (
        b.stream("texts", **TEXTS)
        .group_by_key()
        .cogroup(lambda _key, _text, so_far: so_far)
        .cogroup(grouped(b), f(adding))
        .aggregate(int)
    ),
    "TimeWindowedCogroupedKStream.aggregate": lambda b, f: (
        grouped(b).cogroup(f(adding)).windowed_by(WINDOWS).aggregate(int)
    ),
    "SessionWindowedCogroupedKStream.aggregate": lambda b, f: (
        grouped(b)
        .cogroup(f(adding))
        .windowed_by(SESSIONS)
        .aggregate(int, lambda _, one, two: one + two)
    ),
    "KTable.map_values": lambda b, f: table_of(b).map_values(f(plus)),
    "KTable.map_values, kept": lambda b, f: table_of(b).map_values(f(plus), name="kept"),
    "KTable.join": lambda b, f: table_of(b).join(table_of(b, "others"), f(both)),
    "KTable.join, kept": lambda b, f: table_of(b).join(table_of(b, "others"), f(both), name="j"),
    "KTable.outer_join, other's type": lambda b, f: b.table("texts", **TEXTS).outer_join(
        table_of(b), f(maybe)
    ),
    "KTable.join, foreign key": lambda b, f: table_of(b).join(
        table_of(b, "others"), f(both), foreign_key=str
    ),
    "KTable.left_join, foreign key, other's type": lambda b, f: b.table("texts", **TEXTS).left_join(
        table_of(b), f(maybe), foreign_key=lambda text: text
    ),
}


def is_complete(declare: Declare, leave: Callable[[Any], Any]) -> bool:
    """Return whether all serdes are known where an operation's results are written."""
    builder = StreamsBuilder()
    made = declare(builder, leave)
    (made.to_stream() if isinstance(made, KTable) else made).to("out")
    try:
        TopologyTestDriver(builder.build()).close()
    except TopologyError as error:
        return "has no value serde" not in str(error)
    return True


@pytest.mark.parametrize("operation", NEW_VALUES)
def test_a_value_serde_stays_if_the_function_says_its_type(operation: str) -> None:
    assert is_complete(NEW_VALUES[operation], lambda function: function)
    assert not is_complete(NEW_VALUES[operation], untyped)


def test_no_operation_that_makes_new_values_is_left_out_above() -> None:
    """Operations that keep values, or fold them to one of the same type, are no such."""
    tried = {operation.partition(",")[0] for operation in NEW_VALUES}
    pairs = {"KStream.map", "KStream.flat_map", "KTable.group_by", "KStream.left_join"}
    elsewhere = {"KStream.process", "KStream.process_values", "KTable.transform_values"}
    kinds = (
        KStream,
        KTable,
        KGroupedStream,
        KGroupedTable,
        CogroupedKStream,
        TimeWindowedKStream,
        SessionWindowedKStream,
        TimeWindowedCogroupedKStream,
        SessionWindowedCogroupedKStream,
    )
    kept = {
        "filter", "filter_not", "select_key", "peek", "foreach", "print", "distinct", "merge",
        "split", "group_by_key", "repartition", "to", "to_table", "to_stream", "suppress", "count",
        "reduce", "windowed_by", "cogroup", "emit_strategy", "queryable_store_name",
    }  # fmt: skip
    public = {
        f"{kind.__name__}.{name}"
        for kind in kinds
        for name in vars(kind)
        if not name.startswith("_") and name not in kept
    }

    assert public - pairs - elsewhere - {"KStream.group_by"} == tried - pairs


@pytest.mark.parametrize(
    ("declare", "complete"),
    [
        (lambda b: stream_of(b).process_values(Increases), True),
        (lambda b: stream_of(b).process_values(functools.partial(Increases)), True),
        (lambda b: b.stream("in", **TEXTS).process_values(Increases), False),
        (lambda b: stream_of(b).process(Moves), True),
        (lambda b: stream_of(b).process(MovesMore), True),
        (lambda b: b.stream("in", **TEXTS).process(Moves), False),
        (lambda b: table_of(b).transform_values(Transforms), True),
        (lambda b: table_of(b).transform_values(Transforms, name="kept"), True),
        (lambda b: table_of(b).transform_values(cast("Any", TransformsUnsaid)), True),
        (lambda b: b.table("rows", **TEXTS).transform_values(Transforms), False),
    ],
)
def test_a_processors_class_says_what_it_forwards(
    declare: Callable[[StreamsBuilder], Any], complete: bool
) -> None:
    assert is_complete(lambda builder, _: declare(builder), untyped) is complete


def test_the_serde_of_what_a_join_is_called_on_is_asked_first() -> None:
    builder = StreamsBuilder()
    ints = builder.table("ints", key_serde=serdes.STRING, value_serde=serdes.INT)
    stream_of(builder).join(ints, both).to("out")

    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("ints", serdes.STRING, serdes.INT).pipe_input("a", 1)
        stream_in = driver.create_input_topic("in", serdes.STRING, serdes.LONG)
        stream_in.pipe_input("a", 2)
        assert driver.create_output_topic("out", serdes.STRING, serdes.LONG).read_key_values() == [
            ("a", 3)
        ]


def test_a_serde_that_is_kept_is_taken_before_the_configured_default() -> None:
    builder = StreamsBuilder()
    stream_of(builder).map_values(plus).to("out")
    stream_of(builder, "on").map_values(untyped(plus)).to("default")

    with TopologyTestDriver(builder.build(), {"default.value.serde": "json"}) as driver:
        driver.create_input_topic("in", serdes.STRING, serdes.LONG).pipe_input("a", 1)
        driver.create_input_topic("on", serdes.STRING, serdes.LONG).pipe_input("a", 1)
        assert driver.produced_raw("out")[0][1] == bytes(7) + b"\x02"
        assert driver.produced_raw("default")[0][1] == b"2"


def test_streams_that_are_merged_keep_serdes_that_are_equal() -> None:
    registry = SchemaRegistry({"url": "mock://"})
    builder = StreamsBuilder()
    one, other = (
        builder.stream(topic, key_serde=serdes.STRING, value_serde=registry.avro(schema='"long"'))
        for topic in ("in", "on")
    )
    one.merge(other).to("out")

    TopologyTestDriver(builder.build()).close()
