"""Stores that are not ours, or write through, in an application that is killed and started again.

Cases of Kafka's SelfManagedOffsetRecovery-, SelfManagedOffsetLifecycle- and
EOSUncleanShutdownIntegrationTest, with stores of our own making.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pystreams.broker import DevelopmentBroker
from pystreams.stores.files.checkpoint_file import read_checkpoint
from tests.broker.application import Application, LogLine, Running
from tests.broker.conftest import CreateTopic
from tests.broker.reading import LastNumbers, produce, read_all, reader_of, values_by_key
from tests.stores.custom import files_of
from tests.variants import first_of, swept

ROOT = Path(__file__).parents[3]
KEYS = [f"key {number}".encode() for number in range(150)]
"""More than a store that writes through holds back in one batch."""
ROUNDS = 5
PROGRAM = """
from pystreams import Processor, Record, StreamsBuilder, Stores, serdes
from tests.stores.custom import CustomStore, OffsetKeepingStore, SqliteStore

builder = StreamsBuilder()


def plain(name):
    supplier = Stores.persistent_key_value_store(name)
    return Stores.key_value_store_builder(supplier, serdes.STRING, serdes.STRING)


stores = [{stores}]
for store in stores:
    builder.add_state_store(store)


class Count(Processor):
    def init(self, context):
        self._context = context
        self._stores = [context.get_state_store(store.name) for store in stores]

    def process(self, record):
        if record.value == "poison" and {poisoned}:
            raise RuntimeError("poison")
        counts = []
        for store in self._stores:
            count = int(store.get(record.key) or 0) + 1
            store.put(record.key, str(count))
            counts.append(count)
        assert {guarded} or len(set(counts)) == 1, counts
        self._context.forward(Record(record.key, counts[0], record.timestamp))


source = builder.stream("{source}", key_serde=serdes.STRING, value_serde=serdes.STRING)
counted = source.process(Count, stores=[store.name for store in stores])
counted.to("{output}", key_serde=serdes.STRING, value_serde=serdes.LONG)
"""
MINIMAL = 'CustomStore("counts", SqliteStore)'
KEEPING = 'CustomStore("counts", OffsetKeepingStore)'
exactly_once_first = pytest.mark.parametrize("guarantee", first_of("exactly_once", "at_least_once"))
each_store = pytest.mark.parametrize(
    "store", first_of(KEEPING, MINIMAL), ids=["keeping", "minimal"]
)


class Counting:
    """One application that counts a key's records in the given stores."""

    def __init__(
        self, broker: DevelopmentBroker, create_topic: CreateTopic, name: str, directory: Path
    ) -> None:
        self.servers = broker.bootstrap_servers
        self.source = create_topic("custom")
        self.output = create_topic("custom-out")
        self._name = name
        self._directory = directory
        self.task_directory = directory / "state" / name / "0_0"
        self.fed = 0

    def application(self, guarantee: str, **settings: object) -> Application:
        defaults: dict[str, object] = {
            "bootstrap.servers": self.servers,
            "processing.guarantee": guarantee,
            "commit.interval.ms": 100,
        }
        changed = {name.replace("_", "."): value for name, value in settings.items()}
        return Application(
            self._name,
            self._directory,
            self._directory / "counting.py",
            defaults | changed,
            {"PYTHONPATH": str(ROOT)},
        )

    def write(self, *stores: str, poisoned: bool = False, guarded: bool = False) -> None:
        """Write the program.

        Args:
            stores: How its stores are built.
            poisoned: Whether a record "poison" makes it fail.
            guarded: Whether its stores may differ, as they do at least once.
        """
        text = PROGRAM.format(
            stores=", ".join(stores),
            poisoned=poisoned,
            guarded=guarded,
            source=self.source,
            output=self.output,
        )
        (self._directory / "counting.py").write_text(text)

    def feed(self, rounds: int, value: bytes = b"value") -> None:
        produce(self.servers, self.source, [(key, value) for key in KEYS] * rounds)
        self.fed += rounds

    @contextmanager
    def followed(self) -> Iterator[LastNumbers]:
        with reader_of(self.servers) as consumer:
            yield LastNumbers(consumer, [self.output])

    def wait_until_counted(self, running: Running, followed: LastNumbers) -> None:
        """Wait until the last number of each key is at least that of the rounds fed."""

        def counted() -> bool:
            last = followed.read()[self.output]
            return len(last) == len(KEYS) and min(last.values()) >= self.fed

        running.wait_until(counted, f"{self.fed} rounds counted")

    def counts(self) -> dict[bytes, list[int]]:
        return values_by_key(read_all(self.servers, self.output))


