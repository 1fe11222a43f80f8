"""Records: as the user's processors see them, as they are processed, and on their way to a topic.

On the hot path a record is four arguments (key, value, timestamp, headers). A `Record` is built
only for the user's own `Processor`. It has slots but is not frozen, since a frozen dataclass takes
three times as long to construct (532 against 154 ns): treat it as immutable, and derive new ones
with the `with_*` methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from sys import intern
from typing import Generic, NamedTuple, Protocol, TypeVar

from pystreams.ids import TaskId
from pystreams.origin import Origin

Headers = tuple[tuple[str, bytes | None], ...]
"""Record headers in order; a name may repeat. The empty tuple means none."""

MAX_TIME = (1 << 63) - 1
"""The last moment that Kafka has room for (ms): timestamps, ends of windows, retentions."""

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


@dataclass(slots=True)
class Record(Generic[K, V]):
    """One record in flight.

    Attributes:
        key: The key; None when the topic's record had none.
        value: The value; None is a tombstone.
        timestamp: Event time, milliseconds since the epoch; never negative.
        headers: Headers, forwarded downstream and to sinks unless replaced.
    """

    key: K
    value: V
    timestamp: int
    headers: Headers = ()

    def with_key(self, key: K2) -> Record[K2, V]:
        """Return a copy with another key."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: V2) -> Record[K, V2]:
        """Return a copy with another value."""
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        """Return a copy with another timestamp (milliseconds since the epoch).

        Raises:
            ValueError: The timestamp is negative.
        """
        if timestamp < 0:
            raise ValueError(f"a record's timestamp is 0 ms or more, not {timestamp}")
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> Record[K, V]:
        """Return a copy with other headers."""
        return Record(self.key, self.value, self.timestamp, headers)


class RecordMetadata(NamedTuple):
    """Where the record being processed came from."""

    topic: str
    partition: int
    offset: int


_new_tuple = tuple.__new__


