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
- `_in_order` ascends by time. What comes below its end goes into `_late`, a heap. Equal times are
  put in the order of keys as they leave, together.
- Below `_quick_until` the first in `_in_order` are the first of all.

Differs from Kafka: what comes and leaves between two commits is not logged; the changelog records
carry the record's timestamp, not the producer's time; a sequence number that is taken is not used
again after a restart (Kafka begins at 1 and overwrites, and lets the newer go first); a restored
buffer holds what it held (Kafka puts a second prefix before each restored key).
Rejected: all records in memory (a grace period of hours); one heap for all (most come in order);
a look into the store for each that leaves.
Spec: KIP-923; Kafka RocksDBTimeOrderedKeyValueBuffer.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pystreams.record import NO_RECORD, ConsumedMessage, Headers, ProducedRecord
from pystreams.stores.kinds.buffer.waiting_record import (
    FRAME_BYTES,
    KEY,
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
    from pystreams.ids import TopicPartition
    from pystreams.stores.contracts.state_store import StateStoreContext
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore

KEPT_BYTES = 2 * 1024 * 1024
"""What memory keeps of stored records from one commit to the next; half of it is read at once."""
_UNKNOWN = sys.maxsize
_timestamp, _sequence = itemgetter(TIMESTAMP), itemgetter(SEQUENCE)

_Place = tuple[int, bytes]
"""Timestamp, and key with sequence number: the order of stored keys."""
_BEGINNING: _Place = (0, b"")
_NOWHERE: _Place = (sys.maxsize, b"")


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
        "_in_order",
        "_kept_bytes",
        "_late",
        "_latest_before",
        "_left",
        "_newest",
        "_quick_until",
        "_sequence",
        "_through",
        "_topic_bytes",
        "in_bytes",
    )

    def __init__(self, buffer: BufferedKeyValueStore, kept_bytes: int = KEPT_BYTES) -> None:
        super().__init__(buffer)
        self.in_bytes = InBytes()
        self._kept_bytes = kept_bytes
        self._in_order: deque[Waiting] = deque()
        self._late: list[tuple[int, int, Waiting]] = []
        # Since the last flush: what left the store, and at which time; what came and left at once.
        self._left: list[tuple[Waiting, int]] = []
        self._through: list[tuple[Waiting, int]] = []
        self._newest: Waiting | None = None
        self._beyond = _BEGINNING
        self._quick_until = -1  # Below it leaving is taking off `_in_order`, and no more.
        self._sequence = 0
        self._topic_bytes = 0  # Of the longest topic that was stored: not asked of each record.
        self._latest_before = _UNKNOWN

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
            headers: Its headers.
            message: The message it was made of; None for what a punctuation has made.
            data_bytes: Bytes of key and value.
            until: See `leave_until`; -1 lets none go.
        """
        if timestamp <= self._latest_before:
            self._pass_earlier_lives(key, timestamp)
        size_bytes = FRAME_BYTES + data_bytes
        if headers:
            size_bytes += bytes_of(headers)
        source: Origin | ConsumedMessage = NO_ORIGIN
        if message is not None:
            source = message
            if not self._topic_bytes:
                self._topic_bytes = len(message.topic() or "")  # Topics are ASCII.
            size_bytes += self._topic_bytes
            if len(message.value() or b"") > size_bytes or type(message) is WaitingMessage:
                source = origin_of_message(message)
        self._sequence = sequence = (self._sequence + 1) & LAST_SEQUENCE
        self._newest = waiting = (timestamp, sequence, key, value, headers, source, size_bytes)
        in_order, buffer = self._in_order, self._buffer
        if not in_order or in_order[-1][TIMESTAMP] <= timestamp:
            in_order.append(waiting)
        else:
            heappush(self._late, (timestamp, sequence, waiting))
            self._quick_until = -1
        uncommitted = buffer.uncommitted_bytes + size_bytes
        leaving: Iterable[Waiting] | None = None
        if until < timestamp and until < self._quick_until:
            if in_order[0][TIMESTAMP] > until:
                leaving = ()
            elif in_order[1][TIMESTAMP] > until:  # Mostly one leaves; the newest stays.
                first = in_order.popleft()
                leaving = (first,)
                uncommitted -= first[SIZE_BYTES]
                if not first[SIZE_BYTES]:
                    self._left.append((first, until))
        if leaving is None:
            buffer.uncommitted_bytes = uncommitted
            leaving = self.leave_until(until)
            uncommitted = buffer.uncommitted_bytes
        buffer.uncommitted_bytes = uncommitted
        if uncommitted > buffer.watched_bytes:
            buffer.note(uncommitted)
        return leaving

    def leave_until(self, timestamp: int) -> Iterable[Waiting]:
        """Take out the records with a timestamp (ms) up to this one, in order of time, then key.

        What is in memory is gone at once; of the rest each part, once it is asked for.
        """
        if timestamp >= self._beyond[TIMESTAMP]:
            return self._leave_in_parts(timestamp)
        return self._note_left(self._take_until(timestamp), timestamp)

    def latest_timestamp(self) -> int:
        """Return the highest timestamp (ms) of what is stored, -1 without any; for a start."""
        entries = self._buffer.range(None, None, reverse=True)
        last = next(entries, None)
        entries.close()
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

    def flush_cache(self) -> None:
        """Store and log what has come and is still there, and what has left the store."""
        if self._newest is None and not self._left:
            return
        buffer = self._buffer
        held, came = self._held(), []
        for number, waiting in enumerate(held):
            if waiting[SIZE_BYTES]:
                buffer.uncommitted_bytes -= waiting[SIZE_BYTES]
                held[number] = stored = as_stored(waiting, self.in_bytes)
                came.append(stored)
        for waiting, timestamp in self._through:
            buffer.uncommitted_bytes -= waiting[SIZE_BYTES]
            stored = as_stored(waiting, self.in_bytes)
            came.append(stored)
            self._left.append((stored, timestamp))
        came.sort(key=_sequence)
        write = buffer.write
        for waiting in came:
            self._topic_bytes = max(self._topic_bytes, len(origin_of(waiting).topic))
            value = packed(waiting)
            write(stored_key_of(waiting), value, logged(value), waiting[TIMESTAMP], NO_RECORD)
        for waiting, timestamp in self._left:
            write(stored_key_of(waiting), None, None, timestamp, NO_RECORD)
        self._forget_changes()
        self._keep(held)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything written since the last commit durable, with the offsets, atomically."""
        assert self._newest is None, f"store {self.name}: commit before flush_cache"
        self._buffer.commit(changelog_offsets)

    def rollback(self) -> None:
        """Drop everything written since the last commit."""
        if self._newest is not None or self._left or self._buffer.dirty:
            self._forget()
        self._buffer.rollback()

    def changelog_records(self) -> Iterator[ProducedRecord]:
        """Return changelog records that restore what is committed."""
        for key, stored in self._buffer.engine_range(None, None):
            yield key, logged(stored), unpacked(key, stored).timestamp, ()

    def _leave_in_parts(self, timestamp: int) -> Iterator[Waiting]:
        """Let leave what is in memory and then, in parts, what the store alone has."""
        while timestamp >= self._beyond[TIMESTAMP]:
            first, beyond = self._take_until(self._beyond[TIMESTAMP]), self._beyond
            while first and self._place_of(first[-1]) >= beyond:
                self._in_order.appendleft(first.pop())
            yield from self._note_left(first, timestamp)
            self._read_on()
        yield from self._note_left(self._take_until(timestamp), timestamp)

    def _take_until(self, time: int) -> list[Waiting]:
        """Take out of memory the records up to a time (ms), in order."""
        in_order, late = self._in_order, self._late
        taken: list[Waiting] = []
        while True:
            if late and (not in_order or late[0][TIMESTAMP] < in_order[0][TIMESTAMP]):
                if late[0][TIMESTAMP] > time:
                    break
                taken.append(heappop(late)[-1])
            elif in_order and in_order[0][TIMESTAMP] <= time:
                taken.append(in_order.popleft())
            else:
                break
        if not late:
            self._quick_until = self._beyond[TIMESTAMP]
        if len(taken) > 1:
            self._sort_equal_times(taken)
        return taken

    def _note_left(self, leaving: list[Waiting], timestamp: int) -> list[Waiting]:
        """Take note that records leave at a time (ms); return them."""
        for waiting in leaving:
            if not waiting[SIZE_BYTES]:
                self._left.append((waiting, timestamp))
            elif waiting is self._newest:
                self._through.append((waiting, timestamp))
            else:
                self._buffer.uncommitted_bytes -= waiting[SIZE_BYTES]
        return leaving

    def _sort_equal_times(self, ascending: list[Waiting]) -> None:
        """Put records that ascend by time in the order of their places."""
        before = -1
        for timestamp, *_ in ascending:
            if timestamp == before:
                ascending.sort(key=self._place_of)
                return
            before = timestamp

    def _held(self) -> list[Waiting]:
        """Return what is in memory, by time."""
        if not self._late:
            return list(self._in_order)
        return sorted([*self._in_order, *(waiting for _, _, waiting in self._late)], key=_timestamp)

    def _place_of(self, waiting: Waiting) -> _Place:
        key = waiting[KEY]
        raw_key = key if type(key) is bytes else self.in_bytes.key(key)
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
        in_order = self._in_order
        if in_order and found and in_order[0][TIMESTAMP] < found[-1][TIMESTAMP]:
            self._in_order = deque(sorted([*found, *in_order], key=_timestamp))
        else:
            in_order.extendleft(reversed(found))

    def _keep(self, held: list[Waiting]) -> None:
        """Keep in memory what there is room for; all of it is stored now."""
        beyond, kept = self._beyond, held
        if held and held[-1][TIMESTAMP] >= beyond[TIMESTAMP]:
            kept = [waiting for waiting in held if self._place_of(waiting) < beyond]
        if sum(map(held_bytes, kept)) > self._kept_bytes:
            self._sort_equal_times(kept)
            room_bytes = self._kept_bytes // 2
            for number, waiting in enumerate(kept):
                room_bytes -= held_bytes(waiting)
                if room_bytes < 0:
                    self._beyond = self._place_of(waiting)
                    del kept[number:]
                    break
        self._in_order = deque(kept)
        self._late.clear()
        self._quick_until = self._beyond[TIMESTAMP]

    def _pass_earlier_lives(self, key: Any, timestamp: int) -> None:
        """Let the next number be above those that equal keys and times got before a restart."""
        if self._latest_before == _UNKNOWN:
            self._latest_before = self.latest_timestamp()
        if timestamp > self._latest_before:
            return
        raw_key = key if type(key) is bytes else self.in_bytes.key(key)
        first = key_in_order(timestamp, place_in_order(raw_key, 0))
        last = key_in_order(timestamp, place_in_order(raw_key, LAST_SEQUENCE))
        entries = self._buffer.range(first, last + b"\x00", reverse=True)
        for stored_key, _ in entries:
            if len(stored_key) == len(first):  # Else of another key, which begins with this one.
                self._sequence = max(self._sequence, sequence_of(stored_key))
                break
        entries.close()

    def _shut(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Know nothing of what the store holds, and hold nothing beside it."""
        self._in_order.clear()
        self._late.clear()
        self._forget_changes()
        self._beyond = _BEGINNING
        self._quick_until = -1
        self._latest_before = _UNKNOWN

    def _forget_changes(self) -> None:
        self._left.clear()
        self._through.clear()
        self._newest = None
