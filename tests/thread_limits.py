"""A machine that starts no more threads, as where a limit is reached."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
