"""Internal topics: which there are, their partitions and settings."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from pystreams import ConfigError, FatalStreamsError, JoinWindows, StreamsBuilder, TopologyError
from pystreams.runtime.cluster.internal_topics import (
    check_cleanup_policies,
    check_existing_topics,
    internal_topics,
)
from pystreams.runtime.cluster.new_topic import NewTopic
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan

COMPACT = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
PURGED = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
}


def _topics(topic_config: dict[str, str]) -> dict[str, NewTopic]:
    builder = StreamsBuilder()
    grouped = builder.stream("input").group_by(lambda _, value: value, name="by-value")
    grouped.count(name="counts")
    plan = TopologyPlan(builder.build(), "app")
    partitions = plan_partitions(plan, {"input": 6})
    return {topic.name: topic for topic in internal_topics(plan, partitions, topic_config, 0)}


def test_topics_have_kafka_streams_names_partitions_and_settings() -> None:
    assert _topics({}) == {
        "app-by-value-repartition": NewTopic("app-by-value-repartition", 6, PURGED, "delete"),
        "app-counts-changelog": NewTopic("app-counts-changelog", 6, COMPACT, "compact"),
    }


def test_the_users_settings_are_stronger_but_for_the_kind_of_timestamp() -> None:
    given = {"segment.bytes": "1000", "message.timestamp.type": "LogAppendTime"}
    topics = _topics(given)
    assert topics["app-by-value-repartition"].config == {**PURGED, "segment.bytes": "1000"}
    assert topics["app-counts-changelog"].config == {**COMPACT, "segment.bytes": "1000"}


def test_an_existing_topic_must_have_as_many_partitions() -> None:
    wanted = _topics({}).values()
    check_existing_topics(wanted, {})
    check_existing_topics(wanted, {"app-counts-changelog": 6, "other": 1})
    with pytest.raises(TopologyError, match=r"'app-counts-changelog' has 4 .* needs 6.*new app"):
        check_existing_topics(wanted, {"app-counts-changelog": 4})


def test_a_change_of_partitions_is_told_with_the_command_that_keeps_state_where_there_is_some() -> (
    None
):
    wanted = _topics({}).values()
    with pytest.raises(TopologyError, match=r"`pystreams rescale` moves the state"):
        check_existing_topics(wanted, {"app-counts-changelog": 4})
    with pytest.raises(TopologyError) as told:
        check_existing_topics(wanted, {"app-by-value-repartition": 4})
    assert "rescale" not in str(told.value)


COUNTS = "app-counts-changelog"
REPARTITION = "app-by-value-repartition"
WINDOWS = "app-windows-changelog"


def _with_windows() -> list[NewTopic]:
    policy = {"cleanup.policy": "compact,delete"}
    return [*_topics({}).values(), NewTopic(WINDOWS, 6, policy)]


@pytest.mark.parametrize(
    ("topic", "policy", "right"),
    [
        (COUNTS, {"delete"}, "[compact]"),
        (REPARTITION, {"compact"}, "[delete]"),
        (REPARTITION, {"compact", "delete"}, "[delete]"),
        (WINDOWS, {"delete"}, "[compact,delete]"),
    ],
)
def test_a_topic_whose_records_the_broker_deletes_too_early_is_refused_with_the_command(
    topic: str, policy: set[str], right: str
) -> None:
    cure = f"--entity-name {topic} --add-config 'cleanup.policy={right}'"
    with pytest.raises(FatalStreamsError, match="Correct it, then start again") as caught:
        check_cleanup_policies(_with_windows(), {topic: policy})
    assert cure in str(caught.value)


@pytest.mark.parametrize(
    ("topic", "policy"), [(WINDOWS, {"compact"}), (COUNTS, {"compact"}), (REPARTITION, {"delete"})]
)
def test_what_keeps_all_that_is_needed_is_taken(topic: str, policy: set[str]) -> None:
    with capture_logs() as logs:
        check_cleanup_policies(_with_windows(), {topic: policy})
        check_cleanup_policies(_with_windows(), {})
    assert not logs


def test_a_changelog_that_is_compacted_and_has_a_retention_is_warned_of() -> None:
    with capture_logs() as logs:
        check_cleanup_policies(_with_windows(), {COUNTS: {"compact", "delete"}})
    assert [(line["log_level"], line["topic"]) for line in logs] == [("warning", COUNTS)]


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_policy_of_the_configuration_that_does_not_do_for_all_topics_is_refused(
    policy: str,
) -> None:
    with pytest.raises(ConfigError, match=r"take topic\.cleanup\.policy.*out"):
        check_cleanup_policies(_topics({"cleanup.policy": policy}).values(), {})


def test_windows_of_joins_are_not_compacted() -> None:
    builder = StreamsBuilder()
    windows = JoinWindows.of_time_difference_with_no_grace(10)
    builder.stream("left").join(
        builder.stream("right"), lambda value, other: (value, other), windows
    )
    plan = TopologyPlan(builder.build(), "app")
    partitions = plan_partitions(plan, {"left": 1, "right": 1})
    wanted = internal_topics(plan, partitions, {}, 0)
    check_cleanup_policies(wanted, {topic.name: {"delete"} for topic in wanted})
    assert {topic.config["cleanup.policy"] for topic in wanted} == {"delete"}
