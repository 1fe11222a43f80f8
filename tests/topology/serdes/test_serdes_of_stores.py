"""What does not fit the serdes of a store: the processing handler's matter, at the failed node.

Kafka's rule is the same: whatever a processor raises, its store's serdes included, goes there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystreams import (
    ErrorContext,
    ErrorResponse,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    ProcessingError,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    SerializationError,
    Stores,
    StreamsBuilder,
    serde_of,
)
from pystreams.serdes import STRING

Strings = KStream[str, str]
Topology = Callable[[StreamsBuilder, Strings], Strings]

WINDOWS = JoinWindows.of_time_difference_and_grace(100, 0)
WRITING, READING = "can't be written", "can't be read"


def write(text: str) -> bytes:
    if text == WRITING:
        raise ValueError("refused")
    return text.encode()


def read(data: bytes) -> str:
    if data == READING.encode():
        raise ValueError("refused")
    return data.decode()


FUSSY = serde_of(write, read, "FUSSY")


def counts(builder: StreamsBuilder, stream: Strings) -> Strings:
    table = stream.group_by_key(key_serde=FUSSY).count(name="kept", node_name="node")
    return table.to_stream().map_values(str)


def aggregates(builder: StreamsBuilder, stream: Strings) -> Strings:
    grouped = stream.group_by_key()
    table: KTable[str, str] = grouped.aggregate(
        str, lambda _key, value, _so_far: value, value_serde=FUSSY, name="kept", node_name="node"
    )
    return table.to_stream()


def reduces(builder: StreamsBuilder, stream: Strings) -> Strings:
    grouped = stream.group_by_key(value_serde=FUSSY)
    return grouped.reduce(lambda _so_far, value: value, node_name="node").to_stream()


def keeps_a_table(builder: StreamsBuilder, stream: Strings) -> Strings:
    table = stream.to_table(node_name="node", name="kept", value_serde=FUSSY)
    return table.to_stream()


def keeps_a_mapped_table(builder: StreamsBuilder, stream: Strings) -> Strings:
    table = stream.to_table().map_values(
        lambda value: value, node_name="node", name="kept", value_serde=FUSSY
    )
    return table.to_stream()


def regroups_a_table(builder: StreamsBuilder, stream: Strings) -> Strings:
    regrouped = stream.to_table().group_by(lambda key, value: (key, value))
    table: KTable[str, str] = regrouped.aggregate(
        str,
        lambda _key, value, _so_far: value,
        lambda _key, _value, so_far: so_far,
        node_name="node",
        value_serde=FUSSY,
    )
    return table.to_stream()


class Keeping(Processor[str, str, str, str]):
    """Keeps each value and forwards what it kept."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        self._store = context.get_state_store("kept")

    def process(self, record: Record[str, str]) -> None:
        self._store.get(record.key)
        self._store.put(record.key, record.value)
        self._context.forward(record)


def keeps_in_a_processor(builder: StreamsBuilder, stream: Strings) -> Strings:
    supplied = Stores.in_memory_key_value_store("kept")
    builder.add_state_store(Stores.key_value_store_builder(supplied, STRING, FUSSY))
    return stream.process(Keeping, stores=["kept"], name="node")


TOPOLOGIES = [
    counts,
    aggregates,
    reduces,
    keeps_a_table,
    keeps_a_mapped_table,
    regroups_a_table,
    keeps_in_a_processor,
]

each_topology = pytest.mark.parametrize("topology", TOPOLOGIES)


class Asked:
    """A handler that remembers what it was asked about, and goes on."""

    def __init__(self) -> None:
        self.about: list[tuple[str | None, str | None, int | None, type[Exception]]] = []

    def __call__(self, context: ErrorContext, error: Exception) -> ErrorResponse:
        self.about.append((context.node, context.topic, context.offset, type(error)))
        return ErrorResponse.CONTINUE


