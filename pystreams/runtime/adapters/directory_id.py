"""What tells one state directory from others, for all processes in it to tell their group."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from pystreams.kernel.file_lock import FileLock

_ID = re.compile("[0-9a-f]{8}")


def id_in(file: Path) -> str:
    """Return the id that a file holds; it is made where it holds none.

    Raises:
        OSError: The file can't be read, or written.
    """
    lock = FileLock.awaited(file)
    try:
        found = lock.read()
        if not _ID.fullmatch(found):
            found = secrets.token_hex(4)
            lock.write(found)
        return found
    finally:
        lock.release()
