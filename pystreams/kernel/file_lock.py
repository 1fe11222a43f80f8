"""A lock on a file, by the operating system: it ends with its process, whatever ends that.

So nothing that lies on the disk can be stale, and there is nothing to clean up after a crash. Locks
of one process keep each other out too: each has opened the file for itself.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

_READ_BYTES = 4096


class FileLock:
    """A lock that is held until `release`; the file may say something of who holds it.

    Args:
        descriptor: Has the file open and locked; owned.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def taken(cls, file: Path, *, shared: bool = False) -> Self | None:
        """Lock a file, which is made when it is missing; None when somebody else has it.

        Args:
            shared: Whether others may lock it at the same time who share it too.

        Raises:
            OSError: The file can't be opened for writing, or its file system has no locks.
        """
        try:
            return cls._locked(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return None

    @classmethod
    def awaited(cls, file: Path) -> Self:
        """Lock a file, as soon as nobody else has it.

        Raises:
            OSError: As by `taken`.
        """
        return cls._locked(file, fcntl.LOCK_EX)

    @classmethod
    def taken_in(cls, file: Path, make_directory: Callable[[], object]) -> Self | None:
        """Lock a file of a directory that its holders may remove; None when somebody else has it.

        Args:
            make_directory: Makes its directory, unless it is there.

        Raises:
            OSError: As by `taken`, or by `make_directory`.
        """
        while True:
            make_directory()
            try:
                lock = cls.taken(file)
            except FileNotFoundError:  # The directory was removed this moment.
                continue
            # Whoever had the lock may have removed the directory just before we got it.
            if lock is None or lock.is_of(file):
                return lock
            lock.release()

    @classmethod
    def _locked(cls, file: Path, operation: int) -> Self:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, operation)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def is_of(self, file: Path) -> bool:
        """Return whether a path still names the file that is locked."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), file.stat())
        except FileNotFoundError:
            return False

    def read(self) -> str:
        """Return what stands in the file."""
        return os.pread(self._descriptor, _READ_BYTES, 0).decode("utf-8", "replace")

    def write(self, text: str) -> None:
        """Put a text in the place of what stands in the file; it is on the disk afterwards.

        Who is killed meanwhile leaves one or the other, perhaps with spaces behind it.
        """
        written = text.encode()
        os.pwrite(self._descriptor, written.ljust(os.fstat(self._descriptor).st_size), 0)
        os.ftruncate(self._descriptor, len(written))
        os.fsync(self._descriptor)

    def stamp(self) -> None:
        """Set the file's time to now."""
        os.utime(self._descriptor)

    def release(self) -> None:
        """Let others have it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
