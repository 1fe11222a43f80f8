"""A step of a commit is repeated while the broker does not answer, and not for ever."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from pystreams import FatalStreamsError, StreamsError
from pystreams.errors import TaskMigratedError
from pystreams.runtime.adapters.connection.confluent_errors import translate
from pystreams.runtime.adapters.producing.commit_outcomes import (
    CommitLimits,
    commit,
    until_answered,
)

SILENCE = KafkaError._TIMED_OUT
TOLD = "the commit waits for the broker"


class Step:
    """A step that gives one error after the other, and succeeds when there is none left."""

    def __init__(self, errors: Iterable[int]) -> None:
        self._errors = iter(errors)
        self.timeouts_s: list[float] = []

    def __call__(self, timeout_s: float) -> None:
        self.timeouts_s.append(timeout_s)
        for code in self._errors:
            raise KafkaException(KafkaError(code))


def meaning(error: KafkaError) -> StreamsError:
    return translate(error, "committing")


def test_a_step_is_repeated_until_it_succeeds() -> None:
    step = Step([SILENCE, KafkaError.COORDINATOR_NOT_AVAILABLE])

    with capture_logs() as logs:
        until_answered(step, meaning, 60, FatalStreamsError)

    assert len(step.timeouts_s) == 3
    assert logs == []


def test_a_step_that_fails_is_not_repeated() -> None:
    step = Step([KafkaError.UNKNOWN_MEMBER_ID])

    with pytest.raises(TaskMigratedError, match="committing"):
        until_answered(step, meaning, 60, FatalStreamsError)

    assert len(step.timeouts_s) == 1


def test_a_step_without_an_answer_is_given_up_at_the_limit() -> None:
    step = Step(repeat(SILENCE))

    with pytest.raises(TaskMigratedError, match=r"_TIMED_OUT.*; gave up after \d+ s"):
        until_answered(step, meaning, 0.2, TaskMigratedError)

    assert len(step.timeouts_s) > 1


def test_even_without_any_patience_a_commit_is_given_the_time_for_one_answer() -> None:
    """Each try takes but a part of it, so that a stop is heard in between."""
    step = Step([SILENCE] * 3)
    client: Any = SimpleNamespace(commit_transaction=step)

    commit(client, {}, None, translate, CommitLimits(transaction_s=60, commit_s=0))

    assert len(step.timeouts_s) == 4


def test_the_end_of_a_try_is_no_sign_of_a_lost_request() -> None:
    """Who is asked what an error means takes it for one."""
    asked: list[KafkaError] = []

    def noting(error: KafkaError) -> StreamsError:
        asked.append(error)
        return meaning(error)

    until_answered(Step([SILENCE] * 3), noting, 60, FatalStreamsError)

    assert asked == []


def test_a_step_is_given_up_between_two_tries() -> None:
    step = Step(repeat(SILENCE))

    with pytest.raises(TaskMigratedError, match=r"_TIMED_OUT.*given up"):
        until_answered(
            step, meaning, 60, FatalStreamsError, gives_up=lambda _: len(step.timeouts_s) == 3
        )

    assert len(step.timeouts_s) == 3


def test_a_step_that_takes_its_time_is_told_of_once() -> None:
    with capture_logs() as logs:
        until_answered(Step([SILENCE] * 3), meaning, 60, FatalStreamsError, tell_after_s=0)

    assert [(line["event"], line["log_level"]) for line in logs] == [(TOLD, "warning")]
    assert "_TIMED_OUT" in logs[0]["why"]
