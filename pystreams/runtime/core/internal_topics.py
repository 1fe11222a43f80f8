"""The internal topics of an application: which there must be, and how they are configured.

| topic | cleanup.policy | beside it |
|---|---|---|
| changelog of a key-value store | compact | |
| changelog of a window or session store | compact,delete | retention.ms=retention + additional |
| changelog of a versioned store | compact | min.compaction.lag.ms=history + a day |
| repartition | delete | segment.bytes=52428800, retention.ms=-1 (the runtime purges it) |

"Additional" is `windowstore.changelog.additional.retention.ms`, a day by default.
`message.timestamp.type=CreateTime` always. Settings, weakest first: these, `topic.*` of the
configuration, the store's own; nothing overrides the timestamp's type, which event time needs.

A changelog has as many partitions as its sub-topology has tasks.

Source: Kafka Streams' `InternalTopicConfig` and its sub-classes; `InternalTopicManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pystreams.errors import TopologyError
from pystreams.runtime.core.new_topic import NewTopic
from pystreams.topology.partitions import PartitionPlan
from pystreams.topology.plan import TopologyPlan

_ALWAYS = {"message.timestamp.type": "CreateTime"}
_REPARTITION = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
}


def internal_topics(
    plan: TopologyPlan,
    partitions: PartitionPlan,
    topic_config: Mapping[str, str],
    additional_retention_ms: int,
) -> list[NewTopic]:
    """Return the internal topics a topology needs, sorted by name.

    Args:
        plan: The topology's plan.
        partitions: Partition counts of its source and repartition topics.
        topic_config: Settings of the configuration for all internal topics.
        additional_retention_ms: `windowstore.changelog.additional.retention.ms`.
    """
    topics = [
        NewTopic(
            name,
            partitions.num_partitions[name],
            {**_REPARTITION, **topic_config, **_ALWAYS},
        )
        for name in plan.repartition_topics()
    ]
    topics += [
        NewTopic(
            plan.changelog_topic(store.name),
            partitions.num_tasks[subtopology.id],
            {
                **store.changelog_defaults(additional_retention_ms),
                **topic_config,
                **store.changelog_config,
                **_ALWAYS,
            },
        )
        for subtopology in plan.subtopologies
        for store in plan.logged_stores(subtopology)
    ]
    return sorted(topics, key=lambda topic: topic.name)


def check_existing_topics(wanted: Iterable[NewTopic], existing: Mapping[str, int]) -> None:
    """Check that internal topics that exist have the partitions the topology needs now.

    Args:
        wanted: What the topology needs.
        existing: Partition count of the topics on the broker.

    Raises:
        TopologyError: Some have another count: keys would meet the wrong task's state.
    """
    wrong = [
        f"{topic.name!r} has {existing[topic.name]} partitions and needs {topic.num_partitions}"
        for topic in wanted
        if existing.get(topic.name, topic.num_partitions) != topic.num_partitions
    ]
    if wrong:
        message = (
            f"internal topic {'; '.join(wrong)}: the input's partitions or the topology have "
            "changed since it was created; start under a new application.id, or let this one "
            "begin anew with `pystreams reset`"
        )
        raise TopologyError(message)
