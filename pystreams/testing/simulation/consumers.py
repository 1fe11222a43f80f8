"""Consumers of a simulated broker: the group's, and the one that restores changelogs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pystreams.errors import (
    InputLossError,
    OffsetOutOfRangeError,
    RetriableClientError,
    TaskMigratedError,
)
from pystreams.ids import TopicPartition
from pystreams.record import ConsumedMessage
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.ports import ChangelogBatch, PartitionBatch, RebalanceListener
from pystreams.testing.simulation.broker import SimulatedBroker
from pystreams.testing.simulation.faults import Lifeline
from pystreams.testing.simulation.group import NO_MEMBER, GroupMetadata, Member

_GROUP = "simulated"
_GLANCE_MS = 10
"""How long a poll takes that would not wait, where nobody answers."""


class SimulatedConsumer:
    """Implements `ConsumerPort`; reads what is committed, from the earliest offset if none is set.

    Args:
        instance_id: Makes it a static member where the protocol has them.
    """

    def __init__(
        self,
        broker: SimulatedBroker,
        lifeline: Lifeline,
        client_id: str,
        instance_id: str | None = None,
    ) -> None:
        self._broker = broker
        self._faults = broker.faults
        self._lifeline = lifeline
        self._client_id = client_id
        self._instance_id = instance_id
        self._topics: tuple[str, ...] = ()
        self._patterns: tuple[str, ...] = ()
        self._listener: RebalanceListener | None = None
        self._member: Member | None = None
        self._positions: dict[TopicPartition, int | None] = {}
        self._paused: set[TopicPartition] = set()
        self._known_ends: dict[TopicPartition, int] = {}
        self._leaving = False
        self._closed = False
        self._fetches = True
        self._polls_heard = -1  # Counts down to the last one; below 0 there is none.

    # ------------------------------------------------------------------ group

    def subscribe(
        self, topics: Sequence[str], patterns: Sequence[str], listener: RebalanceListener
    ) -> None:
        """Join the group at the next poll; what patterns match is looked at with each."""
        self._lifeline.pulse(f"{self._client_id} subscribe")
        self._topics, self._patterns = tuple(topics), tuple(patterns)
        self._listener = listener

    def poll(self, max_records: int, timeout_s: float) -> list[PartitionBatch]:
        """Do what the group asks for, then return what has arrived."""
        self._lifeline.pulse(f"{self._client_id} poll")
        assert not self._closed, "poll of a closed consumer"
        self._broker.tick()
        if self._broker.away:
            self._broker.clock.advance_ms(max(timeout_s * 1000, _GLANCE_MS))
            return []
        if self._listener is not None and self._polls_heard != 0:
            self._polls_heard -= 1
            self._follow_group(self._listener)
        batches = self._fetch(max_records)
        if not batches:
            self._broker.clock.advance_ms(timeout_s * 1000)
        self._lifeline.pulse(
            f"{self._client_id} polled "
            + " ".join(f"{batch.partition}:{len(batch.messages)}" for batch in batches)
        )
        return batches

    def grow_deaf(self) -> None:
        """Do what the group asks for once more, and never hear of it again."""
        self._polls_heard = 1

    def fetch_in_vain(self) -> None:
        """Have no answers to fetches any more; all others come."""
        self._fetches = False

    def member_id(self) -> str:
        """Return its id in the group; empty when it is in none."""
        return "" if self._member is None else self._member.member_id

    def leave(self) -> None:
        """Leave the group at the next poll, unless it has subscribed again by then: before it."""
        self._lifeline.pulse(f"{self._client_id} leave")
        self._topics = self._patterns = ()
        self._leaving = True

    def close(self, *, leave: bool = False) -> None:
        """Give everything up; a static member stays in the group unless it is to leave."""
        self._lifeline.pulse(f"{self._client_id} close")
        if self._closed:
            return
        self._closed = True
        if self._member is None:
            return
        if leave or self._member.instance_id is None:
            self._leave(self._told())
        else:
            self._revoke(list(self._positions), self._told())

    def _leave(self, listener: RebalanceListener) -> None:
        """Give everything up and leave; a process that dies in it stays a member."""
        try:
            self._revoke(list(self._positions), listener)
        finally:
            if self._member is not None and self._lifeline.alive:
                self._broker.group.leave(self._member)
            self._member, self._leaving = None, False

    def _told(self) -> RebalanceListener:
        assert self._listener is not None, "poll before subscribe"
        return self._listener

    def _follow_group(self, listener: RebalanceListener) -> None:
        group = self._broker.group
        if self._leaving:
            self._leave(listener)
        topics = self._wanted()
        if not topics:
            return
        member = self._member
        if member is None or not group.knows(member):
            lost = list(self._positions)
            self._drop(lost)
            if lost:
                listener.on_partitions_lost(lost)
            self._member = member = group.join(self._client_id, topics, self._instance_id)
            if group.rebalancing or group.incremental:
                return
        group.touch(member)
        if self._patterns and topics != member.topics:
            group.resubscribe(member, topics)
        if group.incremental:
            self._reconcile(member, listener)
        else:
            self._rebalance(member, listener)

    def _wanted(self) -> tuple[str, ...]:
        there = sorted(self._broker.partition_counts()) if self._patterns else ()
        found = (topic for topic in there if any(re.fullmatch(p, topic) for p in self._patterns))
        return tuple(dict.fromkeys((*self._topics, *found)))

    def _rebalance(self, member: Member, listener: RebalanceListener) -> None:
        """Take part in the eager protocol."""
        group = self._broker.group
        if group.rebalancing and not member.joined:
            self._revoke(list(self._positions), listener)
            if group.knows(member):
                group.rejoin(member)
        if not group.rebalancing and member.generation != group.generation and member.joined:
            self._assign(group.assignment(member), listener)

    def _reconcile(self, member: Member, listener: RebalanceListener) -> None:
        """Take part in the incremental protocol."""
        group = self._broker.group
        gone = group.to_revoke(member)
        if gone:
            self._revoke(gone, listener)
            group.released(member, gone)
        if not group.knows(member):
            return
        first = member.generation < 0
        member.generation = group.generation
        new = group.to_assign(member)
        if new or first:
            group.taken(member, new)
            self._assign(new, listener)

    def _revoke(self, partitions: list[TopicPartition], listener: RebalanceListener) -> None:
        if not partitions:
            return
        self._faults.note(f"{self._client_id} revoked {sorted(map(str, partitions))}")
        try:
            listener.on_partitions_revoked(partitions)
        finally:
            self._drop(partitions)

    def _assign(self, partitions: Sequence[TopicPartition], listener: RebalanceListener) -> None:
        self._faults.note(f"{self._client_id} assigned {sorted(map(str, partitions))}")
        self._positions.update(dict.fromkeys(partitions))
        listener.on_partitions_assigned(list(partitions))

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)
            self._paused.discard(partition)
            self._known_ends.pop(partition, None)

    # ------------------------------------------------------------------ records

    def _fetch(self, max_records: int) -> list[PartitionBatch]:
        if not self._fetches or self._faults.happens(self._faults.rates.empty_poll):
            return []
        left = max_records
        if self._faults.happens(self._faults.rates.short_poll):
            left = self._faults.random.randint(1, max_records)
        readable = [
            (partition, position)
            for partition, position in self._positions.items()
            if position is not None
            and partition not in self._paused
            and partition not in self._broker.fetched_in_vain
        ]
        self._faults.random.shuffle(readable)
        batches: list[PartitionBatch] = []
        for partition, position in readable:
            log = self._broker.log(partition)
            if position > log.high_watermark:
                raise InputLossError(partition, _GROUP, position, log.high_watermark)
            found, next_position = log.read(max(position, log.beginning), left)
            self._positions[partition] = next_position
            self._known_ends[partition] = log.stable_end
            if found:
                messages: list[ConsumedMessage] = list(found)
                batches.append(PartitionBatch(partition, messages))
                left -= len(messages)
            if not left:
                break
        return batches

    def start_at(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Set positions and resume."""
        self._lifeline.pulse(f"{self._client_id} start_at {_listed(positions)}")
        for partition, position in positions.items():
            self._move(partition, position)
            self._paused.discard(partition)
            self._maybe_no_answer("start_at")

    def _move(self, partition: TopicPartition, position: int | None) -> None:
        assert partition in self._positions, f"{partition} is not assigned"
        earliest = self._broker.log(partition).beginning
        self._positions[partition] = earliest if position is None else position
        self._known_ends.pop(partition, None)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching."""
        paused = list(partitions)
        self._lifeline.pulse(f"{self._client_id} pause {_listed(paused)}")
        self._paused.update(paused)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch again."""
        resumed = list(partitions)
        self._lifeline.pulse(f"{self._client_id} resume {_listed(resumed)}")
        self._paused.difference_update(resumed)

    def known_lag(self, partition: TopicPartition) -> int | None:
        """Return what the last fetch told."""
        end, position = self._known_ends.get(partition), self._positions.get(partition)
        return None if end is None or position is None else max(end - position, 0)

    def note_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Take what brokers have said."""
        for partition in ends.keys() & self._positions.keys():
            self._known_ends[partition] = max(self._known_ends.get(partition, 0), ends[partition])

    def read_to_end(self, partitions: Sequence[TopicPartition]) -> bool:
        """Return whether nothing lies beyond the positions; an answer may be lost."""
        self._lifeline.pulse(f"{self._client_id} read_to_end {_listed(partitions)}")
        if self._broker.gives_no_answer():
            return False
        return all(
            self._positions.get(partition) == self._broker.log(partition).stable_end
            for partition in partitions
        )

    # ------------------------------------------------------------------ offsets

    def committed(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return committed offsets; refuses while a transaction holds some of them."""
        self._lifeline.pulse(f"{self._client_id} committed {_listed(partitions)}")
        self._maybe_no_answer("committed")
        unstable = self._broker.transactions.pending_offsets()
        if not unstable.isdisjoint(partitions):
            raise RetriableClientError("offsets are pending in a transaction")
        offsets = self._broker.group.offsets
        return {at: offsets[at] for at in partitions if at in offsets}

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets; a lost answer may hide a success."""
        self._lifeline.pulse(f"{self._client_id} commit {_offsets(offsets)}")
        self._maybe_no_answer("commit")
        group = self._broker.group
        try:
            group.check(self.group_metadata())
        except TaskMigratedError:
            group.refused.update(offsets)
            raise
        group.commit(offsets)
        self._maybe_no_answer("commit")
        self._lifeline.pulse(f"{self._client_id} committed")

    def group_metadata(self) -> GroupMetadata:
        """Return what fences transactions; that of no member fences nothing."""
        self._lifeline.pulse(f"{self._client_id} group_metadata")
        if self._member is None:
            return NO_MEMBER
        return self._broker.group.metadata(self._member)

    def _maybe_no_answer(self, call: str) -> None:
        self._faults.maybe_fail(call)
        self._broker.maybe_no_answer(call)


class SimulatedRestoreConsumer:
    """Implements `RestoreConsumerPort`; reads what is committed.

    Attributes:
        restored: Records it has handed out.
    """

    def __init__(self, broker: SimulatedBroker, lifeline: Lifeline, client_id: str) -> None:
        self.restored = 0
        self._broker = broker
        self._faults = broker.faults
        self._lifeline = lifeline
        self._client_id = client_id
        self._positions: dict[TopicPartition, int] = {}
        self._ends_told: dict[TopicPartition, int] = {}

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions; those that were read already go on."""
        self._lifeline.pulse(f"{self._client_id} assign {_listed(positions)}")
        self._positions = {
            partition: self._positions.get(partition, position)
            for partition, position in positions.items()
        }
        self._ends_told = {
            partition: end for partition, end in self._ends_told.items() if partition in positions
        }

    def poll(self, max_records: int, timeout_s: float) -> list[ChangelogBatch]:
        """Return records; tells the end of a partition once, and again when it has moved."""
        self._lifeline.pulse(f"{self._client_id} poll")
        self._broker.tick()
        if self._broker.away:
            self._broker.clock.advance_ms(max(timeout_s * 1000, _GLANCE_MS))
            return []
        batches: list[ChangelogBatch] = []
        left = max_records
        if self._faults.happens(self._faults.rates.short_poll):
            left = self._faults.random.randint(1, 5)
        for partition, position in self._positions.items():
            if self._faults.happens(self._faults.rates.empty_poll) or not left:
                continue
            if partition in self._broker.fetched_in_vain:
                continue
            log = self._broker.log(partition)
            if position < log.beginning:
                # As in the real client, what was read of other partitions goes with it.
                raise OffsetOutOfRangeError(f"{partition}: offset {position} is gone", partition)
            found, next_position = log.read(position, left)
            left -= len(found)
            self._positions[partition] = next_position
            end = log.stable_end
            at_end = next_position >= end and self._ends_told.get(partition) != end
            if at_end:
                self._ends_told[partition] = end
            if found or at_end:
                messages: list[ConsumedMessage] = list(found)
                batches.append(ChangelogBatch(partition, messages, end if at_end else None))
            self.restored += len(found)
        if not batches:
            self._broker.clock.advance_ms(timeout_s * 1000)
        return batches

    def close(self) -> None:
        """Release nothing."""
        self._lifeline.pulse(f"{self._client_id} close")


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return " ".join(sorted(map(str, partitions)))


def _offsets(offsets: Mapping[TopicPartition, CommittedOffset]) -> str:
    return " ".join(f"{partition}@{offset.next_offset}" for partition, offset in offsets.items())
