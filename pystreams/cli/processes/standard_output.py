"""Standard output that is no terminal: its reader may go, its disk may be full, it may be closed.

`pystreams run x.py | head -3`, `pystreams consume ... > counts.txt`, `pystreams run x.py >&-`.
"""

from __future__ import annotations

import codecs
import os
import select
import sys
from io import TextIOWrapper

_GONE = select.POLLERR | select.POLLHUP


def open_what_is_closed() -> None:
    """Let what a program reads and prints lead nowhere where it was started without a place.

    Else the next file or socket that is opened would be its standard output.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def print_every_letter() -> None:
    r"""Let no letter of a topic's or a program's end a command whose locale has no UTF-8.

    A pipe or a file gets UTF-8, which is what `produce` reads, unless PYTHONIOENCODING says
    otherwise; a terminal, or such an encoding, gets an escape of what it has not: `\u2192`.
    """
    output = sys.stdout
    if not isinstance(output, TextIOWrapper) or codecs.lookup(output.encoding).name == "utf-8":
        return
    if output.isatty() or os.environ.get("PYTHONIOENCODING"):
        output.reconfigure(errors="backslashreplace")
    else:
        output.reconfigure(encoding="utf-8")


def print_lines_at_once() -> None:
    """Let lines that a program prints reach a pipe or a file when they are printed."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def reader_has_gone() -> bool:
    """Whether standard output is a pipe that nobody reads any more."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # It is none of the system's files, or closed.
        return False
    poller = select.poll()
    poller.register(descriptor, 0)
    return any(events & _GONE for _, events in poller.poll(0))


def forget_output() -> None:
    """Discard what was printed but not written: the interpreter would fail on it at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
