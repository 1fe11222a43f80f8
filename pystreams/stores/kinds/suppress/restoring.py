"""What the changelog of a suppression's buffer becomes in it: of every version that Kafka wrote.

    no header v    int64 time | old | newest                                  until Kafka 2.2
    v = 01         int64 time | context | int32 length | old | newest         2.2
    v = 02         context | int32 length | old | newest | prior | int64 time 2.3; or version 3
    v = 03         context | prior | old | newest | int64 time                since 2.5.1

Each value is an int32 length (-1: null) and bytes. The first two have no prior value: it is that of
the change before, of the same key, else the old one. Kafka 2.4.0, 2.4.1 and 2.5.0 wrote version 3
under the header of version 2, so that is tried too.

Differs from Kafka, which lets a key that left and came back between two commits keep its former
time: here it has the one that was logged.
Spec: Kafka TimeOrderedKeyValueBufferChangelogDeserializationHelper.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pystreams.errors import StateStoreError
from pystreams.record import ConsumedMessage, Headers, RecordMetadata
from pystreams.stores.contracts.many_keys import get_many
from pystreams.stores.dirty_map.restoring import Changes
from pystreams.stores.files.metadata import BUFFERED_BYTES, BUFFERED_RECORDS
from pystreams.stores.kinds.suppress.buffered_change import (
    BufferedChange,
    bytes_at,
    context_at,
    counted_bytes,
    keyed,
    ordered,
    packed,
    stored_time,
    stored_timestamp,
    unpacked,
)

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine
    from pystreams.stores.files.metadata import StoreMetadata

_LONG = struct.Struct(">q")
_UNREADABLE = (ValueError, struct.error, UnicodeDecodeError)


class BufferTotals:
    """What a buffer knows of all it holds; committed beside the data.

    Attributes:
        records: How many keys it holds.
        counted_bytes: What they count, see `buffered_change.counted_bytes`.
        stream_time: The highest timestamp (ms) of the records that came to it, -1 before the first.
    """

    __slots__ = ("counted_bytes", "records", "stream_time")

    def __init__(self) -> None:
        self.records = self.counted_bytes = 0
        self.stream_time = -1

    def entries(self) -> Mapping[bytes, int]:
        """Return what is to be written beside the data, but for the stream time."""
        return {BUFFERED_RECORDS: self.records, BUFFERED_BYTES: self.counted_bytes}

    def go_back_to(self, committed: StoreMetadata) -> None:
        """Be what was committed."""
        self.records = committed.committed_total(BUFFERED_RECORDS)
        self.counted_bytes = committed.committed_total(BUFFERED_BYTES)
        self.stream_time = committed.committed_stream_time()


@dataclass(slots=True)
class RestoredChanges:
    """Turns changelog records into changes of an engine, and counts them.

    Attributes:
        store: The store's name, for error messages.
        totals: What is known of it, kept up to date.
        committed: What to count from; whatever was counted and not written is forgotten.
    """

    store: str
    engine: KeyValueEngine
    totals: BufferTotals
    committed: Callable[[], StoreMetadata]

    def __call__(self, messages: Sequence[ConsumedMessage]) -> Changes:
        """Return the changes that records of one partition make.

        Raises:
            StateStoreError: A record is in none of the known formats.
        """
        totals = self.totals
        totals.go_back_to(self.committed())
        keys = list({key: None for message in messages if (key := message.key()) is not None})
        held: dict[bytes, bytes | None] = dict.fromkeys(keys)
        if totals.records:
            stored_keys = list(map(keyed, keys))
            held.update(zip(keys, get_many(self.engine, stored_keys), strict=True))
        changes: Changes = {}
        for message in messages:
            key = message.key()
            if key is None:
                continue
            before = held[key]
            if before is not None:
                changes[ordered(stored_time(before), key)] = None
                totals.records -= 1
                totals.counted_bytes -= counted_bytes(key, before)
            value = message.value()
            held[key] = stored = None if value is None else self._stored(message, value, before)
            changes[keyed(key)] = stored
            if stored is not None:
                changes[ordered(stored_time(stored), key)] = b""
                totals.records += 1
                totals.counted_bytes += counted_bytes(key, stored)
                totals.stream_time = max(totals.stream_time, stored_timestamp(stored))
        return changes

    def _stored(self, message: ConsumedMessage, value: bytes, before: bytes | None) -> bytes:
        version = _version(message.headers())
        try:
            if version == b"\x03":
                unpacked(value)  # So that what can't be read is met here, not when it is due.
                return value
            if version is None:
                return packed(*_version_0(message, value, before))
            if version == b"\x01":
                return packed(*_version_1(value, before))
            if version == b"\x02":
                return _version_2_or_3(value)
        except _UNREADABLE as error:
            raise self._unreadable(message, version, str(error)) from error
        raise self._unreadable(message, version, "the version is not known")

    def _unreadable(
        self, message: ConsumedMessage, version: bytes | None, why: str
    ) -> StateStoreError:
        shown = "without a version" if version is None else f"of version {version.hex()}"
        return StateStoreError(
            self.store,
            f"the record at offset {message.offset()} of {message.topic()}-{message.partition()}, "
            f"{shown}, is no buffered change that can be read ({why}): a changelog of newer "
            "software, or of something else. Run what wrote it, or give the suppression another "
            "name, so that it begins with an empty buffer",
        )


def _version(headers: Sequence[tuple[str, bytes | None]] | None) -> bytes | None:
    found: bytes | None = None
    for name, value in headers or ():
        if name == "v":
            found = value
    return found


def _version_0(message: ConsumedMessage, value: bytes, before: bytes | None) -> BufferedChange:
    (time,) = _LONG.unpack_from(value)
    old, newest, _ = _old_and_newest(value, _LONG.size)
    origin = RecordMetadata(message.topic() or "", message.partition() or 0, message.offset() or 0)
    headers: Headers = tuple(message.headers() or ())
    timestamp = message.timestamp()[1]
    return BufferedChange(timestamp, headers, origin, _prior(before, old), old, newest, time)


def _version_1(value: bytes, before: bytes | None) -> BufferedChange:
    (time,) = _LONG.unpack_from(value)
    timestamp, headers, origin, at = context_at(value, _LONG.size)
    old, newest, _ = _old_and_newest(value, at + 4)
    return BufferedChange(timestamp, headers, origin, _prior(before, old), old, newest, time)


def _version_2_or_3(value: bytes) -> bytes:
    try:
        timestamp, headers, origin, at = context_at(value, 0)
        old, newest, at = _old_and_newest(value, at + 4)
        prior, at = bytes_at(value, at)
        (time,) = _LONG.unpack_from(value, at)
    except _UNREADABLE:
        unpacked(value)
        return value
    return packed(timestamp, headers, origin, prior, old, newest, time)


def _old_and_newest(value: bytes, at: int) -> tuple[bytes | None, bytes | None, int]:
    old, at = bytes_at(value, at)
    newest, at = bytes_at(value, at)
    return old, newest, at


def _prior(before: bytes | None, old: bytes | None) -> bytes | None:
    """Return the prior value of a change that was logged without one."""
    return old if before is None else unpacked(before).prior
