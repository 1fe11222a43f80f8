"""What RocksDB's errors mean for the person who reads them: the cause, and what to do.

RocksDB tells its errors apart by text only, as far as rocksdict passes them on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_DAMAGED = ("Corruption", "checksum mismatch", "Sst file size mismatch")

_CURES = (
    (
        ("No space left", "File too large", "quota exceeded"),
        (
            "the disk is full; free space or move state.dir to a larger disk, then start again. "
            "What was committed is kept"
        ),
    ),
    (
        ("writes are stopped",),
        (
            "the disk is probably full: there is no room to merge files, LOG in the directory "
            "says more; free space or move state.dir to a larger disk, then start again. What "
            "was committed is kept"
        ),
    ),
    (
        ("Permission denied", "Read-only file system", "Operation not permitted"),
        (
            "the directory is not writable for this process; correct its owner and mode, or set "
            "another state.dir"
        ),
    ),
    (
        ("lock hold by current process", "While lock file", "No locks available"),
        (
            "another process or task has it open (LOCK is held); stop that one, or give this "
            "instance another state.dir"
        ),
    ),
    (
        _DAMAGED,
        (
            "its files are damaged; delete the directory and start again, the store is then "
            "restored from its changelog"
        ),
    ),
)


def is_damage(text: str) -> bool:
    """Return whether an error's text says that files are damaged."""
    return any(sign in text for sign in _DAMAGED)


def cause_and_cure(text: str, directory: Path) -> str:
    """Return a sentence for an error's text; the text alone when it is none of the known."""
    for signs, cure in _CURES:
        if any(sign in text for sign in signs):
            return f"{cure} ({directory}: {text})"
    return f"{directory}: {text}"
