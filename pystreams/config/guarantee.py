"""The choices a configuration makes by name."""

from __future__ import annotations

from enum import Enum


class ProcessingGuarantee(Enum):
    """What a crash may do to the output. Spec: KIP-129; KIP-447 for version 2."""

    AT_LEAST_ONCE = "at_least_once"
    """Nothing is lost; records since the last commit may be processed twice."""
    EXACTLY_ONCE = "exactly_once"
    """Exactly once, with a transactional producer for each task."""
    EXACTLY_ONCE_V2 = "exactly_once_v2"
    """Exactly once, with one transactional producer for each thread."""

    @property
    def exactly_once(self) -> bool:
        """Whether output, changelogs and offsets commit in transactions."""
        return self is not ProcessingGuarantee.AT_LEAST_ONCE


class GroupProtocol(Enum):
    """How members of the consumer group agree on partitions."""

    CLASSIC = "classic"
    """Every broker; the clients assign, with librdkafka's `range`."""
    CONSUMER = "consumer"
    """Brokers from 4.0 (KIP-848); the broker assigns, with its `range`."""


class IsolationLevel(Enum):
    """What queries from other threads see. Spec: KIP-892 "Proposed Changes"."""

    READ_UNCOMMITTED = "READ_UNCOMMITTED"
    READ_COMMITTED = "READ_COMMITTED"


class ChangelogLossPolicy(Enum):
    """What becomes of a store that is the last copy of what its changelog has lost."""

    STOP = "stop"
    """The application stops and says so; nothing is changed."""
    KEEP = "keep"
    """The store is kept, what the changelog holds is applied to it, and all of it logged again."""
    RESTORE = "restore"
    """The store is wiped, and restored from what the changelog holds."""
    EMPTY = "empty"
    """The store is wiped, and the changelog told that it is empty."""


class TopologyOptimization(Enum):
    """A way to run the same topology with fewer topics or stores. Spec: KIP-295, KIP-862."""

    REUSE_KTABLE_SOURCE_TOPICS = "reuse.ktable.source.topics"
    """A table read from a topic has no changelog: it is restored from that topic."""
    MERGE_REPARTITION_TOPICS = "merge.repartition.topics"
    """What is grouped or joined several times after one change of keys is repartitioned once."""
    SINGLE_STORE_SELF_JOIN = "single.store.self.join"
    """A stream that is joined with itself keeps its records once."""
