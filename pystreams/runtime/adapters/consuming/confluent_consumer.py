"""The group's consumer, on librdkafka.

What librdkafka does, measured, and what follows from it:

- A partition can't be assigned without a position. It is assigned at 0 and paused within the
  callback; a later `seek` discards whatever was fetched before.
- `seek` then `resume` costs up to a second, because only a seek wakes the fetcher, and only when
  it is not to 0: so we seek before, or it would fetch at 0, and after; and to 1 before 0.
- A new position waits for the fetch under way, which at the end of a topic lasts
  `fetch.wait.max.ms`: 100 here, not 500.
- `seek` to a logical offset (beginning, end) is looked up half a second later: so we ask the
  broker ourselves. The lookup keeps to the isolation level, as does `committed`.
- Rebalance callbacks run within `consume`, which may hold messages already: those of partitions
  that were revoked or repositioned meanwhile are dropped.
"""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore.

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from pystreams.config.clients import reached_with
from pystreams.errors import RetriableClientError, StreamsError
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.connection.confluent import Consumer, Message, consume_available
from pystreams.runtime.adapters.connection.confluent_errors import error_of, translate
from pystreams.runtime.adapters.connection.connections import BrokerOutage, make_client
from pystreams.runtime.adapters.connection.kafka_partitions import (
    offsets_to_commit,
    ours,
    theirs,
)
from pystreams.runtime.adapters.consuming.consumer_errors import ConsumerErrors
from pystreams.runtime.adapters.consuming.offset_commits import OffsetCommits
from pystreams.runtime.adapters.consuming.partition_moves import PartitionMoves
from pystreams.runtime.adapters.consuming.partition_splitter import PartitionSplitter
from pystreams.runtime.adapters.consuming.paused_partitions import PausedPartitions
from pystreams.runtime.adapters.consuming.read_positions import ReadPositions
from pystreams.runtime.adapters.consuming.reset_offsets import LATEST, ResetOffsets
from pystreams.runtime.adapters.consuming.stable_offsets import StableOffsets
from pystreams.runtime.adapters.consuming.unread_records import UnreadRecords
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.ports import PartitionBatch, RebalanceListener

_log = get_logger("pystreams.consumer")

_COMMIT_TIMEOUT_S = 3.0
"""How long a stop may have to wait for an offset commit."""
_LEAVE_TIMEOUT_S = 3.0
_LEAVE_LOOK_S = 0.01
_MOVE_LOOK_S = 0.05
_REBALANCE_LOOK_S = 0.02

_error_in = Message.error


