"""Cogroups: several grouped streams make one table, with windows or without.

Upstream's cases of cogroups are among them; see `tests/UPSTREAM.md`.
"""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystreams import (
    BufferConfig,
    CogroupedKStream,
    KGroupedStream,
    KStream,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyError,
    UnlimitedWindows,
    Windowed,
    session_windowed_serde,
    time_windowed_serde,
)
from pystreams.serdes import INT, LONG, STRING
from pystreams.testing import TopologyTestDriver
from pystreams.topology.graph.nodes import SinkNode
from tests.topology.windows.sessions import TEXT

Input = tuple[str, str | None, str | None, int]
"""(topic, key, value, timestamp)."""

GAP_100 = SessionWindows.of_inactivity_gap_and_grace(100, 86_400_000)


def add(key: str, value: str, so_far: str) -> str:
    return f"{so_far}+{value}"


def remove(key: str, value: str, so_far: str) -> str:
    return f"{so_far}-{value}"


def empty() -> str:
    return "0"


def merge(key: str, so_far: str, other: str) -> str:
    return f"{so_far}|{other}"


def add_length(key: str, value: str, total: int) -> int:
    return total + len(value)


def stream_of(builder: StreamsBuilder, topic: str) -> KStream[str, str]:
    return builder.stream(topic, **TEXT)


def grouped(builder: StreamsBuilder, topic: str) -> KGroupedStream[str, str]:
    return stream_of(builder, topic).group_by_key()


def of_one_and_two(builder: StreamsBuilder) -> CogroupedKStream[str, str]:
    """Two streams: the first adds, the second removes."""
    return grouped(builder, "one").cogroup(add).cogroup(grouped(builder, "two"), remove)


def run(builder: StreamsBuilder, *records: Input, serde: Any = STRING) -> list[Any]:
    """Pipe records in; return (key, value, timestamp) of what came out at "out"."""
    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        for topic, key, value, timestamp in records:
            driver.create_input_topic(topic, STRING, STRING).pipe_input(key, value, timestamp)
        out = driver.create_output_topic("out", serde, STRING).read_records()
    return [(record.key, record.value, record.timestamp) for record in out]


def to_out(table: KTable[Any, str], serde: Any = STRING) -> None:
    table.to_stream().to("out", key_serde=serde, value_serde=STRING)


# ---------------------------------------------------------------------- without windows


def test_a_single_stream_is_folded_as_by_aggregate(builder: StreamsBuilder) -> None:
    to_out(grouped(builder, "one").cogroup(add).aggregate(empty, value_serde=STRING))

    assert run(
        builder,
        ("one", "a", "A", 0),
        ("one", "b", "B", 0),
        ("one", "b", "B", 0),
        ("one", "a", "A", 0),
    ) == [("a", "0+A", 0), ("b", "0+B", 0), ("b", "0+B+B", 0), ("a", "0+A+A", 0)]


def test_each_stream_adds_to_the_keys_row_in_its_way(builder: StreamsBuilder) -> None:
    to_out(of_one_and_two(builder).aggregate(empty, value_serde=STRING))

    assert run(
        builder,
        ("one", "a", "A", 0),
        ("two", "a", "B", 1),
        ("two", "b", "B", 1),
        ("one", "b", "A", 9),
    ) == [("a", "0+A", 0), ("a", "0+A-B", 1), ("b", "0-B", 1), ("b", "0-B+A", 9)]


def test_three_streams_share_the_row(builder: StreamsBuilder) -> None:
    three = of_one_and_two(builder).cogroup(grouped(builder, "three"), add)
    to_out(three.aggregate(empty, value_serde=STRING))

    records: list[Input] = [(topic, "a", topic[0], 0) for topic in ("three", "one", "two")]
    assert run(builder, *records)[-1] == ("a", "0+t+o-t", 0)


def test_a_result_carries_the_highest_timestamp_of_its_records(builder: StreamsBuilder) -> None:
    to_out(of_one_and_two(builder).aggregate(empty, value_serde=STRING))

    assert run(builder, ("one", "a", "A", 9), ("two", "a", "B", 4))[-1] == ("a", "0+A-B", 9)


def test_records_without_key_or_value_are_dropped(builder: StreamsBuilder) -> None:
    to_out(of_one_and_two(builder).aggregate(empty, value_serde=STRING))

    assert run(builder, ("one", None, "A", 0), ("two", "a", None, 0), ("two", "a", "B", 0)) == [
        ("a", "0-B", 0)
    ]


