"""Topics that several joins share: one number of partitions for all of them."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pystreams import JoinWindows, KStream, StreamsBuilder, TopologyError
from pystreams.runtime.cluster.internal_topics import check_existing_topics, internal_topics
from pystreams.serdes import JSON, STRING
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan

SERDES: dict[str, Any] = {"key_serde": STRING, "value_serde": STRING}
AROUND = JoinWindows.of_time_difference_with_no_grace(100)


def repartitioned(builder: StreamsBuilder, topic: str) -> KStream[str, str]:
    return builder.stream(topic, **SERDES).select_key(lambda _, v: v).repartition(name=topic)


def join(left: KStream[str, str], right: KStream[str, str]) -> None:
    left.join(right, lambda a, b: a + b, AROUND)


def counts_of(builder: StreamsBuilder, existing: Mapping[str, int]) -> Mapping[str, int]:
    return plan_partitions(TopologyPlan(builder.build(), "app"), existing).num_partitions


@pytest.mark.parametrize("joined", ["ab bc", "bc ab", "ab cd bc", "cd ab bc"])
def test_topics_that_joins_share_have_as_many_partitions_as_the_largest(
    builder: StreamsBuilder, joined: str
) -> None:
    streams = {topic: repartitioned(builder, topic) for topic in "abcd"}
    for pair in joined.split():
        join(streams[pair[0]], streams[pair[1]])

    counts = counts_of(builder, {"a": 1, "b": 2, "c": 4, "d": 3})

    together = set(joined) - {" "}
    assert {counts[f"app-{topic}-repartition"] for topic in together} == {4}


def test_a_join_with_the_users_topic_says_how_many_partitions_the_others_have(
    builder: StreamsBuilder,
) -> None:
    first, second = repartitioned(builder, "a"), repartitioned(builder, "b")
    join(second, builder.stream("c", **SERDES))
    join(first, second)

    counts = counts_of(builder, {"a": 7, "b": 2, "c": 3})

    assert counts["app-a-repartition"] == counts["app-b-repartition"] == 3


@pytest.mark.parametrize("tables", [("two", "three"), ("three", "two")])
def test_tables_whose_partitions_differ_are_refused_with_both_joins_of_one_stream(
    builder: StreamsBuilder, tables: tuple[str, str]
) -> None:
    stream = repartitioned(builder, "a")
    for topic in tables:
        table = builder.table(topic, **SERDES)
        stream.join(table, lambda a, b: a + b, name=f"with-{topic}")

    with pytest.raises(TopologyError) as refused:
        counts_of(builder, {"a": 1, "two": 2, "three": 3})

    told = str(refused.value)
    assert "'three' has 3, 'two' has 2; repartition one of the streams" in told
    for topic in tables:
        assert f"'with-{topic}' (join at " in told


def test_a_join_that_is_not_to_blame_is_not_named(builder: StreamsBuilder) -> None:
    stream = repartitioned(builder, "a")
    first, second = builder.table("two", **SERDES), builder.table("too", **SERDES)
    stream.join(first, lambda a, b: a + b, name="fits")
    stream.join(second, lambda a, b: a + b, name="fits-too")
    builder.stream("b", **SERDES).join(first, lambda a, b: a + b, name="differs")

    with pytest.raises(TopologyError, match=r"node 'differs' \(join at (?!.*fits).*'b' has 3"):
        counts_of(builder, {"a": 1, "two": 2, "too": 2, "b": 3})


def test_a_table_that_two_joins_by_a_foreign_key_share_is_as_large_as_their_topics(
    builder: StreamsBuilder,
) -> None:
    serdes: dict[str, Any] = {"key_serde": STRING, "value_serde": JSON}
    named, naming = builder.table("a", **serdes), builder.table("b", **serdes)
    source = builder.table("c", **serdes)
    grouped = source.group_by(lambda k, v: (v["g"], v), **serdes)
    shared = grouped.reduce(lambda _, value: value, lambda old, _: old, name="shared")
    shared.join(named, lambda a, b: a, foreign_key=lambda v: v["g"], value_serde=JSON, name="one")
    naming.join(shared, lambda a, b: a, foreign_key=lambda v: v["g"], value_serde=JSON, name="two")

    counts = counts_of(builder, {"a": 1, "b": 3, "c": 2})

    subscriptions, responses = (
        [count for topic, count in sorted(counts.items()) if kind in topic]
        for kind in ("SUBSCRIPTION-REGISTRATION", "SUBSCRIPTION-RESPONSE")
    )
    assert (subscriptions, responses) == ([1, 3], [3, 3])
    assert counts["app-shared-repartition"] == 3


def test_an_application_whose_topics_were_made_with_other_numbers_does_not_start_on_them(
    builder: StreamsBuilder,
) -> None:
    streams = {topic: repartitioned(builder, topic) for topic in "abc"}
    join(streams["a"], streams["b"])
    join(streams["b"], streams["c"])
    plan = TopologyPlan(builder.build(), "app")
    existing = {"a": 1, "b": 2, "c": 4, "app-a-repartition": 2}

    wanted = internal_topics(plan, plan_partitions(plan, existing), {}, 0)

    with pytest.raises(TopologyError, match=r"'app-a-repartition' has 2 .* needs 4.*pystreams re"):
        check_existing_topics(wanted, existing)
