"""Functions that return something else than their operation asks for: told with what they returned.

The error names the operation and the line that declares it: the traceback has no line of the user.
"""

# mypy: disable-error-code="arg-type, return-value, list-item"

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from pystreams import (
    FixedKeyProcessor,
    KStream,
    KTable,
    ProcessingError,
    Processor,
    Retry,
    StreamsBuilder,
)
from pystreams.serdes import STRING

Declare = Callable[[StreamsBuilder], object]


def words_of(builder: StreamsBuilder) -> KStream[str, str]:
    return builder.stream("words", key_serde=STRING, value_serde=STRING)


def on_words(operation: Callable[[KStream[str, str]], object]) -> Declare:
    return lambda builder: operation(words_of(builder))


def grouped_table(returned: object) -> Declare:
    def declare(builder: StreamsBuilder) -> object:
        table = builder.table("words", key_serde=STRING, value_serde=STRING)
        return table.group_by(lambda _key, _value: returned).count()

    return declare


def error_of(builder: StreamsBuilder, drive: Any, declare: Declare) -> str:
    """Return what is told of the record ("a", "xyz")."""
    declare(builder)
    with pytest.raises(ProcessingError) as caught:
        drive().create_input_topic("words", STRING, STRING).pipe_input("a", "xyz")
    return str(caught.value)


RETURNED = {
    "map, a number": (
        on_words(lambda words: words.map(lambda _key, _value: 7)),
        "map",
        "must return a pair (key, value), and returned 7 of type int",
    ),
    "map, three": (
        on_words(lambda words: words.map(lambda _key, value: tuple(value))),
        "map",
        "must return a pair (key, value), and returned ('x', 'y', 'z') of type tuple",
    ),
    "map, nothing": (
        on_words(lambda words: words.map(lambda _key, _value: None)),
        "map",
        "must return a pair (key, value), and returned None of type NoneType",
    ),
    "map, tried again": (
        on_words(lambda words: words.map(lambda _k, _v: 7, retry=Retry(on=OSError, max=1))),
        "map",
        "must return a pair (key, value), and returned 7 of type int",
    ),
    "flat_map, nothing": (
        on_words(lambda words: words.flat_map(lambda _key, _value: None)),
        "flat_map",
        "must return an iterable of pairs (key, value), and returned None of type NoneType",
    ),
    "flat_map, a pair": (
        on_words(lambda words: words.flat_map(lambda key, value: (key, value))),
        "flat_map",
        "must return an iterable of pairs (key, value), and returned 'a' of type str among them",
    ),
    "flat_map, None among pairs": (
        on_words(lambda words: words.flat_map(lambda key, value: [(key, value), None])),
        "flat_map",
        "and returned None of type NoneType among them",
    ),
    "flat_map, a generator of others": (
        on_words(lambda words: words.flat_map(lambda _key, value: iter([(value,)]))),
        "flat_map",
        "of type list_iterator: not enough values to unpack (expected 2, got 1)",
    ),
    "flat_map_values": (
        on_words(lambda words: words.flat_map_values(len)),
        "flat_map_values",
        "must return an iterable of values, and returned 3 of type int",
    ),
    "map_values_batch": (
        on_words(lambda words: words.map_values_batch(len)),
        "map_values_batch",
        "one for each that it got, in their order, and returned 1 of type int",
    ),
    "map, two letters": (
        on_words(lambda words: words.map(lambda _key, _value: "DE")),
        "map",
        "must return a pair (key, value), and returned 'DE' of type str",
    ),
    "map, two bytes": (
        on_words(lambda words: words.map(lambda _key, _value: b"DE")),
        "map",
        "must return a pair (key, value), and returned b'DE' of type bytes",
    ),
    "map, two fields": (
        on_words(lambda words: words.map(lambda key, value: {"id": key, "total": value})),
        "map",
        "must return a pair (key, value), and returned {'id': 'a', 'total': 'xyz'} of type dict",
    ),
    "map, two in no order": (
        on_words(lambda words: words.map(lambda _key, _value: {"a", "b"})),
        "map",
        "must return a pair (key, value), and returned {'a', 'b'} of type set",
    ),
    "flat_map, a pair of two letters each": (
        on_words(lambda words: words.flat_map(lambda _key, _value: ("k1", "DE"))),
        "flat_map",
        "must return an iterable of pairs (key, value), and returned 'k1' of type str among them",
    ),
    "flat_map, a generator of two letters each": (
        on_words(lambda words: words.flat_map(lambda _key, _value: iter(["k1", "DE"]))),
        "flat_map",
        "of type list_iterator: 'k1' of type str is no pair",
    ),
    "group_by of a table, the group alone": (
        grouped_table("DE"),
        "group_by",
        "must return a pair (key of the group, value), and returned 'DE' of type str",
    ),
    "group_by of a table, two fields": (
        grouped_table({"group": 1, "value": 2}),
        "group_by",
        "must return a pair (key of the group, value), and returned {'group': 1, 'value': 2} of",
    ),
    "group_by of a table": (
        grouped_table(7),
        "group_by",
        "must return a pair (key of the group, value), and returned 7 of type int",
    ),
}


