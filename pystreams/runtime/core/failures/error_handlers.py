"""What happens to a record that fails: handlers decide, fail by default.

A handler is a function `(ErrorContext, Exception) -> ErrorResponse`; one that sends dead letters of
its own returns an `ErrorHandlerResponse`. Two are built in and can be named in a configuration:
"fail" and "continue" (log with the record's coordinates and go on). With a dead letter queue, a
record that a handler drops by a plain `CONTINUE` goes there.

Spec: KIP-161 (deserialization), KIP-210 (production), KIP-1033 (processing), KIP-1034 (queue).
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Self

from pystreams.errors import ProcessingError, TopologyError
from pystreams.exception_texts import named_exception
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.pools import is_end_of_python
from pystreams.kernel.user_tracebacks import traceback_field
from pystreams.runtime.core.failures.dead_letters import (
    DeadLetterRecord,
    DeadLetterTopic,
    dead_letter_record,
)
from pystreams.runtime.core.failures.error_context import ErrorContext
from pystreams.topology.graph.naming import check_name

_log = get_logger("pystreams.errors")


class ErrorResponse(Enum):
    """What to do about a failed record."""

    FAIL = "fail"
    """Stop the application with the error; nothing of the record is committed."""
    CONTINUE = "continue"
    """Drop the record and go on; with a dead letter queue, send it there."""
    RESUME = CONTINUE
    """CONTINUE, by the name that Kafka has given it since."""
    RETRY = "retry"
    """At least once, go on from the last commit, which sends the record again: while the topic it
    is going to is missing. Of any other record, which would be refused again, it is taken as
    FAIL."""


@dataclass(frozen=True, slots=True)
class ErrorHandlerResponse:
    """What to do about a failed record, and which dead letters to send.

    Attributes:
        dead_letter_queue_records: Sent together with what the record's neighbours have led to:
            in the same transaction under exactly-once.

    Raises:
        TypeError: The result is none, or a dead letter is.
    """

    result: ErrorResponse
    dead_letter_queue_records: tuple[DeadLetterRecord, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is no answer, while the handler's line is there to be told."""
        if not isinstance(self.result, ErrorResponse):
            raise TypeError(f"result is an ErrorResponse, not {self.result!r}")
        letters = _checked_letters(self.dead_letter_queue_records)
        object.__setattr__(self, "dead_letter_queue_records", letters)

    @classmethod
    def resume(cls, dead_letter_queue_records: Iterable[DeadLetterRecord] = ()) -> Self:
        """Drop the record, send these dead letters and no other, and go on.

        Raises:
            TypeError: One is no dead letter.
        """
        return cls(ErrorResponse.CONTINUE, _checked_letters(dead_letter_queue_records))

    @classmethod
    def fail(cls) -> Self:
        """Stop the application with the error."""
        return cls(ErrorResponse.FAIL)

    @classmethod
    def retry(cls) -> Self:
        """Go on from the last commit; see `ErrorResponse.RETRY`."""
        return cls(ErrorResponse.RETRY)


def _checked_letters(given: object) -> tuple[DeadLetterRecord, ...]:
    takes = "dead_letter_queue_records takes an iterable of DeadLetterRecord"
    if isinstance(given, DeadLetterRecord):
        raise TypeError(f"{takes}, not one alone: put it into a list")
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{takes}, not {given!r}")
    letters = tuple(given)
    for letter in letters:
        if not isinstance(letter, DeadLetterRecord):
            raise TypeError(f"{takes}, not {letter!r}; dead_letter_record(...) makes one")
    return letters


ErrorHandler = Callable[[ErrorContext, Exception], ErrorResponse | ErrorHandlerResponse]
DeadLetterListener = Callable[[ErrorContext, Exception, Sequence[DeadLetterRecord]], object]
"""Told of the dead letters of a record that is dropped."""


def log_and_fail(context: ErrorContext, error: Exception) -> ErrorResponse:  # noqa: ARG001
    """Stop; the error that reaches the user carries the coordinates."""
    return ErrorResponse.FAIL


def log_and_continue(context: ErrorContext, error: Exception) -> ErrorResponse:
    """Log the record's coordinates and go on without it."""
    _log.warning(
        "record skipped",
        stage=context.stage,
        task=None if context.task_id is None else context.task_id.logged,
        node=context.node,
        topic=context.topic,
        partition=context.partition,
        offset=context.offset,
        **({} if context.output_topic is None else {"output_topic": context.output_topic}),
        error=named_exception(error),
        **traceback_field(error),
    )
    return ErrorResponse.CONTINUE


BY_NAME: dict[str, ErrorHandler] = {"fail": log_and_fail, "continue": log_and_continue}
"""The handlers a configuration can name."""


