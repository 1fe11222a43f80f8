"""Lets a child that a program makes by `os.fork` end, where its parent has databases.

The child has none of RocksDB's threads. To close a database waits for them, and so does RocksDB
itself as a process exits, which crashes as often. So a child keeps its copies for as long as it
lives, and ends after Python has, before what was to be done at exit by the libraries of its parent.
"""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from typing import Protocol

_SYSTEM = ctypes.CDLL(None)
_keep = ctypes.pythonapi.Py_IncRef
_keep.argtypes = [ctypes.py_object]
_keep.restype = None


class Copied(Protocol):
    """What has native objects that a child must not let go of."""

    def natives(self) -> list[object]:
        """Return what holds them, beside itself."""


_COPIED: weakref.WeakSet[Copied] = weakref.WeakSet()


def keep_in_children(copied: Copied) -> None:
    """See that children that are forked from now on keep it, and can end."""
    _watch_forks()
    _COPIED.add(copied)


@functools.cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_keep_all)


def _keep_all() -> None:
    for copied in list(_COPIED):
        for kept in (copied, *copied.natives()):
            _keep(kept)
    # The last that is registered is the first that is called; it is given the exit code.
    if hasattr(_SYSTEM, "on_exit"):  # Of Linux.
        _SYSTEM.on_exit(_SYSTEM._exit, None)  # noqa: SLF001 - a function of C