@pytest.mark.parametrize("name", RETURNED)
def test_what_was_returned_is_told_with_the_operation_and_the_users_line(
    builder: StreamsBuilder, drive: Any, name: str
) -> None:
    declare, operation, told = RETURNED[name]

    error = error_of(builder, drive, declare)

    assert told in error
    assert f" ({operation} at " in error
    assert "test_wrong_results.py:" in error


@pytest.mark.parametrize("returned", [{"x"}, frozenset({"x"}), {"x": 1}, "x", b"x"])
def test_what_has_no_order_and_text_are_no_results_of_a_batch(
    builder: StreamsBuilder, drive: Any, returned: Any
) -> None:
    error = error_of(
        builder, drive, on_words(lambda words: words.map_values_batch(lambda _: returned))
    )

    assert f"one for each that it got, in their order, and returned {returned!r} of type" in error
    assert " (map_values_batch at tests/topology/test_wrong_results.py:" in error


class Count(NamedTuple):
    """A pair by another name."""

    word: str
    letters: str


@pytest.mark.parametrize("pair", [("a", "b"), ["a", "b"], Count("a", "b")])
def test_any_two_in_order_are_a_pair(builder: StreamsBuilder, drive: Any, pair: Any) -> None:
    words = words_of(builder)
    words.map(lambda _key, _value: pair).to("mapped", key_serde=STRING, value_serde=STRING)
    words.map(lambda _key, _value: iter(pair)).to("taken", key_serde=STRING, value_serde=STRING)
    words.flat_map(lambda _key, _value: [pair]).to("flat", key_serde=STRING, value_serde=STRING)
    driver = drive()

    driver.create_input_topic("words", STRING, STRING).pipe_input("k", "v")

    for topic in ("mapped", "taken", "flat"):
        found = driver.create_output_topic(topic, STRING, STRING).read_key_values()
        assert found == [("a", "b")]


def test_what_a_function_raises_stays_its_own_error(builder: StreamsBuilder, drive: Any) -> None:
    def letters(key: str, value: str) -> Iterator[tuple[str, str]]:
        yield key, value
        raise ValueError("no such letter")

    error = error_of(builder, drive, on_words(lambda words: words.flat_map(letters)))

    assert "raised ValueError" in error
    assert "no such letter" in error
    assert "must return" not in error


def test_long_results_are_cut_short(builder: StreamsBuilder, drive: Any) -> None:
    declare = on_words(lambda words: words.map(lambda _key, _value: "long" * 1_000))

    assert len(error_of(builder, drive, declare)) < 600


def test_a_built_in_function_that_fails_is_told_with_the_line_that_gives_it(
    builder: StreamsBuilder, drive: Any
) -> None:
    error = error_of(builder, drive, on_words(lambda words: words.map_values(int)))

    assert "(map_values at " in error
    assert "invalid literal for int()" in error


class Undecided:
    """A result that is neither true nor false, as an array of numpy is."""

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


@pytest.mark.parametrize("operation", ["filter", "filter_not"])
def test_a_predicate_whose_result_is_neither_true_nor_false_is_an_error_of_the_record(
    builder: StreamsBuilder, drive: Any, operation: str
) -> None:
    getattr(words_of(builder), operation)(lambda _key, _value: Undecided()).to("out")
    driver = drive(processing_exception_handler="continue")

    driver.create_input_topic("words", STRING, STRING).pipe_input("a", "x")

    assert driver.produced_topic_names() == set()


async def answer_of(*_: Any) -> bool:
    return False


def wrapping(*given: Any) -> Any:
    return answer_of(*given)


functools.update_wrapper(wrapping, answer_of)


