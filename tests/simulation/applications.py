"""A small application under simulation, for tests of single events."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pystreams import StreamsBuilder, TopicPartition, Topology, serdes
from pystreams.runtime.core.task import StreamTask
from pystreams.testing.simulation import (
    Faults,
    ManualClock,
    SimulatedBroker,
    SimulatedDisk,
    SimulatedProcess,
)

CHANGELOG = TopicPartition("app-counts-changelog", 0)
PATIENCE = 400


def counting(*, caching: bool = False) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = stream.group_by_key().count(name="counts", caching=caching)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


class Application:
    """A broker with topics `in` and `out`, and processes that count."""

    def __init__(
        self,
        root: Path,
        guarantee: str = "exactly_once",
        *,
        partitions: int = 1,
        incremental: bool = False,
        **config: Any,
    ) -> None:
        self.faults = Faults(0)
        self.clock = ManualClock(1_000_000)
        self.broker = SimulatedBroker(
            self.clock,
            self.faults,
            session_timeout_ms=3000,
            transaction_timeout_ms=5000,
            incremental=incremental,
        )
        for topic in ("in", "out"):
            self.broker.create_topic(topic, partitions)
        self._root = root
        self._config = {
            "application.id": "app",
            "processing.guarantee": guarantee,
            "group.protocol": "consumer" if incremental else "classic",
            "statestore.cache.max.bytes": 0,
            "commit.interval.ms": 100,
        } | {name.replace("_", "."): value for name, value in config.items()}

    def process(
        self,
        name: str = "p0",
        topology: Topology | None = None,
        config: Mapping[str, Any] | None = None,
        disk: SimulatedDisk | None = None,
        *,
        newcomer: bool = False,
    ) -> SimulatedProcess:
        """Make a process with a disk of its own, or with that of another one."""
        process = SimulatedProcess(
            topology or counting(),
            {**self._config, **(config or {})},
            self.broker,
            disk or SimulatedDisk(self._root / name, self.faults),
            name,
        )
        process.newcomer = newcomer
        return process

    def feed(self, *keys: str) -> None:
        """Write one record a key."""
        for key in keys:
            self.broker.produce("in", key.encode(), b"x", self.clock.now_ms())

    def outputs(self) -> list[tuple[str, int]]:
        """Return all committed counts, in order of partition and offset."""
        deserialize = serdes.LONG.deserializer("out")
        found = []
        for message in self.broker.committed_records("out"):
            assert message.message_key is not None
            assert message.message_value is not None
            found.append((message.message_key.decode(), deserialize(message.message_value)))
        return found

    def committed(self, partition: int = 0) -> int | None:
        """Return the committed offset of a partition of `in`."""
        offset = self.broker.group.offsets.get(TopicPartition("in", partition))
        return None if offset is None else offset.next_offset

    def run_until_processed(self, *processes: SimulatedProcess) -> None:
        """Step processes until all input is committed and everything decided."""
        for _ in range(PATIENCE):
            for process in processes:
                for index in range(len(process.threads)):
                    process.step(index)
            tasks = sum(len(running_tasks(process)) for process in processes)
            everybody = tasks == self.broker.partition_counts()["in"]
            done = (
                everybody
                and not self.broker.transactions.open_ids()
                and all(
                    not (
                        records := self.broker.log(TopicPartition("in", number)).committed_records()
                    )
                    or records[-1].message_offset < (self.committed(number) or 0)
                    for number in range(self.broker.partition_counts()["in"])
                )
            )
            if done:
                return
        raise AssertionError("\n".join(["input is left", *self.faults.trace[-40:]]))


def tasks_of(process: SimulatedProcess) -> dict[str, StreamTask]:
    """Return a process's running tasks by their ids."""
    running = (task for thread in process.threads for task in thread._manager.running())
    return {str(task.task_id): task for task in running}


def running_tasks(process: SimulatedProcess) -> list[str]:
    """Return the ids of a process's running tasks."""
    return list(tasks_of(process))


def stored_counts(process: SimulatedProcess, store: str = "counts") -> dict[str, int]:
    """Return what a process's disk holds of a store of counts, over all tasks."""
    counts: dict[str, int] = {}
    for _, name, files in process.disk.stores():
        if name == store:
            for key, value in files.data.items():
                counts[key.decode()] = int.from_bytes(value[8:], "big")
    return counts
