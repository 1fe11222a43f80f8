"""Applications whose stores lie on a real disk, and ways to damage them there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pystreams import (
    JoinWindows,
    Materialized,
    Record,
    StreamsBuilder,
    TopicPartition,
    Topology,
    serdes,
)
from pystreams.testing.simulation import SimulatedDisk, SimulatedProcess
from tests.every_store import WriteEverywhere, everywhere
from tests.simulation.applications import Application

Damage = Callable[[Path], None]
"""Damages a store, given its directory."""

KEYS = [f"key-{number}" for number in range(8)]


class ReadEverywhere(WriteEverywhere):
    """Reads all of every store before each record, then writes to them."""

    def process(self, record: Record[str, str]) -> None:
        for name, store in self.stores.items():
            if name == "versioned":
                store.get(record.key)
            elif name == "session":
                list(store.fetch_range(None, None))
            else:
                list(store.all())
        super().process(record)


def read_everywhere() -> Topology:
    """Every kind of store that a processor can have, in one task."""
    return everywhere("in", "out", write=ReadEverywhere)


def joined() -> Topology:
    """An outer join (two windows, one list), and a join with a versioned table (a buffer)."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    odd = stream.filter(lambda key, _: int(key[-1]) % 2 == 1)
    windows = JoinWindows.of_time_difference_and_grace(5000, 1000)
    both = stream.outer_join(odd, lambda value, other: f"{value}+{other}", windows)
    both.to("out", value_serde=serdes.STRING)
    table = stream.to_table(materialized=Materialized(name="versions", history_retention_ms=60_000))
    later = stream.join(table, lambda value, other: f"{value}~{other}", grace_period_ms=3000)
    later.to("out", value_serde=serdes.STRING)
    return builder.build()


class OnDisk:
    """One application with one process, fed with records whose times are given.

    Args:
        root: An empty directory.
        topology: Makes its topology.
        guarantee: Its processing guarantee.
    """

    def __init__(
        self, root: Path, topology: Callable[[], Topology], guarantee: str = "exactly_once"
    ) -> None:
        self.app = Application(root, guarantee)
        self.state = root / "disk"
        self._topology = topology
        self._config = {
            "application.id": "app",
            "processing.guarantee": guarantee,
            "statestore.cache.max.bytes": 0,
            "commit.interval.ms": 100,
        }
        self._time_ms = 0
        self.process = self.new_process()

    def new_process(self, **config: Any) -> SimulatedProcess:
        """Make a process with the same stores and another configuration."""
        self.process = SimulatedProcess(
            self._topology(),
            self._config | {name.replace("_", "."): value for name, value in config.items()},
            self.app.broker,
            SimulatedDisk(self.state, self.app.faults),
            real_stores=True,
        )
        return self.process

    def feed(self, keys: Iterable[str] = KEYS) -> None:
        """Write one record a key, a second after the other."""
        for key in keys:
            self._time_ms += 1000
            self.app.broker.produce("in", key.encode(), b"x", self._time_ms)

    def run(self) -> None:
        """Run until all input is committed, and stop."""
        if not self.process.running:
            self.process.start()
        self.app.run_until_processed(self.process)
        self.process.stop()
        self.app.broker.settle()

    def directory(self, store: str) -> Path:
        """Return the directory of a store of the one task."""
        return self.state / "0_0" / "rocksdb" / store

    def stores(self) -> list[str]:
        """Return the names of all stores."""
        return sorted(self.process.plan.topology.stores)

    def changelogs(self) -> dict[str, dict[bytes, bytes]]:
        """Return what would be restored of each store."""
        return {
            store: self.app.broker.log(
                TopicPartition(self.process.plan.changelog_topic(store), 0)
            ).compacted()
            for store in self.stores()
        }

    def results(self) -> list[tuple[bytes | None, bytes | None]]:
        """Return what was written to `out`, in order."""
        records = self.app.broker.committed_records("out")
        return [(record.message_key, record.message_value) for record in records]


# ---------------------------------------------------------------------- damage


def data_files(directory: Path) -> list[Path]:
    """Return the sorted files of a store that hold entries, and neither offsets nor its layout."""
    files = []
    for file in directory.glob("*.sst"):
        content = file.read_bytes()
        if b"-changelog-" not in content and b"segment_interval_ms" not in content:
            files.append(file)
    assert files, f"nothing was flushed in {directory}"
    return files


def flip_data(directory: Path) -> None:
    """Change one byte of every file of entries."""
    for file in data_files(directory):
        content = bytearray(file.read_bytes())
        content[10] ^= 0xFF
        file.write_bytes(content)


def cut_data(directory: Path) -> None:
    """Cut a file of entries off."""
    file = data_files(directory)[0]
    file.write_bytes(file.read_bytes()[:100])


def delete_data(directory: Path) -> None:
    """Delete a file of entries."""
    data_files(directory)[0].unlink()


def manifest(directory: Path) -> Path:
    (found,) = directory.glob("MANIFEST-*")
    return found


def delete_manifest(directory: Path) -> None:
    """Delete the list of the files."""
    manifest(directory).unlink()


def flip_manifest(directory: Path) -> None:
    """Change a byte in the list of the files."""
    content = bytearray(manifest(directory).read_bytes())
    content[len(content) // 2] ^= 0xFF
    manifest(directory).write_bytes(content)


def delete_current(directory: Path) -> None:
    """Delete what names the list of the files, and RocksDB's empty log, as some copies do."""
    (directory / "CURRENT").unlink()
    for log in directory.glob("*.log"):
        log.unlink()


def write_current(directory: Path) -> None:
    """Let it name nothing."""
    (directory / "CURRENT").write_bytes(b"not a manifest")


def directory_for_a_file(directory: Path) -> None:
    """Put a directory in the place of a file of entries."""
    file = data_files(directory)[0]
    file.unlink()
    file.mkdir()


def file_for_the_store(directory: Path) -> None:
    """Put a file in the place of the store."""
    shutil.rmtree(directory)
    directory.write_text("in the way")


def delete_store(directory: Path) -> None:
    """Delete the store's directory."""
    shutil.rmtree(directory)


def file_for_all_stores(directory: Path) -> None:
    """Put a file in the place of the directory of all stores of the task."""
    file_for_the_store(directory.parent)


DAMAGES: dict[str, Damage] = {
    "a byte of an `.sst` file is another": flip_data,
    "an `.sst` file is cut off": cut_data,
    "an `.sst` file is gone": delete_data,
    "a directory is in the place of an `.sst` file": directory_for_a_file,
    "a byte of the `MANIFEST` is another": flip_manifest,
    "the `MANIFEST` is gone": delete_manifest,
    "`CURRENT` names nothing": write_current,
    "`CURRENT` is gone": delete_current,
    "the directory of a store is gone": delete_store,
    "a file is in the place of a store": file_for_the_store,
    "a file is in the place of `rocksdb`": file_for_all_stores,
}
"""By what docs/operations.md calls it."""
