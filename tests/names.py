"""Names that nothing else of a test run has: for topics, groups and applications."""

from __future__ import annotations

import itertools
import os

_numbers = itertools.count(1)
"""One for all of a process: two files that count for themselves give the same name twice."""


def unique_name(stem: str) -> str:
    """Return a name; all processes of a run share one broker."""
    return f"{stem}-{os.getpid()}-{next(_numbers)}"
