"""Operations that handle one record at a time."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

import io
from typing import Any

import pytest

from pystreams import KStream, ProcessingError, StreamsBuilder
from pystreams.errors import FatalStreamsError, InternalError
from pystreams.serdes import STRING


@pytest.fixture
def words(builder: StreamsBuilder) -> KStream[str, str]:
    return builder.stream("words", key_serde=STRING, value_serde=STRING)


def run(drive: Any, *records: tuple[str | None, str | None], **config: Any) -> list[Any]:
    """Pipe records into "words" and return what came out at "out"."""
    driver = drive(**config)
    source = driver.create_input_topic("words", STRING, STRING)
    for key, value in records:
        source.pipe_input(key, value)
    key_values: list[Any] = driver.create_output_topic("out", STRING, STRING).read_key_values()
    return key_values


def test_filter_keeps_what_the_predicate_says(words: KStream[str, str], drive: Any) -> None:
    words.filter(lambda key, value: key == "a" and value == "x").to("out")

    assert run(drive, ("a", "x"), ("a", "y"), ("b", "x")) == [("a", "x")]


def test_filter_not_keeps_the_others(words: KStream[str, str], drive: Any) -> None:
    words.filter_not(lambda key, value: value == "x").to("out")

    assert run(drive, ("a", "x"), ("a", "y")) == [("a", "y")]


def test_map_replaces_key_and_value(words: KStream[str, str], drive: Any) -> None:
    words.map(lambda key, value: (value, key)).to("out")

    assert run(drive, ("a", "x")) == [("x", "a")]


def test_map_values_calls_its_mapper_with_the_value(words: KStream[str, str], drive: Any) -> None:
    words.map_values(str.upper).to("out")

    assert run(drive, ("a", "x")) == [("a", "X")]


def test_map_values_with_key_calls_its_mapper_with_both(
    words: KStream[str, str], drive: Any
) -> None:
    words.map_values(lambda key, value: key + value, with_key=True).to("out")

    assert run(drive, ("a", "x")) == [("a", "ax")]


def test_mappers_see_null_keys_and_null_values(words: KStream[str, str], drive: Any) -> None:
    words.map(lambda key, value: (str(key), str(value))).to("out")

    assert run(drive, (None, None)) == [("None", "None")]


def test_flat_map_gives_any_number_of_records(words: KStream[str, str], drive: Any) -> None:
    words.flat_map(lambda key, value: ((letter, key) for letter in value)).to("out")

    assert run(drive, ("a", "xy"), ("b", "")) == [("x", "a"), ("y", "a")]


def test_flat_map_values_keeps_the_key(words: KStream[str, str], drive: Any) -> None:
    words.flat_map_values(str.split).to("out")

    assert run(drive, ("a", "x y")) == [("a", "x"), ("a", "y")]


def test_flat_map_values_with_key_calls_its_mapper_with_both(
    words: KStream[str, str], drive: Any
) -> None:
    words.flat_map_values(lambda key, value: [key, value], with_key=True).to("out")

    assert run(drive, ("a", "x")) == [("a", "a"), ("a", "x")]


def test_flat_map_that_fails_in_the_middle_forwards_nothing(
    words: KStream[str, str], drive: Any
) -> None:
    def letters(key: str, value: str) -> Any:
        yield key, value
        raise ValueError(value)

    words.flat_map(letters).to("out")

    assert run(drive, ("a", "x"), processing_exception_handler="continue") == []


def test_select_key_replaces_the_key(words: KStream[str, str], drive: Any) -> None:
    words.select_key(lambda key, value: value + key).to("out")

    assert run(drive, ("a", "x")) == [("xa", "x")]


def test_peek_sees_records_and_hands_them_on(words: KStream[str, str], drive: Any) -> None:
    seen: list[Any] = []
    words.peek(lambda key, value: seen.append((key, value))).to("out")

    assert run(drive, ("a", "x")) == seen == [("a", "x")]


def test_foreach_ends_the_stream(words: KStream[str, str], drive: Any) -> None:
    seen: list[Any] = []
    words.foreach(lambda key, value: seen.append((key, value)))

    run(drive, ("a", "x"))

    assert seen == [("a", "x")]


def test_print_writes_the_label_the_key_and_the_value(words: KStream[str, str], drive: Any) -> None:
    file = io.StringIO()
    words.print(label="words", file=file)
    words.print(file=file, mapper=lambda key, value: f"{value}!")

    run(drive, ("a", "x"), ("b", None))

    name = "KSTREAM-SOURCE-0000000000"
    expected = ["[words]: a, x", f"[{name}]: x!", "[words]: b, None", f"[{name}]: None!"]
    assert file.getvalue().splitlines() == expected


def test_print_writes_to_the_standard_output_of_the_moment(
    words: KStream[str, str], drive: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    words.print(label="words")

    run(drive, ("a", "x"))

    assert capsys.readouterr().out == "[words]: a, x\n"


def test_print_that_can_not_write_is_no_bug_of_pystreams(
    words: KStream[str, str], drive: Any
) -> None:
    closed = io.StringIO()
    words.print(label="words", file=closed)
    closed.close()

    with pytest.raises(FatalStreamsError, match=r"print can't write to .*closed file") as caught:
        run(drive, ("a", "x"))
    assert not isinstance(caught.value, InternalError)


def test_merge_returns_the_records_of_both_streams(words: KStream[str, str], drive: Any) -> None:
    words.merge(words.map_values(str.upper)).to("out")

    assert sorted(run(drive, ("a", "x"))) == [("a", "X"), ("a", "x")]


def test_timestamp_and_headers_pass_through_operations(
    words: KStream[str, str], drive: Any
) -> None:
    words.map_values(str.upper).filter(lambda key, value: True).to("out")
    driver = drive()

    driver.pipe_raw("words", b"a", b"x", 42, (("trace", b"1"),))

    assert driver.produced_raw("out") == [(b"a", b"X", 42, (("trace", b"1"),))]


def test_the_topic_can_be_chosen_by_record(words: KStream[str, str], drive: Any) -> None:
    words.to(lambda key, value, record: f"out-{value}-{record.timestamp}")
    driver = drive()

    driver.create_input_topic("words", STRING, STRING).pipe_input("a", "x", 7)

    assert driver.produced_topic_names() == {"out-x-7"}


def test_exception_in_a_function_names_its_node(words: KStream[str, str], drive: Any) -> None:
    words.map_values(int, name="parse").map_values(str).to("out")

    with pytest.raises(ProcessingError) as caught:
        run(drive, ("a", "x"))

    assert caught.value.node == "parse"


def test_exception_belongs_to_the_node_that_raised_it_not_to_its_parents(
    words: KStream[str, str], drive: Any
) -> None:
    words.filter(lambda key, value: True, name="first").map_values(int, name="second").to("out")

    with pytest.raises(ProcessingError) as caught:
        run(drive, ("a", "x"))

    assert caught.value.node == "second"


@pytest.mark.parametrize(
    "operation",
    [
        lambda stream, fail: stream.filter(fail),
        lambda stream, fail: stream.filter_not(fail),
        lambda stream, fail: stream.map(fail),
        lambda stream, fail: stream.map_values(fail, with_key=True),
        lambda stream, fail: stream.flat_map(fail),
        lambda stream, fail: stream.flat_map_values(fail, with_key=True),
        lambda stream, fail: stream.select_key(fail),
        lambda stream, fail: stream.peek(fail),
        lambda stream, fail: (
            stream.split().branch(fail).default_branch()["KSTREAM-BRANCH-00000000010"]
        ),
    ],
)
def test_record_whose_function_failed_is_dropped_when_the_handler_says_so(
    words: KStream[str, str], drive: Any, operation: Any
) -> None:
    def fail(key: str, value: str) -> Any:
        if value == "bad":
            raise ValueError(value)
        return () if value == "empty" else False

    operation(words, fail).foreach(lambda key, value: None)

    assert run(drive, ("a", "bad"), processing_exception_handler="continue") == []
