"""Which input the stores of a state directory hold: each is flushed in its own time.

    store    says      changelog since      a slice may begin at
    big      21,694    goes on              21,694: else records are missing, or count twice
    rare        120    nothing              120 to where the group is: nothing that came changed it

A store says how far it was when it last wrote, not when it was restored or nothing concerned it.
One that was restored since, and lacks what others have logged by now, holds more than it says: how
much, nothing tells.
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
    concerned = {
        topic: set(plan.stores_reached_from(topic))
        for topic in {at.topic for read in inputs.values() for at in read}
    }
    committed, complete = _progress(flushed, config)
    for store in flushed:
        says_too_little = _says_nothing(store)
        if store.changelog.topic == plan.changelog_topic(store.name):
            read = {at for at in inputs[store.task_id] if store.name in concerned[at.topic]}
            says_too_little |= store.restored_since and store not in complete
        else:
            read = inputs[store.task_id] & {store.changelog}  # What restores it is its input.
        if not read or any(at.topic in internal for at in read) or says_too_little:
            untold.add(store.name)
        for at in read:
            if at.topic not in internal and not says_too_little:
                own = at == store.changelog
                last = store.changelog_offset if own else store.position.offsets.get(at, -1)
                next_offsets[at][store] = last + 1
    covered = {}
    for at, told in next_offsets.items():
        furthest = max(*told.values(), committed.get(at, 0))
        covered[at] = {
            store.name: Coverage(offset, furthest if store in complete else offset)
            for store, offset in told.items()
        }
    return CoveredInput(covered, sorted(untold))


def _says_nothing(store: FlushedStore) -> bool:
    """Return whether a store holds data and does not say of what; an empty one holds nothing."""
    return not store.position and bool(store.records)


def _progress(
    stores: Sequence[FlushedStore], config: StreamsConfig
) -> tuple[dict[TopicPartition, int], set[FlushedStore]]:
    """Return how far the group has come, and the stores that have all of their changelogs.

    The group is asked first: a store that has all of its changelog holds all that came before.
    """
    from pystreams.runtime.adapters.client_factory import ConfluentClients
    from pystreams.runtime.maintenance.topic_records import records_of

    clients = ConfluentClients(config)
    admin = clients.admin()
    held = admin.committed_offsets(config.application_id)
    committed = {at: offset.next_offset for at, offset in held.items()}
    counts = admin.partition_counts()
    there = [at for at in (store.changelog for store in stores) if _exists(at, counts)]
    ranges = admin.offset_ranges(there)
    complete = set()
    with closing(clients.history_consumer(f"{config.application_id}-replay")) as consumer:
        for store in stores:
            at, next_offset = store.changelog, store.changelog_offset + 1
            if at not in ranges or next_offset > ranges[at].end:
                continue  # It has none; or that is gone, and this is another one.
            first = max(next_offset, ranges[at].beginning)
            # Behind the last record there may be markers of transactions: it has to be read.
            more = records_of(consumer, {at: first}, {at: ranges[at].end})
            if next(more, None) is None:
                complete.add(store)
    return committed, complete


def _exists(at: TopicPartition, counts: Mapping[str, int]) -> bool:
    return at.partition < counts.get(at.topic, 0)
