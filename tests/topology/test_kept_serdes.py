"""Which serdes stay after operations that make new keys and values."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pystreams import (
    KStream,
    Serde,
    SerializationError,
    StreamsBuilder,
    StreamsError,
    TopologyError,
    serde_of,
    serdes,
)
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
