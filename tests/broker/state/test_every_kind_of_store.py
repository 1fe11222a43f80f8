"""One application with a store of every kind: isolation, positions, restarts, lost offsets.

The cases of Kafka's IQv1- and IQv2IsolationLevelIntegrationTest, PositionRestartIntegrationTest,
TransactionalPositionRestartIntegrationTest, SelfManagedOffsetLifecycleIntegrationTest and
SelfManagedOffsetRecoveryIntegrationTest, for every kind.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    IsolationLevel,
    KafkaStreams,
    KeyQuery,
    Position,
    PositionBound,
    State,
    StoreNotAvailableError,
    TopicPartition,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from pystreams.broker import DevelopmentBroker
from pystreams.record import MAX_TIME
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.every_store import BUILDERS, everywhere
from tests.stores.support import Home

COMMITTED = IsolationLevel.READ_COMMITTED
UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
KEYS = [f"key {number}" for number in range(5)]
BEGIN_MS = int(time.time()) * 1000
"""The present: changelogs of windows and sessions lose what is older than their retention."""
GUARANTEES = [pytest.param("at_least_once", marks=pytest.mark.sweep), "exactly_once_v2"]


class Everywhere:
    """The application: each round counts every key once more, in all stores."""

    def __init__(
        self,
        broker: DevelopmentBroker,
        create_topic: CreateTopic,
        name: str,
        directory: Path,
        guarantee: str,
    ) -> None:
        self.servers = broker.bootstrap_servers
        self.name = name
        self.directory = directory
        self.guarantee = guarantee
        self._source, self._output = create_topic("every"), create_topic("every-out")
        self.rounds = 0

    @property
    def position(self) -> Position:
        """The position of all that was fed."""
        return Position({TopicPartition(self._source, 0): self.rounds * len(KEYS) - 1})

    def feed(self) -> None:
        times = [BEGIN_MS + self.rounds * 100 + number for number in range(len(KEYS))]
        records = [(key.encode(), b"x") for key in KEYS]
        produce(self.servers, self._source, records, timestamps_ms=times)
        self.rounds += 1

    @contextlib.contextmanager
    def running(self) -> Iterator[KafkaStreams]:
        """Run it until it has processed all that was fed; it commits when it is closed."""
        settings = {
            "application.id": self.name,
            "bootstrap.servers": self.servers,
            "state.dir": str(self.directory),
            "processing.guarantee": self.guarantee,
            "commit.interval.ms": 600_000,
            "producer.transaction.timeout.ms": 700_000,
            "consumer.group.instance.id": self.name,
        }
        streams = KafkaStreams(everywhere(self._source, self._output), settings)
        streams.start()
        try:
            self.wait_until_processed(streams)
            yield streams
        finally:
            streams.close(DEADLINE_S)

    def wait_until_processed(self, streams: KafkaStreams) -> None:
        def processed() -> bool:
            assert streams.error is None, streams.error
            if streams.state is not State.RUNNING:
                return False
            with contextlib.suppress(StoreNotAvailableError):
                # A record is put into one after the other.
                return all(
                    streams.query(
                        query_of(store, "nobody"),
                        store=store,
                        partitions=[0],
                        position_bound=PositionBound.at(self.position),
                        isolation_level=UNCOMMITTED,
                    )
                    .partition_results[0]
                    .is_success
                    for store in BUILDERS
                )
            return False

        wait_until(processed, "all input processed")

    def forget_offsets(self, store: str) -> None:
        """Make a store's files say that nobody knows which changelog records they hold."""
        opened = BUILDERS[store].build()
        opened.init(Home(self.directory / self.name / "0_0").context())
        opened.commit({})
        opened.close()


@pytest.fixture(params=GUARANTEES)
def app(
    request: pytest.FixtureRequest,
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> Everywhere:
    return Everywhere(broker, create_topic, unique_name, tmp_path, request.param)


def query_of(store: str, key: str) -> Any:
    """What asks a store for a key."""
    if store in {"plain", "timestamped", "expiring"}:
        return KeyQuery(key)
    if store == "versioned":
        return VersionedKeyQuery(key)
    if store == "session":
        return WindowRangeQuery(key=key)
    return WindowKeyQuery(key, 0, MAX_TIME)


def counts(streams: KafkaStreams, level: IsolationLevel) -> dict[str, set[int | None]]:
    """What each store says of the keys' counts."""
    return {
        store: {
            number_in(
                streams.query(query_of(store, key), store=store, isolation_level=level).only_value()
            )
            for key in KEYS
        }
        for store in BUILDERS
    }


def answered_at(streams: KafkaStreams, level: IsolationLevel) -> dict[str, Position]:
    """The position at which each store answers."""
    return {
        store: streams.query(query_of(store, "nobody"), store=store, isolation_level=level).position
        for store in BUILDERS
    }


def number_in(answer: Any) -> int | None:
    """Return the count in an answer of any kind; the highest, if there are several."""
    if answer is None or isinstance(answer, int):
        return answer
    if hasattr(answer, "value"):
        return int(answer.value)
    return max((number_in(value) or 0 for _, value in answer), default=None)


def everywhere_at(count: int | None) -> dict[str, set[int | None]]:
    return {store: {count} for store in BUILDERS}


def restored(name: str, logs: list[Any]) -> set[str]:
    """Which stores were restored, by a record or more."""
    events = [line["event"] for line in logs]
    assert "task running" in events, "the log was not captured"
    changelogs = {
        line["changelog"] for line in logs if line["event"] == "restored" and line["records"]
    }
    return {store for store in BUILDERS if f"{name}-{store}-changelog-0" in changelogs}


def test_stores_of_every_kind_hide_what_is_not_committed_from_those_who_ask_for_no_less(
    app: Everywhere,
) -> None:
    app.feed()
    with app.running() as streams:
        assert counts(streams, UNCOMMITTED) == everywhere_at(1)
        assert counts(streams, COMMITTED) == everywhere_at(None)
    app.feed()
    with app.running() as streams:
        assert counts(streams, UNCOMMITTED) == everywhere_at(2)
        assert counts(streams, COMMITTED) == everywhere_at(1)
        app.feed()
        app.wait_until_processed(streams)
        assert counts(streams, UNCOMMITTED) == everywhere_at(3)
        assert counts(streams, COMMITTED) == everywhere_at(1)


def test_stores_of_every_kind_go_on_from_their_own_offsets_and_positions(app: Everywhere) -> None:
    app.feed()
    app.feed()
    with app.running():
        pass
    committed = app.position
    with capture_logs() as logs, app.running() as streams:
        for level in (COMMITTED, UNCOMMITTED):
            assert counts(streams, level) == everywhere_at(2)
            assert answered_at(streams, level) == dict.fromkeys(BUILDERS, committed)
    assert restored(app.name, logs) == set()

    app.forget_offsets("window")
    with capture_logs() as logs, app.running() as streams:
        assert counts(streams, COMMITTED) == everywhere_at(2)
        assert answered_at(streams, COMMITTED) == dict.fromkeys(BUILDERS, committed)
    assert restored(app.name, logs) == {"window"}

    shutil.rmtree(app.directory / app.name / "0_0")
    app.feed()
    with capture_logs() as logs, app.running() as streams:
        assert counts(streams, COMMITTED) == everywhere_at(2)
        assert counts(streams, UNCOMMITTED) == everywhere_at(3)
        assert answered_at(streams, COMMITTED) == dict.fromkeys(BUILDERS, committed)
        assert answered_at(streams, UNCOMMITTED) == dict.fromkeys(BUILDERS, app.position)
    assert restored(app.name, logs) == BUILDERS.keys()
