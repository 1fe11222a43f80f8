"""Ports: what the loop needs of Kafka, as protocols the real client and the simulation implement.

All calls happen on the thread that owns the port (the admin port: any thread). Client errors are
translated once, in the adapter, into pystreams' errors:

- `RetriableClientError`: the same call may succeed later.
- `TransactionAbortableError`: abort the transaction, rewind, go on.
- `TaskMigratedError`: fenced; the tasks belong to somebody else.
- `FatalStreamsError`: the client is unusable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition
from pystreams.record import ConsumedMessage, OutputBuffer
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, OffsetRange
from pystreams.runtime.cluster.group_description import GroupDescription
from pystreams.runtime.cluster.new_topic import NewTopic


class PartitionBatch(NamedTuple):
    """Messages of one partition, in offset order, as one poll returned them."""

    partition: TopicPartition
    messages: list[ConsumedMessage]


class RebalanceListener(Protocol):
    """Told of assignments from within `ConsumerPort.poll` and `close`, on the polling thread."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Take new partitions; they are assigned paused, without a position until `start_at`."""

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Give partitions up in order: commit what they have before returning."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Drop partitions that already belong to somebody else: committing is not possible."""


class ConsumerPort(Protocol):
    """The group's consumer: subscription, records, offsets."""

    def subscribe(
        self, topics: Sequence[str], patterns: Sequence[str], listener: RebalanceListener
    ) -> None:
        """Join the group. Patterns are regular expressions matched against whole names."""

    def poll(self, max_records: int, timeout_s: float) -> list[PartitionBatch]:
        """Return what has arrived, waiting up to the timeout for the first message.

        Runs the rebalance listener. An offset out of range with reset policy "none" raises.

        Raises:
            MissingSourceTopicError: A subscribed topic was deleted.
            InputLossError: A partition ends before what is to be read next of it.
            FatalStreamsError: The consumer can't go on.
            TaskMigratedError: The member was fenced out of the group.
        """

    def start_at(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Set where assigned partitions are read from and resume them.

        May be called again to read them from elsewhere; nothing fetched before is returned then.
        None instead of the next offset to read applies the partition's reset policy.

        Raises:
            RetriableClientError: No answer in time; call again.
        """

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these partitions again."""

    def committed(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return stable committed offsets of the group; partitions without one are left out.

        Waits for offsets pending in somebody's transaction.

        Raises:
            RetriableClientError: No answer in time.
        """

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets for the group, waiting for the answer.

        Raises:
            RetriableClientError: No answer in time, or a rebalance is going on.
            TaskMigratedError: The member does not own the partitions any more.
        """

    def known_lag(self, partition: TopicPartition) -> int | None:
        """Return how many records the broker holds beyond the last one polled, or None if unknown.

        As fetches and `note_ends` have told, without a request.
        """

    def note_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Take where partitions end, as brokers have said meanwhile; fetches may know of more."""

    def read_to_end(self, partitions: Sequence[TopicPartition]) -> bool:
        """Return whether the broker now holds nothing beyond the last records polled.

        It is asked where `known_lag` tells of none; without an answer in time, False.
        """

    def group_metadata(self) -> Any:
        """Return the opaque group metadata that fences transactions.

        That of a consumer that has not joined the group fences nothing.
        """

    def member_id(self) -> str:
        """Return its id in the group as of the last assignment; empty before the first."""

    def leave(self) -> None:
        """Begin to leave the group: `poll` revokes what is assigned. It may subscribe again.

        A static member leaves, too: it is not given back what it had.
        """

    def close(self, *, leave: bool = False) -> None:
        """Release the client; runs the listener for what is still assigned.

        A static member leaves the group only where `leave` says so; others always do.
        """


class ProducerPort(Protocol):
    """A producer, transactional or not; one owner, one thread at a time.

    Attributes:
        gives_up: Says whether to send, flush and commit no longer where brokers have said nothing
            for some seconds; for whoever made it to set.
    """

    gives_up: Callable[[float], bool]

    @property
    def in_doubt(self) -> bool:
        """Whether the broker may still meet a request of a transaction that has ended.

        So it is after each abort, and after a commit one of whose requests was repeated, had no
        answer in time or lost its connection. Such a request would end the next transaction of
        the same epoch: `init_transactions` comes before that.
        """

    def send(self, output: OutputBuffer) -> None:
        """Hand all waiting records of a buffer to the client and clear it.

        Blocks while the client's queue is full. Sets nothing on the buffer: its `last_offset`
        becomes known at the next `flush`.

        Raises:
            RetriableClientError: The queue stays full: brokers take nothing.
            TransactionAbortableError: The open transaction can't be committed any more.
            ProductionError: A record was refused and the production handler said to fail.
        """

    def flush(self) -> None:
        """Wait until the broker has acknowledged everything sent; set `last_offset` of buffers.

        Raises:
            ProductionError: A record was refused and the production handler said to fail.
            RetriableClientError: Not all was acknowledged in time.
        """

    def init_transactions(self) -> None:
        """Fence older producers of the same transactional id and abort what they left open.

        Called again, between two transactions, it fences what this one has sent before.

        Raises:
            RetriableClientError: No answer in time; call again.
        """

    def begin_transaction(self) -> None:
        """Open a transaction."""

    def commit_transaction(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group_metadata: Any
    ) -> None:
        """Add the offsets to the open transaction and commit it.

        Raises:
            TransactionAbortableError: The transaction was not committed and must be aborted.
            TaskMigratedError: A newer producer or member fenced this one, or it was given up.
        """

    def abort_transaction(self, timeout_s: float = 5.0) -> None:
        """Abort the open transaction and forget what was sent in it.

        Raises:
            RetriableClientError: No answer in time (s); call again, and it goes on.
            TaskMigratedError: The broker has ended it already, by its time limit or for a newer
                producer; this one can't be used any more.
        """

    def forget_sent(self) -> None:
        """Forget where records went since the last flush: their tasks go back to the last commit.

        For producers without transactions. The records may still arrive; no flush sets the
        `last_offset` of a buffer to that of one.
        """

    def close(self, timeout_s: float = 3.0) -> bool:
        """Release the client; abort what is open, in time (s); return whether nothing is left."""


class ChangelogBatch(NamedTuple):
    """Messages of one changelog partition read for restore.

    `end_reached_at` is the offset of the end of the partition when this poll met it, else None.
    """

    partition: TopicPartition
    messages: list[ConsumedMessage]
    end_reached_at: int | None


class RestoreConsumerPort(Protocol):
    """A consumer without a group that reads changelogs."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions; new ones from the given offset, kept ones go on."""

    def poll(self, max_records: int, timeout_s: float) -> list[ChangelogBatch]:
        """Return what has arrived, waiting up to the timeout for the first message.

        Raises:
            OffsetOutOfRangeError: The broker does not hold what is to be read next.
        """

    def close(self) -> None:
        """Release the client."""


class AdminPort(Protocol):
    """Topics and their offsets; may be called from any thread."""

    reached_with: str  # Options with which commands of ours reach the same brokers.

    def partition_counts(
        self, awaited: Collection[TopicPartition] = (), patience_s: float | None = None
    ) -> dict[str, int]:
        """Return the partition count of every topic the broker shows.

        Args:
            awaited: Partitions that should exist; a broker that shows one late is asked again.
            patience_s: How long to wait for a broker that answers (s); None as long as at a start.

        Raises:
            BrokerNotAvailableError: No broker answered in time.
        """

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Return what identifies topics: one that is deleted and created again has another id.

        Those that do not exist are left out. Brokers before Kafka 2.8 give all topics the same.

        Raises:
            RetriableClientError: No answer in time.
        """

    def broker_setting(self, name: str) -> list[str | None]:
        """Return a setting of each broker; None for one that does not tell it in time."""

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create topics; one that exists already is left as it is.

        Raises:
            FatalStreamsError: The broker refuses (authorisation, replication factor); says why.
        """

    def topic_settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the settings of topics, the broker's defaults included, by topic and name.

        Those that do not exist, or may not be described, are left out.

        Raises:
            RetriableClientError: No answer in time.
        """

    def change_topic_settings(self, changes: Mapping[str, Mapping[str, str]]) -> None:
        """Set some settings of topics, by topic and name; all others stay as they are.

        Raises:
            FatalStreamsError: The broker refuses; says why.
            RetriableClientError: No answer in time.
        """

    def delete_topics(self, topics: Sequence[str]) -> dict[str, StreamsError]:
        """Delete those of these that exist; return those that could not be, with the reason."""

    def offset_ranges(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetRange]:
        """Return beginning and stable end (read_committed) of partitions.

        Raises:
            RetriableClientError: No answer in time.
        """

    def told_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where partitions end (stable records); leaves out those of a silent broker."""

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete the records below these offsets (purge of repartition topics); best effort."""

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset of the first stable record at or after a time (ms), a partition.

        A partition without such a record is left out: what is behind an open transaction is not
        stable.

        Raises:
            RetriableClientError: No answer in time.
        """

    def describe_group(self, group: str) -> Future[GroupDescription]:
        """Ask who is in a group, without waiting; a group that never was has no members.

        The answer raises `StreamsError` where there is none in time, or where it is refused.
        """

    def group_members(self, group: str) -> list[str]:
        """Return the client ids of a group's members, sorted; none for a group that never was.

        Raises:
            RetriableClientError: No answer in time.
        """

    def committed_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Return what a group has committed; offsets pending in a transaction do not count.

        Raises:
            RetriableClientError: No answer in time.
        """

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets for a group that nobody is in.

        Raises:
            FatalStreamsError: Somebody is, or the broker refuses.
            RetriableClientError: No answer in time.
        """

    def delete_group(self, group: str) -> None:
        """Delete a group that nobody is in, with all its offsets; one that does not exist is gone.

        Raises:
            FatalStreamsError: Somebody is, or the broker refuses.
            RetriableClientError: No answer in time.
        """


class ClientFactory(Protocol):
    """Makes the ports; the one place a test or simulation replaces."""

    def consumer(self, client_id: str, group_instance_id: str) -> ConsumerPort:
        """Make the group consumer of a thread."""

    def restore_consumer(self, client_id: str) -> RestoreConsumerPort:
        """Make the restore consumer of a thread."""

    def global_consumer(self, client_id: str) -> RestoreConsumerPort:
        """Make the consumer of global topics of a process."""

    def producer(
        self,
        client_id: str,
        transactional_id: str | None,
        topics: Collection[str] = (),
        sharing: int = 1,
    ) -> ProducerPort:
        """Make a producer.

        Args:
            transactional_id: Makes it transactional.
            topics: Those it will write to, as far as they are known: the size of its batches
                goes by what they take.
            sharing: How many producers share `output.buffer.max.bytes`.
        """

    def admin(self, stopping: Callable[[], bool] = lambda: False) -> AdminPort:
        """Make the admin client.

        Args:
            stopping: Whether the application is to stop: an answer is then waited for no longer
                than seconds. Called from any thread.
        """