def test_streams_may_have_values_of_different_types(builder: StreamsBuilder) -> None:
    numbers = builder.stream("numbers", key_serde=STRING, value_serde=INT).group_by_key()
    cogrouped = grouped(builder, "one").cogroup(add_length)
    totals = cogrouped.cogroup(numbers, lambda key, value, total: total + value)
    totals.aggregate(int, value_serde=LONG, name="totals")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("one", STRING, STRING).pipe_input("a", "four", 0)
        driver.create_input_topic("numbers", STRING, INT).pipe_input("a", 38, 0)

        assert driver.get_key_value_store("totals").get("a") == 42


def test_a_stream_that_is_added_again_gets_the_new_aggregator(builder: StreamsBuilder) -> None:
    """As in Kafka Streams."""
    one = grouped(builder, "one")
    to_out(one.cogroup(add).cogroup(one, remove).aggregate(empty, value_serde=STRING))

    assert run(builder, ("one", "a", "A", 0)) == [("a", "0-A", 0)]


def test_adding_a_stream_leaves_the_cogroup_it_was_added_to_as_it_was(
    builder: StreamsBuilder,
) -> None:
    first = grouped(builder, "one").cogroup(add)
    first.cogroup(grouped(builder, "two"), remove)
    first.aggregate(empty, name="kept", value_serde=STRING)
    with TopologyTestDriver(builder.build()) as driver:
        for topic in ("one", "two"):
            driver.create_input_topic(topic, STRING, STRING).pipe_input("a", "A", 0)

        assert driver.get_key_value_store("kept").get("a") == "0+A"


@pytest.mark.parametrize("caching", [True, False])
def test_changes_below_carry_the_value_a_row_had(builder: StreamsBuilder, caching: bool) -> None:
    two = grouped(builder, "two")
    lengths = grouped(builder, "one").cogroup(add_length).cogroup(two, add_length)
    table = lengths.aggregate(int, value_serde=LONG, caching=caching)
    everything = table.group_by(
        lambda key, length: ("all", length), key_serde=STRING, value_serde=LONG
    )
    everything.reduce(lambda total, new: total + new, lambda total, old: total - old, name="all")
    with TopologyTestDriver(builder.build()) as driver:
        for topic, key in (("one", "a"), ("two", "a"), ("two", "b"), ("one", "a")):
            driver.create_input_topic(topic, STRING, STRING).pipe_input(key, "xyz", 0)

        assert driver.get_key_value_store("all").get("all") == 12


def test_the_table_can_be_joined_and_queried(builder: StreamsBuilder) -> None:
    table = of_one_and_two(builder).aggregate(empty, name="rows", value_serde=STRING)
    other = builder.table("three", **TEXT)
    to_out(table.join(other, lambda row, value: f"{row}={value}"))
    assert table.queryable_store_name == "rows"

    assert run(builder, ("one", "a", "A", 5), ("three", "a", "C", 0), ("two", "a", "B", 10)) == [
        ("a", "0+A=C", 5),
        ("a", "0+A-B=C", 10),
    ]


# ---------------------------------------------------------------------- names and topics


def test_nodes_and_store_are_named_in_kafkas_order(builder: StreamsBuilder) -> None:
    of_one_and_two(builder).aggregate(empty).to_stream()
    topology = builder.build()

    assert list(topology.nodes) == [
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-SOURCE-0000000001",
        "COGROUPKSTREAM-AGGREGATE-0000000003",
        "COGROUPKSTREAM-AGGREGATE-0000000004",
        "COGROUPKSTREAM-MERGE-0000000005",
        "KTABLE-TOSTREAM-0000000006",
    ]
    assert list(topology.stores) == ["COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000002"]


@pytest.mark.parametrize(
    "windows", [None, GAP_100, TimeWindows(10), SlidingWindows(10), UnlimitedWindows()], ids=str
)
def test_a_given_name_begins_the_names_of_all_nodes(builder: StreamsBuilder, windows: Any) -> None:
    cogrouped: Any = grouped(builder, "one").cogroup(add)
    if windows is not None:
        cogrouped = cogrouped.windowed_by(windows)
    functions = (empty, merge) if isinstance(windows, SessionWindows) else (empty,)
    cogrouped.aggregate(*functions, node_name="foo")
    topology = builder.build()

    assert list(topology.nodes)[1:] == ["foo-cogroup-agg-0", "foo-cogroup-merge"]
    assert list(topology.stores) == ["COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000001"]


