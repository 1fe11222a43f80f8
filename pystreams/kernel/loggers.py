"""The loggers of the library: quiet in a program that has not set up logging.

Where the program (or the command line) has configured structlog, lines go through that. Anywhere
else they go to the standard library's `logging`, below the logger "pystreams", with their fields as
text behind the message. That logger has a handler that does nothing: what nobody asked for is
not printed.

structlog is imported with the first line: it is a fifth of what a program that has nothing to say
would take to start.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.typing import EventDict

logging.getLogger("pystreams").addHandler(logging.NullHandler())


def get_logger(name: str) -> Any:
    """Return a logger of structlog's kind: an event and its fields at a level.

    Args:
        name: Its name, which begins with "pystreams.".
    """
    return _LibraryLogger(name)


class _LibraryLogger:
    """Chooses for each line where it goes: logging may be set up after the import."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _configured(self) -> Any:
        import structlog

        return structlog.get_logger(self._name)

    @cached_property
    def _otherwise(self) -> Any:
        import structlog

        return structlog.wrap_logger(
            logging.getLogger(self._name),
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.processors.format_exc_info,
                _as_text,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            cache_logger_on_first_use=True,
        )

    def __getattr__(self, method: str) -> Any:
        import structlog

        logger = self._configured if structlog.is_configured() else self._otherwise
        return getattr(logger, method)


def _as_text(_logger: object, _method: str, event: EventDict) -> str:
    """Return a line: the event, its fields, and a traceback below it."""
    message, trace = event.pop("event"), event.pop("exception", None)
    fields = "".join(f" {name}={value!r}" for name, value in event.items())
    return f"{message}{fields}" if trace is None else f"{message}{fields}\n{trace}"
