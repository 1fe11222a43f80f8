"""Where a record failed, as handlers are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pystreams.ids import TaskId
from pystreams.origin import InputRange
from pystreams.record import ConsumedMessage, Headers


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """Where a record failed.

    As in Kafka Streams, topic, partition and offset are the input's. Of a record that was refused
    on its way to a topic they are known as far as `made_of` says: None where that is several.

    Attributes:
        stage: "deserialization", "processing" or "production".
        task_id: The task, or None when the producer no longer knows it.
        node: The processor node, or None.
        topic: Source topic, or None.
        offset: The source record's offset, or None.
        key: Bytes of the key of the source record, or of the refused one; or None.
        value: Its value's bytes, or None.
        timestamp: Its timestamp (ms), or None.
        output_topic: The topic that has refused it, or None.
        output_partition: The partition it was going to, or None.
        made_of: The input a refused record was made of: the one record, or ranges of which one is
            it, as records are sent a run at a time.
        attempts: How often the user's function was called with it.

    Differs from Kafka, which says of a record refused by the broker what its task was processing
    when the answer came.
    """

    stage: str
    task_id: TaskId | None = None
    node: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    timestamp: int | None = None
    headers: Headers = ()
    output_topic: str | None = None
    output_partition: int | None = None
    made_of: tuple[InputRange, ...] = ()
    attempts: int = 1

    @classmethod
    def of(cls, stage: str, task_id: TaskId, node: str, message: ConsumedMessage) -> Self:
        """Return the context of a record that a task has consumed."""
        return cls(
            stage,
            task_id,
            node,
            topic=message.topic(),
            partition=message.partition(),
            offset=message.offset(),
            key=message.key(),
            value=message.value(),
            timestamp=message.timestamp()[1],
            headers=tuple(message.headers() or ()),
        )
