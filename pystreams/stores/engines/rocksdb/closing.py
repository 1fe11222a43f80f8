"""The last flush of a database, which may have to wait for files to be merged.

RocksDB lets it wait while it would make writers wait: for ever where nothing is merged any more, as
on a full disk. What makes them wait is lifted before, but only near it: each change of options is
a file that is written and synced.
"""

from __future__ import annotations

import contextlib

from rocksdict import Rdict

_WITHOUT_STALLS = {
    "level0_slowdown_writes_trigger": str(2**30),
    "level0_stop_writes_trigger": str(2**30),
    "soft_pending_compaction_bytes_limit": "0",
    "hard_pending_compaction_bytes_limit": "0",
}
_FILES_AT_EASE = 10
_PENDING_AT_EASE_BYTES = 32 << 30
"""Of what RocksDB's own options let there be, 20 files and 64 GiB, half."""


def lift_stalls(family: Rdict, *, own_options: bool) -> None:
    """Let the flush of a column family that is closed next not wait for merges.

    Args:
        own_options: Whether a hook of the user's may have set when writers wait.
    """
    with contextlib.suppress(Exception):  # It would be told of by the flush.
        if own_options or not _at_ease(family):
            family.set_options(_WITHOUT_STALLS)


def _at_ease(family: Rdict) -> bool:
    files = family.property_value("rocksdb.num-files-at-level0")
    pending = family.property_int_value("rocksdb.estimate-pending-compaction-bytes")
    if files is None or pending is None:
        return False
    return int(files) < _FILES_AT_EASE and pending < _PENDING_AT_EASE_BYTES
