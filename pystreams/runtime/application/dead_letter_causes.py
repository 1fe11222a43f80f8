"""What an application's dead letters are of: by stage and topic how many, and the last causes.

Handlers are asked by stream threads, and by the clients' own; who looks is another thread.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pystreams.exception_texts import named_exception
from pystreams.runtime.core.failures.dead_letters import HEADER_STACKTRACE, DeadLetterRecord
from pystreams.runtime.core.failures.error_context import ErrorContext

_MAX_TOPICS = 20
_MAX_CAUSES = 5
_MAX_ERROR = 500
_MAX_STACK = 8000

_Cause = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class DeadLetterCause:
    """Why records of one kind became dead letters.

    Attributes:
        stage: "deserialization", "processing" or "production".
        where: The processor node, or the topic that has refused the record.
        error: The last error: its type and what it says.
        stack: Where that was raised, as the letter has it; nothing if it has none.
        last_ms: When the last one failed (ms since the epoch).
        task: The task that had it; None if nobody knows.
        record: Where that stands, as `topic-partition offset`; None of a punctuation.
    """

    stage: str
    where: str
    error: str
    stack: str
    records: int
    last_ms: int
    task: str | None
    record: str | None


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters for one topic since the application started.

    Attributes:
        records: How many. What goes back to its last commit is counted again.
        causes: The last causes, newest first.
    """

    topic: str
    records: int
    causes: tuple[DeadLetterCause, ...]


class DeadLetterCauses:
    """Counts dead letters, and keeps the last causes; safe to use from any thread.

    Args:
        now_ms: Returns the time (ms since the epoch).
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._stages: Counter[str] = Counter()
        self._records: dict[str, int] = {}
        self._causes: dict[str, dict[_Cause, DeadLetterCause]] = {}

    def note(
        self, context: ErrorContext, error: Exception, letters: Sequence[DeadLetterRecord]
    ) -> None:
        """Note the dead letters of one record."""
        with self._lock:
            self._stages[context.stage] += bool(letters)
            for letter in letters:
                self._note(context, error, letter)

    def by_stage(self) -> Counter[str]:
        """Return how many records became dead letters, by the stage that failed."""
        with self._lock:
            return self._stages.copy()

    def latest(self) -> tuple[DeadLetters, ...]:
        """Return those of each topic, by name."""
        with self._lock:
            return tuple(
                DeadLetters(topic, self._records[topic], tuple(reversed(causes.values())))
                for topic, causes in sorted(self._causes.items())
            )

    def _note(self, context: ErrorContext, error: Exception, letter: DeadLetterRecord) -> None:
        if letter.topic not in self._causes and len(self._causes) >= _MAX_TOPICS:
            return
        self._records[letter.topic] = self._records.get(letter.topic, 0) + 1
        causes = self._causes.setdefault(letter.topic, {})
        cause = _cause_of(context, error, letter, self._now_ms())
        key = cause.stage, cause.where, type(error).__name__
        if (before := causes.pop(key, None)) is not None:
            cause = replace(cause, records=before.records + 1)
        causes[key] = cause  # The newest is the last.
        if len(causes) > _MAX_CAUSES:
            del causes[next(iter(causes))]


def _cause_of(
    context: ErrorContext, error: Exception, letter: DeadLetterRecord, now_ms: int
) -> DeadLetterCause:
    stack = dict(letter.headers or ()).get(HEADER_STACKTRACE)
    text = stack.decode(errors="replace") if isinstance(stack, bytes) else ""
    record = None
    if context.topic is not None:
        record = f"{context.topic}-{context.partition} offset {context.offset}"
    return DeadLetterCause(
        stage=context.stage,
        where=context.output_topic or context.node or "",
        error=named_exception(error)[:_MAX_ERROR],
        stack=text[-_MAX_STACK:],
        records=1,
        last_ms=now_ms,
        task=None if context.task_id is None else str(context.task_id),
        record=record,
    )
