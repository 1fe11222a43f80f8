"""The transaction coordinator of a simulated broker.

    EMPTY -> ONGOING -> PREPARE_COMMIT | PREPARE_ABORT -> EMPTY

A decision is durable when it is prepared, and the producer is told at once. The markers are
written afterwards, partition by partition, committed offsets in between: until then readers of
one partition may know the outcome while readers of another do not. That window is what makes
a simulation worth having.

A request that a producer has sent twice, as it got no answer, is met twice: the copy waits in
`late` until something else happens. It has the producer's epoch and nothing that says which
transaction it was for. Only a newer epoch keeps it from ending a later one.

Spec: KIP-98 "Transaction Coordinator"; KIP-360 for epochs bumped by a timeout; KIP-890 "Motivation"
for late requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from pystreams.errors import TaskMigratedError
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import Clock
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.testing.simulation.faults import Faults
from pystreams.testing.simulation.partition_log import PartitionLog


class TransactionState(Enum):
    """Where the current transaction of a transactional id is."""

    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare commit"
    PREPARE_ABORT = "prepare abort"


@dataclass(slots=True)
class TransactionalId:
    """What the coordinator knows of one transactional id.

    Attributes:
        epoch: The epoch of the producer that may use it.
        number: Number of the current transaction, unique in the broker.
        started_ms: When it began (ms).
        partitions: Partitions without a marker, in order of their first record.
        offsets: Group offsets that become visible when it commits.
    """

    name: str
    epoch: int = -1
    state: TransactionState = TransactionState.EMPTY
    number: int = -1
    started_ms: float = 0.0
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)

    @property
    def prepared(self) -> bool:
        """Whether it is decided, and some markers are still to be written."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