def repartition_topics(builder: StreamsBuilder) -> list[str]:
    return list(builder.build().repartition_topics)


def swapped(builder: StreamsBuilder, topic: str, **options: Any) -> KGroupedStream[str, str]:
    """A stream that must travel to its groups."""
    return stream_of(builder, topic).map(lambda key, value: (value, key)).group_by_key(**options)


def test_a_stream_with_new_keys_is_repartitioned_under_the_stores_name(
    builder: StreamsBuilder,
) -> None:
    two = grouped(builder, "two")
    swapped(builder, "one").cogroup(add).cogroup(two, add).aggregate(empty, name="store")

    assert repartition_topics(builder) == ["store-repartition"]


def test_a_repartition_topic_is_named_as_its_grouping_is(builder: StreamsBuilder) -> None:
    two = swapped(builder, "two", name="second")
    one = swapped(builder, "one", name="first")
    one.cogroup(add).cogroup(two, add).aggregate(empty, name="store")

    assert repartition_topics(builder) == ["first-repartition", "second-repartition"]


def test_two_streams_can_not_share_a_repartition_topic(builder: StreamsBuilder) -> None:
    """Kafka Streams says of it that a processor is already added."""
    two = swapped(builder, "two")
    cogrouped = swapped(builder, "one").cogroup(add).cogroup(two, add)

    with pytest.raises(TopologyError, match=r"'store-repartition': give one of them a name"):
        cogrouped.aggregate(empty, name="store")


def test_a_grouping_in_several_cogroups_has_a_repartition_topic_in_each(
    builder: StreamsBuilder,
) -> None:
    one, two = swapped(builder, "one"), grouped(builder, "two")
    for store in ("first", "second"):
        one.cogroup(add).cogroup(two, add).aggregate(empty, name=store)
    one.aggregate(empty, add, name="third")

    assert repartition_topics(builder) == [
        f"{store}-repartition" for store in ("first", "second", "third")
    ]


def test_a_cogroup_that_is_aggregated_twice_has_one_repartition_topic(
    builder: StreamsBuilder,
) -> None:
    cogrouped = swapped(builder, "one", name="foo").cogroup(add)
    for _ in range(2):
        cogrouped.aggregate(empty)
    topology = builder.build()

    assert list(topology.repartition_topics) == ["foo-repartition"]
    assert [name for name in topology.nodes if name.startswith("COGROUP")] == [
        "COGROUPKSTREAM-AGGREGATE-0000000006",
        "COGROUPKSTREAM-MERGE-0000000007",
        "COGROUPKSTREAM-AGGREGATE-0000000012",
        "COGROUPKSTREAM-MERGE-0000000013",
    ]


def test_records_meet_behind_their_repartition_topic(builder: StreamsBuilder) -> None:
    two = grouped(builder, "two")
    cogrouped = swapped(builder, "one", **TEXT).cogroup(add).cogroup(two, remove)
    to_out(cogrouped.aggregate(empty, value_serde=STRING))

    assert run(builder, ("one", "A", "a", 0), ("two", "a", "B", 1))[-1] == ("a", "0+A-B", 1)


def test_topics_of_all_streams_must_have_as_many_partitions(builder: StreamsBuilder) -> None:
    cogrouped = of_one_and_two(builder)
    cogrouped.cogroup(swapped(builder, "three", name="third"), add).aggregate(empty)
    topology = builder.build()

    (group,) = topology.copartition_groups
    assert group.sources == {
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-SOURCE-0000000001",
        "third-repartition-source",
    }


def test_keys_have_the_serde_that_all_groupings_agree_on(builder: StreamsBuilder) -> None:
    """Differs from Kafka, which takes the default."""
    table = of_one_and_two(builder).aggregate(empty, name="rows", value_serde=STRING)
    table.to_stream().to("out")
    store: Any = builder.build().stores["rows"]

    assert store.spec.key_serde is STRING
    sink = next(node for node in builder.build().nodes.values() if isinstance(node, SinkNode))
    assert sink.key_serde is STRING


# ---------------------------------------------------------------------- mistakes


