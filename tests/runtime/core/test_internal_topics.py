"""Internal topics: which there are, their partitions and settings."""

from __future__ import annotations

import pytest

from pystreams import StreamsBuilder
from pystreams.errors import TopologyError
from pystreams.runtime.core.internal_topics import check_existing_topics, internal_topics
from pystreams.runtime.core.new_topic import NewTopic
from pystreams.topology.partitions import plan_partitions
from pystreams.topology.plan import TopologyPlan

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
        "app-by-value-repartition": NewTopic("app-by-value-repartition", 6, PURGED),
        "app-counts-changelog": NewTopic("app-counts-changelog", 6, COMPACT),
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
