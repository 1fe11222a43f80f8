"""Topics that are said to be missing, in clusters that do not always answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from pystreams import FatalStreamsError, MissingSourceTopicError
from pystreams.kernel.clock import Clock
from pystreams.runtime.adapters.consuming.consumer_errors import ConsumerErrors
from pystreams.testing.simulation import ManualClock

SILENCE = KafkaException(KafkaError(KafkaError._TIMED_OUT))
MISSING = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


class Cluster:
    """Stands in for the client: tells which topics there are, or raises; one answer a question."""

    def __init__(self, *answers: set[str] | KafkaException) -> None:
        self.answers = list(answers)

    def list_topics(self, timeout: float) -> Any:
        assert timeout > 0
        answer = self.answers.pop(0)
        if isinstance(answer, KafkaException):
            raise answer
        return SimpleNamespace(topics=dict.fromkeys(answer))


class Hours:
    """A clock on which an hour passes with every look."""

    def __init__(self) -> None:
        self._ms = 0.0

    def now_ms(self) -> int:
        raise AssertionError("nobody asks for the date")

    def monotonic_ms(self) -> float:
        self._ms += 3_600_000
        return self._ms


def errors_in(
    cluster: Cluster, clock: Clock | None = None, shown_after_s: float = 0.0
) -> ConsumerErrors:
    client, doing = cast("Consumer", cluster), "group 'app': polling"
    clock, named = clock or Hours(), {"deleted", "there", "new", "topic"}
    return ConsumerErrors(client, doing, clock, shown_after_s=shown_after_s, named=named)


def missing(topic: str) -> tuple[KafkaError, Message]:
    return MISSING, Message(topic=topic, partition=0, error=MISSING)


def test_a_topic_that_is_gone_is_named() -> None:
    errors = errors_in(Cluster({"other"}))
    with pytest.raises(MissingSourceTopicError, match="deleted"):
        errors.take(*missing("deleted"))


def test_a_topic_that_is_there_is_in_doubt_no_more() -> None:
    cluster = Cluster({"there"})
    errors = errors_in(cluster)
    errors.take(*missing("there"))
    errors.ask_again()
    assert cluster.answers == []


def test_a_topic_that_this_broker_shows_late_is_waited_for() -> None:
    cluster = Cluster({"other"}, {"other"}, {"new", "other"})
    errors = errors_in(cluster, shown_after_s=1e9)
    errors.take(*missing("new"))
    for _ in range(5):
        errors.ask_again()
    assert cluster.answers == []


def test_a_topic_that_this_broker_does_not_show_in_time_is_named() -> None:
    clock = ManualClock()
    errors = errors_in(Cluster({"other"}, {"new"}, {"other"}), clock, shown_after_s=1_000.0)
    errors.take(*missing("deleted"))
    errors.take(*missing("new"))
    clock.advance_ms(1_000_000)
    with pytest.raises(MissingSourceTopicError, match="source topic 'deleted' does"):
        errors.ask_again()


def test_silence_is_not_time_in_which_a_topic_was_missing() -> None:
    clock = ManualClock()
    cluster = Cluster(SILENCE, {"other"}, {"new"})
    errors = errors_in(cluster, clock, shown_after_s=5.0)
    errors.take(*missing("new"))
    clock.advance_ms(10_000)
    errors.ask_again()
    clock.advance_ms(4_000)
    errors.ask_again()
    assert cluster.answers == []


def test_a_topic_that_was_deleted_in_an_outage_is_named_at_its_end() -> None:
    """The client tells it once, and would be idle for ever."""
    errors = errors_in(Cluster(SILENCE, SILENCE, {"other"}))
    errors.take(*missing("deleted"))
    errors.ask_again()
    with pytest.raises(MissingSourceTopicError, match="deleted"):
        errors.ask_again()


def test_a_topic_that_is_back_after_an_outage_is_in_doubt_no_more() -> None:
    cluster = Cluster(SILENCE, {"there"})
    errors = errors_in(cluster)
    errors.take(*missing("there"))
    for _ in range(3):
        errors.ask_again()
    assert cluster.answers == []


def test_a_silent_cluster_is_not_asked_with_each_poll() -> None:
    cluster = Cluster(SILENCE, {"other"})
    errors = errors_in(cluster, ManualClock())
    errors.take(*missing("deleted"))
    for _ in range(10):
        errors.ask_again()
    assert cluster.answers == [{"other"}]


def test_a_pattern_that_nothing_matches_yet_is_no_error() -> None:
    cluster = Cluster()
    errors_in(cluster).take(*missing("^app-.*"))
    assert cluster.answers == []


def test_a_topic_that_a_pattern_had_found_may_be_deleted() -> None:
    cluster = Cluster()
    errors_in(cluster).take(*missing("app-deleted"))
    assert cluster.answers == []


def test_a_question_that_may_not_be_asked_is_an_error() -> None:
    refused = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
    with pytest.raises(FatalStreamsError, match="group 'app': polling"):
        errors_in(Cluster(refused)).take(*missing("topic"))
