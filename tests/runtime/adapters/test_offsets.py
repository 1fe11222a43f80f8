"""Committed offsets: stable, with their metadata, refused to members that are gone."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from pystreams import TopicPartition
from pystreams.errors import IdentityTakenError, RetriableClientError
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from tests.broker.flushing import flush
from tests.broker.waiting import DEADLINE_S
from tests.runtime.adapters.application import Application, answer_of, numbered, until

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_come_back_with_their_metadata(
    make_application: Callable[[dict[str, Any]], Application], protocol: str
) -> None:
    application = make_application({"group.protocol": protocol})
    topic = application.topic(partitions=3)
    consumer, listener = application.member(topic)
    first, second, third = listener.assigned
    offsets = {first: CommittedOffset(7, "AgAAAAAAAAPoAAAAAA=="), third: CommittedOffset(0, "")}
    consumer.commit({})
    answer_of(lambda: consumer.commit(offsets))
    assert answer_of(lambda: consumer.committed([first, second, third])) == offsets


def test_offsets_of_an_open_transaction_are_waited_for(exactly_once: Application) -> None:
    """What a restart must see is what the transaction it finds open comes to."""
    topic = exactly_once.topic()
    consumer, listener = exactly_once.member(topic)
    (partition,) = listener.assigned
    producer = exactly_once.transactional()
    producer.begin_transaction()
    producer.send(numbered(topic, 1))
    flush(producer)
    producer._open.send_offsets_to_transaction(  # A commit that stops half way.
        [_kafka_partition(partition, 5)], consumer.group_metadata()
    )
    found: list[dict[TopicPartition, CommittedOffset]] = []
    reader = exactly_once.consumer()
    reading = threading.Thread(
        target=lambda: found.append(answer_of(lambda: reader.committed([partition])))
    )
    reading.start()
    reading.join(0.5)
    assert not found, "the answer must wait for the transaction"
    producer.commit_transaction({}, None)
    reading.join(DEADLINE_S)
    assert found == [{partition: CommittedOffset(5, "")}]


class Counting(Consumer):
    """A client that counts how often it is asked for offsets, and tells when it was closed."""

    questions = 0
    closed = False

    def close(self) -> None:
        super().close()
        self.closed = True

    def committed(self, partitions: list[Any], timeout: float = -1) -> list[Any]:
        self.questions += 1
        return super().committed(partitions, timeout)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_client_that_polls_is_not_asked_again_for_offsets_that_are_pending(
    make_application: Callable[[dict[str, Any]], Application], protocol: str
) -> None:
    """Its polls would wait together with the question."""
    application = make_application(
        {"processing.guarantee": "exactly_once", "group.protocol": protocol}
    )
    topic = application.topic(partitions=2)
    made: list[Counting] = []

    def make(config: dict[str, Any]) -> Consumer:
        made.append(Counting(config))
        return made[-1]

    consumer, listener = application.member(topic, make=make)
    pending, other = listener.assigned
    producer = application.transactional()
    producer.begin_transaction()
    producer.send(numbered(topic, 1, partition=1))
    producer.commit_transaction({}, None)
    producer.begin_transaction()
    producer.send(numbered(topic, 1))
    flush(producer)
    producer._open.send_offsets_to_transaction(  # A commit that stops half way.
        [_kafka_partition(pending, 5)], consumer.group_metadata()
    )

    for _ in range(3):
        with pytest.raises(RetriableClientError):
            consumer.committed([pending])
    consumer.start_at({other: 0})
    until(lambda: consumer.poll(10, 0.05))
    producer.commit_transaction({}, None)
    assert answer_of(lambda: consumer.committed([pending])) == {pending: CommittedOffset(5, "")}
    member, outside = made
    assert member.questions == 1
    assert outside.questions
    until(lambda: outside.closed, "the end of a client that is not needed any more")
    assert not member.closed


def test_a_member_whose_identity_another_has_taken_can_not_commit(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    # A heartbeat would tell the client before, which then knows no more than that it has failed.
    quiet = {"consumer.session.timeout.ms": 300_000, "consumer.heartbeat.interval.ms": 200_000}
    application = make_application(quiet)
    topic = application.topic()
    consumer, listener = application.member(topic, instance="one")
    (partition,) = listener.assigned
    application.member(topic, instance="one")  # Takes the place of the first.

    def fenced() -> bool:
        with pytest.raises(IdentityTakenError, match="another process has the identity"):
            consumer.commit({partition: CommittedOffset(1, "")})
        return True

    until(fenced)


def _kafka_partition(partition: TopicPartition, offset: int) -> Any:
    from pystreams.runtime.adapters.connection.kafka_partitions import theirs

    return theirs(partition, offset)
