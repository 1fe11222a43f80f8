"""Requests that reach a real broker late, or that it refuses.

A proxy keeps some of `EndTxn`, `AddOffsetsToTxn` and `TxnOffsetCommit` back until the client has
sent them again, and then delivers them when the next transaction has begun. Another one refuses
batches of records. No list of the output may tell of a transaction that was lost, torn or repeated;
without the guard, a new epoch after a late request, some do.

The seed is printed; `LATE_SEED` in the environment gives another one.
Spec: KIP-890 "Motivation".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from pystreams import KafkaStreams, State
from pystreams.broker import DevelopmentBroker
from pystreams.kernel.partitioner import partition_of
from tests.broker.conftest import CreateTopic
from tests.broker.reading import read_all
from tests.broker.troubles.late_requests import LateRequestsProxy
from tests.broker.troubles.refusing_proxy import RefusingProxy
from tests.broker.waiting import wait_until
from tests.broker.writing import Feed, Writer
from tests.histories.list_append import Anomaly, anomalies
from tests.simulation.sweeping.appending import (
    FIRST,
    SECOND,
    appending,
    expected_of,
    list_store,
    observation,
)
from tests.simulation.sweeping.planted import PLANTS
from tests.variants import first_of

PARTITIONS = 2
STORES = [f"{stage}-{number}" for stage in (FIRST, SECOND) for number in range(2)]
KEYS = 8
_EVERY_S = 0.01
GUARANTEES = ["exactly_once", "exactly_once_v2"]


class TransactionsFeed(Feed):
    """Writes input without a pause, one transaction to be each, until the block ends.

    Args:
        servers: The broker.
        topic: The input.

    Attributes:
        expected: What the transactions append to.
    """

    def __init__(self, servers: str, topic: str) -> None:
        self.expected: dict[str, set[str]] = {}
        self._topic = topic
        self._numbers = count()
        super().__init__(Writer(servers), batch_every_s=_EVERY_S)

    def write_batch(self) -> None:
        number = next(self._numbers)
        name, key = str(number), f"k{number % KEYS}"
        self.expected |= expected_of(name, key, STORES, PARTITIONS)
        self._writer.write(self._topic, name, key, partition_of(key.encode(), PARTITIONS))


class Troubled:
    """One application behind a proxy that makes trouble.

    Args:
        servers: The broker.
        topics: Input and output.
        name: The application's id.
        directory: For its state.
        proxy: What makes trouble.
        producer: Settings of the producers; underscores stand for dots.

    Attributes:
        proxy: The same.
    """

    def __init__(
        self,
        servers: str,
        topics: tuple[str, str],
        name: str,
        directory: Path,
        proxy: LateRequestsProxy | RefusingProxy,
        **producer: object,
    ) -> None:
        self.proxy = proxy
        self._servers = servers
        self._source, self._output = topics
        self._expected: dict[str, set[str]] = {}
        self._settings = {
            "application.id": name,
            "bootstrap.servers": self.proxy.bootstrap_servers,
            "state.dir": directory / "state",
            "commit.interval.ms": 100,
            **{f"producer.{name.replace('_', '.')}": value for name, value in producer.items()},
        }

    @contextmanager
    def running(self, guarantee: str) -> Iterator[None]:
        """Run the application."""
        stores = [
            list_store(name, in_memory=False, caching=False, transactional=True) for name in STORES
        ]
        topology = appending(stores, source=self._source, output=self._output)
        streams = KafkaStreams(topology, {**self._settings, "processing.guarantee": guarantee})
        streams.start()
        try:
            wait_until(lambda: streams.state is State.RUNNING, "all tasks")
            yield
        finally:
            self.proxy.behave()
            streams.close()
            self.proxy.close()

    def feed_until(self, condition: Callable[[], object], what: str) -> None:
        """Write input until something is so."""
        with TransactionsFeed(self._servers, self._source) as feed:
            self._expected = feed.expected
            wait_until(condition, what, told=self.told)

    def anomalies(self) -> list[Anomaly]:
        """Return what is wrong with the output so far; what is not there yet is lost."""
        observed = [
            observation(message.key() or b"", message.value() or b"")
            for message in read_all(self._servers, self._output)
        ]
        return anomalies(observed, dict(self._expected))

    def told(self) -> str:
        found = "\n".join(map(str, self.anomalies()[:20]))
        return f"{self.proxy.troubles} requests were late or refused\n{found}"

    def check(self, guarantee: str, troubles: int) -> None:
        """Run until so many requests were late or refused; see that the output is right."""
        with self.running(guarantee):
            self.feed_until(lambda: self.proxy.troubles >= troubles, "trouble")
            assert not self.violations()
            self.proxy.behave()
            wait_until(lambda: not self.anomalies(), "all transactions", told=self.told)

    def violations(self) -> list[Anomaly]:
        """Return what is wrong with the output, and not mended by what is still to come."""
        return [anomaly for anomaly in self.anomalies() if anomaly.kind not in {"lost", "torn"}]


MakeTroubled = Callable[[int], Troubled]
SEED = int(os.environ.get("LATE_SEED", "1"))


@pytest.fixture
def topics(create_topic: CreateTopic) -> tuple[str, str]:
    return create_topic("in", partitions=PARTITIONS), create_topic("out", partitions=PARTITIONS)


@pytest.fixture
def late_requests(
    broker: DevelopmentBroker, topics: tuple[str, str], unique_name: str, tmp_path: Path
) -> MakeTroubled:
    def make(seed: int) -> Troubled:
        print(f"LATE_SEED={seed}")
        servers = broker.bootstrap_servers
        proxy = LateRequestsProxy(servers, seed, rate=0.25)
        return Troubled(servers, topics, unique_name, tmp_path, proxy, socket_timeout_ms=1000)

    return make


@pytest.fixture
def refused_batches(
    broker: DevelopmentBroker, topics: tuple[str, str], unique_name: str, tmp_path: Path
) -> MakeTroubled:
    """Batches of five records, so that several are on their way."""

    def make(seed: int) -> Troubled:
        print(f"LATE_SEED={seed}")
        servers = broker.bootstrap_servers
        proxy, few = RefusingProxy(servers, seed, rate=0.05), {"batch_num_messages": 5}
        return Troubled(servers, topics, unique_name, tmp_path, proxy, linger_ms=0, **few)

    return make


@pytest.mark.parametrize("guarantee", first_of(*reversed(GUARANTEES)))
def test_requests_that_come_late_change_nothing(
    late_requests: MakeTroubled, guarantee: str
) -> None:
    late_requests(SEED).check(guarantee, troubles=10)


@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_batches_that_are_refused_change_nothing(
    refused_batches: MakeTroubled, guarantee: str
) -> None:
    refused_batches(SEED).check(guarantee, troubles=60)


def test_without_a_new_epoch_requests_that_come_late_change_the_output(
    late_requests: MakeTroubled,
) -> None:
    application = late_requests(1)
    with (
        PLANTS["no_new_epoch_after_a_time_out"](),
        application.running("exactly_once_v2"),
    ):
        application.feed_until(application.violations, "a transaction that is not whole")


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("seed", range(2, 22))
def test_requests_that_come_late_change_nothing_for_many_seeds(
    late_requests: MakeTroubled, guarantee: str, seed: int
) -> None:
    late_requests(seed).check(guarantee, troubles=200)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("seed", range(2, 22))
def test_batches_that_are_refused_change_nothing_for_many_seeds(
    refused_batches: MakeTroubled, guarantee: str, seed: int
) -> None:
    refused_batches(seed).check(guarantee, troubles=200)
