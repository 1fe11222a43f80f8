"""Sockets that keep Python's lock while the system reads or writes.

Python lets go of its lock around each `recv` and `send`, those that return at once as well. A
stream thread takes it then, and keeps it for milliseconds: a question over HTTP would wait for that
twice. What is asked here never waits for the other side, and takes microseconds.
"""

from __future__ import annotations

import ctypes
import os
import socket
from typing import Any

# A plain number: each `|` of flags as Python has them takes as long as the call.
_AT_ONCE = int(socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0))
_READ_BYTES = 65_536
_SENT_BYTES = 262_144
"""At most, at a time."""
# Functions of a `PyDLL` run with the lock.
_SYSTEM = ctypes.PyDLL(None, use_errno=True)
_recv, _send = _SYSTEM.recv, _SYSTEM.send
_recv.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_send.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
_recv.restype = _send.restype = ctypes.c_ssize_t


class LockKeepingCalls:
    """Reads and writes of one thread.

    They never block, whatever a socket's timeout: with nothing to read, or no room to write,
    BlockingIOError is raised.
    """

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(_READ_BYTES)
        self._address = ctypes.addressof(self._buffer)
        self._read = memoryview(self._buffer).cast("B")

    def recv(self, descriptor: int, size: int = _READ_BYTES, flags: int = 0) -> bytes:
        """Return what has come, at most so many bytes; none at the end of the stream."""
        read: int = _recv(descriptor, self._address, size, flags | _AT_ONCE)
        if read < 0:
            raise _last_error()
        return bytes(self._read[:read])

    def send(self, descriptor: int, data: bytes, flags: int = 0) -> int:
        """Send what there is room for, and return how many bytes that are."""
        written: int = _send(descriptor, data, min(len(data), _SENT_BYTES), flags | _AT_ONCE)
        if written < 0:
            raise _last_error()
        return written


class LockKeepingSocket(socket.socket):
    """A listening socket whose connections keep the lock, or such a connection.

    The connections of one listening socket belong to one thread.

    Args:
        fileno: The descriptor, which it owns from now on.
        calls: Those of the thread; None makes some.
    """

    def __init__(self, fileno: int, calls: LockKeepingCalls | None = None) -> None:
        super().__init__(fileno=fileno)
        self._calls = calls or LockKeepingCalls()

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection and its address."""
        connection, address = super().accept()
        return LockKeepingSocket(connection.detach(), self._calls), address

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Return what has come, at most so many bytes; none at the end of the stream."""
        return self._calls.recv(self.fileno(), min(bufsize, _READ_BYTES), flags)

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send what there is room for, and return how many bytes that are."""
        # It may be a `bytearray`, or a view.
        given = data if type(data) is bytes else bytes(memoryview(data)[:_SENT_BYTES])
        return self._calls.send(self.fileno(), given, flags)


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
