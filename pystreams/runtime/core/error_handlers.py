"""What happens to a record that fails: handlers decide, fail by default.

A handler is a function `(ErrorContext, Exception) -> ErrorResponse`. Two are built in and can be
named in a configuration: "fail" and "continue" (log with the record's coordinates and go on).

Spec: KIP-161 (deserialization), KIP-210 (production), KIP-1033 (processing).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Self

from pystreams.errors import ProcessingError
from pystreams.ids import TaskId
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.user_tracebacks import traceback_field
from pystreams.origin import InputRange
from pystreams.record import ConsumedMessage, Headers

_log = get_logger("pystreams.errors")


class ErrorResponse(Enum):
    """What to do about a failed record."""

    FAIL = "fail"
    """Stop the application with the error; nothing of the record is committed."""
    CONTINUE = "continue"
    """Drop the record and go on."""
    RETRY = "retry"
    """Go on from the last commit, which sends the record again: while the topic it is going to is
    missing. Of any other record, which would be refused again, it is taken as FAIL."""


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
        partition: Its partition, or None.
        offset: The source record's offset, or None.
        key: Bytes of the key of the source record, or of the refused one; or None.
        value: Its value's bytes, or None.
        timestamp: Its timestamp (ms), or None.
        headers: Its headers.
        output_topic: The topic that has refused it, or None.
        output_partition: The partition it was going to, or None.
        made_of: The input a refused record was made of: the one record, or ranges of which one is
            it, as records are sent a run at a time.

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


ErrorHandler = Callable[[ErrorContext, Exception], ErrorResponse]


def log_and_fail(context: ErrorContext, error: Exception) -> ErrorResponse:  # noqa: ARG001
    """Stop; the error that reaches the user carries the coordinates."""
    return ErrorResponse.FAIL


def log_and_continue(context: ErrorContext, error: Exception) -> ErrorResponse:
    """Log the record's coordinates and go on without it."""
    _log.warning(
        "record skipped",
        stage=context.stage,
        task=str(context.task_id),
        node=context.node,
        topic=context.topic,
        partition=context.partition,
        offset=context.offset,
        **({} if context.output_topic is None else {"output_topic": context.output_topic}),
        error=f"{type(error).__name__}: {error}",
        **traceback_field(error),
    )
    return ErrorResponse.CONTINUE


BY_NAME: dict[str, ErrorHandler] = {"fail": log_and_fail, "continue": log_and_continue}
"""The handlers a configuration can name."""


def handler_of(setting: str | ErrorHandler) -> ErrorHandler:
    """Return the handler a configuration names or is."""
    return BY_NAME[setting] if isinstance(setting, str) else setting


def ask(handler: ErrorHandler, context: ErrorContext, error: Exception) -> ErrorResponse:
    """Return what a handler says about a failed record.

    Raises:
        ProcessingError: The handler itself raised, which stops the application, as in Kafka.
    """
    try:
        return handler(context, error)
    except Exception as raised:
        task = "" if context.task_id is None else f"task {context.task_id}: "
        by = "the producer" if context.node is None else f"node {context.node!r}"
        message = (
            f"{task}the handler of {context.stage} errors raised {type(raised).__name__}: {raised};"
            f" fix it. It was asked about {where(context)}, on which {by} raised "
            f"{type(error).__name__}: {error}"
        )
        raise ProcessingError(
            message,
            task_id=context.task_id,
            node=context.node,
            topic=context.topic,
            partition=context.partition,
            offset=context.offset,
        ) from raised


def where(context: ErrorContext) -> str:
    """Return on what it failed, in words."""
    if context.output_topic is not None:
        return f"a record for {context.output_topic}"
    if context.offset is not None:
        return f"the record at {context.topic}-{context.partition} offset {context.offset}"
    return "a punctuation"
