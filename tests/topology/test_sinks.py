"""Sinks and their serdes: a record is written, or somebody has decided that it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystreams import KStream, ProcessingError, SerializationError, StreamsBuilder, serde_of
from pystreams.serdes import STRING

Strings = KStream[str, str]
To = Callable[..., None]


def to_a_topic(stream: Strings, **serdes: Any) -> None:
    stream.to("out", **serdes)


def to_a_chosen_topic(stream: Strings, **serdes: Any) -> None:
    stream.to(lambda _key, _value, _record: "out", **serdes)


def to_a_chosen_partition(stream: Strings, **serdes: Any) -> None:
    stream.to("out", partitioner=lambda *_: 0, **serdes)


each_sink = pytest.mark.parametrize("to", [to_a_topic, to_a_chosen_topic, to_a_chosen_partition])


class HeadersAsText:
    """A serde of texts that looks at headers."""

    def serializer(self, topic: str) -> Callable[[str], bytes]:
        return str.encode

    def deserializer(self, topic: str) -> Callable[[bytes], str]:
        return bytes.decode

    def headers_serializer(self, topic: str) -> Any:
        return None

    def headers_deserializer(self, topic: str) -> Any:
        return None


class Registry:
    """What a serde asks before it writes a text: silent at the first question about each."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def write(self, text: str) -> bytes:
        if text not in self.asked:
            self.asked.add(text)
            raise TimeoutError("the registry does not answer")
        return text.encode()


@each_sink
@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("handler", ["fail", "continue"])
def test_record_whose_serde_fails_for_a_moment_is_written(
    builder: StreamsBuilder, drive: Any, to: To, part: str, handler: str
) -> None:
    flaky = serde_of(Registry().write, bytes.decode)
    serdes = {"key_serde": STRING, "value_serde": STRING, f"{part}_serde": flaky}
    to(builder.stream("in", key_serde=STRING, value_serde=STRING), **serdes)
    driver = drive(production_exception_handler=handler)
    source = driver.create_input_topic("in", STRING, STRING)

    for number in range(3):
        source.pipe_input(f"k{number}", f"v{number}", number)

    out = driver.create_output_topic("out", STRING, STRING)
    found = [(record.key, record.value, record.timestamp) for record in out.read_records()]
    assert found == [("k0", "v0", 0), ("k1", "v1", 1), ("k2", "v2", 2)]


@each_sink
def test_tombstone_and_record_without_a_key_survive_the_trouble_of_the_other_part(
    builder: StreamsBuilder, drive: Any, to: To
) -> None:
    registry = Registry()
    flaky = serde_of(registry.write, bytes.decode)
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    to(stream, key_serde=flaky, value_serde=flaky)
    driver = drive()
    source = driver.create_input_topic("in", STRING, STRING)

    source.pipe_input("deleted", None, 1)
    source.pipe_input(None, "keyless", 2)

    out = driver.create_output_topic("out", STRING, STRING)
    found = [(record.key, record.value) for record in out.read_records()]
    assert found == [("deleted", None), (None, "keyless")]


def test_each_partition_of_a_repartition_topic_that_is_chosen_gets_the_record(
    builder: StreamsBuilder, drive: Any
) -> None:
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    spread = stream.repartition(
        name="spread", partitioner=lambda _topic, key, _value, _count: set(range(len(key)))
    )
    spread.to("out")
    driver = drive()
    source = driver.create_input_topic("in", STRING, STRING)

    for key in ("", "a", "bb"):
        source.pipe_input(key, "v")

    out = driver.create_output_topic("out", STRING, STRING)
    assert out.read_key_values() == [("a", "v"), ("bb", "v"), ("bb", "v")]


