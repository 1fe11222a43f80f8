"""Questions that are asked again while a broker that may be dead keeps them.

A request of librdkafka's admin client goes to whom it takes for the leader, or the controller.
Where that broker has died, it stays with it until its time is over, half a minute, though others
lead the partitions long since: the client does not ask who leads by itself. Kafka's own client,
when a connection ends, asks who leads now, and repeats the request. So do we, after seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from itertools import chain
from typing import Any, TypeVar

from confluent_kafka import OFFSET_INVALID

from pystreams.runtime.adapters.administering.patience import Patience
from pystreams.runtime.adapters.connection.timeouts import Timeouts

_LOOK_EVERY_S = 0.25

_Answers = TypeVar("_Answers", bound=Sequence[Mapping[Any, Future[Any]]])


class RepeatedQuestions:
    """Asks for what may be asked twice. May be used from any thread.

    Args:
        look_around: Asks who leads all partitions, and who the brokers are.
    """

    def __init__(
        self, timeouts: Timeouts, patience: Patience, look_around: Callable[[], None]
    ) -> None:
        self._timeouts = timeouts
        self._patience = patience
        self._look_around = look_around

    def answers(self, ask: Callable[[float], _Answers]) -> _Answers:
        """Return answers, whichever are complete first; those of different questions never mix.

        Those that have not come, or tell of a failure, are returned too: once the time of a
        question is over, or the application is to stop. What is asked again is so a few times, and
        ends with the time of the first question.

        Args:
            ask: Sends the question; called with the time that it has (s).
        """
        began_s = now_s = time.monotonic()
        ends_s = began_s + self._timeouts.answer_s
        asked: list[_Answers] = []
        while True:
            asked.append(ask(ends_s - now_s))
            # Longer and longer: a cluster that is slow is not asked more than it can answer.
            waits_s = max(self._timeouts.again_s, (now_s - began_s) / 2)
            found = self._complete(asked, min(now_s + waits_s, ends_s))
            if found is not None:
                return found
            if not self._patience.ends and time.monotonic() < ends_s:
                self._look_around()
            now_s = time.monotonic()
            if self._patience.ends or now_s >= ends_s:
                return asked[0]

    def _complete(self, asked: Sequence[_Answers], until_s: float) -> _Answers | None:
        while True:
            left_s = max(until_s - time.monotonic(), 0.0)
            latest = wait(_all_of(asked[-1]), min(left_s, _LOOK_EVERY_S))
            if not latest.not_done:
                return asked[-1]
            for earlier in asked[:-1]:
                if all(map(_tells, _all_of(earlier))):
                    return earlier
            if self._patience.ends or left_s <= 0:
                return None


def _all_of(answers: Sequence[Mapping[Any, Future[Any]]]) -> list[Future[Any]]:
    return list(chain.from_iterable(each.values() for each in answers))


def _tells(answer: Future[Any]) -> bool:
    """Return whether an answer has come, and is one."""
    if not answer.done() or answer.exception() is not None:
        return False
    return getattr(answer.result(), "offset", None) != OFFSET_INVALID
