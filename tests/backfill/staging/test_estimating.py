"""How large a history in Kafka is, from a few of its records; a real broker's: tests/broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pystreams import StreamsConfig, TopicPartition
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.sources.size_estimates import EstimatedSizes, estimated_by, estimated_sizes
from pystreams.errors import RetriableClientError
from pystreams.runtime.ports import ChangelogBatch, RestoreConsumerPort
from pystreams.testing.simulation import (
    NO_FAULTS,
    Faults,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
)

MANY = 100_000
DEADLINE_MS = 5000

Bounds = dict[TopicPartition, PartitionBounds]


def broker_with(partitions: int = 1, **rates: float) -> SimulatedBroker:
    made = SimulatedBroker(ManualClock(), Faults(5, replace(NO_FAULTS, **rates)))
    made.create_topic("in", partitions)
    return made


def fill(broker: SimulatedBroker, partition: int, count: int, size_bytes: int) -> None:
    """Append records with a key of two bytes, and values that fill them up to a size."""
    value = bytes(size_bytes - 2)
    broker.append("in", partition, [(b"kk", value, number, ()) for number in range(count)])


def bounds_of(broker: SimulatedBroker, *partitions: int, **chosen: int) -> Bounds:
    found = {}
    for number in partitions:
        log = broker.log(TopicPartition("in", number))
        first, end = chosen.get("first", log.beginning), chosen.get("end", log.stable_end)
        found[TopicPartition("in", number)] = PartitionBounds(first, end, end - first)
    return found


def consumer_of(broker: SimulatedBroker) -> Any:
    return SimulatedClients(broker, Lifeline("sizes", broker.faults)).restore_consumer("sizes")


def estimated(broker: SimulatedBroker, bounds: Bounds) -> EstimatedSizes:
    return estimated_by(consumer_of(broker), bounds, broker.clock)


def test_few_records_stand_for_many() -> None:
    broker = broker_with()
    fill(broker, 0, MANY, 40)

    found = estimated(broker, bounds_of(broker, 0))
    assert found == EstimatedSizes({"in": 40 * MANY}, 100)
    assert found.newest_ms == MANY - 1


def test_headers_count_and_records_without_key_or_value_do_too() -> None:
    broker = broker_with()
    headers = (("name", b"12345"), ("empty", None))
    broker.append("in", 0, [(b"k", None, 1, ()), (None, b"value", 2, headers)])

    assert estimated(broker, bounds_of(broker, 0)).size_bytes == {"in": 1 + 5 + 4 + 5 + 5}


@pytest.mark.parametrize("half", [60, 200, MANY])
def test_records_that_grew_over_time_are_sampled_at_both_ends(half: int) -> None:
    broker = broker_with()
    fill(broker, 0, half, 20)
    fill(broker, 0, half, 60)

    assert estimated(broker, bounds_of(broker, 0)).size_bytes == {"in": 40 * 2 * half}


def test_only_records_within_the_bounds_are_sampled() -> None:
    broker = broker_with()
    for size_bytes in (1000, 10, 1000):
        fill(broker, 0, 30, size_bytes)

    found = estimated(broker, bounds_of(broker, 0, first=30, end=60))

    assert found == EstimatedSizes({"in": 300}, 30)


def test_each_partition_s_own_records_stand_for_it() -> None:
    broker = broker_with(2)
    fill(broker, 0, MANY, 10)
    fill(broker, 1, 10, 1000)

    assert estimated(broker, bounds_of(broker, 0, 1)).size_bytes == {"in": 10 * MANY + 1000 * 10}


def test_of_many_partitions_some_stand_for_all() -> None:
    broker = broker_with(30)
    for number in range(30):
        fill(broker, number, 1000, 25)

    found = estimated(broker, bounds_of(broker, *range(30)))

    assert found == EstimatedSizes({"in": 25 * 1000 * 30}, 4 * 100)


def test_polls_that_give_little_or_nothing_are_followed_by_others() -> None:
    broker = broker_with(2, empty_poll=0.5, short_poll=0.5)
    fill(broker, 0, 1000, 10)
    fill(broker, 1, 1000, 30)

    assert estimated(broker, bounds_of(broker, 0, 1)).size_bytes == {"in": 40 * 1000}


def test_topic_without_records_is_known_to_be_empty() -> None:
    broker = broker_with()

    assert estimated(broker, bounds_of(broker, 0)) == EstimatedSizes({"in": 0}, 0)
    assert broker.clock.monotonic_ms() == 0


def test_history_that_ends_with_an_aborted_transaction_keeps_nobody_waiting() -> None:
    broker = broker_with()
    fill(broker, 0, 4, 10)
    epoch = broker.transactions.init("aborted")
    broker.append("in", 0, [(b"k", b"v", 9, ())] * 3, ("aborted", epoch))
    broker.transactions.end("aborted", epoch, commit=False)
    broker.transactions.complete_all()

    found = estimated(broker, bounds_of(broker, 0))

    assert found.sampled_records == 4
    assert broker.clock.monotonic_ms() < DEADLINE_MS


# ---------------------------------------------------------------------- what goes wrong


def test_records_that_are_gone_do_not_hide_those_of_others() -> None:
    """As of a backfill that was begun before they were deleted."""
    broker = broker_with(2)
    fill(broker, 0, 40, 10)
    fill(broker, 1, 40, 30)
    bounds = bounds_of(broker, 0, 1)
    broker.log(TopicPartition("in", 1)).delete_before(20)

    assert estimated(broker, bounds) == EstimatedSizes({"in": 10 * 80}, 40)


def test_topic_whose_records_are_gone_is_named() -> None:
    broker = broker_with()
    fill(broker, 0, 40, 10)
    bounds = bounds_of(broker, 0)
    broker.log(TopicPartition("in", 0)).delete_before(20)

    found = estimated(broker, bounds)

    assert found == EstimatedSizes({}, 0, "no record of in could be read (in-0: offset 0 is gone)")


def test_brokers_that_give_nothing_are_waited_for_some_seconds() -> None:
    broker = broker_with(empty_poll=1.0)
    fill(broker, 0, 40, 10)

    found = estimated(broker, bounds_of(broker, 0))

    assert found == EstimatedSizes({}, 0, "no record of in could be read (none came within 5 s)")
    assert broker.clock.monotonic_ms() == DEADLINE_MS


@dataclass
class FailsAfter:
    """A consumer whose poll fails after some good ones."""

    inner: RestoreConsumerPort
    good_polls: int

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self.inner.assign(positions)

    def poll(self, max_records: int, timeout_s: float) -> list[ChangelogBatch]:
        if not self.good_polls:
            raise RetriableClientError("not authorised")
        self.good_polls -= 1
        return self.inner.poll(max_records, timeout_s)

    def close(self) -> None:
        self.inner.close()


@pytest.mark.parametrize(
    ("good_polls", "expected"),
    [
        (0, EstimatedSizes({}, 0, "no record of in could be read (not authorised)")),
        (1, EstimatedSizes({"in": 10 * 1000}, 50)),
    ],
)
def test_error_of_the_client_leaves_what_was_read_before(
    good_polls: int, expected: EstimatedSizes
) -> None:
    broker = broker_with()
    fill(broker, 0, 1000, 10)
    consumer = FailsAfter(consumer_of(broker), good_polls)

    assert estimated_by(consumer, bounds_of(broker, 0), broker.clock) == expected


def test_configuration_that_the_consumer_refuses_is_told_and_raises_nothing() -> None:
    settings = {"application.id": "app", "bootstrap.servers": "none:9092"}
    config = StreamsConfig.of({**settings, "main.consumer.debug": "nonsense"})

    found = estimated_sizes(config, {TopicPartition("in", 0): PartitionBounds(0, 5, 5)})

    assert (found.size_bytes, found.sampled_records) == ({}, 0)
    assert "refuses its configuration" in found.trouble
