"""Offsets as they are committed, and the partition time that rides in their metadata.

Format of the metadata text (Kafka Streams' `TopicPartitionMetadata`), base64 of:

    0x02 | int64 partition time [ | processor metadata, which nothing here writes or needs ]

    partition time 1000 -> 02 00000000000003e8 -> "AgAAAAAAAAPo"

Version 1 (`0x01 | int64`) is understood. Text that is neither is ignored, as Kafka Streams does.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import NamedTuple

_TIME = struct.Struct(">bq")

UNKNOWN_TIME = -1
"""Partition time before the first record."""


class CommittedOffset(NamedTuple):
    """An offset committed for a group: the next offset to read, with its metadata text."""

    next_offset: int
    metadata: str


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


def encode_partition_time(partition_time: int) -> str:
    """Return the metadata text for a partition time (ms, -1 if unknown)."""
    return base64.b64encode(_TIME.pack(2, partition_time)).decode()


def decode_partition_time(metadata: str) -> int:
    """Return the partition time of a metadata text (ms), -1 when it holds none."""
    try:
        data = base64.b64decode(metadata, validate=True)
        if len(data) >= _TIME.size and data[0] == 2:
            return int(_TIME.unpack_from(data)[1])
        if len(data) == _TIME.size and data[0] == 1:
            return int(_TIME.unpack(data)[1])
    except (binascii.Error, ValueError):
        return UNKNOWN_TIME
    return UNKNOWN_TIME