@dataclass(slots=True)
class TransactionCoordinator:
    """Transactions of all producers.

    Attributes:
        commit_offsets: Makes group offsets visible.
        faults: Decides in which order markers are written.
        timeout_ms: After so long an open transaction is aborted (ms).
    """

    log_of: Callable[[TopicPartition], PartitionLog]
    commit_offsets: Callable[[Mapping[TopicPartition, CommittedOffset]], None]
    clock: Clock
    faults: Faults
    timeout_ms: int
    _ids: dict[str, TransactionalId] = field(default_factory=dict, init=False)
    _committed: set[int] = field(default_factory=set, init=False)
    _last_number: int = field(default=0, init=False)
    _late: list[Callable[[], None]] = field(default_factory=list, init=False)

    # ------------------------------------------------------------------ producers

    def init(self, name: str) -> int:
        """Give out a new epoch, after aborting what an older producer left open.

        Answers when nothing of the older producer is undecided in any partition.
        """
        entry = self._ids.setdefault(name, TransactionalId(name))
        if entry.state is TransactionState.ONGOING:
            self._prepare(entry, commit=False)
        self.complete(entry)
        entry.epoch += 1
        return entry.epoch

    def add_partition(self, name: str, epoch: int, partition: TopicPartition) -> int:
        """Make a partition part of the current transaction, beginning one if need be.

        Returns:
            The transaction's number.

        Raises:
            TaskMigratedError: The producer is fenced.
        """
        entry = self._begun(name, epoch)
        entry.partitions[partition] = None
        return entry.number

    def add_offsets(
        self, name: str, epoch: int, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Make group offsets part of the current transaction.

        Raises:
            TaskMigratedError: The producer is fenced.
        """
        self._begun(name, epoch).offsets.update(offsets)
        self.maybe_deliver_late()

    def end(self, name: str, epoch: int, *, commit: bool) -> None:
        """Decide the current transaction; does nothing when there is none.

        Raises:
            TaskMigratedError: The producer is fenced.
        """
        entry = self._checked(name, epoch)
        if entry.state is TransactionState.ONGOING:
            self._prepare(entry, commit=commit)

    def fence(self, name: str) -> None:
        """Do what a producer of the same id does that begins elsewhere."""
        if name in self._ids:
            self.faults.note(f"broker fences {name}")
            self.init(name)

    # ------------------------------------------------------------------ late requests

    def begin_late(self, name: str, epoch: int) -> None:
        """Meet later, once more, the request that a transaction is to have offsets.

        It begins one if there is none then, which hangs until somebody ends it.
        """
        self._late.append(lambda: self._begin(self._checked(name, epoch)))

    def add_offsets_late(
        self, name: str, epoch: int, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Meet these offsets once more, later; ignored unless a transaction has offsets then."""

        def deliver() -> None:
            entry = self._checked(name, epoch)
            if entry.state is TransactionState.ONGOING and entry.offsets:
                entry.offsets.update(offsets)

        self._late.append(deliver)

    def end_late(self, name: str, epoch: int, *, commit: bool) -> None:
        """Meet the end of a transaction once more, later, whichever is the current one then."""
        self._late.append(lambda: self.end(name, epoch, commit=commit))

    def maybe_deliver_late(self) -> None:
        """Meet one of the requests that are late, perhaps; nobody waits for its answer."""
        if self._late and self.faults.happens(self.faults.rates.background):
            deliver = self._late.pop(self.faults.random.randrange(len(self._late)))
            self.faults.note("broker meets a late request")
            with suppress(TaskMigratedError):
                deliver()

    # ------------------------------------------------------------------ what happens by itself

    def write_a_marker(self) -> None:
        """Write one marker of some prepared transaction, if there is one."""
        prepared = [entry for entry in self._ids.values() if entry.prepared]
        if prepared:
            self._write_marker(self.faults.random.choice(prepared))

    def expire(self) -> None:
        """Abort transactions that are open for too long, and fence their producers."""
        for entry in self._ids.values():
            open_ms = self.clock.monotonic_ms() - entry.started_ms
            if entry.state is TransactionState.ONGOING and open_ms > self.timeout_ms:
                self.faults.note(f"broker transaction of {entry.name} timed out")
                entry.epoch += 1
                self._prepare(entry, commit=False)

    def complete(self, entry: TransactionalId) -> None:
        """Write all markers of one decided transaction."""
        while entry.prepared:
            self._write_marker(entry)

    def complete_all(self) -> None:
        """Write all markers of all decided transactions."""
        for entry in self._ids.values():
            self.complete(entry)

    # ------------------------------------------------------------------ for readers and tests

    def forget_topic(self, topic: str) -> None:
        """Take offsets of a topic, which is deleted, out of all transactions."""
        for entry in self._ids.values():
            for partition in [known for known in entry.offsets if known.topic == topic]:
                del entry.offsets[partition]

    def ids(self) -> list[str]:
        """Return all transactional ids that were ever used."""
        return list(self._ids)

    def pending_offsets(self) -> set[TopicPartition]:
        """Return partitions whose committed offset may still change by an open transaction."""
        return {partition for entry in self._ids.values() for partition in entry.offsets}

    def committed(self, number: int) -> bool:
        """Return whether a transaction was decided to commit, markers or not."""
        return number in self._committed

    def open_ids(self) -> list[str]:
        """Return transactional ids with an open or prepared transaction."""
        empty = TransactionState.EMPTY
        return [entry.name for entry in self._ids.values() if entry.state is not empty]

    # ------------------------------------------------------------------ inside

    def _checked(self, name: str, epoch: int) -> TransactionalId:
        entry = self._ids[name]
        if entry.epoch != epoch:
            raise TaskMigratedError(
                f"producer {name!r} with epoch {epoch} is fenced by epoch {entry.epoch}"
            )
        return entry

    def _begun(self, name: str, epoch: int) -> TransactionalId:
        entry = self._checked(name, epoch)
        self.complete(entry)  # A client waits for the markers of its last transaction.
        self._begin(entry)
        return entry

    def _begin(self, entry: TransactionalId) -> None:
        if entry.state is TransactionState.EMPTY:
            self._last_number += 1
            entry.state = TransactionState.ONGOING
            entry.number = self._last_number
            entry.started_ms = self.clock.monotonic_ms()

    def _prepare(self, entry: TransactionalId, *, commit: bool) -> None:
        state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        entry.state = state
        self.faults.note(f"broker {entry.name} transaction {entry.number}: {state.value}")
        if commit:
            self._committed.add(entry.number)
        else:
            entry.offsets.clear()

    def _write_marker(self, entry: TransactionalId) -> None:
        """Write one marker of a decided transaction, in one partition or for its offsets."""
        committed = entry.state is TransactionState.PREPARE_COMMIT
        places: list[TopicPartition | None] = list(entry.partitions)
        if entry.offsets:
            places.append(None)
        place = self.faults.random.choice(places) if places else None
        if place is not None:
            self.log_of(place).write_marker(entry.number, committed=committed)
            del entry.partitions[place]
        else:
            self.commit_offsets(entry.offsets)
            entry.offsets.clear()
        if not entry.partitions and not entry.offsets:
            entry.state = TransactionState.EMPTY
