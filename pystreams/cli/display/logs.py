"""Where log lines go: standard error, readable on a terminal, else a JSON object per line.

Library code logs through `get_logger` and configures nothing. This sets up both structlog
and the standard library's logging, so that lines of libraries look the same.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "console", "json")


def configure_logging(
    level: str, form: str = "auto", fields: Mapping[str, Any] | None = None
) -> None:
    """Set up logging for this process.

    Args:
        level: The least severe level that is shown: one of `LEVELS`.
        form: "console", "json", or "auto": readable exactly when standard error is a terminal.
        fields: Added to every line, such as the number of the process.
    """
    import structlog

    readable = is_readable(form)
    shared = _shared_processors(readable=readable, fields=dict(fields or {}))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = _StandardErrorHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_rendering_processors(readable=readable),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # What it has to say of its start and end, we say.
    logging.getLogger("uvicorn").setLevel("WARNING" if level == "info" else level.upper())
    logging.captureWarnings(capture=True)


def configure_spark_logging(level: str, form: str) -> None:
    """Set up logging as `configure_logging` does, for a command that runs Spark."""
    configure_logging(level, form)
    # It tells of each of its connections, at the level of our stages.
    logging.getLogger("py4j").setLevel(logging.WARNING)


def set_up_in_workers(level: str, form: str) -> Callable[[], None]:
    """Return what sets up logging in Spark's workers as in this process; can be pickled."""
    # What standard error is there says nothing: Spark reads it, and passes it on.
    return partial(configure_logging, level, "console" if is_readable(form) else "json")


def is_readable(form: str) -> bool:
    """Return whether a format means lines for readers, and not JSON; "auto" asks standard error."""
    return form == "console" or (form == "auto" and sys.stderr.isatty())


class _StandardErrorHandler(logging.StreamHandler[TextIO]):
    """Writes to whatever `sys.stderr` is at the moment: a live display replaces it for a while."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None:
        """Ignore it; the base class assigns one when it is made."""


def _shared_processors(*, readable: bool, fields: dict[str, Any]) -> list[Processor]:
    """Return what is done to lines of structlog and of the standard library alike."""
    import structlog

    def add_fields(_logger: object, _method: str, event: EventDict) -> EventDict:
        for name, value in fields.items():
            event.setdefault(name, value)
        return event

    stamp = structlog.processors.TimeStamper(
        fmt="%H:%M:%S" if readable else "iso", utc=not readable
    )
    return [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.stdlib.PositionalArgumentsFormatter(),
        add_fields,
        stamp,
    ]


def _rendering_processors(*, readable: bool) -> list[Processor]:
    import structlog

    if readable:
        return [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                exception_formatter=structlog.dev.plain_traceback,
            )
        ]
    return [
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("message"),
        structlog.processors.JSONRenderer(default=str),
    ]
