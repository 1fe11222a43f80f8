"""Standard output whose reader has gone, as in `pystreams run orders.py | head -3`."""

from __future__ import annotations

import os
import select
import sys

_GONE = select.POLLERR | select.POLLHUP


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
