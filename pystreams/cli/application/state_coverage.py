"""Which input the stores of a state directory hold: each is flushed in its own time.

    store    flushed at   changelog since      a slice may begin at
    big           21,694   goes on              21,694: else records are missing, or count twice
    rare             120   nothing              120 to 21,694: what came since did not concern it

A slice begins where no store lacks a record, so at the oldest of those whose changelog goes on.
What is between that and where another store was flushed counts twice in that one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from pystreams.ids import TaskId, TopicPartition

if TYPE_CHECKING:
    from pystreams.config import StreamsConfig
    from pystreams.runtime.maintenance.state_reading import FlushedStore
    from pystreams.topology.plan.topology_plan import TopologyPlan


class Coverage(NamedTuple):
    """At which offsets of a partition a slice may begin, for one store to come out right."""

    first: int
    last: int


class CoveredInput(NamedTuple):
    """Which input the stores hold.

    Attributes:
        of_stores: By partition of a source topic and by store.
        untold: The stores of which nothing tells which of the user's input they hold.
    """

    of_stores: Mapping[TopicPartition, Mapping[str, Coverage]]
    untold: Sequence[str]


def covered_input(
    flushed: Sequence[FlushedStore], plan: TopologyPlan, config: StreamsConfig
) -> CoveredInput:
    """Return which input stores hold; asks the broker for changelogs where they disagree.

    Raises:
        StreamsError: No broker answers.
    """
    inputs: dict[TaskId, set[TopicPartition]] = defaultdict(set)
    for store in flushed:
        inputs[store.task_id].update(store.position.offsets)
    internal = plan.repartition_topics()
    next_offsets: dict[TopicPartition, dict[FlushedStore, int]] = defaultdict(dict)
    untold: set[str] = set()
    for store in flushed:
        read = [at for at in inputs[store.task_id] if _concerns(at, store, plan)]
        if not read or any(at.topic in internal for at in read) or _says_nothing(store):
            untold.add(store.name)
        for at in read:
            if at.topic not in internal and not _says_nothing(store):
                next_offsets[at][store] = store.position.offsets.get(at, -1) + 1
    behind = {
        store
        for told in next_offsets.values()
        for store, offset in told.items()
        if offset < max(told.values())
    }
    unchanged = _unchanged_since(behind, plan, config)
    covered = {
        at: {
            store.name: Coverage(offset, max(told.values()) if store in unchanged else offset)
            for store, offset in told.items()
        }
        for at, told in next_offsets.items()
    }
    return CoveredInput(covered, sorted(untold))


def _concerns(at: TopicPartition, store: FlushedStore, plan: TopologyPlan) -> bool:
    """Return whether a store holds what comes of a partition, or is restored from it alone."""
    part = plan.subtopology_of_store(store.name)
    restored_from = None if part is None else plan.source_changelogs(part).get(store.name)
    if restored_from is not None:
        return at.topic == restored_from
    return store.name in plan.stores_reached_from(at.topic)


def _says_nothing(store: FlushedStore) -> bool:
    """Return whether a store holds data and does not say of what; an empty one holds nothing."""
    return not store.position and bool(store.records)


def _unchanged_since(
    stores: Iterable[FlushedStore], plan: TopologyPlan, config: StreamsConfig
) -> set[FlushedStore]:
    """Return the stores whose changelogs have nothing that is not in them."""
    from pystreams.runtime.adapters.client_factory import ConfluentClients
    from pystreams.runtime.maintenance.topic_records import records_of

    logged = plan.changelogs()
    changelogs = {
        TopicPartition(topic, store.task_id.partition): store
        for store in stores
        if (topic := plan.changelog_topic(store.name)) in logged
    }
    if not changelogs:
        return set()
    clients = ConfluentClients(config)
    counts = clients.admin().partition_counts()
    there = [at for at in changelogs if at.partition < counts.get(at.topic, 0)]
    ranges = clients.admin().offset_ranges(there)
    unchanged = set()
    with closing(clients.history_consumer(f"{config.application_id}-replay")) as consumer:
        for at in there:
            store, held = changelogs[at], ranges[at]
            next_offset = store.changelog_offset + 1
            first = max(next_offset, held.beginning)
            # Behind the last record there may be markers of transactions: it has to be read.
            more = next(records_of(consumer, {at: first}, {at: held.end}), None)
            if more is None and next_offset <= held.end:
                unchanged.add(store)
    return unchanged
