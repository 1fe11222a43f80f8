"""Changelogs of an old history keep all that is published, on a broker that deletes and compacts.

Brokers count retention and compaction lags from now, stores from stream time: between the two lies
how old the history is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams import (
    JoinWindows,
    Materialized,
    Processor,
    ProcessorContext,
    Record,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    Topology,
    serdes,
)
from pystreams.backfill import Published, PublishingSettings
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.publishing.publisher import Publisher, publishing_config
from pystreams.broker import DevelopmentBroker
from pystreams.runtime.adapters.client_factory import ConfluentClients
from pystreams.runtime.topics.application_topics import TopicManager
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.in_process import Row, run
from tests.backfill.publishing.publications import publication_of
from tests.broker.reading import create_topics, produce, read_all
from tests.broker.waiting import wait_until
from tests.sharing import start_broker

pytestmark = pytest.mark.sweep

DAY_MS = 86_400_000
BEGIN_MS = 1_577_836_800_000
"""The first of January 2020."""
DAYS, KEYS, RETENTION_MS = 60, 4, 20 * DAY_MS
TYPES: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
STORES = ("visits", "prices", "pairs-this-join-store", "pairs-other-join-store")
TOPICS = ("left", "right", "table")


@pytest.fixture(scope="module")
def busy_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentBroker]:
    """A broker with Kafka's own retention, that always looks for what may go."""
    settings = {
        "log.retention.ms": str(7 * DAY_MS),
        "log.retention.check.interval.ms": "200",
        "log.initial.task.delay.ms": "100",
        "log.cleaner.backoff.ms": "200",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.segment.delete.delay.ms": "100",
    }
    broker = start_broker(tmp_path_factory.mktemp("busy"), settings=settings)
    yield broker
    broker.stop()


class Visiting(Processor[str, str, str, str]):
    """Keeps what came on each day."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._store: Any = context.get_state_store("visits")

    def process(self, record: Record[str, str]) -> None:
        self._store.put(record.key, record.value, record.timestamp)


def topology(name: str) -> Topology:
    """A window store, a versioned one and those of a join, all kept for twenty days."""
    builder = StreamsBuilder()
    windows = Stores.persistent_window_store("visits", RETENTION_MS, DAY_MS)
    builder.add_state_store(Stores.window_store_builder(windows, serdes.STRING, serdes.STRING))
    left = builder.stream(f"{name}-left", **TYPES)
    left.process(Visiting, stores=["visits"])
    prices = Materialized(name="prices", history_retention_ms=RETENTION_MS)
    builder.table(f"{name}-table", **TYPES, materialized=prices)
    near = JoinWindows.of_time_difference_and_grace(DAY_MS, RETENTION_MS - 2 * DAY_MS)
    right = builder.stream(f"{name}-right", **TYPES)
    left.join(right, lambda value, other: value + other, near, **TYPES, store_name="pairs").to(
        f"{name}-out", **TYPES
    )
    return builder.build()


class OldHistory:
    """A history of 2020 in the topics of an application that has never run, and what it gives."""

    def __init__(self, broker: DevelopmentBroker, name: str, directory: Path) -> None:
        self.name = name
        self.servers = broker.bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": self.servers})
        self._config = {"application.id": name, "bootstrap.servers": self.servers}
        self._topology = topology(name)
        self._plan = TopologyPlan(self._topology, name)
        kept = {"retention.ms": "-1"}
        self.create(*(NewTopic(f"{name}-{topic}", 1, config=kept) for topic in TOPICS))
        self.create(NewTopic(f"{name}-out", 1))
        rows = [
            Row(f"{name}-{topic}", 0, number, BEGIN_MS + number * DAY_MS // KEYS, key, value)
            for topic in TOPICS
            for number in range(DAYS * KEYS)
            for key, value in [(b"key %d" % (number % KEYS), b"%s %d" % (topic.encode(), number))]
        ]
        for topic in TOPICS:
            own = [row for row in rows if row.topic == f"{name}-{topic}"]
            records = [(row.key or b"", row.value) for row in own]
            times = [row.timestamp for row in own]
            produce(self.servers, f"{name}-{topic}", records, timestamps_ms=times)
        counts = {f"{name}-{topic}": 1 for topic in (*TOPICS, "out")}
        self.results = run(self._topology, self._config, rows, counts, directory / "tasks")
        self._publication = publication_of(self._plan, self.results, counts)

    def create(self, *topics: NewTopic) -> None:
        create_topics(self.admin, list(topics))

    def changelog(self, store: str) -> str:
        return self._plan.changelog_topic(store)

    def publish(self, *, with_outputs: bool = False) -> Published:
        clients = ConfluentClients(publishing_config(StreamsConfig.of(self._config)))
        topics = TopicManager(self._plan, clients.admin(), {}, DAY_MS)
        chosen = PublishingSettings(with_outputs=with_outputs, transaction_records=100)
        return Publisher(self._publication, self._plan, topics, clients, chosen).run()

    def staged(self, store: str) -> set[tuple[bytes | None, int]]:
        return {
            (row.key, row.timestamp)
            for row in self.results
            if row.kind is ResultKind.STATE and row.name == store
        }

    def in_changelog(self, store: str) -> set[tuple[bytes | None, int]]:
        found = read_all(self.servers, self.changelog(store))
        return {(message.key(), message.timestamp()[1]) for message in found}

    def lost(self) -> dict[str, int]:
        """Return how many records of each changelog are gone."""
        return {store: len(self.staged(store) - self.in_changelog(store)) for store in STORES}

    def wait_for_retention(self) -> None:
        """Wait until the broker has twice deleted and compacted what may go."""
        for turn in ("first", "second"):
            self._wait_for_passes(f"{self.name}-{turn}")

    def _wait_for_passes(self, name: str) -> None:
        policies = {
            "deleted": {"cleanup.policy": "delete"},
            "compacted": {"cleanup.policy": "compact"},
        }
        self.create(
            *(NewTopic(f"{name}-{policy}", 1, config=own) for policy, own in policies.items())
        )
        days = range(0, 80, 8)
        for topic in policies:
            for day in days:  # Each more than a segment's time behind the one before: segments.
                times = [BEGIN_MS + day * DAY_MS]
                produce(self.servers, f"{name}-{topic}", [(b"k", b"v")], timestamps_ms=times)
        for topic in policies:
            self._wait_until_fewer(f"{name}-{topic}", len(days) - 1)

    def _wait_until_fewer(self, topic: str, count: int) -> None:
        wait_until(lambda: len(read_all(self.servers, topic)) < count, f"records of {topic} to go")


@pytest.fixture
def history(busy_broker: DevelopmentBroker, unique_name: str, tmp_path: Path) -> OldHistory:
    return OldHistory(busy_broker, unique_name, tmp_path)


def test_all_that_is_published_of_an_old_history_outlives_retention_and_compaction(
    history: OldHistory,
) -> None:
    history.publish()

    history.wait_for_retention()
    assert all(history.staged(store) for store in STORES)
    assert history.lost() == dict.fromkeys(STORES, 0)


def test_topics_that_were_there_with_other_settings_keep_it_too(history: OldHistory) -> None:
    """As an operator made them."""
    others = {
        "visits": {"cleanup.policy": "compact,delete", "retention.ms": "3600000"},
        "prices": {"cleanup.policy": "compact,delete", "min.compaction.lag.ms": "0"},
    }
    history.create(
        *(NewTopic(history.changelog(store), 1, config=own) for store, own in others.items())
    )

    history.publish()

    history.wait_for_retention()
    assert history.lost() == dict.fromkeys(STORES, 0)
