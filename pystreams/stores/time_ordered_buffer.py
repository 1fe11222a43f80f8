"""Records of a stream that wait for their time, in the order of it: the buffer of a temporal join.

    stored key    00 | int64 timestamp | key | int32 sequence number
    stored value  context | int32 -1 | int32 -1 | int32 length | value
    context       int64 timestamp | int64 offset | int32 length | topic | int32 partition |
                  int32 headers | { int32 length | name | int32 length (-1: null) | value }
    changelog     the stored key; the stored value and then int64 0

All integers are big-endian. Example: key "k" at timestamp 1, the first one put, is stored under
00 00 00 00 00 00 00 00 01 6b 00 00 00 01. The two -1 stand for a prior and an old value, which a
suppressing buffer of this format would have.

The order of stored keys is that of timestamps, then of keys: the order in which records leave.

    put --> arrivals --(flush_cache: what still waits)--> store, changelog
               |                                            |
               +----> leave_until: the lowest keys first <--+

Most records wait for less than a commit takes to come. Those are never stored nor logged: they come
and leave in memory. A record that leaves in the very step it came in is logged all the same, both
coming and leaving, as the changelog of a grace period of 0 has it in Kafka.

Differs from Kafka: what comes and leaves between two commits is not logged; the changelog records
carry the record's timestamp, not the producer's time; a sequence number that is taken is not used
again after a restart (Kafka begins at 1 and overwrites, and lets the newer go first); a restored
buffer holds what it held (Kafka puts a second prefix before each restored key).
Spec: KIP-923; Kafka RocksDBTimeOrderedKeyValueBuffer, BufferValue, ProcessorRecordContext.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from pystreams.record import ConsumedMessage, Headers, ProducedRecord
from pystreams.stores.lowest_keys import LowestKeys
from pystreams.stores.restoring import Changes
from pystreams.stores.typed_state_store import BufferedStateStore
from pystreams.stores.waiting_record import WaitingRecord

if TYPE_CHECKING:
    from pystreams.ids import TopicPartition
    from pystreams.stores.buffered import BufferedKeyValueStore
    from pystreams.stores.contract import StateStoreContext

_KEY_HEAD = struct.Struct(">bq")
_INT = struct.Struct(">i")
_CONTEXT_HEAD = struct.Struct(">qqi")
_NO_BYTES = _INT.pack(-1)
_BUFFER_TIME = bytes(8)
_FRAME_BYTES = _KEY_HEAD.size + _INT.size + _CONTEXT_HEAD.size + 5 * _INT.size
"""Bytes of an entry without key, topic, headers and value."""
_pack_int = _INT.pack
_SEQUENCE_MASK = 0x7FFFFFFF
_UNKNOWN = sys.maxsize


_Arrival = tuple[int, bytes, WaitingRecord, int]
"""Timestamp, key and sequence number, which are the order of stored keys; record; bytes stored."""


class TimeOrderedBuffer(BufferedStateStore):
    """The buffer as operators and the runtime see it.

    Threads: belongs to the task's thread.

    Args:
        buffer: Holds the bytes, restored by `restored_records`; owned by this object from now on.
    """

    __slots__ = (
        "_arrivals",
        "_earliest",
        "_earliest_stored",
        "_latest_before",
        "_left",
        "_newest",
        "_sequence",
        "_stored",
        "_through",
    )

    def __init__(self, buffer: BufferedKeyValueStore) -> None:
        super().__init__(buffer)
        self._stored = LowestKeys(lambda start: buffer.range(start, None))
        # What has come since the last flush, a heap; what left the store since; what did both.
        self._arrivals: list[_Arrival] = []
        self._left: list[tuple[bytes, int]] = []
        self._through: list[tuple[_Arrival, int]] = []
        self._newest: _Arrival | None = None
        self._sequence = self._earliest = self._earliest_stored = 0
        self._latest_before = _UNKNOWN

    def put(self, record: WaitingRecord) -> None:
        """Keep a record until `leave_until` is called with its time or a later one."""
        key, value, timestamp, headers, topic, _, _ = record
        if timestamp <= self._latest_before:
            self._pass_earlier_lives(record)
        self._sequence = sequence = (self._sequence + 1) & _SEQUENCE_MASK
        size_bytes = _FRAME_BYTES + len(key) + len(value) + len(topic)  # Of ASCII, as topics are.
        if headers:
            size_bytes += _bytes_of(headers)
        self._newest = arrival = (timestamp, key + _pack_int(sequence), record, size_bytes)
        heappush(self._arrivals, arrival)
        self._buffer.hold(size_bytes)
        if timestamp < self._earliest:
            self._earliest = timestamp

    def leave_until(self, timestamp: int) -> Iterable[WaitingRecord]:
        """Take out the records with a timestamp (ms) up to this one, in order of time, then key.

        What has come since the last flush is gone at once; of the rest each, once it is given.
        """
        if timestamp < self._earliest:
            return ()
        if timestamp >= self._earliest_stored:
            return self._leave_until(timestamp)
        arrivals = self._arrivals
        leaving = []
        while arrivals and arrivals[0][0] <= timestamp:
            leaving.append(self._take_arrival(timestamp))
        self._note_earliest()
        return leaving

    def latest_timestamp(self) -> int:
        """Return the highest timestamp (ms) of what is stored, -1 without any; for a start."""
        entries = self._buffer.range(None, None, reverse=True)
        last = next(entries, None)
        entries.close()
        return -1 if last is None else _time_of(last[0])

    def init(self, context: StateStoreContext) -> None:
        """Open the store; raises as `StateStore.init`."""
        self._buffer.init(context)
        self._forget()

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of changelog records and remember the last one's offset, atomically."""
        self._buffer.restore(messages)
        self._forget()

    def flush_cache(self) -> None:
        """Store and log what has come and is still there, and what has left the store."""
        if not (self._arrivals or self._left or self._through):
            return
        buffer = self._buffer
        left = self._left + [(_key_of(arrival), time) for arrival, time in self._through]
        came = self._arrivals + [arrival for arrival, _ in self._through]
        for arrival in sorted(came, key=_sequence_of):
            _, _, record, size_bytes = arrival
            value = packed(record)
            buffer.uncommitted_bytes -= size_bytes
            buffer.write(_key_of(arrival), value, value + _BUFFER_TIME, record.timestamp)
        for key, timestamp in left:
            buffer.write(key, None, None, timestamp)
        self._stored.add(map(_key_of, self._arrivals))
        if self._arrivals:
            self._earliest_stored = min(self._earliest_stored, self._arrivals[0][0])
        self._drop_arrivals()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything written since the last commit durable, with the offsets, atomically."""
        assert not self._arrivals, f"store {self.name}: commit before flush_cache"
        self._buffer.commit(changelog_offsets)

    def rollback(self) -> None:
        """Drop everything written since the last commit."""
        if self._arrivals or self._left or self._through or self._buffer.dirty:
            self._forget()
        self._buffer.rollback()

    def changelog_records(self) -> Iterator[ProducedRecord]:
        """Return changelog records that restore what is committed."""
        for key, stored in self._buffer.engine_range(None, None):
            yield stored + _BUFFER_TIME, key, unpacked(key, stored).timestamp, ()

    def _leave_until(self, timestamp: int) -> Iterator[WaitingRecord]:
        """Let leave what is stored and what is not, one by one."""
        buffer, stored, arrivals = self._buffer, self._stored, self._arrivals
        while (key := stored.lowest()) is not None and _time_of(key) <= timestamp:
            while arrivals and _key_of(arrivals[0]) < key:
                yield self._take_arrival(timestamp)
            value = buffer.get(key)
            assert value is not None, f"store {self.name}: a known key is not there"
            stored.take()
            self._left.append((key, timestamp))
            yield unpacked(key, value)
        self._earliest_stored = sys.maxsize if key is None else _time_of(key)
        while arrivals and arrivals[0][0] <= timestamp:
            yield self._take_arrival(timestamp)
        self._note_earliest()

    def _take_arrival(self, timestamp: int) -> WaitingRecord:
        arrival = heappop(self._arrivals)
        if arrival is self._newest:
            self._through.append((arrival, timestamp))
        else:
            self._buffer.uncommitted_bytes -= arrival[3]
        return arrival[2]

    def _note_earliest(self) -> None:
        arrivals = self._arrivals
        earliest = arrivals[0][0] if arrivals else sys.maxsize
        self._earliest = min(earliest, self._earliest_stored)

    def _pass_earlier_lives(self, record: WaitingRecord) -> None:
        """Let the next number be above those that equal keys and times got before a restart."""
        if self._latest_before == _UNKNOWN:
            self._latest_before = self.latest_timestamp()
        if record.timestamp > self._latest_before:
            return
        first, last = stored_key(record, 0), stored_key(record, _SEQUENCE_MASK)
        entries = self._buffer.range(first, last + b"\x00", reverse=True)
        for key, _ in entries:
            if len(key) == len(first):  # Else of another key, which begins with this one.
                self._sequence = max(self._sequence, _INT.unpack_from(key, len(key) - 4)[0])
                break
        entries.close()

    def _shut(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Know nothing of what the store holds, and hold nothing beside it."""
        self._stored.forget()
        self._earliest = self._earliest_stored = 0
        self._latest_before = _UNKNOWN
        self._drop_arrivals()

    def _drop_arrivals(self) -> None:
        self._arrivals.clear()
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


