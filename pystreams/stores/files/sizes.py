"""What the files of stores take."""

from __future__ import annotations

import os
from pathlib import Path


def sst_bytes(directory: Path) -> int:
    """Return the bytes of RocksDB's data files in a directory; 0 where there is none.

    Safe while the database writes and deletes them.
    """
    total = 0
    try:
        with os.scandir(directory) as files:
            for file in files:
                if file.name.endswith(".sst"):
                    total += file.stat().st_size
    except OSError:  # A file, or all of them, went just now.
        return total
    return total
