"""Versioned stores in an application on a broker: history, its changelog, restore, upgrade.

The cases of Kafka's VersionedKeyValueStoreIntegrationTest, but for queries of a user's own making.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from pystreams import (
    KafkaStreams,
    KeyQuery,
    MultiVersionedKeyQuery,
    Position,
    PositionBound,
    Processor,
    ProcessorContext,
    State,
    StoreNotAvailableError,
    Stores,
    StreamsBuilder,
    TopicPartition,
    Topology,
    ValueAndTimestamp,
    VersionedKeyQuery,
    VersionedRecord,
)
from pystreams.broker import DevelopmentBroker
from pystreams.serdes import STRING
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce
from tests.broker.topologies.test_internal_topics import settings_of
from tests.broker.waiting import DEADLINE_S, wait_until

STORE = "versioned-store"
HISTORY_RETENTION_MS = 3_600_000
DAY_MS = 86_400_000
BEGIN_MS = 1_700_000_000_000
DELETE = "delete"
"""With this value the processor deletes; None is put."""
Round = tuple[int, Mapping[str, str | None]]
"""How long after the beginning (ms), and what is put then."""

FIRST: list[Round] = [
    (0, {"1": "a0", "2": "b0", "3": None}),
    (5, {"1": "a5", "2": None, "3": "c5"}),
    (2, {"1": "a2", "2": "b2", "3": None}),
]
"""The third is late."""
SECOND: list[Round] = [
    (5, {"1": "a5 again", "2": "b5", "3": None}),
    (7, {"1": DELETE, "2": DELETE, "3": DELETE}),
]
"""The first replaces what is there."""


class Writing(Processor[str, str, str, str]):
    """Writes what it is given into the store, of whichever kind."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._store: Any = context.get_state_store(STORE)

    def process(self, record: Any) -> None:
        key, value, timestamp = record.key, record.value, record.timestamp
        if not hasattr(self._store, "get_range"):
            stamped = hasattr(self._store, "get_with_timestamp") and value is not None
            self._store.put(key, ValueAndTimestamp(value, timestamp) if stamped else value)
        elif value == DELETE:
            self._store.delete(key, timestamp)
        else:
            self._store.put(key, value, timestamp)


BUILDERS = {
    "versioned": Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store(STORE, HISTORY_RETENTION_MS), STRING, STRING
    ),
    "timestamped": Stores.timestamped_key_value_store_builder(
        Stores.persistent_timestamped_key_value_store(STORE), STRING, STRING
    ),
    "plain": Stores.key_value_store_builder(
        Stores.persistent_key_value_store(STORE), STRING, STRING
    ),
}