class ConfluentConsumer:
    """Implements `ConsumerPort`."""

    def __init__(
        self,
        config: Mapping[str, Any],
        outage: BrokerOutage,
        *,
        make: Callable[[dict[str, Any]], Consumer] = Consumer,
        paused: PausedPartitions | None = None,
    ) -> None:
        policy = str(config.get("auto.offset.reset", "latest"))
        if policy in LATEST:
            config = {**config, "auto.offset.reset": "earliest"}  # A way forward is not noticed.
        self._client = make_client(make, {"fetch.wait.max.ms": 100, **config}, outage)
        self._refused = outage.refused(config)
        self._group = str(config["group.id"])
        self._incremental = config.get("group.protocol") == "consumer"
        self._reset_offsets = ResetOffsets(self._client, self._group, policy)
        self._outage = outage
        self._listener: RebalanceListener | None = None
        self._splitter = PartitionSplitter()
        self._paused = paused or PausedPartitions()
        self._moves = PartitionMoves(self._client)
        self._stopped = self._moves.stopped
        self._positions = ReadPositions(self._stopped, self._reset_offsets)
        started = self._positions.assigned
        self._unread = UnreadRecords(self._client, started, self._stopped, self._paused)
        # While `consume` runs: partitions whose messages in its hands are void.
        self._polling = False
        self._called = False
        self._void: set[TopicPartition] = set()
        self._callback_error: Exception | None = None
        self._member_id = ""
        self._closed = False
        reached = reached_with(config)
        self._errors = ConsumerErrors(self._client, self._doing("polling"), reached_with=reached)
        self._commits = OffsetCommits(
            lambda offsets: self._client.commit(offsets=offsets, asynchronous=False),
            self._doing("committing offsets"),
        )
        # In no group, so that who waits for offsets keeps nobody else waiting.
        outside = {name: config[name] for name in config if name != "group.instance.id"}
        self._stable = StableOffsets(
            self._client,
            lambda: make_client(make, outside, outage),
            self._doing("fetching offsets"),
        )

    # ------------------------------------------------------------------ group

    def subscribe(
        self, topics: Sequence[str], patterns: Sequence[str], listener: RebalanceListener
    ) -> None:
        """Join the group. Patterns are regular expressions matched against whole names."""
        self._listener, self._errors.named = listener, frozenset(topics)
        # A name that begins with ^ is a pattern to librdkafka (and to the broker: KIP-848).
        wanted = [*topics, *(f"^({pattern.removeprefix('^')})$" for pattern in patterns)]
        self._client.subscribe(
            wanted, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def group_metadata(self) -> Any:
        """Return the opaque group metadata that fences transactions."""
        return self._client.consumer_group_metadata()

    def member_id(self) -> str:
        """Return its id in the group as of the last assignment; empty before the first."""
        return self._member_id

    def leave(self) -> None:
        """Begin to leave the group; unlike a close, this makes a static member leave, too."""
        try:
            self._client.unsubscribe()
        except KafkaException as error:
            # A client that has failed for good is no member any more; its next poll tells why.
            if error_of(error).code() != KafkaError._FATAL:
                raise

    def close(self, *, leave: bool = False) -> None:
        """Release the client; a static member stays in the group, unless it is to leave."""
        if self._closed:
            return
        if leave and not self._incremental and self._commits.settled(_COMMIT_TIMEOUT_S):
            self._leave_for_good()
        self._closed = True
        self._stable.close()
        if not self._commits.settled(_COMMIT_TIMEOUT_S):
            # The client must not be freed under a commit; its membership ends with its session.
            _log.warning("consumer not closed: the broker does not answer", group=self._group)
            return
        self._client.close()
        self._raise_callback_error()

    def _leave_for_good(self) -> None:
        """Leave and wait until the client has said so: that of a static member won't in a close."""
        deadline_s = time.monotonic() + _LEAVE_TIMEOUT_S
        self.leave()
        with contextlib.suppress(StreamsError):  # Then the membership ends with its session.
            while self._client.memberid() and time.monotonic() < deadline_s:
                self._consume(1, _LEAVE_LOOK_S)

    def _on_assign(self, _: Consumer, found: list[KafkaPartition]) -> None:
        self._refused.accept()
        self._member_id = self._client.memberid() or ""
        partitions = [ours(partition) for partition in found]
        at_zero = [theirs(partition, 0) for partition in partitions]
        if self._incremental:
            self._client.incremental_assign(at_zero)
        else:
            self._client.assign(at_zero)
        if at_zero:
            self._client.pause(at_zero)
        self._void.update(partitions)
        self._positions.assign(partitions)
        self._splitter.assign(self._positions.assigned)
        self._call(lambda listener: listener.on_partitions_assigned(partitions))

    def _on_revoke(self, _: Consumer, found: list[KafkaPartition]) -> None:
        partitions = [ours(partition) for partition in found]
        self._call(lambda listener: listener.on_partitions_revoked(partitions))
        self._unassign(partitions)

    def _on_lost(self, _: Consumer, found: list[KafkaPartition]) -> None:
        partitions = [ours(partition) for partition in found]
        self._call(lambda listener: listener.on_partitions_lost(partitions))
        self._unassign(partitions)

    def _unassign(self, partitions: list[TopicPartition]) -> None:
        if self._incremental:
            self._client.incremental_unassign([theirs(partition) for partition in partitions])
        else:
            self._client.unassign()
        self._void.update(partitions)
        self._paused.forget(partitions)
        self._stable.forget(partitions)
        self._moves.forget(partitions)
        for partition in partitions:
            self._positions.forget(partition)
            self._unread.forget(partition)
        self._splitter.assign(self._positions.assigned)

    def _call(self, tell: Callable[[RebalanceListener], None]) -> None:
        """Call the listener; keep what it raises until librdkafka has returned."""
        self._called = True
        try:
            if self._listener is not None:
                tell(self._listener)
        except Exception as error:  # noqa: BLE001 - raised again by `poll` or `close`
            self._callback_error = self._callback_error or error

    def _raise_callback_error(self) -> None:
        error, self._callback_error = self._callback_error, None
        if error is not None:
            raise error

    # ------------------------------------------------------------------ records

    def poll(self, max_records: int, timeout_s: float) -> list[PartitionBatch]:
        """Return what has arrived, waiting up to the timeout for the first message."""
        if not self._commits.settled(timeout_s):
            return []
        self._moves.try_again()
        held, emptied = self._paused.take(max_records)
        for partition in emptied:
            self._moves.let_go(partition)
        if held:
            return held
        self._refused.check()
        self._errors.ask_again()
        for partition, position in self._positions.went_back():
            self._moves.move({partition: position})
        if self._moves.waiting:
            timeout_s = min(timeout_s, _MOVE_LOOK_S)
        messages = self._consume(max_records, timeout_s)
        if messages and any(map(_error_in, messages)):
            messages = self._without_errors(messages)
        if self._void or self._moves.waiting:
            messages = self._without_void(messages)
        batches = self._positions.sift(self._splitter.split(messages)) if messages else []
        if self._callback_error is not None:
            self._paused.hold(batches)
            self._raise_callback_error()
        batches, full = self._paused.sift(batches)
        for partition in full:  # Paused in the client: they hold more than enough.
            self._moves.stop(partition, self._paused.behind_held(partition))
        return batches

    def _consume(self, max_records: int, timeout_s: float) -> list[Message]:
        """Wait for messages, or for a rebalance: behind one librdkafka waits on for messages."""
        self._polling, self._called = True, False
        doing, end_s = self._doing("polling"), time.monotonic() + timeout_s
        try:
            while True:
                left_s = max(end_s - time.monotonic(), 0.0)
                messages = consume_available(
                    self._client, max_records, min(left_s, _REBALANCE_LOOK_S), doing
                )
                if messages or self._called or left_s <= _REBALANCE_LOOK_S:
                    return messages
        finally:
            self._polling = False

    def _without_errors(self, messages: list[Message]) -> list[Message]:
        good = []
        for message in messages:
            if (error := message.error()) is None:
                good.append(message)
            else:
                self._errors.take(error, message)
        return good

    def _without_void(self, messages: list[Message]) -> list[Message]:
        """Drop messages fetched before their partition was revoked or repositioned."""
        void, self._void = self._void.union(self._moves.waiting), set()
        good = []
        for message in messages:
            partition = self._splitter.find(message)
            if partition is not None and partition not in void:
                good.append(message)
        for partition in void:
            position = self._positions.assigned.get(partition)
            if position is not None and partition not in self._stopped:
                self._moves.move({partition: position})
        return good

    # ------------------------------------------------------------------ positions

    def start_at(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Set where assigned partitions are read from and resume them."""
        found = self._resolved(positions)
        self._paused.forget(found)
        self._positions.move(found)
        self._moves.start(found)
        if self._polling:
            self._void.update(found)

    def _resolved(
        self, positions: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, int]:
        """Put the offset of the reset policy in place of None."""
        unknown = positions.keys() - self._positions.assigned.keys()
        assert not unknown, f"{unknown} are not assigned"
        return {
            partition: self._reset_offsets.of(partition) if position is None else position
            for partition, position in positions.items()
        }

    # ------------------------------------------------------------------ pause

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop returning these partitions; see `paused_partitions`."""
        self._paused.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return these partitions again."""
        resumed = list(partitions)
        self._paused.resume(resumed)
        for partition in resumed:
            if not self._paused.held_records(partition):
                self._moves.let_go(partition)

    # ------------------------------------------------------------------ offsets

    def committed(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return stable committed offsets of the group; partitions without one are left out."""
        return self._stable.committed(partitions)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets for the group, waiting for the answer."""
        if not offsets:
            return
        wanted = offsets_to_commit(offsets)
        try:
            in_callback = self._polling or self._closed
            answered = self._commits.commit(wanted, _COMMIT_TIMEOUT_S, here=in_callback)
        except KafkaException as raised:
            doing, error = self._doing("committing offsets"), error_of(raised)
            if self._errors.are_gone(error, offsets):
                return
            if error.code() == KafkaError._FATAL:  # Without its reason, which the next poll gives.
                message = f"{doing}: the client has failed; polling tells why"
                raise RetriableClientError(message) from raised
            raise translate(error, doing) from raised
        for partition in answered or ():
            failed = partition.error
            if failed is not None and not self._errors.are_gone(failed, [ours(partition)]):
                raise translate(failed, self._doing("committing offsets"))
        if self._outage.lasting:
            self._outage.ends()

    def known_lag(self, partition: TopicPartition) -> int | None:
        """Return how many records the broker holds beyond the last one polled."""
        return self._unread.known(partition) if self._commits.settled(0.0) else None

    def note_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Take where partitions end, as brokers have said meanwhile."""
        self._unread.note_ends(ends)

    def read_to_end(self, partitions: Sequence[TopicPartition]) -> bool:
        """Return whether the broker, asked now, holds nothing beyond the last records polled."""
        return self._commits.settled(0.0) and all(map(self._unread.is_none_now, partitions))

    def _doing(self, what: str) -> str:
        return f"group {self._group!r}: {what}"