class Calls(Processor[str, str, str, str]):
    def process(self, record: Any) -> None:
        return answer_of(record)


class CallsWithFixedKey(FixedKeyProcessor[str, str, str]):
    def process(self, record: Any) -> None:
        return answer_of(record)


def on_table(operation: Callable[[KTable[str, str]], object]) -> Declare:
    return lambda builder: operation(builder.table("words", key_serde=STRING, value_serde=STRING))


COROUTINES: dict[str, tuple[str, Declare]] = {
    "filter": ("filter", on_words(lambda words: words.filter(lambda _, v: answer_of(v)))),
    "filter, wrapped": ("filter", on_words(lambda words: words.filter(wrapping))),
    "filter_not": ("filter_not", on_words(lambda words: words.filter_not(wrapping))),
    "branch": (
        "split",
        on_words(lambda words: words.split().branch(wrapping).no_default_branch()),
    ),
    "peek": ("peek", on_words(lambda words: words.peek(wrapping))),
    "foreach": ("foreach", on_words(lambda words: words.foreach(wrapping))),
    "foreach, tried again": (
        "foreach",
        on_words(lambda words: words.foreach(wrapping, retry=Retry(on=OSError, max=1))),
    ),
    "map": ("map", on_words(lambda words: words.map(wrapping))),
    "map_values": ("map_values", on_words(lambda words: words.map_values(wrapping))),
    "map_values with the key": (
        "map_values",
        on_words(lambda words: words.map_values(wrapping, with_key=True)),
    ),
    "flat_map_values": ("flat_map_values", on_words(lambda words: words.flat_map_values(wrapping))),
    "map_values_batch": (
        "map_values_batch",
        on_words(lambda words: words.map_values_batch(wrapping)),
    ),
    "print": ("print", on_words(lambda words: words.print(mapper=wrapping))),
    "print of one that was made before": (
        "print",
        on_words(lambda words: words.map(lambda key, v: (key, answer_of(v))).print()),
    ),
    "process": ("process", on_words(lambda words: words.process(Calls))),
    "process_values": (
        "process_values",
        on_words(lambda words: words.process_values(CallsWithFixedKey)),
    ),
    "filter of a table": ("filter", on_table(lambda table: table.filter(wrapping))),
    "filter_not of a table": ("filter_not", on_table(lambda table: table.filter_not(wrapping))),
    "map_values of a table": ("map_values", on_table(lambda table: table.map_values(wrapping))),
    "map_values into a store": (
        "map_values",
        on_table(lambda table: table.map_values(wrapping, name="s", value_serde=STRING)),
    ),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", COROUTINES)
def test_a_coroutine_that_nobody_would_await_is_an_error_of_the_record(
    builder: StreamsBuilder, drive: Any, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    operation, declare = COROUTINES[name]

    error = error_of(builder, drive, declare)

    assert " a coroutine of answer_of, which nobody would await" in error
    assert f" ({operation} at tests/topology/test_wrong_results.py:" in error
    assert capsys.readouterr().out == ""


def test_a_function_that_awaits_what_it_wraps_is_taken(builder: StreamsBuilder, drive: Any) -> None:
    @functools.wraps(answer_of)
    def awaiting(*given: Any) -> bool:
        return asyncio.run(answer_of(*given))

    words_of(builder).filter_not(awaiting).to("out", key_serde=STRING, value_serde=STRING)
    driver = drive()

    driver.create_input_topic("words", STRING, STRING).pipe_input("a", "x")

    assert driver.create_output_topic("out", STRING, STRING).read_values() == ["x"]


@pytest.mark.parametrize(("result", "kept"), [("yes", True), ("", False), (1, True), (None, False)])
def test_what_counts_as_true_or_false_decides(
    builder: StreamsBuilder, drive: Any, result: object, kept: bool
) -> None:
    words = words_of(builder)
    text = {"key_serde": STRING, "value_serde": STRING}
    decide: Any = lambda _key, _value: result  # noqa: E731
    words.filter(decide).to("filter", **text)
    words.filter_not(decide).to("filter_not", **text)
    words.split().branch(decide, chain=lambda taken: taken.to("branch", **text))
    driver = drive()

    driver.create_input_topic("words", STRING, STRING).pipe_input("a", "x")

    expected = {"filter", "branch"} if kept else {"filter_not"}
    assert driver.produced_topic_names() == expected
