"""What tests of queues share: messages, and queues of partitions with handlers of choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams import Headers, TaskId, TopicPartition, fail_on_invalid_timestamp, log_and_fail
from pystreams.record import StaticMessage
from pystreams.runtime.core.failures.error_handlers import ErrorHandler
from pystreams.runtime.core.queues.deserializers import Deserializers
from pystreams.runtime.core.queues.record_queue import RecordQueue
from pystreams.topology.contracts.extractors import TimestampExtractor

TASK = TaskId(0, 0)
BAD = b"bad"


def decode(raw: bytes) -> str:
    if raw == BAD:
        raise ValueError("not text")
    return raw.decode()


def message(
    offset: int,
    timestamp: int = 0,
    value: bytes | None = b"v",
    key: bytes | None = b"k",
    topic: str = "t",
) -> StaticMessage:
    return StaticMessage(topic, 0, offset, key, value, timestamp)


def queue_of(
    topic: str = "t",
    *,
    handler: ErrorHandler = log_and_fail,
    extractor: TimestampExtractor = fail_on_invalid_timestamp,
    step: Callable[[Any, Any, int, Headers], None] = lambda *_: None,
) -> RecordQueue:
    return RecordQueue(
        task_id=TASK,
        partition=TopicPartition(topic, 0),
        node="source",
        step=step,
        deserializers=Deserializers(decode, decode),
        extractor=extractor,
        handler=handler,
    )