class ConsumedMessage(Protocol):
    """A message as the Kafka client hands it out: its methods, so that nothing is copied."""

    def topic(self) -> str | None:
        """Return the topic."""

    def partition(self) -> int | None:
        """Return the partition."""

    def offset(self) -> int | None:
        """Return the offset."""

    def key(self) -> bytes | None:
        """Return the key's bytes."""

    def value(self) -> bytes | None:
        """Return the value's bytes."""

    def timestamp(self) -> tuple[int, int]:
        """Return (kind of timestamp, milliseconds since the epoch)."""

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the headers, or None when there are none."""


def offset_of(message: ConsumedMessage) -> int:
    """Return the offset, which all consumed messages have."""
    offset = message.offset()
    assert offset is not None, "a consumed message has an offset"
    return offset


@dataclass(slots=True)
class StaticMessage:
    """A `ConsumedMessage` made of values.

    Attributes:
        message_key: Its key's bytes, or None.
        message_value: Its value's bytes, or None.
    """

    message_topic: str
    message_partition: int
    message_offset: int
    message_key: bytes | None
    message_value: bytes | None
    timestamp_ms: int
    message_headers: Headers = ()

    def topic(self) -> str:
        """Return the topic."""
        return self.message_topic

    def partition(self) -> int:
        """Return the partition."""
        return self.message_partition

    def offset(self) -> int:
        """Return the offset."""
        return self.message_offset

    def key(self) -> bytes | None:
        """Return the key's bytes."""
        return self.message_key

    def value(self) -> bytes | None:
        """Return the value's bytes."""
        return self.message_value

    def timestamp(self) -> tuple[int, int]:
        """Return (create time, milliseconds since the epoch)."""
        return (1, self.timestamp_ms)

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the headers, or None when there are none."""
        return list(self.message_headers) or None


ProducedRecord = tuple[bytes | None, bytes | None, int, Headers]
"""One record on its way to a topic: (key, value, timestamp in ms, headers), as steps have it."""


class OutputBuffer:
    """Records on their way to one topic, in order: a task fills it, the loop drains it.

    A record costs one tuple and one `append`. The list stays the same object for the buffer's life,
    so that processors may bind `records.append` once; drain it with `clear()`.

    Attributes:
        partition: The partition of every record, or None to let the partitioner choose by key.
        is_changelog: Whether the records are a store's: no handler may drop one, and the store
            wants to know their offsets.
        task_id: The task whose records they are, or None if nobody asks.
        origin: The input they are made of, which the task keeps; None if nobody asks.
        records: What waits, oldest first.
        last_offset: Offset of the newest record that the broker has acknowledged, or None. The loop
            writes it at a flush, for changelogs only.
        sent_records: How many were drained so far; the loop adds to it a batch at a time.
    """

    __slots__ = (
        "is_changelog",
        "last_offset",
        "origin",
        "partition",
        "records",
        "sent_records",
        "task_id",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        partition: int | None = None,
        *,
        is_changelog: bool = False,
        task_id: TaskId | None = None,
        origin: Origin | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.is_changelog = is_changelog
        self.task_id = task_id
        self.origin = origin
        self.records: list[ProducedRecord] = []
        self.last_offset: int | None = None
        self.sent_records = 0


class WatchedStore(Protocol):
    """A store that holds uncommitted bytes and says when they exceed a bound."""

    uncommitted_bytes: int

    def watch(self, bound_bytes: int) -> None:
        """Call `GrowthWatch.used_up` at each write that leaves more than the bound uncommitted."""


class GrowthWatch:
    """Ends a task's run of records when its stores have written enough.

    Owned by the task's thread.

    Attributes:
        used_up: Called by a store within a write; may be called again by the next.
    """

    __slots__ = ("_stores", "used_up")

    def __init__(self) -> None:
        self.used_up: Callable[[], None] = _nothing_to_end
        self._stores: list[WatchedStore] = []

    def add(self, store: WatchedStore) -> None:
        """Watch a store from now on; watching it twice changes nothing."""
        if not any(known is store for known in self._stores):
            self._stores.append(store)

    def give_room(self, room_bytes: int) -> None:
        """Let the stores write that many more bytes, in equal parts, before `used_up` is called."""
        if self._stores:
            part = room_bytes // len(self._stores)
            for store in self._stores:
                store.watch(store.uncommitted_bytes + part)


def _nothing_to_end() -> None:
    """No run is going on."""


class DroppedRecords:
    """Counts the records that the stores of a task drop, being older than their retention.

    Owned by the task's thread.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class PresentRecord:
    """The record that a task is processing; what a store is told with each write.

    Owned by the task's thread and changed in place: copy what you keep. Between two records it has
    the values of the first.

    Attributes:
        message: The message being processed; None in a punctuation. While a record cache is
            flushed, the one whose effect leaves it, without key and value.
        timestamp: Timestamp of the record at the current node (ms); an operator may have given it
            another than the message's.
        headers: Headers of the record at the current node.
    """

    __slots__ = ("headers", "message", "timestamp")

    def __init__(self) -> None:
        self.message: ConsumedMessage | None = None
        self.timestamp = -1
        self.headers: Headers = ()

    def metadata(self) -> RecordMetadata | None:
        """Return the current record's coordinates, or None in a punctuation."""
        message = self.message
        if message is None:
            return None
        # One name for all: record caches keep it.
        coordinates = intern(message.topic() or ""), message.partition() or 0, message.offset() or 0
        return _new_tuple(RecordMetadata, coordinates)  # Half of what `RecordMetadata(...)` costs.

    def go_back_to(self, source: RecordMetadata | None, timestamp: int, headers: Headers) -> None:
        """Return to a record that was processed before; its key and value are gone.

        Args:
            source: Where it came from, None for what a punctuation has done.
            timestamp: Timestamp (ms) at the node that goes on with it.
        """
        self.message = source and StaticMessage(*source, None, None, timestamp, headers)
        self.timestamp, self.headers = timestamp, headers


NO_RECORD = PresentRecord()
"""Stands for the record of what a store writes on its own account."""


class TaskTime:
    """What time it is for a task; changed in place by its thread.

    Attributes:
        stream_time: Highest timestamp seen by the task (ms), -1 before the first record.
        now_ms: Wall-clock time at the start of the current loop iteration (ms).
        monotonic_ms: What time it is by a clock that nobody sets (ms), at the start of the round:
            waits go by it.
    """

    __slots__ = ("monotonic_ms", "now_ms", "stream_time")

    def __init__(self) -> None:
        self.stream_time = -1
        self.now_ms = self.monotonic_ms = 0

    def go_on(self, now_ms: int, monotonic_ms: int | None = None) -> None:
        """Take what time it is now; without a clock of its own, waits go by the wall clock."""
        self.now_ms = now_ms
        self.monotonic_ms = now_ms if monotonic_ms is None else monotonic_ms
