"""Connections: who asks for a key is answered at once, and who does not take part is let go.

uvicorn closes a connection that rests between two requests. One that never sends a request, or
sends it a byte a minute, or does not take its answer, it keeps.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pystreams.http.direct_sockets import DirectSockets
from pystreams.http.stores.quick_answers import QuickAnswers, forwarded_answer
from pystreams.http.stores.quick_forwards import Forward

_LEAST_TAKEN_BYTES_S = 1024
"""Who takes an answer more slowly than this is let go."""
_LOGGER = logging.getLogger("pystreams.http.requests")
_LOGGER.setLevel(logging.ERROR)  # It warns of each bad request: anybody could fill a disk.
_AT_ONCE = struct.pack("ii", 1, 0)
"""Closes a connection with all that waits to be sent."""


class _Connection(H11Protocol):
    """A connection; each server has a class of its own, with what `connections` was given."""

    idle_timeout_s: float
    quick: QuickAnswers
    sockets: DirectSockets

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.logger = _LOGGER
        self._quick_answer = self.quick.of_connection()
        self._quickly_answered = 0
        self._is_begun = False
        self._asked_elsewhere = False
        self._held = b""
        self._ends = False
        self._all_is_asked = False
        self._headers: list[tuple[bytes, bytes]] = []
        self._date = b""
        self._socket = self.sockets.of(transport, self._read)
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        self._socket.close()
        self._next_look.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._asked_elsewhere:
            self._held += data
            self.transport.pause_reading()
            return
        if not (self._is_at_rest() and self._answers(data)):
            self._receive_ordinarily(data)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep it open for who asks nothing more, and waits for an answer; not so over TLS."""
        self._all_is_asked = True
        return not self._socket.is_secure and self._owes_an_answer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._end_if_all_is_answered()

    def shutdown(self) -> None:
        """End it once what is asked is answered."""
        if self._asked_elsewhere:
            self._ends = True
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP: a request, or the rest of one that is being answered."""
        if _is_unanswered(self.cycle):
            self.cycle.disconnected = True  # What it has to say is for nobody any more.
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def _read(self) -> bool:
        """Read a request, if one may begin, and answer it if it is a question for a key."""
        if self._asked_elsewhere or not self._is_at_rest():
            return False
        data = self._socket.read()
        if not data:
            return False
        try:
            if not self._answers(data):
                self.loop.call_soon(self._receive_what_was_read, data)
        except BaseException as error:  # noqa: BLE001 - it is told
            self._socket.fail(self, error)
        return True

    def _answers(self, data: bytes) -> bool:
        """Answer what is a question for a key; return whether it is one."""
        headers = self.server_state.default_headers
        if headers is not self._headers:
            self._headers, self._date = headers, _date(headers)
        try:
            answer = self._quick_answer(data, self._date)
        except BaseException:  # noqa: BLE001 - the ordinary way meets it again, and tells of it
            return False
        if answer is None:
            return False
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        if isinstance(answer, bytes):
            self._quickly_answered += 1
            self._socket.write(answer)
        else:
            self._ask_elsewhere(answer, data)
        return True

    def _receive_what_was_read(self, data: bytes) -> None:
        try:
            self._receive_ordinarily(data)
        except BaseException as error:  # noqa: BLE001 - it is told
            self._socket.fail(self, error)

    def _receive_ordinarily(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self._is_begun = True
            super().data_received(data)

    def _ask_elsewhere(self, question: Forward, data: bytes) -> None:
        self._asked_elsewhere = True

        def done(body: bytes | None) -> None:
            try:
                self._go_on(question, data, body)
            except BaseException as error:  # noqa: BLE001 - it is told
                self._socket.fail(self, error)

        self.quick.forwards.ask(question, done)

    def _go_on(self, question: Forward, data: bytes, body: bytes | None) -> None:
        """Answer as another process has, or ordinarily; then receive what came meanwhile."""
        self._asked_elsewhere = False
        held, self._held = self._held, b""
        if self.transport.is_closing():
            return
        if held:
            self.transport.resume_reading()
        if body is None:
            self._receive_ordinarily(data)
        else:
            date = _date(self.server_state.default_headers)
            self._quickly_answered += 1
            self._socket.write(forwarded_answer(body, question.owner, date))
        if held:
            self.data_received(held)
        if self._ends:
            self.shutdown()
        self._end_if_all_is_answered()

    def _owes_an_answer(self) -> bool:
        """Return whether a whole request waits for an answer, of which nothing was sent.

        Who ends what is sent for as long as it is watched has left.
        """
        is_whole = self.conn.their_state in (h11.DONE, h11.MUST_CLOSE)
        waits = is_whole and _is_unanswered(self.cycle) and not self.cycle.response_started
        return self._asked_elsewhere or waits

    def _end_if_all_is_answered(self) -> None:
        if self._all_is_asked and not self._owes_an_answer():
            self.transport.close()

    def _is_at_rest(self) -> bool:
        """Return whether a request may begin: no other is begun, and no answer."""
        self._is_begun = self._is_begun and _is_under_way(self.conn, self.cycle)
        return not (
            self._is_begun
            or self.flow.write_paused
            or self.transport.is_closing()
            or (self.limit_concurrency and len(self.connections) >= self.limit_concurrency)
        )

    def _look_later(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        before = (self.cycle, self._quickly_answered, unsent)
        self._next_look = self.loop.call_later(self.idle_timeout_s, self._look, before)

    def _look(self, before: tuple[Any, int, int]) -> None:
        cycle, quickly_answered, unsent_before = before
        unsent = self.transport.get_write_buffer_size()
        takes = unsent_before - unsent >= _LEAST_TAKEN_BYTES_S * self.idle_timeout_s
        asks = self.cycle is not cycle or self._quickly_answered != quickly_answered
        waits = self._asked_elsewhere or _is_unanswered(self.cycle)
        if unsent and unsent_before and not takes and not asks:
            # Its answer is not taken: the system is not to keep the rest of it, either.
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE
            )
            self.transport.abort()
        elif takes or asks or (waits and not self.transport.is_closing()):
            self._look_later()
        else:
            self.transport.abort()


def connections(
    idle_timeout_s: float, quick: QuickAnswers, sockets: DirectSockets
) -> type[H11Protocol]:
    """Return the connections of a server.

    Args:
        idle_timeout_s: How long each waits, and at most twice as long, for a whole request, or for
            who asks to take the answer (s).
        quick: Answers questions for keys.
        sockets: Those of the server's event loop.
    """
    own = {"idle_timeout_s": idle_timeout_s, "quick": quick, "sockets": sockets}
    return type("Connection", (_Connection,), own)


def _is_under_way(connection: h11.Connection, cycle: Any) -> bool:
    """Return whether a request or its answer is begun, and not ended."""
    return (
        _is_unanswered(cycle)
        or not (connection.our_state is connection.their_state is h11.IDLE)
        or bool(connection.trailing_data[0])
    )


def _is_unanswered(cycle: Any) -> bool:
    return cycle is not None and not cycle.response_complete


def _date(headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return what uvicorn writes as the date, once a second."""
    for name, value in headers:
        if name == b"date":
            return value
    raise AssertionError(headers)
