"""Tracebacks for logs and messages: the user's own lines, or all lines of a bug.

What users can mend is in their code. So an error that their code led to is shown by their lines,
without the frames of pystreams around and between them. An error that nobody foresaw is a bug of
pystreams, and is shown whole.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pystreams.errors import InternalError, ProcessingError, SerializationError, StreamsError

_NOT_THE_USERS = (
    str(Path(sys.modules["pystreams"].__path__[0]).resolve()) + os.sep,
    str(Path(importlib.__file__).resolve().parent) + os.sep,
)


_STANDARD_LIBRARY = str(Path(os.__file__).resolve().parent) + os.sep
_INSTALLED = "site-packages" + os.sep
_CLIENT = _INSTALLED + "confluent_kafka" + os.sep
_OF_USERS_CODE = (ProcessingError, SerializationError)
"""What is made of an error in a function of the user's."""

_GENERATED = "<string>"
"""The file of code that the standard library writes, as the `__init__` of a dataclass."""


class UsersCall(NamedTuple):
    """A call of pystreams in the user's code.

    Attributes:
        method: What was called; empty when it is not known.
        place: File and line, as `orders.py:12`; empty when they are not known.
    """

    method: str = ""
    place: str = ""

    def told(self) -> str:
        """Return ` (to at orders.py:12)`; nothing where the place is not known."""
        return f" ({self.method} at {self.place})" if self.place else ""


_LED_TO = "\n\nThe above exception led to the following one:\n\n"


def is_users(frame: traceback.FrameSummary) -> bool:
    """Return whether a frame belongs neither to pystreams nor to Python's own machinery."""
    return _is_users_file(frame.filename)


@lru_cache(maxsize=1024)  # Asked for each frame of each call that declares a node.
def _is_users_file(filename: str) -> bool:
    if filename.startswith("<frozen ") or filename == _GENERATED:
        return False
    return not str(Path(filename).resolve()).startswith(_NOT_THE_USERS)


def _is_of_a_library(frame: traceback.FrameSummary) -> bool:
    """Return whether a frame belongs to Python's library or to the Kafka client."""
    name = str(Path(frame.filename).resolve())
    return _CLIENT in name or (name.startswith(_STANDARD_LIBRARY) and _INSTALLED not in name)


def has_users_line(error: BaseException) -> bool:
    """Return whether the traceback of an error shows a line of the user's code."""
    return any(map(is_users, traceback.extract_tb(error.__traceback__)))


def users_call() -> UsersCall:
    """Return which call in the user's code led here; an empty one when nothing tells."""
    method = ""
    for frame, line in traceback.walk_stack(sys._getframe(1)):  # noqa: SLF001 - no other way
        code = frame.f_code
        try:
            if _is_users_file(code.co_filename):
                return UsersCall(method, f"{_shown(code.co_filename)}:{line}")
        except OSError:  # The working directory is gone.
            break
        method = code.co_name
    return UsersCall()


def traceback_lines(error: BaseException) -> str:
    """Return the lines that show where an error was raised, and which; no newline at the end.

    Args:
        error: An error of ours, or what the user's code raised.

    Returns:
        All lines for a bug of pystreams. Otherwise the lines of the user's code only, causes
        first; empty when none of it was involved: then an error of ours says all there is. Lines of
        a library count only where the user's code was called, which may be the library's.
    """
    if isinstance(error, InternalError):
        return "".join(traceback.format_exception(error.__cause__ or error)).rstrip()
    told: list[str] = []
    # A message of pystreams that has a cause quotes it already.
    raised = error.__cause__ or error if isinstance(error, StreamsError) else error
    calls_users_code = isinstance(error, _OF_USERS_CODE) or not isinstance(error, StreamsError)
    for raised_error in with_causes(raised):
        trace = traceback.extract_tb(raised_error.__traceback__)
        frames = [frame for frame in trace if is_users(frame)]
        lines = traceback.format_list(frames) + traceback.format_exception_only(raised_error)
        text = "".join(lines).rstrip()
        # What was tried twice, to find out more, has failed twice.
        involved = calls_users_code or not all(map(_is_of_a_library, frames))
        if frames and involved and text not in told:
            told.append(text)
    return _LED_TO.join(reversed(told))


def traceback_field(error: BaseException) -> dict[str, str]:
    """Return `traceback_lines` as a field of a log line; no field when there are none.

    On a terminal the field `exception` is shown as it is, below the line.
    """
    lines = traceback_lines(error)
    return {"exception": lines} if lines else {}


def with_causes(error: BaseException, *, hidden: bool = False) -> list[BaseException]:
    """Return an error and what led to it, as Python's own tracebacks have them.

    Args:
        hidden: Also what these leave out, behind `raise ... from None`.
    """
    found: list[BaseException] = []
    next_one: BaseException | None = error
    while next_one is not None and next_one not in found:
        found.append(next_one)
        is_left_out = next_one.__suppress_context__ and not hidden
        next_one = next_one.__cause__ or (None if is_left_out else next_one.__context__)
    return found


def _shown(filename: str) -> str:
    """Return a file's name relative to the working directory, if it is below it."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
