"""Joins of two tables by a foreign key."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from pystreams import KTable, Materialized, StreamsBuilder, TableJoined, TopologyError
from pystreams.serdes import LONG, STRING
from pystreams.testing import TopologyTestDriver
from pystreams.topology.operators.joins.foreign_key_serdes import (
    Instruction,
    Response,
    ResponseSerde,
    Subscription,
    SubscriptionSerde,
    hash_of,
)

METHODS = ("join", "left_join")
LEFT, RIGHT = "left", "right"


def tables(builder: StreamsBuilder, **left: Any) -> tuple[KTable[str, str], KTable[str, str]]:
    """Read two tables; a row of the left one is `foreign key|anything`."""
    return (
        builder.table(
            LEFT,
            key_serde=STRING,
            value_serde=STRING,
            materialized=Materialized[str, str](name=LEFT, **left),
        ),
        builder.table(RIGHT, key_serde=STRING, value_serde=STRING),
    )


def named_in(value: str) -> str | None:
    """Return the foreign key that a left row names; it may name none."""
    return value.partition("|")[0] or None


def both(value: str, foreign: str | None) -> str:
    """Return what a row of the result is."""
    return f"{value}+{foreign}"


def topology(method: str, **options: Any) -> StreamsBuilder:
    """Return the join of both tables, written to "out"."""
    builder = StreamsBuilder()
    left, right = tables(builder)
    joined = getattr(left, method)(right, both, foreign_key=named_in, **options)
    joined.to_stream().to("out", key_serde=STRING, value_serde=STRING)
    return builder


@contextmanager
def running(builder: StreamsBuilder) -> Iterator[tuple[Callable[..., None], Any]]:
    """Give what pipes (topic, key, value, timestamp), and the output topic."""
    with TopologyTestDriver(builder.build()) as driver:
        inputs = {
            topic: driver.create_input_topic(topic, STRING, STRING) for topic in (LEFT, RIGHT)
        }

        def pipe(topic: str, key: str | None, value: str | None, timestamp: int = 0) -> None:
            inputs[topic].pipe_input(key, value, timestamp=timestamp)

        yield pipe, driver.create_output_topic("out", STRING, STRING)


CHANGES = st.lists(
    st.one_of(
        st.tuples(
            st.just(LEFT),
            st.sampled_from("abc"),
            st.one_of(st.none(), st.sampled_from(("x|1", "x|2", "y|1", "z|1", "|1"))),
        ),
        st.tuples(
            st.just(RIGHT), st.sampled_from("xy"), st.one_of(st.none(), st.sampled_from("12"))
        ),
    ),
    max_size=30,
)


@pytest.mark.parametrize("kept", [False, True], ids=["computed", "kept"])
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=50, deadline=None)
@given(changes=CHANGES)
def test_each_row_has_the_foreign_row_that_it_names(
    method: str, kept: bool, changes: list[tuple[str, str, str | None]]
) -> None:
    rows: dict[str, dict[str, str]] = {LEFT: {}, RIGHT: {}}
    with running(
        topology(method, **({"name": "joined", "value_serde": STRING} if kept else {}))
    ) as (pipe, out):
        for topic, key, value in changes:
            pipe(topic, key, value)
            if value is None:
                rows[topic].pop(key, None)
            else:
                rows[topic][key] = value
        seen = dict(out.read_key_values())
    expected = {
        key: both(value, rows[RIGHT].get(named_in(value) or ""))
        for key, value in rows[LEFT].items()
        if method == "left_join" or named_in(value) in rows[RIGHT]
    }
    assert {key: value for key, value in seen.items() if value is not None} == expected


def test_a_change_of_a_foreign_row_reaches_all_rows_that_name_it() -> None:
    with running(topology("join")) as (pipe, out):
        pipe(LEFT, "a", "x|1")
        pipe(LEFT, "b", "x|2")
        pipe(LEFT, "c", "y|3")
        pipe(RIGHT, "x", "one")
        assert out.read_key_values() == [("a", "x|1+one"), ("b", "x|2+one")]
        pipe(RIGHT, "x", None)
        assert out.read_key_values() == [("a", None), ("b", None)]


def test_a_row_that_names_another_one_is_told_of_that_alone() -> None:
    with running(topology("join")) as (pipe, out):
        pipe(RIGHT, "x", "one")
        pipe(RIGHT, "y", "two")
        pipe(LEFT, "a", "x|1")
        pipe(LEFT, "a", "y|1")
        assert out.read_key_values() == [("a", "x|1+one"), ("a", "y|1+two")]
        pipe(RIGHT, "x", "three")
        assert out.read_key_values() == []


def test_a_row_without_a_foreign_key_is_joined_by_a_left_join_alone() -> None:
    with running(topology("left_join")) as (pipe, out):
        pipe(LEFT, "a", "|1")
        assert out.read_key_values() == [("a", "|1+None")]
    with running(topology("join")) as (pipe, out):
        pipe(LEFT, "a", "|1")
        assert out.read_key_values() == []


@pytest.mark.parametrize("method", METHODS)
def test_a_record_without_a_key_does_not_come_to_the_left_table(method: str) -> None:
    builder = StreamsBuilder()
    stream = builder.stream(LEFT, key_serde=STRING, value_serde=STRING)
    left = stream.map(lambda key, value: (key, value)).to_table(
        key_serde=STRING, value_serde=STRING
    )
    right = builder.table(RIGHT, key_serde=STRING, value_serde=STRING)
    joined = getattr(left, method)(right, both, foreign_key=named_in)
    joined.to_stream().to("out", value_serde=STRING)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic(LEFT, STRING, STRING).pipe_input(None, "x|1")
        assert [topic for topic in driver.produced_topic_names() if "TOTABLE" in topic] == []


def test_a_result_has_the_higher_timestamp_of_both_rows() -> None:
    with running(topology("join")) as (pipe, out):
        pipe(RIGHT, "x", "one", 5)
        pipe(LEFT, "a", "x|1", 3)
        pipe(LEFT, "a", "x|2", 8)
        pipe(RIGHT, "x", "two", 4)
        assert [record.timestamp for record in out.read_records()] == [5, 8, 4]


def test_a_late_row_of_a_versioned_table_changes_nothing() -> None:
    builder = StreamsBuilder()
    left, right = tables(builder, history_retention_ms=60_000)
    left.join(right, both, foreign_key=named_in).to_stream().to("out", value_serde=STRING)
    with running(builder) as (pipe, out):
        pipe(RIGHT, "x", "one", 1)
        pipe(LEFT, "a", "x|1", 10)
        pipe(LEFT, "a", "x|0", 5)
        assert out.read_key_values() == [("a", "x|1+one")]


def dropped(logs: list[Any]) -> list[tuple[str, str]]:
    """Return level and reason of what the log says of dropped records."""
    lines = [line for line in logs if line["event"] == "records dropped by an operation"]
    return [(line["log_level"], line["reason"]) for line in lines]


def test_an_answer_to_a_row_that_has_changed_since_is_no_warning() -> None:
    builder = StreamsBuilder()
    rows = builder.stream(LEFT, key_serde=STRING, value_serde=STRING)
    left = rows.flat_map_values(lambda value: value.split(",")).to_table(
        value_serde=STRING, caching=False
    )
    right = builder.table(RIGHT, key_serde=STRING, value_serde=STRING)
    joined = left.join(right, both, foreign_key=named_in)
    joined.to_stream().to("out", key_serde=STRING, value_serde=STRING)
    with running(builder) as (pipe, out), capture_logs() as logs:
        pipe(RIGHT, "b", "B", 1)
        pipe(LEFT, "a", "b|first,b|second", 2)
        assert out.read_key_values() == [("a", "b|second+B")]

    assert dropped(logs) == [("debug", "the row has changed since it asked")]


def test_a_row_of_an_inner_join_without_a_foreign_key_is_warned_of() -> None:
    with running(topology("join")) as (pipe, _), capture_logs() as logs:
        pipe(LEFT, "a", "|none", 1)

    assert dropped(logs) == [("warning", "null foreign key")]


def test_a_late_update_of_a_versioned_table_is_no_warning() -> None:
    builder = StreamsBuilder()
    left, right = tables(builder, history_retention_ms=1000)
    left.join(right, both, foreign_key=named_in).to_stream().to("out", value_serde=STRING)
    with running(builder) as (pipe, _), capture_logs() as logs:
        pipe(LEFT, "a", "b|first", 5)
        pipe(LEFT, "a", "b|late", 4)

    assert dropped(logs) == [("info", "a late update of a versioned table")]


def test_functions_take_the_key_if_asked_to() -> None:
    builder = StreamsBuilder()
    left, right = tables(builder)
    joined = left.join(
        right,
        lambda key, value, foreign: f"{key}: {value}+{foreign}",
        foreign_key=lambda key, value: key,
        with_key=True,
    )
    joined.to_stream().to("out", value_serde=STRING)
    with running(builder) as (pipe, out):
        pipe(LEFT, "x", "1")
        pipe(RIGHT, "x", "one")
        assert out.read_key_values() == [("x", "x: 1+one")]


@pytest.mark.parametrize(
    ("foreign_key", "row"),
    [
        (lambda key, value: key.partition(":")[0], "{number}"),
        (lambda key, value: value.partition("|")[0], "{who}|{number}"),
    ],
    ids=["in the key", "in the value"],
)
def test_rows_of_composite_keys_are_joined_by_a_part_of_them(
    foreign_key: Callable[[str, str], str], row: str
) -> None:
    builder = StreamsBuilder()
    left, right = tables(builder)
    joined = left.join(
        right,
        lambda key, value, foreign: f"{key} {value}+{foreign}",
        foreign_key=foreign_key,
        with_key=True,
        name="joined",
        value_serde=STRING,
    )
    joined.to_stream().to("out", value_serde=STRING)
    rows = {
        f"{who}:{number}": row.format(who=who, number=number)
        for who, number in (("x", 1), ("x", 2), ("y", 1))
    }
    with running(builder) as (pipe, out):
        for key, value in rows.items():
            pipe(LEFT, key, value)
        for who in ("x", "y"):
            pipe(RIGHT, who, f"of {who}")
        assert out.read_key_values() == [
            (key, f"{key} {value}+of {key[0]}") for key, value in rows.items()
        ]


def test_all_parts_are_called_after_the_join() -> None:
    described = str(topology("join", node_name="fk").build().describe())
    for part in (
        "fk-subscription-registration-topic",
        "fk-subscription-registration-processor",
        "fk-subscription-store",
        "fk-subscription-receive",
        "fk-subscription-join-foreign",
        "fk-foreign-join-subscription",
        "fk-subscription-response-topic",
        "fk-subscription-response-resolver",
        "fk-result",
    ):
        assert part in described


def test_partitioners_of_the_tables_choose_where_records_go() -> None:
    chosen: list[tuple[str, Any, Any]] = []

    def partitioner(topic: str, key: Any, value: Any, count: int) -> int:
        chosen.append((topic.rpartition("-subscription-")[2], key, value))
        return 0

    joined = TableJoined[str, str](partitioner, partitioner)
    with running(topology("join", node_name="fk", table_joined=joined)) as (pipe, out):
        pipe(RIGHT, "x", "one")
        pipe(LEFT, "a", "x|1")
        assert out.read_key_values() == [("a", "x|1+one")]
    assert chosen == [("registration-topic", "x", None), ("response-topic", "a", None)]


@pytest.mark.parametrize("chosen", [set(), {0, 1}])
def test_partitioners_of_the_tables_choose_one_partition(chosen: set[int]) -> None:
    joined = TableJoined[str, str](other_partitioner=lambda *_: chosen)
    with running(topology("join", table_joined=joined)) as (pipe, _):
        pipe(RIGHT, "x", "one")
        with pytest.raises(TopologyError, match=r"chose the partitions \[.*of .*for 'x'"):
            pipe(LEFT, "a", "x|1")


def test_a_partitioner_is_not_asked_about_rows_that_name_no_row() -> None:
    joined = TableJoined[str, str](other_partitioner=lambda _topic, key, _value, _n: len(key) - 1)
    with running(topology("left_join", table_joined=joined)) as (pipe, out):
        pipe(RIGHT, "x", "one")
        pipe(LEFT, "a", "x|1")
        pipe(LEFT, "a", None)
        assert out.read_key_values() == [("a", "x|1+one"), ("a", None)]


def test_a_set_of_one_partition_is_that_partition() -> None:
    joined = TableJoined[str, str](lambda *_: {0}, lambda *_: frozenset((0,)))
    with running(topology("join", table_joined=joined)) as (pipe, out):
        pipe(RIGHT, "x", "one")
        pipe(LEFT, "a", "x|1")
        assert out.read_key_values() == [("a", "x|1+one")]


def test_keys_whose_serde_is_left_open_are_written_with_the_default_of_keys() -> None:
    builder = StreamsBuilder()
    builder.table(LEFT).join(builder.table(RIGHT), both, foreign_key=lambda value: 9)
    defaults = {"default.key.serde": "long", "default.value.serde": "string"}
    with TopologyTestDriver(builder.build(), defaults) as driver:
        driver.create_input_topic(LEFT, LONG, STRING).pipe_input(7, "7|x")
        (subscriptions,) = (
            topic for topic in driver.produced_topic_names() if "REGISTRATION" in topic
        )
        ((key, subscription, *_),) = driver.produced_raw(subscriptions)
        assert key == bytes(7) + b"\x09"
        assert bytes(7) + b"\x07" in (subscription or b"")


def test_partitioners_without_a_foreign_key_are_refused() -> None:
    left, right = tables(StreamsBuilder())
    wrong: Any = left.join
    with pytest.raises(TopologyError, match="foreign_key"):
        wrong(right, both, table_joined=TableJoined())


def test_a_missing_serde_of_values_is_told_with_the_line() -> None:
    builder = StreamsBuilder()
    left, right = tables(builder)
    joined = left.map_values(lambda value: value).join(right, both, foreign_key=named_in)
    joined.to_stream().to("out", value_serde=STRING)
    with pytest.raises(TopologyError, match="test_foreign_key_joins"):
        TopologyTestDriver(builder.build())


def test_serdes_may_be_left_to_the_configuration() -> None:
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table(LEFT)
    right: KTable[str, str] = builder.table(RIGHT)
    left.join(right, both, foreign_key=named_in).to_stream().to("out")
    config = {"default.key.serde": "string", "default.value.serde": "string"}
    with TopologyTestDriver(builder.build(), config) as driver:
        driver.create_input_topic(RIGHT, STRING, STRING).pipe_input("x", "one")
        driver.create_input_topic(LEFT, STRING, STRING).pipe_input("a", "x|1")
        out = driver.create_output_topic("out", STRING, STRING)
        assert out.read_key_values() == [("a", "x|1+one")]


def test_the_changelog_of_subscriptions_has_the_headers_of_rows() -> None:
    with TopologyTestDriver(topology("join", node_name="fk").build()) as driver:
        left = driver.create_input_topic(LEFT, STRING, STRING)
        left.pipe_input("a", "x|1", timestamp=7, headers=(("h", b"2"),))
        (changelog,) = (
            topic for topic in driver.produced_topic_names() if "fk-subscription-store" in topic
        )
        ((_, _, timestamp, headers),) = driver.produced_raw(changelog)
        assert (timestamp, list(headers)) == (7, [("h", b"2")])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", "9d2764a018e329428c3cf3b035938518"),
        ("abcdef", "9af0729e6b3dfc740c4d1f319b513a79"),
        ("0123456789abcdef", "1a6e941ec6a76967d7d82808f505d6b1"),
        ("0123456789abcdefg", "a93635c3ece7b605aeed6784d1b08b32"),
        ("Grüße, Übermut und ein längerer Text", "e932fd54b508f3146c2e1636de3e52a0"),
    ],
)
def test_hashes_are_kafka_streams(value: str, expected: str) -> None:
    assert hash_of(value.encode()).hex() == expected


HASH = bytes.fromhex("0000000000000001fffffffffffffffe")


@pytest.mark.parametrize("instruction", Instruction)
@pytest.mark.parametrize(("digest", "head"), [(HASH, "01"), (None, "81")])
def test_bytes_of_a_subscription_are_kafka_streams(
    instruction: Instruction, digest: bytes | None, head: str
) -> None:
    serde = SubscriptionSerde(STRING, "s-topic", "store")
    subscription = Subscription(digest, instruction, "key", 3)
    expected = f"{head}0{instruction}{(digest or b'').hex()}6b657900000003"
    assert serde.serializer("app-s-topic")(subscription).hex() == expected
    assert serde.deserializer("app-s-topic")(bytes.fromhex(expected)) == subscription


def test_a_subscription_of_version_0_has_no_partition() -> None:
    read = SubscriptionSerde(STRING, "s-topic", "store").deserializer("app-s-topic")
    assert read(bytes.fromhex("80026b6579")) == Subscription(None, Instruction(2), "key", None)


def test_a_subscription_of_a_newer_version_is_refused() -> None:
    read = SubscriptionSerde(STRING, "s-topic", "store").deserializer("app-s-topic")
    with pytest.raises(ValueError, match="a newer application wrote it"):
        read(bytes.fromhex("82026b6579"))


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (Response(HASH, "v", None), "000000000000000001fffffffffffffffe76"),
        (Response(HASH, None, None), "000000000000000001fffffffffffffffe"),
        (Response(None, None, None), "80"),
    ],
)
def test_bytes_of_a_response_are_kafka_streams(response: Response, expected: str) -> None:
    serde = ResponseSerde(STRING)
    assert serde.serializer("topic")(response).hex() == expected
    assert serde.deserializer("topic")(bytes.fromhex(expected)) == response


def test_primary_keys_are_written_for_one_topic_in_topic_and_store() -> None:
    topics = []

    class Noting:
        def serializer(self, topic: str) -> Callable[[int], bytes]:
            topics.append(topic)
            return LONG.serializer(topic)

        def deserializer(self, topic: str) -> Callable[[bytes], int]:
            return LONG.deserializer(topic)

    serde = SubscriptionSerde(Noting(), "s-topic", "store")
    serde.serializer("app-s-topic")
    serde.serializer("app-store-changelog")
    assert topics == ["app-s-topic-pk", "app-s-topic-pk"]