class History:
    """An input topic, and what a store must hold that was given all of it."""

    def __init__(
        self, broker: DevelopmentBroker, create_topic: CreateTopic, name: str, directory: Path
    ) -> None:
        self.servers = broker.bootstrap_servers
        self.name = name
        self._topic = create_topic("versions")
        self._directory = directory
        self._written = 0
        self._expected: dict[str, dict[int, str | None]] = {}

    def write(self, rounds: list[Round]) -> None:
        for after_ms, values in rounds:
            time = BEGIN_MS + after_ms
            records = [
                (key.encode(), None if value is None else value.encode())
                for key, value in values.items()
            ]
            produce(self.servers, self._topic, records, timestamps_ms=[time] * len(records))
            self._written += len(records)
            for key, value in values.items():
                self._expected.setdefault(key, {})[time] = None if value == DELETE else value

    @contextlib.contextmanager
    def running(self, store: str = "versioned") -> Iterator[KafkaStreams]:
        """Run the application with a store of this kind until it has processed all input."""
        settings = {
            "application.id": self.name,
            "bootstrap.servers": self.servers,
            "state.dir": str(self._directory),
            "commit.interval.ms": 100,
            "consumer.group.instance.id": self.name,
            "topic.min.compaction.lag.ms": 60_000 if store != "versioned" else None,
        }
        streams = KafkaStreams(
            self._topology(store),
            {name: value for name, value in settings.items() if value is not None},
        )
        streams.start()
        try:
            yield streams
        finally:
            streams.close(DEADLINE_S)

    def lose_the_state(self) -> None:
        shutil.rmtree(self._directory / self.name)

    def _topology(self, store: str) -> Topology:
        builder = StreamsBuilder()
        builder.add_state_store(BUILDERS[store])
        source = builder.stream(self._topic, key_serde=STRING, value_serde=STRING)
        source.process(Writing, stores=[STORE])
        return builder.build()

    def wait_until_processed(self, streams: KafkaStreams, store: str = "versioned") -> None:
        everything = Position({TopicPartition(self._topic, 0): self._written - 1})

        def processed() -> bool:
            assert streams.error is None, streams.error
            if streams.state is not State.RUNNING:
                return False
            with contextlib.suppress(StoreNotAvailableError):
                answer = streams.query(
                    VersionedKeyQuery("1") if store == "versioned" else KeyQuery("1"),
                    store=STORE,
                    partitions=[0],
                    position_bound=PositionBound.at(everything),
                ).partition_results[0]
                return answer.is_success
            return False

        wait_until(processed, "all input processed")

    def check(self, streams: KafkaStreams) -> None:
        """Compare every version at its time, the latest, and the whole history of each key."""
        assert self._expected
        for key, values in self._expected.items():
            expected = self._versions_of(values)
            for time, value in values.items():
                found = self._ask(streams, VersionedKeyQuery(key, time))
                assert (found and found.value) == value, (key, time)
                assert found is None or found.timestamp == time
            last = expected[-1] if expected and expected[-1].valid_to is None else None
            assert self._ask(streams, VersionedKeyQuery(key)) == last
            assert list(self._ask(streams, MultiVersionedKeyQuery(key)) or ()) == expected

    @staticmethod
    def _versions_of(values: Mapping[int, str | None]) -> list[VersionedRecord[str]]:
        times = sorted(values)
        ends = dict(zip(times, [*times[1:], None], strict=True))
        return [
            VersionedRecord(value, time, ends[time])
            for time in times
            if (value := values[time]) is not None
        ]

    @staticmethod
    def _ask(streams: KafkaStreams, query: Any) -> Any:
        return streams.query(query, store=STORE).only_value()


@pytest.fixture
def history(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> History:
    return History(broker, create_topic, unique_name, tmp_path)


def test_versions_are_put_replaced_deleted_and_found_at_their_times(history: History) -> None:
    with history.running() as streams:
        for rounds in (FIRST, SECOND):
            history.write(rounds)
            history.wait_until_processed(streams)
            history.check(streams)


def test_the_changelog_is_compacted_and_not_within_the_history(
    history: History, admin: AdminClient
) -> None:
    history.write([(0, {"0": "foo"})])
    with history.running() as streams:
        history.wait_until_processed(streams)

    own = settings_of(admin, f"{history.name}-{STORE}-changelog")
    assert own["cleanup.policy"] == "compact"
    assert own["min.compaction.lag.ms"] == str(HISTORY_RETENTION_MS + DAY_MS)


def test_a_lost_history_is_restored_from_its_changelog(history: History) -> None:
    history.write([*FIRST, *SECOND, (10, {"1": "a10", "2": "b10", "3": "c10"})])
    with history.running() as streams:
        history.wait_until_processed(streams)
    history.lose_the_state()

    with history.running() as streams:
        history.wait_until_processed(streams)
        history.check(streams)
        history.write([(12, {"1": "a12", "2": "b12", "3": "c12"})])
        history.wait_until_processed(streams)
        history.check(streams)


@pytest.mark.parametrize("store", ["timestamped", "plain"])
def test_a_store_becomes_versioned_by_restoring_its_changelog(history: History, store: str) -> None:
    history.write(FIRST)
    with history.running(store) as streams:
        history.wait_until_processed(streams, store)
    history.lose_the_state()

    with history.running() as streams:
        history.wait_until_processed(streams)
        history.check(streams)
        history.write([(12, {"1": "a12", "2": "b12", "3": "c12"})])
        history.wait_until_processed(streams)
        history.check(streams)
