"""Where the counting application runs and dies, and what its outputs and stores must be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient, NewTopic

from pystreams.broker import DevelopmentBroker
from pystreams.stores.engines.rocksdb import RocksDBEngine
from tests.broker.application import Application
from tests.broker.exactly_once import counting
from tests.broker.exactly_once.feed import KEYS, CountedFeed
from tests.broker.reading import (
    LastNumbers,
    create_topics,
    high_watermarks,
    read_all,
    reader_of,
    values_by_key,
)

PARTITIONS = 2
GROUPS = len({counting.group_of(f"key {key:02}") for key in range(KEYS)})
OUTPUTS = ("echo", "by-key", "by-group")
SUBTOPOLOGY_OF_STORE = {"by-key": 0, "by-group": 1}

Numbers = dict[bytes, list[int]]


class Waiting(Protocol):
    """A process that brings something about."""

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for that; fails when it can come no more."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """The numbers of each key in each output, in order, as a read_committed reader sees them."""

    echo: Numbers
    by_key: Numbers
    by_group: Numbers


@dataclass(frozen=True, slots=True)
class Arena:
    """One counting application with topics and a directory of its own.

    Attributes:
        name: The application's id, and the start of its topics' names.
        servers: The broker.
        directory: For logs and state.
    """

    name: str
    servers: str
    directory: Path

    @classmethod
    def make(cls, broker: DevelopmentBroker, admin: AdminClient, name: str, home: Path) -> Arena:
        topics = [NewTopic(f"{name}-{end}", num_partitions=PARTITIONS) for end in ("in", *OUTPUTS)]
        create_topics(admin, topics)
        return cls(name, broker.bootstrap_servers, home)

    def application(self, guarantee: str, **settings: object) -> Application:
        """Return the application; an underscore in a setting's name stands for a dot."""
        own = {name.replace("_", "."): value for name, value in settings.items()}
        fixed = {
            "bootstrap.servers": self.servers,
            "processing.guarantee": guarantee,
            "commit.interval.ms": 100,
        }
        environment = {"COUNTING_NAME": self.name}
        file = Path(f"{counting.__file__}")
        return Application(self.name, self.directory, file, fixed | own, environment)

    def feed(self, records_per_s: int) -> CountedFeed:
        return CountedFeed(self.servers, f"{self.name}-in", records_per_s=records_per_s)

    def written(self) -> int:
        """Return how many records one output has, committed or not."""
        with reader_of(self.servers) as consumer:
            return sum(high_watermarks(consumer, f"{self.name}-echo").values())

    def wait_for_outputs(self, rounds: int, running: Waiting) -> None:
        """Wait until each key's number, and each group's, is the last one or beyond."""
        topics = {output: f"{self.name}-{output}" for output in OUTPUTS}
        per_group = rounds * KEYS // GROUPS
        with reader_of(self.servers) as consumer:
            followed = LastNumbers(consumer, list(topics.values()))

            def complete() -> bool:
                last = followed.read()
                return all(
                    len(last[topics[output]]) == keys
                    and min(last[topics[output]].values()) >= wanted
                    for output, keys, wanted in (
                        ("echo", KEYS, rounds),
                        ("by-key", KEYS, rounds),
                        ("by-group", GROUPS, per_group),
                    )
                )

            running.wait_until(complete, f"{rounds} rounds in all outputs")

    def outputs(self) -> Outputs:
        """Read all outputs to their ends."""
        return Outputs(
            *(values_by_key(read_all(self.servers, f"{self.name}-{end}")) for end in OUTPUTS)
        )

    def changelog(self, store: str) -> dict[int, dict[bytes, bytes]]:
        """Return the last committed value a key, by partition."""
        compacted: dict[int, dict[bytes, bytes]] = {number: {} for number in range(PARTITIONS)}
        for message in read_all(self.servers, f"{self.name}-{store}-changelog"):
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            stamp = message.timestamp()[1].to_bytes(8, "big")
            compacted[message.partition() or 0][key] = stamp + value
        return compacted

    def stored(self, store: str) -> dict[int, dict[bytes, bytes]]:
        """Return what the store's databases hold; nothing may have them open."""
        found = {}
        for partition in range(PARTITIONS):
            task = f"{SUBTOPOLOGY_OF_STORE[store]}_{partition}"
            directory = self.directory / "state" / self.name / task / "rocksdb" / store
            found[partition] = dict(entries(directory, store))
        return found


def entries(directory: Path, store: str) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over a closed store's entries: key, then timestamp and value."""
    engine = RocksDBEngine(store, timestamped=True)
    engine.open(directory)
    try:
        yield from engine.range(None, None)
    finally:
        engine.close()


def one_to(last: int, keys: set[bytes]) -> Numbers:
    """Return 1, 2, ..., last for each key."""
    return {key: list(range(1, last + 1)) for key in keys}
