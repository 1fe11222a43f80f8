"""What runs after what: topics are complete before they are read."""

from __future__ import annotations

from typing import Any

import pytest

from pystreams import StreamsBuilder, Topology, TopologyError, serdes
from pystreams.backfill.plan.stages import Stage, merges_history, stages_of
from pystreams.topology.plan.topology_plan import TopologyPlan

TYPES: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
COUNT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}


def stages(topology: Topology, **known: int) -> list[Stage]:
    plan = TopologyPlan(topology, "app")
    return stages_of(plan, {**dict.fromkeys(plan.repartition_topics(), 1), **known})


def summary(found: list[Stage]) -> list[tuple[int, tuple[str, ...], str | None]]:
    return [(stage.subtopology.id, stage.topics, stage.only_topic) for stage in found]


def test_one_sub_topology_is_one_stage() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", **TYPES)
    stream.group_by_key().count(name="counts").to_stream().to("out", **COUNT)

    assert summary(stages(builder.build(), **{"in": 1})) == [(0, ("in",), None)]


def test_sub_topology_behind_a_repartition_comes_after_what_feeds_it() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", **TYPES)
    grouped = stream.group_by(lambda _, value: value, name="by-value", **TYPES)
    grouped.count(name="counts").to_stream().to("out", **COUNT)

    assert summary(stages(builder.build(), **{"in": 1})) == [
        (0, ("in",), None),
        (1, ("app-by-value-repartition",), None),
    ]


def merges(topology: Topology, **known: int) -> bool:
    return merges_history(TopologyPlan(topology, "app"), known)


def test_repartitioned_stream_alone_is_not_merged_with_history() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", **TYPES).group_by(lambda _, value: value, name="v", **TYPES)
    grouped.count(name="counts").to_stream().to("out", **COUNT)

    assert not merges(builder.build(), **{"in": 1})


def test_repartitioned_stream_joined_with_a_topic_is_merged_with_history() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", **TYPES).select_key(lambda _, value: value)
    table = builder.table("rows", **TYPES)
    stream.repartition(name="by-value", **TYPES).left_join(table, lambda *both: str(both)).to(
        "out", **TYPES
    )

    assert merges(builder.build(), rows=1, **{"in": 1})


def test_topic_that_is_written_and_read_is_merged_with_its_history() -> None:
    builder = StreamsBuilder()
    builder.stream("in", **TYPES).to("middle")
    builder.stream("middle", **TYPES).to("out")

    assert merges(builder.build(), middle=1, **{"in": 1})


def test_topic_that_an_extractor_may_choose_is_merged_with_what_it_chose() -> None:
    builder = StreamsBuilder()
    builder.stream("in", **TYPES).to(lambda *_: "other", **TYPES)
    builder.stream("other", **TYPES).to("out")

    assert merges(builder.build(), other=1, **{"in": 1})


def test_topic_of_the_user_s_in_the_middle_is_an_edge() -> None:
    """Whatever the order of declaration."""
    builder = StreamsBuilder()
    builder.stream("middle", **TYPES).to("out")
    builder.stream("in", **TYPES).to("middle")

    assert [stage.topics for stage in stages(builder.build(), middle=1, **{"in": 1})] == [
        ("in",),
        ("middle",),
    ]


def self_feeding() -> Topology:
    """A stream meets a table of its own, repartitioned: one sub-topology."""
    builder = StreamsBuilder()
    table = builder.table("rows", **TYPES)
    stream = builder.stream("in", **TYPES)
    by_value = stream.select_key(lambda _, value: value).repartition(name="by-value", **TYPES)
    by_value.join(table, lambda value, row: f"{value}{row}").to("joined", **TYPES)
    stream.join(table, lambda value, row: f"{value}{row}").to("direct", **TYPES)
    return builder.build()


def test_what_feeds_a_topic_of_its_own_sub_topology_runs_first_and_alone() -> None:
    first, second = stages(self_feeding(), rows=1, **{"in": 1})

    assert first.only_topic == "app-by-value-repartition"
    assert first.topics == ("in",)
    assert set(first.subtopology.nodes) < set(second.subtopology.nodes)
    assert first.subtopology.stores == ()
    assert second.topics == ("app-by-value-repartition", "in", "rows")
    assert second.only_topic is None
    assert second.written_before == {"app-by-value-repartition"}


def test_part_takes_along_whoever_fills_its_stores() -> None:
    """Both joins look into the table; the one that reads the topic does not fill its store."""
    builder = StreamsBuilder()
    table = builder.table("rows", **TYPES)
    stream = builder.stream("in", **TYPES)
    joined = stream.join(table, lambda value, row: f"{value}{row}", name="first")
    again = joined.select_key(lambda _, value: value).repartition(name="again", **TYPES)
    again.join(table, lambda value, row: f"{value}{row}", name="second").to("out", **TYPES)

    first, second = stages(builder.build(), rows=1, **{"in": 1})

    assert (first.topics, first.only_topic) == (("in", "rows"), "app-again-repartition")
    assert "first" in first.subtopology.nodes
    assert "second" not in first.subtopology.nodes
    assert second.topics == ("app-again-repartition", "in", "rows")


def test_joins_of_tables_do_not_fill_the_stores_that_they_look_into() -> None:
    builder = StreamsBuilder()
    rows, left = builder.table("rows", **TYPES), builder.table("in", **TYPES)
    joined = left.join(rows, lambda value, row: f"{value}{row}").to_stream()
    again = joined.select_key(lambda _, value: value).repartition(name="again", **TYPES).to_table()
    again.join(rows, lambda value, row: f"{value}{row}").to_stream().to("out", **TYPES)
    again.join(rows, lambda value, row: f"{value}{row}", foreign_key=lambda value: value)

    first, *_ = stages(builder.build(), rows=1, **{"in": 1})

    assert (first.topics, first.only_topic) == (("in", "rows"), "app-again-repartition")


def test_circle_of_topics_is_refused_by_name() -> None:
    builder = StreamsBuilder()
    builder.stream(["in", "loop"], **TYPES).to("loop")

    with pytest.raises(TopologyError, match=r"circle through 'loop'.*start it live"):
        stages(builder.build(), loop=1, **{"in": 1})
