"""The records of one partition that wait in a task, decoded a batch at a time.

Invariants:
- Items are in offset order; `next_offset` is the offset of the first unprocessed message, or one
  after the last message seen when nothing waits.
- Partition time is the highest timestamp of the records taken from the queue; it never falls.
- A batch is decoded in one pass; only when something in it can't be decoded is it gone through
  record by record, with the handler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from pystreams.errors import (
    NOT_OF_ONE_RECORD,
    ProcessingError,
    SerializationError,
    StreamsError,
)
from pystreams.exception_texts import exception_text, named_exception
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.async_functions import refuse_coroutine
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.user_tracebacks import UsersCall, has_users_line
from pystreams.record import MAX_TIME, ConsumedMessage, Headers, offset_of
from pystreams.runtime.core.failures.dead_letters import WaitingDeadLetters
from pystreams.runtime.core.failures.error_context import ErrorContext
from pystreams.runtime.core.failures.error_handlers import ErrorHandler, ErrorResponse, ask
from pystreams.runtime.core.queues.deserializers import Deserializers, seeing
from pystreams.runtime.core.queues.waiting_bytes import OVERHEAD_BYTES, bytes_of_headers
from pystreams.topology.contracts.extractors import (
    ConsumerRecord,
    TimestampExtractor,
    fail_on_invalid_timestamp,
)
from pystreams.topology.contracts.operator import Step
from pystreams.topology.contracts.record_parts import checked_time

Item = tuple[Any, Any, int, Headers, ConsumedMessage]
"""One decoded record, as steps take it: (key, value, timestamp in ms, headers), and its message.

