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

What is stored stays in memory as well, as long as there is room: who asks the store for its first
entry walks over all that have left, as deletions in the dirty map up to the commit, as tombstones
in RocksDB up to a compaction; and the store's read cache has better uses.

Invariants:
- Every record is in memory that is not stored, and every stored one below `_beyond`. Nothing that
  has left is at `_beyond` or above it.
- `_in_order` ascends. What comes below its end goes into `_late`, a heap.

Differs from Kafka: what comes and leaves between two commits is not logged; the changelog records
carry the record's timestamp, not the producer's time; a sequence number that is taken is not used
again after a restart (Kafka begins at 1 and overwrites, and lets the newer go first); a restored
buffer holds what it held (Kafka puts a second prefix before each restored key).
Rejected: all records in memory (a grace period of hours); one heap for all (most come in order);
a look into the store for each that leaves.
Spec: KIP-923; Kafka RocksDBTimeOrderedKeyValueBuffer.
"""

from __future__ import annotations

import struct
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from pystreams.record import NO_RECORD, ConsumedMessage, Headers, ProducedRecord
from pystreams.stores.dirty_map.restoring import Changes
from pystreams.stores.kinds.buffer.waiting_record import (
    FRAME_BYTES,
    LAST_SEQUENCE,
    NO_ORIGIN,
    PLACE,
    SIZE_BYTES,
    TIMESTAMP,
    Origin,
    Waiting,
    as_stored,
    bytes_of,
    key_in_order,
    packed,
    sequence_of,
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
_OBJECTS_BYTES = 500
"""What Python takes for a record beside its key and value, about."""
_BUFFER_TIME = bytes(8)
_UNKNOWN = sys.maxsize
_pack_sequence = struct.Struct(">i").pack

_Place = tuple[int, bytes]
"""Timestamp, and key with sequence number: what a `Waiting` begins with."""
_BEGINNING: _Place = (0, b"")
_NOWHERE: _Place = (sys.maxsize, b"")


class TimeOrderedBuffer(BufferedStateStore):
    """The buffer as operators and the runtime see it.

    Threads: belongs to the task's thread.

    Args:
        buffer: Holds the bytes, restored by `restored_records`; owned by this object from now on.
        kept_bytes: How much of what is stored memory keeps.
        asked_keys: See `LowestKeys`.
    """

    __slots__ = (
        "_beyond",
        "_in_order",
        "_kept_bytes",
        "_late",
        "_latest_before",
        "_left",
        "_newest",
        "_sequence",
        "_through",
    )

    def __init__(self, buffer: BufferedKeyValueStore, kept_bytes: int = KEPT_BYTES) -> None:
        super().__init__(buffer)
        self._kept_bytes = kept_bytes
        self._in_order: deque[Waiting] = deque()
        self._late: list[Waiting] = []
        # Since the last flush: the stored key of what left the store; what came and left at once.
        self._left: list[tuple[bytes, int]] = []
        self._through: list[tuple[Waiting, int]] = []
        self._newest: Waiting | None = None
        self._beyond = _BEGINNING
        self._sequence = 0
        self._latest_before = _UNKNOWN

    def put(
        self,
        key: bytes,
        value: bytes,
        timestamp: int,
        headers: Headers = (),
        origin: Origin = NO_ORIGIN,
    ) -> None:
        """Keep a record until `leave_until` is called with its time (ms) or a later one.

        Args:
            key: Its key's bytes.
            value: Its value's bytes.
            timestamp: Its time (ms).
            headers: Its headers.
            origin: Where it came from.
        """
        if timestamp <= self._latest_before:
            self._pass_earlier_lives(key, timestamp)
        self._sequence = sequence = (self._sequence + 1) & LAST_SEQUENCE
        topic, _, _ = origin
        size_bytes = FRAME_BYTES + len(key) + len(value) + len(topic)  # Topics are ASCII.
        if headers:
            size_bytes += bytes_of(headers)
        place = key + _pack_sequence(sequence)
        self._newest = waiting = (timestamp, place, key, value, headers, origin, size_bytes)
        in_order = self._in_order
        if not in_order or in_order[-1] < waiting:
            in_order.append(waiting)
        else:
            heappush(self._late, waiting)
        buffer = self._buffer
        buffer.uncommitted_bytes = uncommitted = buffer.uncommitted_bytes + size_bytes
        if uncommitted > buffer.watched_bytes:
            buffer.note(uncommitted)

    def leave_until(self, timestamp: int) -> Iterable[Waiting]:
        """Take out the records with a timestamp (ms) up to this one, in order of time, then key.

        What is in memory is gone at once; of the rest each part, once it is asked for.
        """
        if timestamp >= self._beyond[TIMESTAMP]:
            return self._leave_in_parts(timestamp)
        if self._late:
            return self._take_below((timestamp + 1, b""), timestamp)
        in_order = self._in_order
        if not in_order or in_order[0][TIMESTAMP] > timestamp:
            return ()
        leaving, buffer, newest = [], self._buffer, self._newest
        while True:
            waiting = in_order.popleft()
            leaving.append(waiting)
            size_bytes = waiting[SIZE_BYTES]
            if size_bytes and waiting is not newest:
                buffer.uncommitted_bytes -= size_bytes
            else:
                self._note_left(waiting, timestamp)
            if not in_order or in_order[0][TIMESTAMP] > timestamp:
                return leaving

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
        left = self._left + [(_key_of(waiting), time) for waiting, time in self._through]
        held = sorted([*self._in_order, *self._late])
        came = [waiting for waiting in held if waiting[SIZE_BYTES]]
        came += [waiting for waiting, _ in self._through]
        came.sort(key=_sequence_bytes)
        for waiting in came:
            value = packed(waiting)
            buffer.uncommitted_bytes -= waiting[SIZE_BYTES]
            logged = value + _BUFFER_TIME
            buffer.write(_key_of(waiting), value, logged, waiting[TIMESTAMP], NO_RECORD)
        for key, timestamp in left:
            buffer.write(key, None, None, timestamp, NO_RECORD)
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
            yield key, stored + _BUFFER_TIME, unpacked(key, stored).timestamp, ()

    def _leave_in_parts(self, timestamp: int) -> Iterator[Waiting]:
        """Let leave what is in memory and then, in parts, what the store alone has."""
        while timestamp >= self._beyond[TIMESTAMP]:
            yield from self._take_below(self._beyond, timestamp)
            self._read_on()
        yield from self._take_below((timestamp + 1, b""), timestamp)

    def _take_below(self, place: _Place, timestamp: int) -> list[Waiting]:
        """Take out of memory the records below a place, at a time (ms)."""
        in_order, late, leaving = self._in_order, self._late, []
        while in_order or late:
            from_late = late and not (in_order and in_order[0] < late[0])
            if (late if from_late else in_order)[0] >= place:
                break
            waiting = heappop(late) if from_late else in_order.popleft()
            leaving.append(waiting)
            self._note_left(waiting, timestamp)
        return leaving

    def _note_left(self, waiting: Waiting, timestamp: int) -> None:
        if not waiting[SIZE_BYTES]:
            self._left.append((_key_of(waiting), timestamp))
        elif waiting is self._newest:
            self._through.append((waiting, timestamp))
        else:
            self._buffer.uncommitted_bytes -= waiting[SIZE_BYTES]

    def _read_on(self) -> None:
        """Read the next part of what the store alone has."""
        entries = self._buffer.range(key_in_order(*self._beyond), None)
        found: list[Waiting] = []
        room_bytes = self._kept_bytes // 2
        self._beyond = _NOWHERE
        for key, stored in entries:
            waiting = waiting_of(key, stored)
            found.append(waiting)
            room_bytes -= _held_bytes(waiting)
            if room_bytes <= 0:
                self._beyond = (waiting[TIMESTAMP], waiting[PLACE] + b"\x00")
                break
        entries.close()
        in_order = self._in_order
        if in_order and found and in_order[0] < found[-1]:
            self._in_order = deque(sorted([*found, *in_order]))
        else:
            in_order.extendleft(reversed(found))

    def _keep(self, held: list[Waiting]) -> None:
        """Keep in memory what there is room for; all of it is stored now."""
        beyond = self._beyond
        below = (waiting for waiting in held if waiting < beyond)
        kept = [as_stored(waiting) if waiting[SIZE_BYTES] else waiting for waiting in below]
        if sum(map(_held_bytes, kept)) > self._kept_bytes:
            room_bytes = self._kept_bytes // 2
            for number, waiting in enumerate(kept):
                room_bytes -= _held_bytes(waiting)
                if room_bytes < 0:
                    self._beyond = (waiting[TIMESTAMP], waiting[PLACE])
                    del kept[number:]
                    break
        self._in_order = deque(kept)
        self._late.clear()

    def _pass_earlier_lives(self, key: bytes, timestamp: int) -> None:
        """Let the next number be above those that equal keys and times got before a restart."""
        if self._latest_before == _UNKNOWN:
            self._latest_before = self.latest_timestamp()
        if timestamp > self._latest_before:
            return
        first = key_in_order(timestamp, key + _pack_sequence(0))
        last = key_in_order(timestamp, key + _pack_sequence(LAST_SEQUENCE))
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
        self._latest_before = _UNKNOWN

    def _forget_changes(self) -> None:
        self._left.clear()
        self._through.clear()
        self._newest = None


def restored_records(messages: Sequence[ConsumedMessage]) -> Changes:
    """Return what changelog records are in the store: the buffer's time at the end goes."""
    changes: Changes = {}
    for message in messages:
        key, value = message.key(), message.value()
        if key is not None:
            changes[key] = None if value is None else value[: -len(_BUFFER_TIME)]
    return changes


def _key_of(waiting: Waiting) -> bytes:
    return key_in_order(waiting[TIMESTAMP], waiting[PLACE])


def _sequence_bytes(waiting: Waiting) -> bytes:
    return waiting[PLACE][-4:]


def _held_bytes(waiting: Waiting) -> int:
    _, _, key, value, headers, _, _ = waiting
    return _OBJECTS_BYTES + len(key) + len(value) + (bytes_of(headers) if headers else 0)