def handler_of(setting: str | ErrorHandler, queue: DeadLetterTopic | None = None) -> ErrorHandler:
    """Return the handler a configuration names or is.

    Args:
        setting: Its name, or itself.
        queue: Where the records go that it drops without dead letters of its own.
    """
    handler = BY_NAME[setting] if isinstance(setting, str) else setting
    if queue is None or handler is log_and_fail:
        return handler
    return partial(_drop_into_queue, handler, queue)


def _drop_into_queue(
    handler: ErrorHandler, queue: DeadLetterTopic, context: ErrorContext, error: Exception
) -> ErrorResponse | ErrorHandlerResponse:
    response = handler(context, error)
    if response is not ErrorResponse.CONTINUE:
        return response
    topic = queue if isinstance(queue, str) else _chosen(queue, context, error)
    if topic is None:
        return response
    return ErrorHandlerResponse.resume([dead_letter_record(context, error, topic)])


def _chosen(
    queue: Callable[[ErrorContext, Exception], str | None], context: ErrorContext, error: Exception
) -> str | None:
    """Return the topic that the user's function chooses, if it is one."""
    function = "the function that is errors.dead.letter.queue.topic.name"
    try:
        topic = queue(context, error)
    except Exception as raised:
        raise ValueError(f"{function} raised {named_exception(raised)}") from raised
    if topic is not None:
        try:
            check_name(topic, "a topic")
        except TopologyError as wrong:
            raise ValueError(f"{function}: {wrong}; None for no dead letter") from None
    return topic


def told_of(handler: ErrorHandler, listener: DeadLetterListener) -> ErrorHandler:
    """Return a handler of whose dead letters a listener is told."""
    return handler if handler is log_and_fail else partial(_tell, handler, listener)


def _tell(
    handler: ErrorHandler, listener: DeadLetterListener, context: ErrorContext, error: Exception
) -> ErrorResponse | ErrorHandlerResponse:
    response = handler(context, error)
    if isinstance(response, ErrorHandlerResponse) and response.result is ErrorResponse.CONTINUE:
        listener(context, error, response.dead_letter_queue_records)
    return response


def ask(handler: ErrorHandler, context: ErrorContext, error: Exception) -> ErrorHandlerResponse:
    """Return what a handler says about a failed record.

    Raises:
        ProcessingError: The handler itself raised, or what it returned is no answer; that stops
            the application, as in Kafka. Or Python ends, which says nothing of the record.
    """
    if is_end_of_python(error):
        raise _at_the_end(context, error) from error
    try:
        response: object = handler(context, error)
    except Exception as raised:
        told = f"raised {named_exception(raised)}; fix it"
        raise _no_answer(context, error, told) from raised
    if isinstance(response, ErrorResponse):
        return ErrorHandlerResponse(response)
    if isinstance(response, ErrorHandlerResponse):
        return response
    told = (
        f"returned {reprlib.repr(response)}: return ErrorResponse.CONTINUE or ErrorResponse.FAIL, "
        "or an ErrorHandlerResponse"
    )
    raise _no_answer(context, error, told) from error


def _no_answer(context: ErrorContext, error: Exception, told: str) -> ProcessingError:
    """Return the error of a handler that has not answered.

    Args:
        error: What it was asked about.
        told: What it did, and the cure.
    """
    return _error_of(
        context,
        f"the handler of {context.stage} errors {told}. It was asked about {where(context)}, on "
        f"which {_raised(context, error)}",
    )


def _at_the_end(context: ErrorContext, error: Exception) -> ProcessingError:
    return _error_of(
        context,
        "the program's main thread has ended, and Python's pools of threads with it: on "
        f"{where(context)} {_raised(context, error)}. No handler is asked, and nothing is lost: "
        "the next start goes on before it. A program that ends in wait() or close() stops in order",
    )


def _raised(context: ErrorContext, error: Exception) -> str:
    by = "the producer" if context.node is None else f"node {context.node!r}"
    return f"{by} raised {named_exception(error)}"


def _error_of(context: ErrorContext, told: str) -> ProcessingError:
    task = "" if context.task_id is None else f"{context.task_id.told}: "
    return ProcessingError(
        f"{task}{told}",
        task_id=context.task_id,
        node=context.node,
        topic=context.topic,
        partition=context.partition,
        offset=context.offset,
    )


def in_attempts(attempts: int) -> str:
    """Return how often it was tried, in words; nothing if once."""
    return "" if attempts == 1 else f" in {attempts} attempts"


def where(context: ErrorContext) -> str:
    """Return on what it failed, in words."""
    if context.output_topic is not None:
        return f"a record for {context.output_topic}"
    if context.offset is not None:
        return f"the record at {context.topic}-{context.partition} offset {context.offset}"
    return "a punctuation"
