"""Timestamp extractors: where a record's event time comes from.

An extractor is a function `(record, partition_time) -> timestamp in ms`. The runtime knows the
default one and then never calls it: it takes the messages' own timestamps in one pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystreams.errors import StreamsError
from pystreams.record import Headers


@dataclass(slots=True)
class ConsumerRecord:
    """A deserialized record as an extractor sees it.

    Attributes:
        key: The key, deserialized.
        value: The value, deserialized.
        timestamp: The message's timestamp (ms); -1 when it has none.
        now_ms: Wall-clock time at the start of the loop iteration (ms).
    """

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    timestamp: int
    headers: Headers
    now_ms: int


TimestampExtractor = Callable[[ConsumerRecord, int], int]
"""Given the record and the highest timestamp of its partition so far (ms, -1 if none), returns
event time in ms; a negative one drops the record, with a warning."""


def fail_on_invalid_timestamp(record: ConsumerRecord, partition_time: int) -> int:  # noqa: ARG001
    """Return the message's timestamp; refuse a negative one.

    Raises:
        StreamsError: The timestamp is negative; names the record and the alternatives.
    """
    if record.timestamp < 0:
        message = (
            f"record at {record.topic}-{record.partition} offset {record.offset} has no valid "
            f"timestamp ({record.timestamp}): set default.timestamp.extractor (or the source's) "
            "to log_and_skip_on_invalid_timestamp or use_partition_time_on_invalid_timestamp"
        )
        raise StreamsError(message)
    return record.timestamp


def log_and_skip_on_invalid_timestamp(record: ConsumerRecord, partition_time: int) -> int:  # noqa: ARG001
    """Return the message's timestamp; a negative one drops the record, with a warning."""
    return record.timestamp


def use_partition_time_on_invalid_timestamp(record: ConsumerRecord, partition_time: int) -> int:
    """Return the message's timestamp, or the partition's highest so far when it is negative.

    Raises:
        StreamsError: The timestamp is negative, and the partition has had no record before; names
            the record and the alternatives.
    """
    if record.timestamp >= 0:
        return record.timestamp
    if partition_time < 0:
        message = (
            f"record at {record.topic}-{record.partition} offset {record.offset} has no valid "
            f"timestamp ({record.timestamp}), and can't take its partition's: that is not known, "
            "no record came before it. Set default.timestamp.extractor (or the source's) to "
            "log_and_skip_on_invalid_timestamp, wallclock_timestamp or a function of your own"
        )
        raise StreamsError(message)
    return partition_time


def wallclock_timestamp(record: ConsumerRecord, partition_time: int) -> int:  # noqa: ARG001
    """Return the machine's time: event time is when the record is taken in."""
    return record.now_ms


BY_NAME: dict[str, TimestampExtractor] = {
    "fail_on_invalid_timestamp": fail_on_invalid_timestamp,
    "log_and_skip_on_invalid_timestamp": log_and_skip_on_invalid_timestamp,
    "use_partition_time_on_invalid_timestamp": use_partition_time_on_invalid_timestamp,
    "wallclock_timestamp": wallclock_timestamp,
}
"""The extractors a configuration can name."""
