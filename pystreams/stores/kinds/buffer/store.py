"""Records of a stream that wait for their time, in the order of it: the buffer of a temporal join.

    put --> memory --(flush_cache: what is still there and not stored)--> store, changelog
              | ^                                                           |
              | +-----------(what memory had no room for, as it gets its turn)---+
              +--> leave_until: the lowest keys first

How records are stored: `waiting_record`. The changelog has the stored key, and behind the stored
value an int64 0, the time of the buffer.

Most records wait for less than a commit takes to come. Those are never stored nor logged: they come
and leave in memory. A record that leaves in the very step it came in is logged all the same, both
coming and leaving, as the changelog of a grace period of 0 has it in Kafka.

What waits in memory is as the join has it, and becomes bytes when it is stored: to make bytes of
what can't change, and to read them, costs as much as all the rest of waiting.

What is stored stays in memory as well, as long as there is room: who asks the store for its first
entry walks over all that have left, as deletions in the dirty map up to the commit, as tombstones
in RocksDB up to a compaction; and the store's read cache has better uses.

Invariants:
- Every record is in memory that is not stored, and every stored one below `_beyond`. Nothing that
  has left is at `_beyond` or above it.
- What is in memory is in order of time: `waiting_line`.

Differs from Kafka: what comes and leaves between two commits is not logged; the changelog records
carry the record's timestamp, not the producer's time; a sequence number that is taken is not used
again after a restart (Kafka begins at 1 and overwrites, and lets the newer go first); a restored
buffer holds what it held (Kafka puts a second prefix before each restored key).
Rejected: all records in memory (a grace period of hours); one heap for all (most come in order);
a look into the store for each that leaves.
Spec: KIP-923; Kafka RocksDBTimeOrderedKeyValueBuffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

from pystreams.record import NO_RECORD, ConsumedMessage, Headers, ProducedRecord
from pystreams.stores.dirty_map.opening import first_entry
from pystreams.stores.kinds.buffer.passage import Passage
from pystreams.stores.kinds.buffer.waiting_line import NEVER, Place, WaitingLine
from pystreams.stores.kinds.buffer.waiting_record import (
    FRAME_BYTES,
    LAST_SEQUENCE,
    NO_ORIGIN,
    SEQUENCE,
    SIZE_BYTES,
    TIMESTAMP,
    InBytes,
    Origin,
    Waiting,
    WaitingMessage,
    as_stored,
    bytes_of,
    held_bytes,
    key_in_order,
    logged,
    origin_of,
    origin_of_message,
    packed,
    place_in_order,
    sequence_of,
    stored_key_of,
    time_of,
    unpacked,
    waiting_of,
)
from pystreams.stores.typed_stores.typed_state_store import BufferedStateStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pystreams.ids import TopicPartition
    from pystreams.stores.contracts.state_store import StateStoreContext
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore

KEPT_BYTES = 2 * 1024 * 1024
"""What memory keeps of stored records from one commit to the next; half of it is read at once."""
_sequence = itemgetter(SEQUENCE)

_Source = Origin | ConsumedMessage
_BEGINNING: Place = (0, b"")
_NOWHERE: Place = (NEVER, b"")


class TimeOrderedBuffer(BufferedStateStore):
    """The buffer as operators and the runtime see it.

    Threads: belongs to the task's thread.

    Args:
        buffer: Holds the bytes, restored by `restored_records`; owned by this object from now on.
        kept_bytes: How much of what is stored memory keeps.

    Attributes:
        in_bytes: What is put in place of bytes, in bytes; set by who puts such.
    """

    __slots__ = (
        "_beyond",
        "_flushed_sequence",
        "_kept_bytes",
        "_latest_before",
        "_line",
        "_through",
        "in_bytes",
    )

    def __init__(self, buffer: BufferedKeyValueStore, kept_bytes: int = KEPT_BYTES) -> None:
        super().__init__(buffer)
        self.in_bytes = InBytes()
        self._kept_bytes = kept_bytes
        self._line = WaitingLine(self._place_of)
        # What came and left at once since the last flush, and at which time.
        self._through: list[tuple[Waiting, int]] = []
        self._beyond = _BEGINNING
        self._flushed_sequence = 0
        self._latest_before = NEVER

    def passage(self, passage: Passage) -> Callable[[Any, Any, int, Headers], None]:
        """Return a join's step, which does for most records what `exchange` does for each.

        Stream time begins anew with it.
        """
        self._line.left_until = -NEVER
        if passage.grace_period_ms <= 0:
            return passage.otherwise  # Each leaves as it comes.
        return passage.through(self._line, self._buffer, self.leave_until)

    @property
    def left_until(self) -> int:
        """Up to which time (ms) all have left."""
        return self._line.left_until

    def begin(self, grace_period_ms: int) -> None:
        """Set `left_until` to where the newest of what is stored had moved it; for a start.

        It stays where it is if something has moved it further in the course of the start.
        """
        line = self._line
        line.left_until = max(line.left_until, self.latest_timestamp() - grace_period_ms)

    def exchange(
        self,
        key: Any,
        value: Any,
        timestamp: int,
        headers: Headers,
        message: ConsumedMessage | None,
        data_bytes: int,
        until: int,
    ) -> Iterable[Waiting]:
        """Keep a record, and take out those with a time up to some other one: see `leave_until`.

        Args:
            key: Its key in bytes, or what `in_bytes` makes them of.
            value: Likewise.
            timestamp: Its time (ms).
            message: The message it was made of; None for what a punctuation has made.
            until: See `leave_until`; -1 lets none go.
        """
        line, buffer = self._line, self._buffer
        source, size_bytes = self._source(message, data_bytes + bytes_of(headers))
        line.message_type = None if isinstance(message, WaitingMessage | None) else type(message)
        if self._latest_before == NEVER:
            self._latest_before = self.latest_timestamp()
        if timestamp <= self._latest_before:
            self._pass_earlier_lives(key, timestamp)
            line.message_type = None
        line.sequence += 1
        waiting = (timestamp, line.sequence, key, value, headers, source, size_bytes)
        line.put(waiting)
        buffer.add(size_bytes)
        return self._leave(until, waiting)

    def leave_until(self, timestamp: int) -> Iterable[Waiting]:
        """Take out the records with a timestamp (ms) up to this one, in order of time, then key.

        What is in memory is gone at once; of the rest each part, once it is asked for.
        """
        return self._leave(timestamp, None)

    def latest_timestamp(self) -> int:
        """Return the highest timestamp (ms) of what is stored, -1 without any; for a start."""
        last = first_entry(self._buffer.range(None, None, reverse=True))
        return -1 if last is None else time_of(last[0])

    def init(self, context: StateStoreContext) -> None:
        """Open the store; raises as `StateStore.init`."""
        uncached = replace(context.environment, read_cache_budget=None)
        self._buffer.init(replace(context, environment=uncached))
        self._forget()

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of changelog records and remember the last one's offset, atomically."""
        self._buffer.restore(messages)
        self._forget()

    def needs_flush(self) -> bool:
        """Return whether something has come, or left the store, since the last flush."""
        return self._changed()

    def flush_cache(self) -> None:
        """Store and log what has come and is still there, and what has left the store."""
        if not self._changed():
            return
        line, buffer = self._line, self._buffer
        held, came, left, write = line.held(), [], line.left, buffer.write
        for number, waiting in enumerate(held):
            if waiting[SIZE_BYTES]:
                buffer.uncommitted_bytes -= waiting[SIZE_BYTES]
                held[number] = stored = as_stored(waiting, self.in_bytes)
                came.append(stored)
        for waiting, timestamp in self._through:
            buffer.uncommitted_bytes -= waiting[SIZE_BYTES]
            stored = as_stored(waiting, self.in_bytes)
            came.append(stored)
            left.append((stored, timestamp))
        came.sort(key=_sequence)
        for waiting in came:
            self._note_topic(origin_of(waiting).topic)
            value = packed(waiting)
            write(stored_key_of(waiting), value, logged(value), waiting[TIMESTAMP], NO_RECORD)
        for waiting, timestamp in left:
            write(stored_key_of(waiting), None, None, timestamp, NO_RECORD)
        self._through.clear()
        self._flushed_sequence = line.sequence
        self._keep(held)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything written since the last commit durable, with the offsets, atomically."""
        assert not self._changed(), f"store {self.name}: commit before flush_cache"
        self._buffer.commit(changelog_offsets)

    def rollback(self) -> None:
        """Drop everything written since the last commit."""
        if self._changed() or self._buffer.dirty:
            self._forget()
        self._buffer.rollback()

    def changelog_records(self) -> Iterator[ProducedRecord]:
        """Return changelog records that restore what is committed."""
        for key, stored in self._buffer.engine_range(None, None):
            yield key, logged(stored), unpacked(key, stored).timestamp, ()

    def _source(self, message: ConsumedMessage | None, size: int) -> tuple[_Source, int]:
        """Return what tells where a record came from, and how many bytes it is once stored.

        Args:
            size: Bytes of its key, value and headers.
        """
        if message is None:
            return NO_ORIGIN, FRAME_BYTES + size
        if self._line.overhead_bytes == FRAME_BYTES:
            self._note_topic(message.topic() or "")
        size += self._line.overhead_bytes
        if type(message) is WaitingMessage:
            return origin_of_message(message), size
        large = len(message.value() or b"") > size
        return origin_of_message(message) if large else message, size

    def _note_topic(self, topic: str) -> None:
        """Count records as those of the longest topic there was: it is not asked of each."""
        topic_bytes = len(topic)  # Topics are ASCII.
        self._line.overhead_bytes = max(self._line.overhead_bytes, FRAME_BYTES + topic_bytes)

    def _leave(self, timestamp: int, newest: Waiting | None) -> Iterable[Waiting]:
        """Take out what is due at a time (ms); `newest` is what has come in this very step."""
        line = self._line
        line.left_until = max(line.left_until, timestamp)
        if timestamp >= self._beyond[TIMESTAMP]:
            return self._leave_in_parts(timestamp, newest)
        taken = line.take_until(timestamp, self._beyond[TIMESTAMP])
        return self._note_left(taken, timestamp, newest)

    def _leave_in_parts(self, timestamp: int, newest: Waiting | None) -> Iterator[Waiting]:
        """Let leave what is in memory and then, in parts, what the store alone has."""
        line = self._line
        while timestamp >= self._beyond[TIMESTAMP]:
            beyond = self._beyond
            first = line.take_until(beyond[TIMESTAMP], beyond[TIMESTAMP])
            line.put_back(first, beyond)
            yield from self._note_left(first, timestamp, newest)
            self._read_on()
        taken = line.take_until(timestamp, self._beyond[TIMESTAMP])
        yield from self._note_left(taken, timestamp, newest)

    def _note_left(
        self, leaving: list[Waiting], timestamp: int, newest: Waiting | None
    ) -> list[Waiting]:
        """Take note that records leave at a time (ms); return them."""
        for waiting in leaving:
            if not waiting[SIZE_BYTES]:
                self._line.left.append((waiting, timestamp))
            elif waiting is newest:
                self._through.append((waiting, timestamp))
            else:
                self._buffer.uncommitted_bytes -= waiting[SIZE_BYTES]
        return leaving

    def _place_of(self, waiting: Waiting) -> Place:
        raw_key = self.in_bytes.key_of(waiting)
        return waiting[TIMESTAMP], place_in_order(raw_key, waiting[SEQUENCE])

    def _read_on(self) -> None:
        """Read the next part of what the store alone has."""
        entries = self._buffer.range(key_in_order(*self._beyond), None)
        found: list[Waiting] = []
        room_bytes = self._kept_bytes // 2
        self._beyond = _NOWHERE
        for key, stored in entries:
            waiting = waiting_of(key, stored)
            found.append(waiting)
            room_bytes -= held_bytes(waiting)
            if room_bytes <= 0:
                timestamp, place = self._place_of(waiting)
                self._beyond = (timestamp, place + b"\x00")
                break
        entries.close()
        self._line.join_in(found)

    def _keep(self, held: list[Waiting]) -> None:
        """Keep in memory what there is room for; all of it is stored now."""
        beyond, kept = self._beyond, held
        if held and held[-1][TIMESTAMP] >= beyond[TIMESTAMP]:
            kept = [waiting for waiting in held if self._place_of(waiting) < beyond]
        if sum(map(held_bytes, kept)) > self._kept_bytes:
            self._line.sort_equal_times(kept)
            room_bytes = self._kept_bytes // 2
            for number, waiting in enumerate(kept):
                room_bytes -= held_bytes(waiting)
                if room_bytes < 0:
                    self._beyond = self._place_of(waiting)
                    del kept[number:]
                    break
        self._line.keep(kept, self._beyond[TIMESTAMP])

    def _pass_earlier_lives(self, key: Any, timestamp: int) -> None:
        """Let the next number be above those that equal keys and times got before a restart."""
        raw_key = key if type(key) is bytes else self.in_bytes.key(key)
        first = key_in_order(timestamp, place_in_order(raw_key, 0))
        last = key_in_order(timestamp, place_in_order(raw_key, LAST_SEQUENCE))
        entries = self._buffer.range(first, last + b"\x00", reverse=True)
        for stored_key, _ in entries:
            if len(stored_key) == len(first):  # Else of another key, which begins with this one.
                self._line.sequence = max(self._line.sequence, sequence_of(stored_key))
                break
        entries.close()

    def _shut(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Know nothing of what the store holds, and hold nothing beside it."""
        self._line.clear()
        self._through.clear()
        self._flushed_sequence = self._line.sequence
        self._beyond = _BEGINNING
        self._latest_before = NEVER

    def _changed(self) -> bool:
        """Return whether anything came or left since the last flush."""
        return self._line.sequence != self._flushed_sequence or bool(self._line.left)
