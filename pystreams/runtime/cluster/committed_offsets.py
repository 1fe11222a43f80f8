"""Offsets as they are committed, and the partition time that rides in their metadata.

Format of the metadata text (Kafka Streams' `TopicPartitionMetadata`), base64 of:

    0x02 | int64 partition time [ | int32 entries | { int32 length, key in UTF-8 | int64 value } ]

    partition time 1000 -> 02 00000000000003e8 -> "AgAAAAAAAAPo"

Entries are what processors keep there. An aggregation of windows that sends final results keeps
under its store's name the time (ms) until which they were sent, as in Kafka Streams; under
`stream-time <node>` stands the stream time (ms) an operator had, which Kafka Streams forgets. Keys
that say what was read (`topic_ids`) or published (`publishing_mark`) have 0 as their value.

Version 1 (`0x01 | int64`) is understood. Text that is neither is ignored, as Kafka Streams does;
and so is what stands behind such a text, which the client may add when it reads. Behind what it
commits it adds a zero byte, so that Kafka Streams ignores all of it.

Source of the layout: Kafka Streams' `TopicPartitionMetadata` and `ProcessorMetadata`.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from pystreams.ids import TopicPartition

_TIME = struct.Struct(">bq")
_INT = struct.Struct(">i")
_VALUE = struct.Struct(">q")
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")

NUMBERS_MAX_BYTES = 2000
"""Of entries with numbers: with those of topics they fit into Kafka's `offset.metadata.max.bytes`,
4096, of which base64 takes a quarter."""

UNKNOWN_TIME = -1
"""Partition time before the first record."""


class CommittedOffset(NamedTuple):
    """An offset committed for a group: the next offset to read, with its metadata text."""

    next_offset: int
    metadata: str


class OffsetEntries(Protocol):
    """Gives what is committed with an offset beside what its task knows."""

    def __call__(
        self, partition: TopicPartition, numbers: Mapping[str, int], *, first: bool
    ) -> bytes:
        """Return the entries.

        Args:
            numbers: What stands behind them; see `with_numbers`.
            first: Whether it is the first partition of those that its task commits.
        """


def no_entries(
    partition: TopicPartition,  # noqa: ARG001 - as `OffsetEntries` has it
    numbers: Mapping[str, int],  # noqa: ARG001
    *,
    first: bool,  # noqa: ARG001
) -> bytes:
    """Return none."""
    return b""


class OffsetRange(NamedTuple):
    """What a partition holds.

    Attributes:
        beginning: The first offset.
        end: The offset after the last stable record (what read_committed readers reach).
        high_watermark: The offset after the last record of all; above `end` while a transaction
            is open or its markers are still being written.
    """

    beginning: int
    end: int
    high_watermark: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it: nothing any more, perhaps."""
        return self.beginning == self.high_watermark


def encode_partition_time(
    partition_time: int, entries: bytes = b"", numbers: Mapping[str, int] | None = None
) -> str:
    """Return the metadata text for a partition time (ms, -1 if unknown).

    Args:
        entries: What `encode_entries` has made.
        numbers: What stands behind them, by name; see `with_numbers`.
    """
    entries = with_numbers(entries, numbers or {})
    return base64.b64encode(_TIME.pack(2, partition_time) + entries).decode()


def encode_entries(keys: Collection[str]) -> bytes:
    """Return entries with these keys, to go behind a partition time; no bytes for none."""
    if not keys:
        return b""
    parts = [_INT.pack(len(keys))]
    for key in keys:
        name = key.encode()
        parts += [_INT.pack(len(name)), name, _VALUE.pack(0)]
    return b"".join(parts)


def with_key(entries: bytes, key: str) -> bytes:
    """Return entries, and behind them one with this key."""
    count = _INT.unpack_from(entries)[0] if entries else 0
    more = encode_entries([key])[_INT.size :]
    return b"".join((_INT.pack(count + 1), entries[_INT.size :], more))


def with_numbers(entries: bytes, numbers: Mapping[str, int]) -> bytes:
    """Return entries, and behind them those of numbers by their names.

    What does not fit into `NUMBERS_MAX_BYTES` is left out, the last ones first.

    Args:
        entries: What `encode_entries` has made.
        numbers: Each at most 63 bits long.
    """
    if not numbers:
        return entries
    count = _INT.unpack_from(entries)[0] if entries else 0
    parts, room_bytes = [entries[_INT.size :]], NUMBERS_MAX_BYTES
    for key, number in numbers.items():
        name = key.encode()
        room_bytes -= _INT.size + len(name) + _VALUE.size
        if room_bytes < 0:
            break
        parts += [_INT.pack(len(name)), name, _VALUE.pack(number)]
        count += 1
    return b"".join((_INT.pack(count), *parts))


def entries_of(metadata: str, prefix: str = "") -> list[str]:
    """Return the keys with a prefix in a metadata text, without it; none for any other text."""
    keys = numbers_of(metadata)
    return [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]


def numbers_of(metadata: str) -> dict[str, int]:
    """Return the entries in a metadata text, in their order; none for any other text."""
    data = _decoded(metadata)
    return decode_entries(data[_TIME.size :]) if data and data[0] == 2 else {}


def decode_entries(data: bytes) -> dict[str, int]:
    """Return what `encode_entries` or `with_numbers` has encoded; nothing of other bytes."""
    if not data:
        return {}
    try:
        (count,) = _INT.unpack_from(data)
        at = _INT.size
        numbers = {}
        for _ in range(count):
            (length,) = _INT.unpack_from(data, at)
            at += _INT.size
            if length < 0:
                return {}
            key = data[at : at + length].decode(errors="replace")
            (numbers[key],) = _VALUE.unpack_from(data, at + length)
            at += length + _VALUE.size
    except struct.error:
        return {}
    return numbers


def decode_partition_time(metadata: str) -> int:
    """Return the partition time of a metadata text (ms), -1 when it holds none."""
    data = _decoded(metadata)
    if len(data) >= _TIME.size and data[0] in (1, 2):
        return int(_TIME.unpack_from(data)[1])
    return UNKNOWN_TIME


def _decoded(metadata: str) -> bytes:
    """Return the bytes of as much of a text as is base64."""
    text = _BASE64.match(metadata)
    assert text is not None, "it matches what is empty"
    return base64.b64decode(text[0])
