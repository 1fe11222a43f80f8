"""The client that asks the coordinators of groups; one that gets no answer in time is closed.

librdkafka ends the process, up to 2.16.1, when such a request has timed out while its coordinator
could not be reached, and then it can be: `rd_kafka_admin_coord_request` finds the request gone, and
`rd_kafka_coord_req_fail` lets go of it once more. Or the request waits for ever, and those after
it, for a connection that the client has given up. So none times out in the client: we keep the
time, and close the client with all it waits for, which ends well. The next request gets another.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient

from pystreams.errors import RetriableClientError

NEVER_S = 3_600.0
"""The time limit to give a request: the longest that the client takes."""

_Answer = TypeVar("_Answer")
_Awaited = dict[Future[Any], str]
"""What is awaited from one client, and what it is about. Who takes an answer out completes it."""


class CoordinatorClient:
    """Holds the client. May be used from any thread.

    Args:
        make: Makes a client.
    """

    def __init__(self, make: Callable[[], AdminClient]) -> None:
        self._make = make
        self._client: AdminClient | None = None
        self._awaited: _Awaited = {}
        self._lock = threading.Lock()

    def ask(
        self, request: Callable[[AdminClient], Future[_Answer]], about: str, timeout_s: float
    ) -> Future[_Answer]:
        """Return the answer to come; where it does not come in time, a `RetriableClientError`.

        Args:
            request: Sends the request, with a time limit of `NEVER_S`.
            about: What is asked for, for the error.
            timeout_s: How long to wait.
        """
        with self._lock:
            client = self._client = self._client or self._make()
            awaited = self._awaited
        client.poll(0)  # What it has to say of its connections.
        asked = request(client)
        answer: Future[_Answer] = Future()
        awaited[answer] = about
        # A client can't be closed by a thread of its own: what those call must not hold it.
        expire = partial(_expire, weakref.ref(self), awaited, answer, timeout_s)
        timer = threading.Timer(timeout_s, expire)
        timer.daemon = True
        timer.start()
        asked.add_done_callback(partial(_pass_on, awaited, answer, timer))
        return answer

    def retire(self, awaited: _Awaited) -> AdminClient | None:
        """Hand over the client that these answers are awaited of; the next one is another."""
        with self._lock:
            if awaited is not self._awaited:
                return None
            retired, self._client, self._awaited = self._client, None, {}
            return retired


def _pass_on(
    awaited: _Awaited, answer: Future[Any], timer: threading.Timer, asked: Future[Any]
) -> None:
    timer.cancel()
    if awaited.pop(answer, None) is None:
        return
    raised = asked.exception()
    if raised is None:
        answer.set_result(asked.result())
    else:
        answer.set_exception(raised)


def _expire(
    asking: weakref.ref[CoordinatorClient],
    awaited: _Awaited,
    answer: Future[Any],
    timeout_s: float,
) -> None:
    """Give up all that is awaited of a client, as one answer has not come, and the client."""
    if answer not in awaited:
        return
    owner = asking()
    retired = None if owner is None else owner.retire(awaited)
    for given_up in list(awaited):
        if (about := awaited.pop(given_up, None)) is not None:
            message = f"{about}: no coordinator has answered within {timeout_s:g} s"
            given_up.set_exception(RetriableClientError(message))
    del retired  # Closes it, which takes a moment.