@pytest.fixture
def counting(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> Counting:
    return Counting(broker, create_topic, unique_name, tmp_path)


def rebuilt(running: Running) -> list[str]:
    return [str(line["store"]) for line in running.lines() if was_rebuilt(line)]


def was_rebuilt(line: LogLine) -> bool:
    return "rebuilt from its changelog" in str(line["message"])


def records_restored(running: Running) -> int:
    return sum(line["records"] for line in running.lines("restored"))


@pytest.mark.parametrize(
    ("store", "guarantee"),
    [
        (KEEPING, "at_least_once"),
        (MINIMAL, "exactly_once"),
        *swept(
            (KEEPING, "exactly_once"),
            (KEEPING, "exactly_once_v2"),
            (MINIMAL, "at_least_once"),
            (MINIMAL, "exactly_once_v2"),
        ),
    ],
)
def test_killed_application_with_a_custom_store_counts_right(
    counting: Counting, store: str, guarantee: str
) -> None:
    counting.write(store)
    with counting.application(guarantee) as application, counting.followed() as followed:
        counting.feed(ROUNDS)
        stopped = application.start()
        counting.wait_until_counted(stopped, followed)
        stopped.stop()
        counting.feed(ROUNDS)
        killed = application.start()
        killed.wait_until(lambda: max(followed.read()[counting.output].values()) > ROUNDS, "more")
        killed.kill()
        counting.feed(ROUNDS)
        again = application.start()
        counting.wait_until_counted(again, followed)
        again.stop()

    counts = counting.counts()
    if guarantee == "at_least_once":
        # They may jump, where store or changelog were ahead of the output when the process died.
        assert counts.keys() == set(KEYS)
        assert all(len(numbers) >= counting.fed for numbers in counts.values())
        assert all(numbers[-1] >= counting.fed for numbers in counts.values())
    else:
        assert counts == {key: list(range(1, counting.fed + 1)) for key in KEYS}
    if store == MINIMAL and guarantee != "at_least_once":
        assert rebuilt(again) == ["counts"]
    else:
        assert rebuilt(again) == []
        begins = [line["from_offset"] for line in again.lines("restoring")]
        assert all(begin >= len(KEYS) * ROUNDS for begin in begins)


@exactly_once_first
@each_store
def test_custom_store_that_was_closed_restores_nothing(
    counting: Counting, store: str, guarantee: str
) -> None:
    counting.write(store)
    with counting.application(guarantee) as application, counting.followed() as followed:
        for _ in range(2):
            counting.feed(ROUNDS)
            running = application.start()
            counting.wait_until_counted(running, followed)
            running.stop()

    assert counting.counts() == {key: list(range(1, counting.fed + 1)) for key in KEYS}
    assert records_restored(running) == 0
    assert rebuilt(running) == []
    file = counting.task_directory / ".checkpoint_counts"
    if store == KEEPING:
        assert not file.exists()
    else:
        [offset] = (read_checkpoint(file) or {}).values()
        assert offset is not None
        assert offset >= len(KEYS) * counting.fed - 1


@exactly_once_first
def test_custom_store_that_lost_its_offsets_is_restored_from_the_beginning(
    counting: Counting, guarantee: str
) -> None:
    counting.write(KEEPING)
    with counting.application(guarantee) as application, counting.followed() as followed:
        counting.feed(ROUNDS)
        first = application.start()
        counting.wait_until_counted(first, followed)
        first.stop()
        database = sqlite3.connect(files_of(counting.task_directory, "counts") / "store.db")
        with database:
            database.execute("delete from offsets")
        database.close()
        counting.feed(ROUNDS)
        again = application.start()
        counting.wait_until_counted(again, followed)
        again.stop()

    assert records_restored(again) >= len(KEYS) * ROUNDS
    assert counting.counts() == {key: list(range(1, counting.fed + 1)) for key in KEYS}


@exactly_once_first
def test_an_error_of_user_code_wipes_only_what_can_not_go_back(
    counting: Counting, guarantee: str
) -> None:
    """The two of our own stores differ in one keyword."""
    stores = 'plain("direct").with_transactional_disabled()', 'plain("safe")'
    at_least_once = guarantee == "at_least_once"
    counting.write(*stores, poisoned=True, guarded=at_least_once)
    slow = counting.application(guarantee, commit_interval_ms=9_000)
    with slow as application, counting.followed() as followed:
        counting.feed(ROUNDS)
        first = application.start(commit_interval_ms=100)
        counting.wait_until_counted(first, followed)
        first.stop()
        counting.feed(ROUNDS)
        counting.feed(1, b"poison")
        failed = application.start()
        assert failed.ended() == 1, failed.tail()

        counting.write(*stores, guarded=at_least_once)
        again = application.start(commit_interval_ms=100)
        counting.wait_until_counted(again, followed)
        again.stop()

    assert failed.lines("stopped by an error")[0]["kind"] == "ProcessingError"
    assert rebuilt(failed) == []
    if at_least_once:
        assert rebuilt(again) == []
    else:
        assert rebuilt(again) == ["direct"]
        assert counting.counts() == {key: list(range(1, counting.fed + 1)) for key in KEYS}