def test_what_is_no_grouped_stream_or_no_function_is_refused(builder: StreamsBuilder) -> None:
    one = grouped(builder, "one")
    cogrouped = one.cogroup(add)
    elsewhere = grouped(StreamsBuilder(), "two")
    calls: list[Callable[[], object]] = [
        lambda: one.cogroup(None),  # type: ignore[call-overload]
        lambda: one.cogroup(empty),  # type: ignore[arg-type]
        lambda: cogrouped.cogroup(None, add),  # type: ignore[arg-type]
        lambda: cogrouped.cogroup(stream_of(builder, "two"), add),  # type: ignore[arg-type]
        lambda: cogrouped.cogroup(one, None),  # type: ignore[arg-type]
        lambda: cogrouped.cogroup(elsewhere, add),
        lambda: cogrouped.aggregate(None),  # type: ignore[arg-type]
        lambda: cogrouped.aggregate(add),  # type: ignore[arg-type]
        lambda: cogrouped.aggregate(empty, materialized="s"),  # type: ignore[arg-type]
        lambda: cogrouped.aggregate(empty, retention_ms=10),
        lambda: cogrouped.aggregate(empty, supplier=Stores.persistent_session_store("s", 10)),
        lambda: cogrouped.windowed_by(None),  # type: ignore[call-overload]
        lambda: cogrouped.windowed_by(10),  # type: ignore[call-overload]
        lambda: cogrouped.windowed_by(TimeWindows(10)).aggregate(None),  # type: ignore[arg-type]
        lambda: cogrouped.windowed_by(SlidingWindows(10)).aggregate(add),  # type: ignore[arg-type]
        lambda: cogrouped.windowed_by(TimeWindows(10)).aggregate(empty, retention_ms=9),
        lambda: cogrouped.windowed_by(GAP_100).aggregate(None, merge),  # type: ignore[arg-type]
        lambda: cogrouped.windowed_by(GAP_100).aggregate(empty, None),  # type: ignore[arg-type]
        lambda: cogrouped.windowed_by(GAP_100).aggregate(empty, empty),  # type: ignore[arg-type]
        lambda: cogrouped.windowed_by(GAP_100).aggregate(
            empty, merge, supplier=Stores.persistent_window_store("s", 10, 10)
        ),
    ]
    for call in calls:
        with pytest.raises(TopologyError):
            call()


# ---------------------------------------------------------------------- in sessions


def in_sessions(builder: StreamsBuilder, **options: Any) -> KTable[Windowed[str], str]:
    cogrouped = of_one_and_two(builder).windowed_by(GAP_100)
    return cogrouped.aggregate(empty, merge, value_serde=STRING, **options)


def sessions_of(builder: StreamsBuilder, *records: Input) -> list[tuple[str, int, int, Any]]:
    """Return (key, start, end, value) of what came out; each has the time of its end."""
    out = run(builder, *records, serde=session_windowed_serde(STRING))
    assert [timestamp for _, _, timestamp in out] == [key.window.end for key, _, _ in out]
    return [(key.key, *key.window, value) for key, value, _ in out]


def test_windows_of_a_versioned_tables_changes_are_not_versioned(builder: StreamsBuilder) -> None:
    """A filter below deletes no row that was never there, and they may be suppressed."""
    kept = Materialized[str, str](name="rows", history_retention_ms=100_000)
    rows = builder.table("one", materialized=kept, **TEXT).to_stream()
    windowed = rows.group_by_key().cogroup(add).windowed_by(GAP_100)
    sessions = windowed.aggregate(empty, merge, value_serde=STRING, caching=False)
    to_out(sessions.filter(lambda window, value: "B" in value), session_windowed_serde(STRING))
    waiting = sessions.suppress(Suppressed.until_time_limit(10, BufferConfig.unbounded()))
    waiting.to_stream().foreach(lambda window, value: None)

    assert sessions_of(builder, ("one", "a", "A", 0), ("one", "a", "B", 444)) == [
        ("a", 444, 444, "0+B")
    ]


def test_records_of_all_streams_keep_a_session_going(builder: StreamsBuilder) -> None:
    to_out(in_sessions(builder), session_windowed_serde(STRING))

    assert sessions_of(
        builder,
        ("one", "a", "A", 0),
        ("one", "b", "A", 1),
        ("two", "a", "B", 100),
        ("two", "b", "B", 444),
    ) == [
        ("a", 0, 0, "0+A"),
        ("b", 1, 1, "0+A"),
        ("a", 0, 0, None),
        ("a", 0, 100, "0|0+A-B"),
        ("b", 444, 444, "0-B"),
    ]


def test_a_record_of_one_stream_merges_sessions_of_the_other(builder: StreamsBuilder) -> None:
    to_out(in_sessions(builder), session_windowed_serde(STRING))

    assert sessions_of(
        builder, ("one", "a", "A", 0), ("one", "a", "C", 150), ("two", "a", "B", 75)
    )[2:] == [
        ("a", 0, 0, None),
        ("a", 150, 150, None),
        ("a", 0, 150, "0|0+A|0+C-B"),
    ]