def test_a_partitioner_that_returns_a_list_is_told_what_to_return(
    builder: StreamsBuilder, drive: Any
) -> None:
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    stream.to("out", partitioner=lambda *_: [1, 2])  # type: ignore[arg-type]
    driver = drive()

    with pytest.raises(ProcessingError, match=r"returned \[1, 2\]: several partitions are a set"):
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "v")


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (-1, r"returned -1: partitions are numbered from 0"),
        ("0", r"returned '0': a partition is a number"),
        ({"x"}, r"returned \{'x'\}: a partition is a number"),
    ],
)
def test_what_is_no_partition_is_the_partitioners_error(
    builder: StreamsBuilder, drive: Any, chosen: Any, told: str
) -> None:
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    stream.to("out", partitioner=lambda *_: chosen)
    driver = drive()

    with pytest.raises(ProcessingError, match=f"the partitioner {told}"):
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "v")


def test_records_that_a_partitioner_leaves_to_kafka_keep_their_order(
    builder: StreamsBuilder, drive: Any
) -> None:
    """A key that is placed now and then may not change places with itself."""

    def now_and_then(_topic: str, _key: Any, value: str, _count: int) -> int | None:
        return None if value.endswith("0") else 0

    many = builder.stream("in", key_serde=STRING, value_serde=STRING).flat_map_values(
        lambda value: [f"{value}{number % 2}" for number in range(4)]
    )
    many.to("out", partitioner=now_and_then, key_serde=STRING, value_serde=STRING)
    driver = drive()
    driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v")

    out = driver.create_output_topic("out", STRING, STRING)
    assert out.read_values() == ["v0", "v1", "v0", "v1"]


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (None, "returned None of type NoneType: let it return a topic's name"),
        (5, "returned 5 of type int"),
        (["out"], "of type list"),
        ("", "'' can't be the name of a topic"),
        ("no such/topic", "can't be the name of a topic"),
    ],
)
def test_what_is_no_topic_is_the_error_of_the_function_that_chose_it(
    builder: StreamsBuilder, drive: Any, chosen: Any, told: str
) -> None:
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    stream.to(lambda _key, value, _record: chosen if value == "bad" else "out")

    with pytest.raises(ProcessingError, match="on the record at in-0 offset 0") as caught:
        drive().create_input_topic("in", STRING, STRING).pipe_input("a", "bad")
    assert told in str(caught.value)

    driver = drive(processing_exception_handler="continue")
    source = driver.create_input_topic("in", STRING, STRING)
    for value in ("bad", "good"):
        source.pipe_input("a", value)
    assert driver.produced_topic_names() == {"out"}


@each_sink
@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("kind", [bytearray, bytes.decode, memoryview])
def test_a_serializer_that_returns_no_bytes_is_an_error_of_the_record(
    builder: StreamsBuilder, drive: Any, to: To, part: str, kind: Any
) -> None:
    wrong: Any = serde_of(lambda text: kind(text.encode()), bytes.decode)
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    to(stream, **{"key_serde": STRING, "value_serde": STRING, f"{part}_serde": wrong})

    with pytest.raises(SerializationError, match="its serializer returned a") as caught:
        drive().create_input_topic("in", STRING, STRING).pipe_input("a", "x")
    assert (caught.value.topic, caught.value.offset) == ("in", 0)
    assert caught.value.node is not None

    driver = drive(production_exception_handler="continue")
    driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x")
    assert driver.produced_topic_names() == set()


@each_sink
def test_a_value_that_its_serde_makes_nothing_of_is_a_tombstone(
    builder: StreamsBuilder, drive: Any, to: To
) -> None:
    write_nothing: Any = lambda _text: None  # noqa: E731
    nothing = serde_of(write_nothing, bytes.decode)
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    to(stream, key_serde=STRING, value_serde=nothing)
    driver = drive()

    driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x", 1)

    assert driver.produced_raw("out") == [(b"a", None, 1, ())]


def test_a_headers_serializer_may_only_give_bytes_and_headers(
    builder: StreamsBuilder, drive: Any
) -> None:
    class Wrong(HeadersAsText):
        def headers_serializer(self, topic: str) -> Any:
            return lambda value, _headers: (value.encode(), {"kind": b"text"})

    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    stream.to("out", key_serde=STRING, value_serde=Wrong())

    with pytest.raises(SerializationError, match="headers from its serde are pairs"):
        drive().create_input_topic("in", STRING, STRING).pipe_input("a", "x")
