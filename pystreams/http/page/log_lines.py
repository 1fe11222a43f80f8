"""The last warnings and errors that the library has logged in this process."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pystreams.exception_texts import named_exception
from pystreams.http.hidden_secrets import without_secrets

_KEPT = 20
_MAX_LENGTH = 1000
_STACK = " stack="
"""Begins the field that the page shows elsewhere: the last one of its line."""
_REASONS = ("error", "why")
"""The fields that quote what was raised."""
_NO_FIELDS = {
    *("event", "exc_info", "exception", "level", "logger", "stack", "stack_info", "timestamp")
}


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line.

    Attributes:
        at_ms: When it was written (ms since the epoch).
        level: "warning", "error" or "critical".
        details: Its fields and the error, as one text.
    """

    at_ms: int
    level: str
    event: str
    details: str


class LastLines(logging.Handler):
    """Keeps the last warnings and errors; any thread may log and look.

    It sees what goes through the standard library's logging, which is all unless the program has
    set up structlog to write by itself.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._kept: deque[LogLine] = deque(maxlen=_KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self._kept.append(_line_of(record))

    def latest(self, secrets: Sequence[str], since_ms: int = 0) -> list[LogLine]:
        """Return the lines, newest first.

        Args:
            since_ms: Lines that are older are left out.
            secrets: What must not be shown, wherever it stands.
        """
        return [
            replace(
                line,
                event=without_secrets(line.event, secrets),
                details=without_secrets(line.details, secrets),
            )
            for line in reversed(list(self._kept))
            if line.at_ms >= since_ms
        ]


_lines = LastLines()


def last_lines() -> LastLines:
    """Return what keeps the lines of this process, from the first call on."""
    logging.getLogger("pystreams").addHandler(_lines)  # A second time does nothing.
    return _lines


def _line_of(record: logging.LogRecord) -> LogLine:
    """Return the line of a record: structlog hands over an event as it is, others have a text."""
    level, at_ms = record.levelname.lower(), int(record.created * 1000)
    if not isinstance(record.msg, dict):
        event, _, rest = record.getMessage().partition("\n")
        # Of a traceback, what was raised.
        raised = rest.strip().rpartition("\n")[2]
        event, _, _ = event.partition(_STACK)
        reasons = "".join(event.partition(f" {name}=")[2] for name in _REASONS)
        details = "" if _is_told(raised, reasons) else raised.strip()
        return LogLine(at_ms, level, event[:_MAX_LENGTH], details[:_MAX_LENGTH])
    fields: dict[str, Any] = record.msg
    event = str(fields.get("event", ""))
    told = [f"{name}={value}" for name, value in fields.items() if _is_field(name)]
    reasons = " ".join(str(fields[name]) for name in _REASONS if name in fields)
    told += [raised for raised in _raised(fields) if not _is_told(raised, reasons)]
    return LogLine(at_ms, level, event, " ".join(told)[:_MAX_LENGTH])


def _is_field(name: str) -> bool:
    return name not in _NO_FIELDS and not name.startswith("_")


def _is_told(raised: str, reasons: str) -> bool:
    """Return whether the fields say what was raised already, with its type or without."""
    message = raised.strip().partition(": ")[2] or raised.strip()
    return bool(message) and (message in reasons or repr(message)[1:-1] in reasons)


def _raised(fields: dict[str, Any]) -> list[str]:
    """Return what was raised, without the way there."""
    if isinstance(trace := fields.get("exception"), str):
        return [trace.strip().rpartition("\n")[2]]
    error = fields.get("exc_info")
    if error is True:
        error = sys.exception()  # A handler is called where the line is written.
    if isinstance(error, tuple):
        error = error[1]
    return [named_exception(error)] if isinstance(error, BaseException) else []
