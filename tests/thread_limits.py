"""A machine that starts no more threads, as where a limit is reached."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

_MORE_THAN_THERE_IS = 1 << 47
"""A stack that no address space has room for: the system refuses the thread, as at its limits."""


@contextmanager
def no_more_threads() -> Iterator[None]:
    """Have each start of a thread fail."""
    before = threading.stack_size(_MORE_THAN_THERE_IS)
    try:
        yield
    finally:
        threading.stack_size(before)


@contextmanager
def no_thread_named(part: str) -> Iterator[None]:
    """Have each start of a thread fail whose name has this in it."""
    start = threading.Thread.start

    def start_others(thread: threading.Thread) -> None:
        if part in thread.name:
            with no_more_threads():
                start(thread)
        else:
            start(thread)

    with patch.object(threading.Thread, "start", start_others):
        yield