def run(
    builder: StreamsBuilder, drive: Any, topology: Topology, *records: str, **config: Any
) -> list[str]:
    """Pipe records, the same text as key and value; return the keys that came out."""
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    topology(builder, stream).to("out")
    driver = drive(**config)
    source = driver.create_input_topic("in", STRING, STRING)
    for text in records:
        source.pipe_input(text, text)
    return [
        record.key for record in driver.create_output_topic("out", STRING, STRING).read_records()
    ]


@each_topology
def test_record_that_a_store_can_not_take_is_dropped_where_the_handler_says_so(
    builder: StreamsBuilder, drive: Any, topology: Topology
) -> None:
    asked = Asked()
    keys = run(builder, drive, topology, "a", WRITING, "b", processing_exception_handler=asked)

    assert keys == ["a", "b"]
    ((node, _topic, offset, error),) = asked.about
    assert (node, offset, error) == ("node", 1, SerializationError)


@each_topology
def test_record_that_a_store_can_not_take_stops_with_its_place_and_a_cure(
    builder: StreamsBuilder, drive: Any, topology: Topology
) -> None:
    with pytest.raises(ProcessingError) as caught:
        run(builder, drive, topology, "a", WRITING)

    error = caught.value
    assert (error.node, error.offset) == ("node", 1)
    for part in ("task ", "'node'", "offset 1", "refused", "processing.exception.handler=continue"):
        assert part in str(error)


@pytest.mark.parametrize("topology", [aggregates, reduces, regroups_a_table, keeps_in_a_processor])
def test_stored_value_that_can_not_be_read_is_an_error_of_the_record_that_looks_for_it(
    builder: StreamsBuilder, drive: Any, topology: Topology
) -> None:
    asked = Asked()
    # A cache would look at it when it is flushed, before the second record comes.
    config = {"processing_exception_handler": asked, "statestore_cache_max_bytes": 0}
    keys = run(builder, drive, topology, READING, READING, "b", **config)

    assert keys == [READING, "b"]
    ((node, _topic, offset, error),) = asked.about
    assert (node, offset, error) == ("node", 1, SerializationError)