A plain tuple: `zip` makes thousands of them at once.
"""

timestamp_of: Callable[[Item], int] = itemgetter(2)
message_of: Callable[[Item], ConsumedMessage] = itemgetter(4)

_log = get_logger("pystreams.processing")

RECORD_OVERHEAD_BYTES = 16
"""Added to the bytes of each record when its growth of the state is predicted: a timestamp and a
counter are written even for an empty value."""


class RecordQueue:
    """Decoded records of one partition.

    Args:
        task_id: The task, for error messages.
        step: Feeds a record to the source's children.
        deserializers: Of keys and values.
        handler: Decides about records that can't be decoded.

    Attributes:
        node: Name of the source node.
        call: The user's call that declared it; an empty one while nobody has set it.
        step: Feeds a record to the source's children.
        next_offset: See the module's invariants; the task sets it to the committed offset, None
            without one, until the first record.
        partition_time: Highest timestamp taken so far (ms), -1 before the first record.
        dead_letters: Of records that could not be decoded.
        dropped: Records skipped by the handler or for a negative timestamp.
        now_ms: Wall-clock time of the current loop iteration (ms), for extractors.
    """

    __slots__ = (
        "_before_take",
        "_deserialize_key",
        "_deserialize_value",
        "_end_offset",
        "_extractor",
        "_handler",
        "_has_headers",
        "_items",
        "_position",
        "_see_headers",
        "_sizes",
        "_task_id",
        "call",
        "dead_letters",
        "dropped",
        "next_offset",
        "node",
        "now_ms",
        "partition",
        "partition_time",
        "step",
    )

    def __init__(
        self,
        *,
        task_id: TaskId,
        partition: TopicPartition,
        node: str,
        step: Step,
        deserializers: Deserializers,
        extractor: TimestampExtractor,
        handler: ErrorHandler,
    ) -> None:
        self.partition = partition
        self.step = step
        self.next_offset: int | None = None
        self.partition_time = -1
        self.dropped = 0
        self.now_ms = 0
        self._task_id = task_id
        self.node = node
        self.call = UsersCall()
        self._deserialize_key, self._deserialize_value, self._see_headers = deserializers
        self._extractor = extractor
        self._handler = handler
        self._items: list[Item] = []
        self._sizes: list[int] = []
        self._has_headers = False
        self._position = 0
        self._end_offset = 0
        self._before_take = (0, -1)
        self.dead_letters = WaitingDeadLetters()

    def __len__(self) -> int:
        """Return how many records wait."""
        return len(self._items) - self._position

    def waiting_bytes(self) -> int:
        """Return what the records take that wait; any thread may ask."""
        sizes = self._sizes[self._position :]
        found = sum(sizes) + OVERHEAD_BYTES * len(sizes)
        if self._has_headers:
            found += sum(map(bytes_of_headers, map(message_of, self._items[self._position :])))
        return found

    def waiting(self, limit: int) -> list[Item]:
        """Return the next records, at most so many; they go on waiting."""
        return self._items[self._position : self._position + limit]

    def sizes(self, limit: int) -> list[int]:
        """Return the bytes of the next records, without overhead, at most so many."""
        return self._sizes[self._position : self._position + limit]

    def largest_bytes(self, limit: int) -> int:
        """Return the bytes of the largest of them; the queue must not be empty."""
        return max(self.sizes(limit))

    def add(self, messages: Sequence[ConsumedMessage]) -> None:
        """Decode a batch of messages and put them behind those that wait.

        Raises:
            SerializationError: A record can't be decoded and the handler says to fail.
            SchemaRegistryError: The serde's registry does not answer; the handler is not asked.
            StreamsError: A timestamp is invalid and the extractor refuses it.
            ProcessingError: The extractor raised something else, or returned no time.
        """
        if not messages:
            return
        self._drop_taken()
        last_offset = offset_of(messages[-1])
        raw_keys = [message.key() for message in messages]
        raw_values = [message.value() for message in messages]
        headers = [tuple(found) if (found := message.headers()) else () for message in messages]
        deserialize_key, deserialize_value = self._deserialize_key, self._deserialize_value
        try:
            if self._see_headers:
                keys = seeing(deserialize_key, raw_keys, headers)
                values = seeing(deserialize_value, raw_values, headers)
            else:
                keys = [None if raw is None else deserialize_key(raw) for raw in raw_keys]
                values = [None if raw is None else deserialize_value(raw) for raw in raw_values]
        except Exception:  # noqa: BLE001 - the user's serde may raise anything
            messages, keys, values = self._decode_one_by_one(messages)
            raw_keys = [message.key() for message in messages]
            raw_values = [message.value() for message in messages]
            headers = [_headers(message) for message in messages]
        timestamps = [message.timestamp()[1] for message in messages]
        sizes = [
            (0 if key is None else len(key)) + (0 if value is None else len(value))
            for key, value in zip(raw_keys, raw_values, strict=True)
        ]
        items = list(zip(keys, values, timestamps, headers, messages, strict=True))
        if self._extractor is not fail_on_invalid_timestamp or min(timestamps, default=0) < 0:
            items, sizes = self._extract_timestamps(items, sizes)
        self._has_headers = any(headers) or (self._has_headers and bool(self._items))
        self._items.extend(items)
        self._sizes.extend(sizes)
        self._end_offset = last_offset + 1
        if not self._items:
            # Everything was skipped: the next commit moves past it.
            self.next_offset = self._end_offset
        elif self.next_offset is None:
            self.next_offset = self._first_offset()

    def run_length_to_time(self, limit: int, time: int) -> int:
        """Return how many of the next records end with the first one at or after `time` (ms)."""
        start = self._position
        stop = min(start + limit, len(self._items))
        for position in range(start, stop):
            if timestamp_of(self._items[position]) >= time:
                return position - start + 1
        return stop - start

    def run_length_of_small(self, limit: int, size_bytes: float) -> int:
        """Return how many of the next records come before one that is larger than a size.

        Args:
            limit: At most so many.
            size_bytes: The size, overhead included.
        """
        sizes = self.sizes(limit)
        bound = size_bytes - RECORD_OVERHEAD_BYTES
        if max(sizes) <= bound:
            return len(sizes)
        return next(number for number, size in enumerate(sizes) if size > bound)

    def input_bytes(self, count: int) -> int:
        """Return the bytes of the next `count` records, overhead included."""
        return sum(self.sizes(count)) + RECORD_OVERHEAD_BYTES * count

    def take(self, count: int) -> list[Item]:
        """Return the next `count` records (fewer if fewer wait) and move past them."""
        start = self._position
        taken = self._items[start : start + count]
        if not taken:
            return taken
        self._before_take = (start, self.partition_time)
        self._position = start + len(taken)
        drained = self._position == len(self._items)
        self.next_offset = self._end_offset if drained else self._first_offset()
        self.partition_time = max(self.partition_time, max(map(timestamp_of, taken)))
        return taken

    def put_back(self, count: int) -> None:
        """Let the last `count` records of the last `take` wait again."""
        start, partition_time = self._before_take
        self._position -= count
        kept = map(timestamp_of, self._items[start : self._position])
        self.next_offset = self._first_offset()
        self.partition_time = max(partition_time, max(kept, default=-1))

    def clear(self) -> None:
        """Forget what waits; partition time stays."""
        self.dead_letters.clear()
        self._items.clear()
        self._sizes.clear()
        self._position = 0
        self.next_offset = None

    def _first_offset(self) -> int:
        """Return the offset of the first record that waits."""
        return offset_of(message_of(self._items[self._position]))

    def _drop_taken(self) -> None:
        if self._position:
            del self._items[: self._position]
            del self._sizes[: self._position]
            self._position = 0

    def _decode_one_by_one(
        self, messages: Sequence[ConsumedMessage]
    ) -> tuple[list[ConsumedMessage], list[Any], list[Any]]:
        """Decode again after a failure, giving each bad record to the handler."""
        kept: list[ConsumedMessage] = []
        keys: list[Any] = []
        values: list[Any] = []
        for message in messages:
            part = "key"
            try:
                raw_key, raw_value = message.key(), message.value()
                seen = (_headers(message),) if self._see_headers else ()
                key = None if raw_key is None else self._deserialize_key(raw_key, *seen)
                part = "value"
                value = None if raw_value is None else self._deserialize_value(raw_value, *seen)
            except NOT_OF_ONE_RECORD:
                raise
            except Exception as error:  # noqa: BLE001 - the user's serde may raise anything
                self._refuse(message, part, error)
                continue
            kept.append(message)
            keys.append(key)
            values.append(value)
        return kept, keys, values

    def _refuse(self, message: ConsumedMessage, part: str, error: Exception) -> None:
        (topic, partition), offset = self.partition, offset_of(message)
        context = ErrorContext.of("deserialization", self._task_id, self.node, message)
        response = ask(self._handler, context, error)
        if response.result is ErrorResponse.CONTINUE:
            self.dropped += 1
            self.dead_letters.add(offset, response.dead_letter_queue_records)
            return
        text = (
            f"{self._task_id.told}: can't read the {part} of the record at {self.partition} "
            f"offset {offset} ({named_exception(error)}); set the right {part}_serde on "
            f"source {self.node!r}{self.call.told()}, or "
            "deserialization.exception.handler=continue to skip it"
        )
        raise SerializationError(
            text,
            topic=topic,
            partition=partition,
            offset=offset,
            task_id=self._task_id,
            node=self.node,
        ) from error

    def _extract_timestamps(
        self, items: list[Item], sizes: list[int]
    ) -> tuple[list[Item], list[int]]:
        """Ask the extractor for each record; a negative answer drops the record.

        One warning a batch tells of those that are dropped.
        """
        first_skipped: tuple[ConsumerRecord, int] | None = None
        kept: list[Item] = []
        kept_sizes: list[int] = []
        topic, partition = self.partition
        highest = max(map(timestamp_of, self._items), default=self.partition_time)
        highest = max(highest, self.partition_time)
        for (key, value, timestamp, headers, message), size in zip(items, sizes, strict=True):
            record = ConsumerRecord(
                topic, partition, offset_of(message), key, value, timestamp, headers, self.now_ms
            )
            try:
                extracted = self._extractor(record, highest)
            except StreamsError:
                raise
            except Exception as error:
                did = f"raised {type(error).__name__}"
                raise self._extractor_failed(did, error, record) from error
            if type(extracted) is not int or extracted > MAX_TIME:
                extracted = self._whole(extracted, record)
            if extracted < 0:
                first_skipped = first_skipped or (record, extracted)
                self.dropped += 1
                continue
            highest = max(highest, extracted)
            kept.append((key, value, extracted, headers, message))
            kept_sizes.append(size)
        if first_skipped is not None:
            self._tell_skipped(*first_skipped, more=len(items) - len(kept) - 1)
        return kept, kept_sizes

    def _whole(self, extracted: Any, record: ConsumerRecord) -> int:
        """Return what an extractor has returned, if it is a time after all: numpy has its own."""
        try:
            refuse_coroutine(extracted, "it returned", of_records=False)
            return checked_time("an event time", extracted)
        except (TypeError, ValueError) as error:
            raise self._extractor_failed("returned no time", error, record) from None

    def _tell_skipped(self, record: ConsumerRecord, extracted: int, more: int) -> None:
        _log.warning(
            "record without a valid timestamp skipped",
            task=self._task_id.logged,
            node=self.node,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp=record.timestamp,
            extracted=extracted,
            more=more,
        )

    def _extractor_failed(
        self, did: str, error: Exception, record: ConsumerRecord
    ) -> ProcessingError:
        """Return the error for an extractor that failed: as in Kafka, no handler is asked."""
        declared = "" if has_users_line(error) else self.call.told()
        text = (
            f"{self._task_id.told}: the timestamp extractor of source {self.node!r}"
            f"{declared} {did} on the record at {self.partition} offset {record.offset}: "
            f"{exception_text(error)}; let it return -1 to skip such records"
        )
        return ProcessingError(
            text,
            task_id=self._task_id,
            node=self.node,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )


def _headers(message: ConsumedMessage) -> Headers:
    found = message.headers()
    return tuple(found) if found else ()
