"""Requests to the coordinators of groups, none of which times out in librdkafka's admin client.

librdkafka ends the process, up to 2.16.1, when such a request has timed out while its coordinator
could not be reached, and then it can be: `rd_kafka_admin_coord_request` finds the request gone, and
`rd_kafka_coord_req_fail` lets go of it once more. So we keep the time. What was asked stays with
the client, which ends well when it is answered late, and when the client is closed. A client that
doesn't answer is closed, too: it may wait for ever for a broker that it has given up. And so is one
that asks a broker which is no coordinator any more: it remembers whom it has found for
`metadata.max.age.ms`, whatever that one says (`rd_kafka_coord_cache`).
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from pystreams.errors import RetriableClientError
from pystreams.runtime.adapters.connection.confluent_errors import error_of

NEVER_S = 3_600.0
"""The time limit to give a request: the longest that librdkafka takes."""

_EXPIRED_MAX = 2
"""In a row: a client that is new must connect first, which may take longer than one answer."""

_Answer = TypeVar("_Answer")
_Ask = Callable[[AdminClient], "Future[_Answer]"]


class _Silence:
    """How many requests to a client have expired since it last answered one, and what that was.

    Attributes:
        asks_another: It was told by a broker not to be the coordinator.
    """

    expired = 0
    asks_another = False


class CoordinatorClient:
    """Holds a client for requests that change nothing. May be used from any thread."""

    def __init__(self, make: Callable[[], AdminClient]) -> None:
        self._make = make
        self._client: AdminClient | None = None
        self._silence = _Silence()
        self._lock = threading.Lock()

    def ask(self, request: _Ask[_Answer], about: str, timeout_s: float) -> Future[_Answer]:
        """Return the answer to come; where it does not come in time, a `RetriableClientError`.

        Args:
            request: Sends the request, with a time limit of `NEVER_S`.
            about: What is asked for, for the error.
        """
        with self._lock:
            if self._silence.asks_another:
                # Closed by a thread of its own: that takes a moment.
                threading.Thread(target=_close, args=([self._client],), daemon=True).start()
                self._client, self._silence = None, _Silence()
            if self._client is None:  # Its length is that of its queue: it is hardly ever true.
                self._client = self._make()
            client, silence = self._client, self._silence
        client.poll(0)  # What it has to say of its connections.
        asked = request(client)
        answer: Future[_Answer] = Future()
        # What a client's own threads call must not hold it: those can't close it.
        error = late(about, timeout_s)
        timer = threading.Timer(timeout_s, _expire, [weakref.ref(self), silence, answer, error])
        timer.daemon = True
        timer.start()
        asked.add_done_callback(partial(_pass_on, silence, answer, timer))
        return answer

    def retire(self, silence: _Silence) -> AdminClient | None:
        """Hand over the client whose silence has lasted too long; the next one is another."""
        with self._lock:
            silence.expired += 1
            if silence is not self._silence or silence.expired < _EXPIRED_MAX:
                return None
            retired, self._client, self._silence = self._client, None, _Silence()
            return retired


def _pass_on(
    silence: _Silence, answer: Future[_Answer], timer: threading.Timer, asked: Future[_Answer]
) -> None:
    raised = asked.exception()
    code = error_of(raised).code() if isinstance(raised, KafkaException) else None
    if code == KafkaError._DESTROY:  # noqa: SLF001
        return  # The client was closed: this one's time goes on.
    timer.cancel()
    silence.expired = 0
    silence.asks_another = code == KafkaError.NOT_COORDINATOR
    with contextlib.suppress(InvalidStateError):  # It has expired.
        if raised is None:
            answer.set_result(asked.result())
        else:
            answer.set_exception(raised)


def _close(clients: list[AdminClient | None]) -> None:
    """Let go of clients that nobody else has: that closes them."""
    clients.clear()


def _expire(
    asking: weakref.ref[CoordinatorClient],
    silence: _Silence,
    answer: Future[_Answer],
    error: RetriableClientError,
) -> None:
    if answer.done():
        return
    owner = asking()
    retired = None if owner is None else owner.retire(silence)
    with contextlib.suppress(InvalidStateError):  # The answer came at the same moment.
        answer.set_exception(error)
    del retired  # Closes it, which takes a moment.


def answer_of(
    make: Callable[[], AdminClient], request: _Ask[_Answer], about: str, timeout_s: float
) -> _Answer:
    """Return the answer of a client of its own: what comes too late is never sent.

    Args:
        request: Sends the request, with a time limit of `NEVER_S`.
        about: What is asked for, for the error.

    Raises:
        RetriableClientError: No answer in time.
    """
    client = make()
    try:
        return request(client).result(timeout_s)
    except TimeoutError:
        raise late(about, timeout_s) from None
    finally:
        del client  # Closes it, though the error may be kept for longer.


def late(about: str, timeout_s: float) -> RetriableClientError:
    """Return the error for an answer that has not come."""
    return RetriableClientError(f"{about}: no coordinator has answered within {timeout_s:g} s")