def test_sessions_of_cogroups_can_be_queried(builder: StreamsBuilder) -> None:
    in_sessions(builder, name="sessions")
    with TopologyTestDriver(builder.build()) as driver:
        for topic in ("one", "two"):
            driver.create_input_topic(topic, STRING, STRING).pipe_input("a", "A", 7)

        assert driver.get_session_store("sessions").fetch_session("a", 7, 7) == "0|0+A-A"


# ---------------------------------------------------------------------- in time windows


def windows_of(
    builder: StreamsBuilder, windows: Any, *records: Input
) -> list[tuple[str, int, str, int]]:
    """Aggregate both streams by windows; return (key, start, value, timestamp)."""
    serde = time_windowed_serde(STRING, windows.size_ms)
    table = of_one_and_two(builder).windowed_by(windows).aggregate(empty, value_serde=STRING)
    to_out(table, serde)
    return [
        (key.key, key.window.start, value, timestamp)
        for key, value, timestamp in run(builder, *records, serde=serde)
    ]


def test_streams_share_the_row_of_a_window(builder: StreamsBuilder) -> None:
    assert windows_of(
        builder,
        TimeWindows(500),
        ("one", "a", "A", 1),
        ("two", "b", "B", 2),
        ("two", "a", "B", 499),
        ("one", "a", "A", 500),
        ("two", "a", "B", 501),
    ) == [
        ("a", 0, "0+A", 1),
        ("b", 0, "0-B", 2),
        ("a", 0, "0+A-B", 499),
        ("a", 500, "0+A", 500),
        ("a", 500, "0+A-B", 501),
    ]


def test_streams_share_the_rows_of_windows_that_overlap(builder: StreamsBuilder) -> None:
    assert windows_of(
        builder,
        TimeWindows(500).advance_by(250),
        ("one", "a", "A", 260),
        ("two", "a", "B", 510),
    ) == [
        ("a", 0, "0+A", 260),
        ("a", 250, "0+A", 260),
        ("a", 250, "0+A-B", 510),
        ("a", 500, "0-B", 510),
    ]


def test_streams_share_the_rows_of_sliding_windows(builder: StreamsBuilder) -> None:
    assert windows_of(
        builder,
        SlidingWindows(500, 2000),
        ("one", "a", "A", 500),
        ("two", "a", "B", 750),
        ("one", "a", "C", 1000),
    ) == [
        ("a", 0, "0+A", 500),
        ("a", 501, "0-B", 750),
        ("a", 250, "0+A-B", 750),
        ("a", 501, "0-B+C", 1000),
        ("a", 751, "0+C", 1000),
        ("a", 500, "0+A-B+C", 1000),
    ]


# ---------------------------------------------------------------------- streams that are behind


@pytest.mark.parametrize("caching", [True, False])
def test_a_window_keeps_what_it_has_when_a_stream_that_is_behind_adds_to_it(
    builder: StreamsBuilder, caching: bool
) -> None:
    """A record is late by the stream time of its own stream, as in Kafka Streams.

    Differs from Kafka without a cache: the row is older than the retention there, and is replaced
    by one that has the last record only.
    """
    table = of_one_and_two(builder).windowed_by(TimeWindows(10))
    to_out(
        table.aggregate(empty, value_serde=STRING, caching=caching), time_windowed_serde(STRING, 10)
    )
    out = run(
        builder,
        ("one", "a", "A", 5),
        ("one", "b", "A", 1000),
        ("two", "a", "B", 5),
        serde=time_windowed_serde(STRING, 10),
    )

    assert [value for _, value, _ in out] == ["0+A", "0+A", "0+A-B"]


@pytest.mark.parametrize("caching", [True, False])
def test_a_session_keeps_what_it_has_when_a_stream_that_is_behind_adds_to_it(
    builder: StreamsBuilder, caching: bool
) -> None:
    """As for windows."""
    table = of_one_and_two(builder).windowed_by(SessionWindows(10))
    to_out(
        table.aggregate(empty, merge, value_serde=STRING, caching=caching),
        session_windowed_serde(STRING),
    )

    assert sessions_of(
        builder, ("one", "a", "A", 5), ("one", "b", "A", 1000), ("two", "a", "B", 5)
    ) == [
        ("a", 5, 5, "0+A"),
        ("b", 1000, 1000, "0+A"),
        ("a", 5, 5, "0|0+A-B"),
    ]
