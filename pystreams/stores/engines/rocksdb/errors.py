"""What RocksDB's errors mean for the person who reads them: the cause, and what to do.

RocksDB tells its errors apart by text only, as far as rocksdict passes them on. One that is about
the disk, and not about what is on it, may come inside of one that says `Corruption`: a file that
can't be opened while there are too many open is whole. Damage costs a store its files, so these
come first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_DAMAGED = (
    "Corruption",
    "checksum mismatch",
    "No such file or directory",
    "Is a directory",
    "Not a directory",
    "File exists",
)
"""The last four are said of a file of the store that is gone, or of something else in its place."""

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
        ("Too many open files",),
        (
            "the process may not open more files; raise its limit (ulimit -n), then start again. "
            "What was committed is kept"
        ),
    ),
    (
        ("Input/output error", "Stale file handle", "No such device", "Cannot allocate memory"),
        (
            "the disk does not do what it is asked to; look at the system's log, and start again "
            "when it does. Should it stay so, set another state.dir: stores with a changelog are "
            "restored there"
        ),
    ),
)

_DAMAGE = "its files are damaged"
"""What to do about it who has opened the store knows: whether anything rebuilds it there."""
_GONE = (
    "the directory above it is gone: mount the disk again, or make the directory, then start again"
)


def is_damage(text: str, directory: Path) -> bool:
    """Return whether an error's text says that a store's files are damaged, or not there.

    Args:
        directory: The store's directory; its name says nothing about the error.
    """
    said = text.replace(str(directory), "")
    if any(sign in said for signs, _ in _CURES for sign in signs):
        return False
    return any(sign in said for sign in _DAMAGED) and not _is_gone(directory)


def cause_and_cure(text: str, directory: Path) -> str:
    """Return a sentence for an error's text; the text alone when it is none of the known."""
    said = text.replace(str(directory), "")
    for signs, cure in _CURES:
        if any(sign in said for sign in signs):
            return f"{cure} ({directory}: {text})"
    if any(sign in said for sign in _DAMAGED):
        return f"{_GONE if _is_gone(directory) else _DAMAGE} ({directory}: {text})"
    return f"{directory}: {text}"


def _is_gone(directory: Path) -> bool:
    """Return whether all of the task is gone, as when the disk is not mounted any more."""
    return not directory.parent.exists() and not directory.parent.is_symlink()