class Punctuating(Processor[str, str, str, str]):
    """Keeps what can't be written, at each punctuation."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        store = context.get_state_store("kept")
        context.schedule(1, PunctuationType.STREAM_TIME, lambda time: store.put(str(time), WRITING))

    def process(self, record: Record[str, str]) -> None:
        pass


def test_punctuation_that_a_store_can_not_take_is_the_handlers_matter(
    builder: StreamsBuilder, drive: Any
) -> None:
    def punctuates(builder: StreamsBuilder, stream: Strings) -> Strings:
        supplied = Stores.in_memory_key_value_store("kept")
        builder.add_state_store(Stores.key_value_store_builder(supplied, STRING, FUSSY))
        return stream.process(Punctuating, stores=["kept"], name="node")

    asked = Asked()
    run(builder, drive, punctuates, "a", processing_exception_handler=asked)

    assert asked.about[0] == ("node", None, None, SerializationError)


def test_cached_value_that_can_not_be_read_at_a_flush_names_its_store(
    builder: StreamsBuilder, drive: Any
) -> None:
    def caches(builder: StreamsBuilder, stream: Strings) -> Strings:
        table: KTable[str, str] = stream.group_by_key().aggregate(
            str, lambda _key, value, _so_far: value, value_serde=FUSSY, name="kept", caching=True
        )
        return table.to_stream()

    with pytest.raises(SerializationError, match="state store 'kept' holds bytes"):
        run(builder, drive, caches, READING, statestore_cache_max_bytes=1_000_000)


# ------------------------------------------------------------------ joins of streams


class Joined:
    """Two streams, the left one of which has a fussy serde for its values, and their join."""

    def __init__(self, builder: StreamsBuilder, drive: Any, kind: str) -> None:
        left = builder.stream("left", key_serde=STRING, value_serde=STRING)
        right = builder.stream("right", key_serde=STRING, value_serde=STRING)
        join = getattr(left, kind)
        join(right, lambda value, other: f"{value}+{other}", WINDOWS, value_serde=FUSSY).to("out")
        self.asked = Asked()
        driver = drive(processing_exception_handler=self.asked)
        self.left = driver.create_input_topic("left", STRING, STRING)
        self.right = driver.create_input_topic("right", STRING, STRING)
        self.out = driver.create_output_topic("out", STRING, STRING)


each_join = pytest.mark.parametrize("kind", ["join", "left_join", "outer_join"])


@each_join
def test_joined_record_that_a_store_can_not_take_is_the_handlers_matter(
    builder: StreamsBuilder, drive: Any, kind: str
) -> None:
    joined = Joined(builder, drive, kind)
    joined.left.pipe_input("k", WRITING, 1)
    assert {(topic, offset, error) for _node, topic, offset, error in joined.asked.about} == {
        ("left", 0, SerializationError)
    }
    joined.left.pipe_input("k", "a", 2)
    joined.right.pipe_input("k", "x", 3)

    assert [record.value for record in joined.out.read_records()] == ["a+x"]


@each_join
def test_joined_record_that_can_not_be_read_is_an_error_of_its_partner(
    builder: StreamsBuilder, drive: Any, kind: str
) -> None:
    joined = Joined(builder, drive, kind)
    joined.left.pipe_input("k", READING, 1)
    joined.right.pipe_input("k", "x", 2)
    joined.right.pipe_input("k2", "y", 3)
    joined.left.pipe_input("k2", "b", 4)

    ((_node, topic, offset, error),) = joined.asked.about
    assert (topic, offset, error) == ("right", 0, SerializationError)
    assert [record.value for record in joined.out.read_records()][-1] == "b+y"


def test_record_that_can_not_wait_for_a_join_is_the_handlers_matter(
    builder: StreamsBuilder, drive: Any
) -> None:
    table = builder.table(
        "table",
        key_serde=STRING,
        value_serde=STRING,
        materialized=Materialized(name="history", history_retention_ms=1000),
    )
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    joined = stream.join(
        table, lambda value, row: f"{value}+{row}", grace_period_ms=10, value_serde=FUSSY
    )
    joined.to("out")
    asked = Asked()
    driver = drive(processing_exception_handler=asked)
    driver.create_input_topic("table", STRING, STRING).pipe_input("k", "row", 0)
    source = driver.create_input_topic("in", STRING, STRING)
    for value, timestamp in ((WRITING, 1), (READING, 2), ("a", 3), ("later", 100)):
        source.pipe_input("k", value, timestamp)

    records = driver.create_output_topic("out", STRING, STRING).read_records()
    assert [record.value for record in records] == ["a+row"]
    places = [(topic, offset) for _node, topic, offset, _error in asked.about]
    assert places == [("in", 0), ("in", 1)], "the second when its time has come"


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_serializer_that_returns_no_bytes_is_told_at_the_node_and_writes_nothing(
    builder: StreamsBuilder, drive: Any, part: str
) -> None:
    write_array: Any = lambda text: bytearray(text.encode())  # noqa: E731
    wrong: Any = serde_of(write_array, lambda data: bytes(data).decode())
    serdes: Any = {"key_serde": STRING, "value_serde": STRING, f"{part}_serde": wrong}
    grouped = builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key()
    grouped.reduce(lambda _, new: new, materialized=Materialized(name="kept", **serdes))

    with pytest.raises(ProcessingError, match=r"in-0 offset 0: .* returned a bytearray") as caught:
        drive().create_input_topic("in", STRING, STRING).pipe_input("a", "x")
    assert "let it return bytes" in str(caught.value)

    driver = drive(processing_exception_handler="continue")
    driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x")
    assert driver.produced_topic_names() == set()
