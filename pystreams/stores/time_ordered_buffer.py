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

Differs from Kafka: the changelog records carry the record's timestamp, not the producer's time; a
sequence number that is taken is not used again after a restart (Kafka begins at 1 and overwrites);
a restored buffer holds what it held (Kafka puts a second prefix before each restored key).
Spec: KIP-923; Kafka RocksDBTimeOrderedKeyValueBuffer, BufferValue, ProcessorRecordContext.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pystreams.record import ConsumedMessage, Headers, ProducedRecord
from pystreams.stores.contract import StateStore
from pystreams.stores.opening import any_entry
from pystreams.stores.restoring import Changes

if TYPE_CHECKING:
    from pystreams.ids import TopicPartition
    from pystreams.stores.buffered import BufferedKeyValueStore
    from pystreams.stores.contract import StateStoreContext

_KEY_HEAD = struct.Struct(">bq")
_INT = struct.Struct(">i")
_CONTEXT_HEAD = struct.Struct(">qqi")
_NO_BYTES = _INT.pack(-1)
_BUFFER_TIME = bytes(8)
_SEQUENCE_MASK = 0x7FFFFFFF


class WaitingRecord(NamedTuple):
    """A record in the buffer.

    Attributes:
        key: Its key's bytes.
        value: Its value's bytes.
        timestamp: Its timestamp (ms).
        headers: Its headers.
        topic: Where it came from.
        partition: Likewise.
        offset: Likewise.
    """

    key: bytes
    value: bytes
    timestamp: int
    headers: Headers = ()
    topic: str = ""
    partition: int = -1
    offset: int = -1


class TimeOrderedBuffer(StateStore):
    """The buffer as operators and the runtime see it.

    Threads: belongs to the task's thread.

    Args:
        buffer: Holds the bytes, restored by `restored_records`; owned by this object from now on.
    """

    __slots__ = ("_buffer", "_earliest", "_sequence")

    def __init__(self, buffer: BufferedKeyValueStore) -> None:
        self._buffer = buffer
        self._sequence = 0
        self._earliest = 0

    def put(self, record: WaitingRecord) -> None:
        """Keep a record until `leave_until` is called with its time or a later one."""
        while True:
            self._sequence = (self._sequence + 1) & _SEQUENCE_MASK
            key = stored_key(record, self._sequence)
            if self._buffer.get(key) is None:
                break
        value = packed(record)
        self._buffer.write(key, value, value + _BUFFER_TIME, record.timestamp)
        self._earliest = min(self._earliest, record.timestamp)

    def leave_until(self, timestamp: int) -> Iterator[WaitingRecord]:
        """Take out the records with a timestamp (ms) up to this one, in order of time, then key.

        A record is gone once the iterator has gone beyond it.
        """
        if timestamp < self._earliest:
            return
        end = _KEY_HEAD.pack(0, timestamp + 1)
        for key, value in self._buffer.range(None, end):
            yield unpacked(key, value)
            self._buffer.write(key, None, None, timestamp)
        self._earliest = timestamp + 1

    def latest_timestamp(self) -> int:
        """Return the highest timestamp (ms) in the buffer, -1 when it is empty."""
        entries = self._buffer.range(None, None, reverse=True)
        last = next(entries, None)
        entries.close()
        return -1 if last is None else int(_KEY_HEAD.unpack_from(last[0])[1])

    @property
    def name(self) -> str:
        """The store's name, unique in its topology."""
        return self._buffer.name

    @property
    def persistent(self) -> bool:
        """Whether committed data outlives the process."""
        return self._buffer.persistent

    @property
    def is_open(self) -> bool:
        """Whether the store is between `init` and `close`."""
        return self._buffer.is_open

    @property
    def transactional(self) -> bool:
        """Whether writes wait for `commit`."""
        return self._buffer.transactional

    def init(self, context: StateStoreContext) -> None:
        """Open the store; raises as `StateStore.init`."""
        self._buffer.init(context)
        self._earliest = 0

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of changelog records and remember the last one's offset, atomically."""
        self._buffer.restore(messages)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything written since the last commit durable, with the offsets, atomically."""
        self._buffer.commit(changelog_offsets)

    def rollback(self) -> None:
        """Drop everything written since the last commit."""
        self._buffer.rollback()
        self._earliest = 0

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the last changelog record in committed data, or None."""
        return self._buffer.committed_offset(partition)

    def changelog_records(self) -> Iterator[ProducedRecord]:
        """Return changelog records that restore what is committed."""
        for key, stored in self._buffer.engine_range(None, None):
            yield stored + _BUFFER_TIME, key, unpacked(key, stored).timestamp, ()

    def manages_offsets(self) -> bool:
        """Return whether offsets given to `commit` survive `close`."""
        return self._buffer.persistent

    def holds_data(self) -> bool:
        """Return whether there is anything committed in the store; reads one entry."""
        return any_entry(self._buffer.engine_range(None, None))

    def approximate_num_uncommitted_bytes(self) -> int:
        """Return the bytes of keys and values waiting for `commit`."""
        return self._buffer.uncommitted_bytes

    def max_uncommitted_bytes(self) -> int:
        """Return the highest number of uncommitted bytes there ever was since `init`."""
        return self._buffer.max_uncommitted_bytes

    def close(self) -> None:
        """Close without committing; safe to call twice."""
        self._buffer.close()

    def destroy(self) -> None:
        """Close, and delete all that was ever committed."""
        self._buffer.destroy()


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


def _bytes_at(value: bytes, at: int) -> tuple[bytes | None, int]:
    """Return the bytes behind their length, and where they end; None for a length of -1."""
    length: int = _INT.unpack_from(value, at)[0]
    at += _INT.size
    return (None, at) if length < 0 else (value[at : at + length], at + length)
