"""Which input the stores of a state directory hold: each is flushed in its own time.

    store    says      changelog since      a slice may begin at
    big      21,694    goes on              21,694: else records are missing, or count twice
    rare        120    nothing              120 to where the group is: nothing that came changed it

A store says how far it was when it last wrote, not when it was restored or nothing concerned it.
A slice begins where no store lacks a record, so at the oldest of those whose changelog goes on.
What is between that and where another store was flushed counts twice in that one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
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
    """Return which input stores hold; asks the broker what they lack.

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
                own = at == store.changelog
                last = store.changelog_offset if own else store.position.offsets.get(at, -1)
                next_offsets[at][store] = last + 1
    ends = _Changelogs(config)
    covered = {}
    for at, told in next_offsets.items():
        furthest = max(*told.values(), ends.committed.get(at, 0))
        covered[at] = {
            store.name: Coverage(offset, furthest if ends.are_in(store) else offset)
            for store, offset in told.items()
        }
    return CoveredInput(covered, sorted(untold))


def _concerns(at: TopicPartition, store: FlushedStore, plan: TopologyPlan) -> bool:
    """Return whether a store holds what comes of a partition, or is restored from it alone."""
    if store.changelog.topic != plan.changelog_topic(store.name):
        return at == store.changelog
    return store.name in plan.stores_reached_from(at.topic)


def _says_nothing(store: FlushedStore) -> bool:
    """Return whether a store holds data and does not say of what; an empty one holds nothing."""
    return not store.position and bool(store.records)


class _Changelogs:
    """What the broker has beyond the stores.

    Attributes:
        committed: How far the group has come. It was asked before any changelog, so that a store
            whose changelog has nothing more holds all that came before.
    """

    def __init__(self, config: StreamsConfig) -> None:
        from pystreams.runtime.adapters.client_factory import ConfluentClients

        self._client_id = f"{config.application_id}-replay"
        self._clients = ConfluentClients(config)
        self._admin = self._clients.admin()
        held = self._admin.committed_offsets(config.application_id)
        self.committed = {at: offset.next_offset for at, offset in held.items()}
        self._counts = self._admin.partition_counts()
        self._known: dict[FlushedStore, bool] = {}

    def are_in(self, store: FlushedStore) -> bool:
        """Return whether a store has all that its changelog has."""
        if store not in self._known:
            self._known[store] = self._is_in(store)
        return self._known[store]

    def _is_in(self, store: FlushedStore) -> bool:
        from pystreams.runtime.maintenance.topic_records import records_of

        changelog = store.changelog
        if changelog.partition >= self._counts.get(changelog.topic, 0):
            return False  # It has none, or that is gone.
        held = self._admin.offset_ranges([changelog])[changelog]
        next_offset = store.changelog_offset + 1
        if next_offset >= held.end:
            return next_offset == held.end
        first = max(next_offset, held.beginning)
        # Behind the last record there may be markers of transactions: it has to be read.
        with closing(self._clients.history_consumer(self._client_id)) as consumer:
            more = records_of(consumer, {changelog: first}, {changelog: held.end})
            return next(more, None) is None
