"""A clock that goes wrong: the wall clock of a member, moved while it runs.

The distance lies in a file that the member maps: the chaos writes it, each look at the clock adds
it. It is the clock that pystreams is given. The client library's own is the machine's: it measures
with one that nobody can move, but for the timestamps of records that were sent without one.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path

from pystreams.kernel.clock import SystemClock

VARIABLE = "CHAOS_SKEW"
_NUMBER = struct.Struct("<q")


def write(file: Path, skew_ms: int) -> None:
    """Move the clock of the member that maps the file."""
    if not file.exists():
        file.write_bytes(_NUMBER.pack(skew_ms))
        return
    with file.open("r+b") as opened:  # In place: a file put over it would not be seen.
        opened.write(_NUMBER.pack(skew_ms))


def apply() -> None:
    """Make this process's clock one that can be moved, if it was started as such a member."""
    name = os.environ.get(VARIABLE)
    if name is None:
        return
    with Path(name).open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), _NUMBER.size, access=mmap.ACCESS_READ)

    def now_ms(_: SystemClock) -> int:
        return time.time_ns() // 1_000_000 + int(_NUMBER.unpack_from(mapped)[0])

    SystemClock.now_ms = now_ms  # type: ignore[method-assign, assignment]
