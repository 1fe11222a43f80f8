"""Who works in a staging directory: a lock on a file there while a process lives.

A driver has it alone; those who publish what is complete there share it, and fence one another
(`publisher`). Where the file system has no locks nobody is kept out; drivers then do no harm to
one another either (`directory`).
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from pystreams.kernel.file_lock import FileLock
from pystreams.kernel.loggers import get_logger

LOCK_FILE = ".lock"
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})

_log = get_logger("pystreams.backfill")


class DriverLock:
    """The lock of a staging directory, held by this process until `release`.

    Args:
        lock: The lock; None where the file system has none.
        is_exclusive: See below.

    Attributes:
        is_exclusive: Whether it keeps all others out; False for a shared one, and where the file
            system has no locks.
    """

    def __init__(self, directory: Path, lock: FileLock | None, *, is_exclusive: bool) -> None:
        self.is_exclusive = is_exclusive
        self._directory = directory
        self._lock = lock

    @classmethod
    def taken(cls, directory: Path) -> DriverLock | None:
        """Make the directory and lock it; None when another process works in it.

        Raises:
            OSError: The directory can't be made or written.
        """
        make = partial(directory.mkdir, parents=True, exist_ok=True)
        take = partial(FileLock.taken_in, directory / LOCK_FILE, make)
        return cls._signed(directory, take, is_exclusive=True)

    @classmethod
    def shared(cls, directory: Path) -> DriverLock | None:
        """Lock a directory that exists together with others who do this; None when a driver has it.

        Raises:
            OSError: It can't be written; or it is not there.
        """
        take = partial(FileLock.taken, directory / LOCK_FILE, shared=True)
        return cls._signed(directory, take, is_exclusive=False)

    @classmethod
    def _signed(
        cls, directory: Path, take: Callable[[], FileLock | None], *, is_exclusive: bool
    ) -> DriverLock | None:
        """Take the lock, and write into its file who has it."""
        try:
            lock = take()
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            _log.warning("no locks on this file system", directory=str(directory))
            return cls(directory, None, is_exclusive=False)
        if lock is None:
            return None
        try:
            lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        except BaseException:
            lock.release()
            raise
        return cls(directory, lock, is_exclusive=is_exclusive)

    @staticmethod
    def holder(directory: Path) -> str:
        """Return who has signed the lock last, for a message."""
        with suppress(OSError):
            return (directory / LOCK_FILE).read_text("utf-8", "replace").strip() or "just started"
        return "just ended"

    def release(self) -> None:
        """Let others in. A directory that holds nothing else is removed."""
        with suppress(OSError):
            names = {file.name for file in self._directory.iterdir()}
            if self.is_exclusive and names == {LOCK_FILE}:
                (self._directory / LOCK_FILE).unlink()
                self._directory.rmdir()
        if self._lock is not None:
            self._lock.release()
