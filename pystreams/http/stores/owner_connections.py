"""Connections to the other processes of an application: some stay open for the next request."""

from __future__ import annotations

import http.client
import ssl
import threading
from pathlib import Path
from typing import NamedTuple

from pystreams.kernel.clock import SystemClock
from pystreams.runtime.cluster.streams_metadata import HostInfo

_TIMEOUT_S = 5.0
_KEPT_MS = 10_000
"""Less than a server keeps a connection on which nothing is asked."""
_MAX_KEPT = 8


class NoAddressError(OSError):
    """What a process says of where it answers is no address."""


class Forwarded(NamedTuple):
    """What another process has answered."""

    status: int
    media_type: str
    body: bytes


class _Kept(NamedTuple):
    """A connection that waits for the next request, and since when (ms)."""

    connection: http.client.HTTPConnection
    since_ms: float


class OwnerConnections:
    """Asks other processes. Safe to use from any thread.

    Args:
        certificate: What they are served with over TLS, beside what the system trusts; None asks
            without TLS.
    """

    def __init__(self, certificate: Path | None) -> None:
        self.tls: ssl.SSLContext | None = None
        if certificate is not None:
            self.tls = ssl.create_default_context()
            self.tls.load_verify_locations(certificate)
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._kept: dict[HostInfo, list[_Kept]] = {}

    def get(self, owner: HostInfo, target: str, headers: dict[str, str]) -> Forwarded:
        """Ask a process for something.

        Raises:
            NoAddressError: There can be nobody where it says that it answers.
            OSError: It can't be reached, or does not answer in time.
            HTTPException: What it answers is no HTTP.
        """
        kept = self._take(owner)
        if kept is not None:
            try:
                return self._ask(owner, kept, target, headers)
            except TimeoutError:
                raise
            except (ConnectionError, http.client.HTTPException):
                pass  # It was closed meanwhile. What is asked may be asked twice.
        return self._ask(owner, self._connected(owner), target, headers)

    def close(self) -> None:
        """Close those that wait."""
        with self._lock:
            kept, self._kept = self._kept, {}
        for waiting in kept.values():
            for connection, _ in waiting:
                connection.close()

    def _ask(
        self,
        owner: HostInfo,
        connection: http.client.HTTPConnection,
        target: str,
        headers: dict[str, str],
    ) -> Forwarded:
        try:
            connection.request("GET", target, headers=headers)
            answer = connection.getresponse()
            media_type = answer.headers.get("content-type", "application/json")
            found = Forwarded(answer.status, media_type, answer.read())
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            self._keep(owner, connection)
        return found

    def _connected(self, owner: HostInfo) -> http.client.HTTPConnection:
        connection = self._new(owner)
        try:
            connection.connect()
        except UnicodeError as error:  # A part of its host's name is empty, or too long.
            raise NoAddressError(str(error)) from error
        return connection

    def _new(self, owner: HostInfo) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection(owner.host, owner.port, timeout=_TIMEOUT_S)
        return http.client.HTTPSConnection(
            owner.host, owner.port, timeout=_TIMEOUT_S, context=self.tls
        )

    def _take(self, owner: HostInfo) -> http.client.HTTPConnection | None:
        with self._lock:
            self._drop_old()
            waiting = self._kept.get(owner)
            return waiting.pop().connection if waiting else None

    def _keep(self, owner: HostInfo, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            waiting = self._kept.setdefault(owner, [])
            if len(waiting) < _MAX_KEPT:
                waiting.append(_Kept(connection, self._clock.monotonic_ms()))
                return
        connection.close()

    def _drop_old(self) -> None:
        """Close what has waited for too long, of all processes: some may be gone for ever."""
        oldest_ms = self._clock.monotonic_ms() - _KEPT_MS
        for owner, waiting in list(self._kept.items()):
            young = [kept for kept in waiting if kept.since_ms >= oldest_ms]
            for connection, since_ms in waiting:
                if since_ms < oldest_ms:
                    connection.close()
            if young:
                self._kept[owner] = young
            else:
                del self._kept[owner]
