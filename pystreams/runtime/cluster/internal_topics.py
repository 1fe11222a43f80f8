"""The internal topics of an application: which there must be, and how they are configured.

| topic | cleanup.policy | beside it |
|---|---|---|
| changelog of a key-value store | compact | |
| changelog of a window or session store | compact,delete | retention.ms=retention + additional |
| changelog of a versioned store | compact | min.compaction.lag.ms=history + a day |
| repartition | delete | segment.bytes=52428800, retention.ms=-1 (the runtime purges it) |

"Additional" is `windowstore.changelog.additional.retention.ms`, a day by default.
Join windows have "delete" alone. `message.timestamp.type=CreateTime` always. Settings, weakest
first: these, `topic.*` of the configuration, the store's own; nothing overrides the timestamp's
type, which event time needs.

A changelog has as many partitions as its sub-topology has tasks.

Source: Kafka Streams' `InternalTopicConfig` and its sub-classes; `InternalTopicManager`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pystreams.errors import ConfigError, FatalStreamsError, TopologyError
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.new_topic import NewTopic
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.plan.partition_plan import PartitionPlan
from pystreams.topology.plan.topology_plan import TopologyPlan

_ALWAYS = {"message.timestamp.type": "CreateTime"}
_REPARTITION = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
}

_KEEP_STATE = (
    "`pystreams rescale` moves the state to the new partitions, under another application.id, if "
    "all that was written before was processed. Or without it: "
)

_log = get_logger("pystreams.topics")


def internal_topics(
    plan: TopologyPlan,
    partitions: PartitionPlan,
    topic_config: Mapping[str, str],
    additional_retention_ms: int,
) -> list[NewTopic]:
    """Return the internal topics a topology needs, sorted by name.

    Args:
        partitions: Partition counts of its source and repartition topics.
        topic_config: Settings of the configuration for all internal topics.
        additional_retention_ms: `windowstore.changelog.additional.retention.ms`.
    """
    topics = [
        NewTopic(
            name,
            partitions.num_partitions[name],
            {**_REPARTITION, **topic_config, **_ALWAYS},
            "delete",
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
            _policy_for(store),
        )
        for subtopology in plan.subtopologies
        for store in plan.logged_stores(subtopology)
    ]
    return sorted(topics, key=lambda topic: topic.name)


def check_existing_topics(wanted: Iterable[NewTopic], existing: Mapping[str, int]) -> None:
    """Check that internal topics that exist have the partitions the topology needs now.

    Args:
        existing: Partition count of the topics on the broker.

    Raises:
        TopologyError: Some have another count: keys would meet the wrong task's state.
    """
    wrong = [
        topic
        for topic in wanted
        if existing.get(topic.name, topic.num_partitions) != topic.num_partitions
    ]
    if wrong:
        told = "; ".join(
            f"{topic.name!r} has {existing[topic.name]} partitions and needs {topic.num_partitions}"
            for topic in wrong
        )
        keeps = any(topic.needed_policy != "delete" for topic in wrong)
        raise TopologyError(
            f"internal topic {told}: the input's partitions or the topology have changed since it "
            f"was created; {_KEEP_STATE if keeps else ''}start under a new application.id, or let "
            "this one begin anew with `pystreams reset`. If it was created by hand in place of one "
            "that was deleted: delete it, and start again; it is then made as it should be, or the "
            "choices are told"
        )


def check_cleanup_policies(
    wanted: Iterable[NewTopic], existing: Mapping[str, Collection[str]]
) -> None:
    """Refuse internal topics whose records the broker would delete against their use.

    A changelog without "compact" loses state that was not written to for a while; a repartition
    topic with it loses records that were not processed yet. A changelog that is to be compacted
    alone, and has a retention too, is warned of.

    Args:
        wanted: What the topology needs, with the settings it would be created with.
        existing: Cleanup policies of the topics on the broker, as far as they are known.

    Raises:
        ConfigError: The application's own settings are such.
        FatalStreamsError: Those of a topic on the broker are.
    """
    for topic in wanted:
        own = frozenset(topic.config["cleanup.policy"].replace(" ", "").split(","))
        if not _fits(topic, own, own):
            raise ConfigError(
                f"internal topic {topic.name!r} would have cleanup.policy={_text(own)}, and the "
                f"broker delete records {_USE[topic.needed_policy]}: take topic.cleanup.policy, "
                "or the setting of the store's changelog, out of the configuration"
            )
        found = existing.get(topic.name, own)
        cure = (
            "kafka-configs.sh --bootstrap-server <broker> --alter --entity-type topics "
            f"--entity-name {topic.name} --add-config 'cleanup.policy=[{_text(own)}]'"
        )
        if not _fits(topic, found, own):
            raise FatalStreamsError(
                f"internal topic {topic.name!r} has cleanup.policy={_text(found)}, and the broker "
                f"deletes records {_USE[topic.needed_policy]}. Correct it, then start again: {cure}"
            )
        if "delete" in found and "delete" not in own:
            _log.warning(
                "changelog has a retention: state that is older is deleted from it",
                topic=topic.name,
                cure=cure,
            )


_USE = {
    "compact": "that the store has to be restored from",
    "delete": "before they are processed",
    None: "that the store has to be restored from",
}


def _policy_for(store: StoreBuilder) -> str | None:
    """Return the policy a changelog needs: without a retention of its own it must be compacted."""
    return None if "delete" in store.changelog_defaults(0)["cleanup.policy"] else "compact"


def _fits(topic: NewTopic, policy: Collection[str], own: Collection[str]) -> bool:
    """Return whether a cleanup policy does for a topic that would be created with its own."""
    if topic.needed_policy == "delete":
        return "compact" not in policy
    return "compact" in policy or (topic.needed_policy is None and "compact" not in own)


def _text(policy: Collection[str]) -> str:
    return ",".join(sorted(policy))
