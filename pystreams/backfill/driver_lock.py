"""Who works in a staging directory: an OS lock on a file there while a process lives.

A driver has it alone; those who publish what is complete there share it, and fence one another
(`publishing`). It ends with the process, however that ends: there is nothing to clean up after a
crash.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

from pystreams.loggers import get_logger

LOCK_FILE = ".lock"
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})

_log = get_logger("pystreams.backfill")


class DriverLock:
    """The lock of a staging directory, held by this process until `release`.

    Args:
        directory: The staging directory.
        descriptor: Has the lock file open; owned.
        is_exclusive: See below.

    Attributes:
        is_exclusive: Whether it keeps all others out; False for a shared one, and where the file
            system has no locks.
    """

    def __init__(self, directory: Path, descriptor: int, *, is_exclusive: bool) -> None:
        self.is_exclusive = is_exclusive
        self._directory = directory
        self._descriptor = descriptor

    @classmethod
    def taken(cls, directory: Path) -> DriverLock | None:
        """Make the directory and lock it; None when another process works in it.

        Raises:
            OSError: The directory can't be made or written.
        """
        while True:
            directory.mkdir(parents=True, exist_ok=True)
            descriptor = _opened(directory)
            try:
                is_exclusive = _locked(descriptor, directory, fcntl.LOCK_EX)
                # Whoever had the lock may have removed the directory just before we got it.
                if _is_file(descriptor, directory / LOCK_FILE):
                    _sign(descriptor)
                    return cls(directory, descriptor, is_exclusive=is_exclusive)
            except BlockingIOError:
                os.close(descriptor)
                return None
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    @classmethod
    def shared(cls, directory: Path) -> DriverLock | None:
        """Lock a directory that exists together with others who do this; None when a driver has it.

        Raises:
            OSError: It can't be written; or it is not there.
        """
        descriptor = _opened(directory)
        try:
            _locked(descriptor, directory, fcntl.LOCK_SH)
            _sign(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return cls(directory, descriptor, is_exclusive=False)

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
        os.close(self._descriptor)


def _opened(directory: Path) -> int:
    return os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)


def _locked(descriptor: int, directory: Path, operation: int) -> bool:
    """Lock a file; return whether its file system has locks.

    Raises:
        BlockingIOError: Another process has the lock.
    """
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        _log.warning("no locks on this file system", directory=str(directory))
        return False
    return True


def _sign(descriptor: int) -> None:
    """Write who has the lock."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)


def _is_file(descriptor: int, file: Path) -> bool:
    """Return whether a path still names the file a descriptor has open."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
