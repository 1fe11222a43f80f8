"""Moves of a client's partitions that must wait: what is tried again, and what is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from structlog.testing import capture_logs

from pystreams import FatalStreamsError, TopicPartition
from pystreams.runtime.adapters.consuming.partition_moves import PartitionMoves
from pystreams.testing.simulation import ManualClock

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition as KafkaPartition

ONE, OTHER = TopicPartition("topic", 0), TopicPartition("topic", 1)


class Client:
    """Stands in for the client: refuses to move some partitions."""

    def __init__(self) -> None:
        self.refusals: dict[int, int] = {}
        self.at: dict[int, int] = {}
        self.fetched: set[int] = set()
        self.seeks = 0

    def seek(self, partition: KafkaPartition) -> None:
        self.seeks += 1
        if (code := self.refusals.get(partition.partition)) is not None:
            raise KafkaException(KafkaError(code))
        self.at[partition.partition] = partition.offset

    def pause(self, partitions: list[KafkaPartition]) -> None:
        self.fetched -= {partition.partition for partition in partitions}

    def resume(self, partitions: list[KafkaPartition]) -> None:
        self.fetched |= {partition.partition for partition in partitions}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def moves(client: Client, clock: ManualClock) -> PartitionMoves:
    return PartitionMoves(cast("Consumer", client), clock)


def test_what_can_not_be_moved_is_not_fetched_before_it_was(
    moves: PartitionMoves, client: Client
) -> None:
    client.refusals[0] = KafkaError._PREV_IN_PROGRESS
    moves.start({ONE: 7, OTHER: 0})
    assert client.fetched == {1}
    assert dict(moves.stopped) == {ONE: 7}
    moves.try_again()
    assert client.fetched == {1}

    client.refusals.clear()
    moves.try_again()

    assert client.fetched == {0, 1}
    assert client.at == {0: 7, 1: 0}
    assert not moves.stopped
    assert not moves.waiting


def test_a_client_that_is_not_ready_is_waited_for_once_however_many_partitions_move(
    moves: PartitionMoves, client: Client
) -> None:
    client.refusals = dict.fromkeys(range(50), KafkaError._STATE)
    moves.start({ONE: 7})
    tried_for_one = client.seeks
    for number in range(1, 50):
        moves.start({TopicPartition("topic", number): 7})
    assert client.seeks == tried_for_one + 49

    client.refusals.clear()
    moves.try_again()
    assert client.fetched == set(range(50))


def test_what_is_fetched_and_can_not_be_moved_is_stopped_until_it_was(
    moves: PartitionMoves, client: Client
) -> None:
    moves.start({ONE: 7})
    client.refusals[0] = KafkaError._OUTDATED
    moves.move({ONE: 3})
    assert not client.fetched

    client.refusals.clear()
    moves.try_again()

    assert client.fetched == {0}
    assert client.at == {0: 3}


def test_what_is_given_up_is_moved_no_more(moves: PartitionMoves, client: Client) -> None:
    client.refusals[0] = KafkaError._STATE
    moves.start({ONE: 7})
    moves.forget([ONE])
    client.refusals.clear()
    moves.try_again()
    assert not client.at


def test_what_was_stopped_is_not_let_go_by_itself(moves: PartitionMoves, client: Client) -> None:
    moves.start({ONE: 7})
    moves.stop(ONE, 12)
    moves.try_again()
    assert not client.fetched
    moves.let_go(ONE)
    assert client.at == {0: 12}


def test_a_move_that_waits_for_long_is_told_once_a_while(
    moves: PartitionMoves, client: Client, clock: ManualClock
) -> None:
    client.refusals[0] = KafkaError._STATE

    def told_within_s(seconds: int) -> list[Any]:
        with capture_logs() as lines:
            for _ in range(seconds):
                clock.advance_ms(1000)
                moves.try_again()
        return [line for line in lines if line["log_level"] == "warning"]

    moves.start({ONE: 7})
    assert not told_within_s(3)
    [line] = told_within_s(50)
    assert line["partitions"] == {"topic-0": 7}
    assert "Erroneous state" in line["why"]
    assert len(told_within_s(60)) == 1

    client.refusals.clear()
    moves.try_again()
    client.refusals[0] = KafkaError._STATE
    moves.start({ONE: 9})
    assert not told_within_s(3)


def test_a_move_that_never_will_be_is_an_error(moves: PartitionMoves, client: Client) -> None:
    client.refusals[0] = KafkaError._FATAL
    with pytest.raises(FatalStreamsError, match="moving topic-0 to offset 7"):
        moves.start({ONE: 7})
