"""Waits for answers that a stop cuts short."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from math import inf
from typing import TypeVar

from pystreams.errors import RetriableClientError

_LOOK_EVERY_S = 0.25

_Result = TypeVar("_Result")


class Patience:
    """Waits for answers as long as the client does, or until shortly after a stop.

    May be used from any thread.

    Args:
        stopping: Whether the application is to stop.
        last_s: How long a question still waits then (s).
    """

    def __init__(self, stopping: Callable[[], bool], last_s: float) -> None:
        self._stopping = stopping
        self._last_s = last_s

    @property
    def ends(self) -> bool:
        """Whether the application is to stop."""
        return self._stopping()

    def result(self, answer: Future[_Result], doing: str) -> _Result:
        """Return an answer, or raise what it raises.

        Args:
            doing: The start of the error's message.

        Raises:
            RetriableClientError: The application is to stop, and no answer has come soon after.
        """
        until_s = inf
        while not wait([answer], _LOOK_EVERY_S).done:
            now_s = time.monotonic()
            if self._stopping():
                until_s = min(until_s, now_s + self._last_s)
            if now_s >= until_s:
                raise RetriableClientError(f"{doing}: no answer before the stop")
        return answer.result()
