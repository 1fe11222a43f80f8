"""A topic has one source; a second one is refused as soon as it shows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pystreams import StreamsBuilder, Topology, TopologyError
from pystreams.backfill.execution.planned_stages import planned_stages
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan

SERDES: dict[str, Any] = {"key_serde": STRING, "value_serde": STRING}
BOTH_ARE_NAMED = re.escape(
    "topic 'foo' is read by two sources, 'begin' (pattern 'f.*') and 'end' (pattern '.*o'): "
    "read it once and use the stream twice, or let the pattern leave it out"
)


def overlapping() -> Topology:
    """Two patterns that match "foo" both; whether there is such a topic shows at the start."""
    return (
        Topology()
        .add_source("begin", pattern="f.*", **SERDES)
        .add_source("end", pattern=".*o", **SERDES)
        .add_sink("out", "all", "begin", "end", **SERDES)
    )


def test_pattern_that_matches_a_topic_read_before(builder: StreamsBuilder) -> None:
    builder.stream("foo", name="one")
    builder.stream(pattern="f.*", name="all")

    with pytest.raises(
        TopologyError, match=r"'foo' is read by two sources, 'one' and 'all' \(pattern 'f\.\*'\)"
    ):
        builder.build()


def test_topic_that_a_pattern_before_matches(builder: StreamsBuilder) -> None:
    builder.stream(pattern="f.*", name="all")
    builder.table("foo")

    with pytest.raises(
        TopologyError, match=r"'foo' is read by two sources, 'all' \(pattern 'f\.\*'\) and '.*leave"
    ):
        builder.build()


def test_topics_and_patterns_of_the_processor_api_are_kept_apart() -> None:
    with pytest.raises(TopologyError, match="topic 'foo' is read by two sources, 'one' and 'two'"):
        Topology().add_source("one", "foo").add_source("two", "bar", "foo")
    with pytest.raises(TopologyError, match="topic 'foo' is read by two sources, 'one' and 'all'"):
        Topology().add_source("one", "foo").add_source("all", pattern="f.*")
    with pytest.raises(TopologyError, match=r"'foo' is read by two sources, 'all'.* and 'one'"):
        Topology().add_source("all", pattern="f.*").add_source("one", "foo")


def test_equal_patterns_of_two_sources_overlap_for_sure() -> None:
    with pytest.raises(TopologyError, match=r"'f\.\*' is read by two sources, 'one' and 'two'"):
        Topology().add_source("one", pattern="f.*").add_source("two", pattern=re.compile("f.*"))


def test_patterns_apart_from_all_other_topics_are_taken(builder: StreamsBuilder) -> None:
    builder.stream("food", name="one")
    builder.stream(pattern="fo", name="short")
    builder.stream(pattern="bar.*", name="other")

    assert list(builder.build().nodes) == ["one", "short", "other"]


def test_pattern_that_matches_the_real_name_of_a_repartition_topic(builder: StreamsBuilder) -> None:
    builder.stream(pattern="app-.*", name="all")
    builder.stream("in").repartition(name="spread").to("out")

    with pytest.raises(TopologyError, match=r"'app-spread-repartition' is read by two .*'all'"):
        TopologyPlan(builder.build(), "app")


def test_topic_of_two_patterns_is_refused_when_partitions_are_planned() -> None:
    plan = TopologyPlan(overlapping(), "app")

    assert plan_partitions(plan, {"fed": 2, "too": 1}).num_partitions == {"fed": 2, "too": 1}
    with pytest.raises(TopologyError, match=BOTH_ARE_NAMED):
        plan_partitions(plan, {"fed": 2, "foo": 1, "too": 1})


def test_topic_of_two_patterns_is_refused_by_a_backfill() -> None:
    with pytest.raises(TopologyError, match=BOTH_ARE_NAMED):
        planned_stages(TopologyPlan(overlapping(), "app"), {"foo": 1}, {})


def test_topic_of_two_patterns_is_refused_by_the_test_driver() -> None:
    with TopologyTestDriver(overlapping()) as driver:
        driver.create_input_topic("fed", STRING, STRING).pipe_input("a", "x")
        assert driver.create_output_topic("all", STRING, STRING).read_values() == ["x"]

        with pytest.raises(TopologyError, match=BOTH_ARE_NAMED):
            driver.create_input_topic("foo", STRING, STRING).pipe_input("a", "x")


@pytest.mark.parametrize("pattern", ["f(", 7, b"f.*"])
def test_pattern_that_is_no_regular_expression_for_text(
    builder: StreamsBuilder, pattern: Any
) -> None:
    with pytest.raises(TopologyError, match=r"stream: pattern .*(no regular expression|text)"):
        builder.stream(pattern=pattern)
    with pytest.raises(TopologyError, match=r"source 'all': pattern .*(no regular expr|text)"):
        Topology().add_source("all", pattern=pattern)
