"""Dead letters: failed records with their bytes, and with headers that tell why they failed.

Spec: KIP-1034. Source: Kafka Streams' `ExceptionHandlerUtils`. The headers are Kafka's by name and
form; `HEADER_OUTPUT_TOPIC` and `HEADER_ATTEMPTS` are ours. These are not taken over from a record,
nor is the mark of a redrive: who wrote it would say what tools do with the queue.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from pystreams.exception_texts import exception_text
from pystreams.record import Headers
from pystreams.runtime.core.failures.error_context import ErrorContext

HEADER_EXCEPTION = "__streams.errors.exception"
HEADER_MESSAGE = "__streams.errors.message"
HEADER_STACKTRACE = "__streams.errors.stacktrace"
HEADER_TOPIC = "__streams.errors.topic"
HEADER_PARTITION = "__streams.errors.partition"
HEADER_OFFSET = "__streams.errors.offset"
HEADER_OUTPUT_TOPIC = "__pystreams.errors.output.topic"
"""Of a record that its topic has refused: that topic. Key and value are those it was to take."""
HEADER_ATTEMPTS = "__pystreams.errors.attempts"
"""How often the user's function was called with it, if that was more than once."""
HEADER_REDRIVEN = "__pystreams.redriven"
"""Of the marks that a redrive leaves in the queue; no letter has it."""

ERROR_HEADERS = frozenset(
    {
        HEADER_EXCEPTION,
        HEADER_MESSAGE,
        HEADER_STACKTRACE,
        HEADER_TOPIC,
        HEADER_PARTITION,
        HEADER_OFFSET,
        HEADER_OUTPUT_TOPIC,
        HEADER_ATTEMPTS,
    }
)
"""The headers that a dead letter has beside those of the record."""
_OURS = frozenset({HEADER_OUTPUT_TOPIC, HEADER_ATTEMPTS})
_NOT_OF_RECORDS = _OURS | {HEADER_REDRIVEN}


class DeadLetterRecord(NamedTuple):
    """A record for a dead letter queue.

    Attributes:
        topic: The queue.
        key: Its key's bytes, or None.
        value: Its value's bytes, or None.
        timestamp: Its timestamp (ms).
    """

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


DeadLetterTopic = str | Callable[[ErrorContext, Exception], str | None]
"""The queue's topic, or a function that chooses it; None for no dead letter."""


def dead_letter_record(context: ErrorContext, error: Exception, topic: str) -> DeadLetterRecord:
    """Return a failed record as a dead letter: its bytes and headers, and why it failed.

    Of its headers those are left out that only this library may set.

    Key and value are None where nobody has the bytes any more: in a punctuation, and of a record
    whose effect has left a record cache.

    Args:
        topic: The queue.
    """
    output = context.output_topic
    ours: Headers = () if output is None else ((HEADER_OUTPUT_TOPIC, output.encode()),)
    if context.attempts > 1:
        ours = (*ours, (HEADER_ATTEMPTS, b"%d" % context.attempts))
    own = (pair for pair in context.headers if pair[0] not in _NOT_OF_RECORDS)
    return DeadLetterRecord(
        topic,
        context.key,
        context.value,
        max(context.timestamp or 0, 0),
        (*own, *_headers(context, error), *ours),
    )


def error_headers(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, bytes | None]:
    """Return what a dead letter says of its error, whoever wrote it.

    The last of each name counts, and of ours only those behind Kafka's: Kafka Streams takes over
    whatever a record has.
    """
    told: dict[str, bytes | None] = {}
    for name, data in headers:
        if name == HEADER_EXCEPTION:
            for ours in _OURS:
                told.pop(ours, None)
        if name in ERROR_HEADERS:
            told[name] = data
    return told


class WaitingDeadLetters:
    """Dead letters of a partition's records that were met while a batch was decoded.

    They wait until the offset to commit is beyond their record: sent before, they would be sent
    again after a crash.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[int, DeadLetterRecord]] = []

    def add(self, offset: int, letters: Iterable[DeadLetterRecord]) -> None:
        """Add those of the record at an offset; offsets only grow."""
        self._waiting += [(offset, letter) for letter in letters]

    def take(self, next_offset: int | None) -> Sequence[DeadLetterRecord]:
        """Return and forget those of records before the offset to commit."""
        if not self._waiting or next_offset is None:
            return ()
        taken = [letter for offset, letter in self._waiting if offset < next_offset]
        del self._waiting[: len(taken)]
        return taken

    def clear(self) -> None:
        """Forget all: the records are read again."""
        self._waiting.clear()


def _headers(context: ErrorContext, error: Exception) -> Headers:
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    partition = -1 if context.partition is None else context.partition
    offset = -1 if context.offset is None else context.offset
    return (
        (HEADER_EXCEPTION, _text(name)),
        (HEADER_MESSAGE, _text(exception_text(error))),
        (HEADER_STACKTRACE, _text("".join(traceback.format_exception(error)))),
        (HEADER_TOPIC, None if context.topic is None else _text(context.topic)),
        (HEADER_PARTITION, _text(str(partition))),
        (HEADER_OFFSET, _text(str(offset))),
    )


def _text(text: str) -> bytes:
    return text.encode(errors="backslashreplace")
