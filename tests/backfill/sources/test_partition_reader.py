"""What a worker reads of a partition itself; with a real broker: tests/broker/backfill."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pystreams import TopicPartition
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.sources.partition_reader import records_within
from pystreams.errors import RetriableClientError
from pystreams.record import ConsumedMessage
from pystreams.testing.simulation import (
    NO_FAULTS,
    Faults,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
)

PARTITION = TopicPartition("in", 0)
MANY = 2500
"""More than are read at a time."""
PATIENCE_MS = 300_000
HOUR_MS = 3_600_000


def broker_with(records: int, **rates: float) -> SimulatedBroker:
    made = SimulatedBroker(ManualClock(), Faults(5, replace(NO_FAULTS, **rates)))
    made.create_topic("in", 1)
    for number in range(records):
        made.produce("in", b"k", b"v", number)
    return made


def reading(
    broker: SimulatedBroker, first: int, end: int, patience_ms: int = PATIENCE_MS
) -> Generator[Sequence[ConsumedMessage]]:
    clients = SimulatedClients(broker, Lifeline("worker", broker.faults))
    consumer = clients.restore_consumer("history")
    bounds = PartitionBounds(first, end, end - first)
    return records_within(consumer, PARTITION, bounds, patience_ms, broker.clock)


def offsets(read: Generator[Sequence[ConsumedMessage]]) -> list[Any]:
    return [message.offset() for messages in read for message in messages]


@pytest.mark.parametrize(("first", "end"), [(0, MANY), (7, 1203), (1000, 2000), (999, 1001)])
def test_bounds_within_what_comes_together_are_kept(first: int, end: int) -> None:
    assert offsets(reading(broker_with(MANY), first, end)) == list(range(first, end))


def test_polls_that_give_little_or_nothing_are_followed_by_others() -> None:
    broker = broker_with(200, empty_poll=0.5, short_poll=0.5)

    assert offsets(reading(broker, 3, 190)) == list(range(3, 190))


def test_history_that_ends_with_an_aborted_transaction_comes_to_its_end() -> None:
    broker = broker_with(4)
    epoch = broker.transactions.init("aborted")
    broker.append("in", 0, [(b"k", b"v", 9, ())] * 3, ("aborted", epoch))
    broker.transactions.end("aborted", epoch, commit=False)
    broker.transactions.complete_all()
    end = broker.log(PARTITION).stable_end
    assert end > 4

    assert offsets(reading(broker, 0, end)) == [0, 1, 2, 3]


def test_time_until_more_is_asked_for_is_not_waiting_for_the_brokers() -> None:
    broker = broker_with(MANY)
    found = []

    for messages in reading(broker, 0, MANY):
        found += [message.offset() for message in messages]
        broker.clock.advance_ms(HOUR_MS)

    assert found == list(range(MANY))


def test_poll_that_gives_nothing_right_after_such_time_is_not_the_end() -> None:
    broker = broker_with(MANY, empty_poll=0.5)
    found = []

    for messages in reading(broker, 0, MANY):
        found += [message.offset() for message in messages]
        broker.clock.advance_ms(HOUR_MS)

    assert found == list(range(MANY))


@pytest.mark.parametrize(("patience_ms", "seconds"), [(PATIENCE_MS, 300), (0, 30)])
def test_brokers_that_give_nothing_for_the_timeout_end_it_with_place_and_bound(
    patience_ms: int, seconds: int
) -> None:
    broker = broker_with(10)
    told = f"in-0 gave nothing from offset 10 on for {seconds} s, and is to be read up to 20"

    with pytest.raises(RetriableClientError, match=told):
        offsets(reading(broker, 0, 20, patience_ms))

    assert broker.clock.monotonic_ms() > seconds * 1000


def test_timeout_of_zero_reads_what_comes_in_several_polls() -> None:
    broker = broker_with(MANY, empty_poll=0.3)

    assert offsets(reading(broker, 0, MANY, patience_ms=0)) == list(range(MANY))
