"""Errors of pystreams as messages and exit codes, for the commands that run a user's topology."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from pystreams.cli.exit_codes import ExitCode
from pystreams.cli.plain_text import in_lines
from pystreams.errors import (
    BrokerNotAvailableError,
    ConfigError,
    InternalError,
    StreamsError,
    TopologyError,
)
from pystreams.exception_texts import exception_text

_EXIT_CODES: tuple[tuple[type[StreamsError], ExitCode], ...] = (
    (ConfigError, ExitCode.USAGE),
    (TopologyError, ExitCode.USAGE),
    (BrokerNotAvailableError, ExitCode.NOT_RUNNING),
    (InternalError, ExitCode.INTERNAL_ERROR),
)


class CommandFailure(click.ClickException):
    """Ends a command with the message and the exit code of an error.

    Args:
        code: The exit code where the error alone does not say it.
    """

    def __init__(self, error: StreamsError, code: ExitCode | None = None) -> None:
        super().__init__(in_lines(_with_causes(error)))
        self.error = error
        self._code = code

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # click's is a variable of the class
        """What the process ends with."""
        return exit_code_of(self.error) if self._code is None else self._code


def exit_code_of(error: StreamsError) -> ExitCode:
    """Return what a process ends with because of an error."""
    for kind, code in _EXIT_CODES:
        if isinstance(error, kind):
            return code
    return ExitCode.FAILED


@contextmanager
def streams_errors_as_exit_codes() -> Iterator[None]:
    """End the command with message and exit code when an error of pystreams comes by."""
    try:
        yield
    except StreamsError as error:
        raise CommandFailure(error) from error


def _with_causes(error: StreamsError) -> str:
    """Return the message, and those of its causes that say something more.

    A `SystemError` is Python's about the callback in which a client's error was raised.
    """
    message = str(error)
    cause = error.__cause__
    while cause is not None:
        text = exception_text(cause)
        if text and text not in message and not isinstance(cause, SystemError):
            message += f"\n  caused by {type(cause).__name__}: {text}"
        cause = cause.__cause__
    return message