def stored_key(record: WaitingRecord, sequence: int) -> bytes:
    """Return the key a record is stored under."""
    return _KEY_HEAD.pack(0, record.timestamp) + record.key + _INT.pack(sequence)


def _key_of(arrival: _Arrival) -> bytes:
    return _KEY_HEAD.pack(0, arrival[0]) + arrival[1]


def _sequence_of(arrival: _Arrival) -> bytes:
    return arrival[1][-_INT.size :]


def _bytes_of(headers: Headers) -> int:
    """Return how long headers are in a stored value."""
    return sum(2 * _INT.size + len(name.encode()) + len(header or b"") for name, header in headers)


def packed(record: WaitingRecord) -> bytes:
    """Return the value a record is stored as."""
    topic = record.topic.encode()
    parts = [
        _CONTEXT_HEAD.pack(record.timestamp, record.offset, len(topic)),
        topic,
        _INT.pack(record.partition),
        _INT.pack(len(record.headers)),
    ]
    for name, header in record.headers:
        encoded = name.encode()
        parts += (_INT.pack(len(encoded)), encoded)
        parts += (_NO_BYTES,) if header is None else (_INT.pack(len(header)), header)
    parts += (_NO_BYTES, _NO_BYTES, _INT.pack(len(record.value)), record.value)
    return b"".join(parts)


def unpacked(key: bytes, value: bytes) -> WaitingRecord:
    """Return the record stored under a key."""
    timestamp, offset, length = _CONTEXT_HEAD.unpack_from(value)
    at = _CONTEXT_HEAD.size
    topic, at = value[at : at + length].decode(), at + length
    partition, count = struct.unpack_from(">ii", value, at)
    at += 8
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _bytes_at(value, at)
        header, at = _bytes_at(value, at)
        headers.append(((name or b"").decode(), header))
    _, at = _bytes_at(value, at)
    _, at = _bytes_at(value, at)
    newest, _ = _bytes_at(value, at)
    plain_key = key[_KEY_HEAD.size : -_INT.size]
    return WaitingRecord(
        plain_key, newest or b"", timestamp, tuple(headers), topic, partition, offset
    )


def _time_of(key: bytes) -> int:
    timestamp: int = _KEY_HEAD.unpack_from(key)[1]
    return timestamp


def _bytes_at(value: bytes, at: int) -> tuple[bytes | None, int]:
    """Return the bytes behind their length, and where they end; None for a length of -1."""
    length: int = _INT.unpack_from(value, at)[0]
    at += _INT.size
    return (None, at) if length < 0 else (value[at : at + length], at + length)
