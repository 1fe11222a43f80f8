"""Memory of many RocksDB stores in one process: is it what the configuration says?

    python benchmarks/memory.py --stores 50 --entries 1000000

Opens the stores, fills them commit by commit in turn, reads keys at random, and walks through all
of them. Along the way it prints the process's resident memory, and what RocksDB holds, beside the
configured totals; last, the most that was ever resident, also between those moments. More than the
totals and the stated constants ends with exit code 1.

The constants: what Python and the libraries take before the first store is opened (measured at the
start), what a store takes beside the shared memory (`STORE_BYTES`: an empty memtable's first
block, options, metadata of its open files, what the allocator wastes around cached blocks), and
what a commit holds in Python and what the allocator keeps of it (`WORKING_BYTES`).
"""

from __future__ import annotations

import random
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from benchmarks.harness import results
from benchmarks.harness.setting import console
from benchmarks.harness.store_results import memory_cells
from pystreams import serdes
from pystreams.ids import TaskId, TopicPartition
from pystreams.stores.build import build_store
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.contracts.state_store import StateStoreContext, StoreEnvironment
from pystreams.stores.engines.rocksdb import MEMORY
from pystreams.stores.kinds.key_value.kind import KEY_VALUE
from pystreams.stores.kinds.key_value.plain import TypedKeyValueStore

_MEBIBYTE = 1 << 20
STORE_BYTES = 2 * _MEBIBYTE
WORKING_BYTES = 64 * _MEBIBYTE
_COMMIT_ENTRIES = 10_000
_READS_PER_STORE = 2_000
_CHANGELOG = "memory-s-changelog"


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--stores", type=click.IntRange(1), default=50, help="How many stores.")
@click.option("--entries", type=click.IntRange(1), default=1_000_000, help="Entries of a store.")
@click.option("--value-bytes", type=click.IntRange(0), default=100, help="Length of a value.")
@click.option("--block-cache-mib", type=click.IntRange(1), default=128, help="Configured total.")
@click.option("--write-buffer-mib", type=click.IntRange(1), default=64, help="Configured total.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the stores keep their data; a temporary directory by default.",
)
def main(json_file: Path | None, data_dir: Path | None, **options: int) -> None:
    """Run the benchmark."""
    MEMORY.configure(
        block_cache_bytes=options["block_cache_mib"] * _MEBIBYTE,
        write_buffer_bytes=options["write_buffer_mib"] * _MEBIBYTE,
    )
    shared = (options["block_cache_mib"] + options["write_buffer_mib"]) * _MEBIBYTE
    measurement = Measurement(shared + options["stores"] * STORE_BYTES + WORKING_BYTES)
    with tempfile.TemporaryDirectory(dir=data_dir) as directory:
        run(options, Path(directory), measurement)
    measurement.look_back()
    console.print(measurement.table())
    if json_file is not None:
        content = {
            "benchmark": "memory",
            "machine": results.machine(),
            "settings": options,
            "rows": measurement.rows,
        }
        results.write_json(json_file, content)
    if not measurement.within_limit:
        sys.exit(1)


class Measurement:
    """Resident memory and RocksDB's part of it, over time.

    Args:
        allowed_bytes: What may come on top of what the process takes now.

    Attributes:
        rows: What was seen, oldest first.
        within_limit: Whether it was never more than allowed.
    """

    def __init__(self, allowed_bytes: int) -> None:
        self.rows: list[dict[str, Any]] = []
        self.within_limit = True
        self._limit = resident_bytes() + allowed_bytes
        self._started_s = time.monotonic()
        self.look("before the first store")

    def look(self, moment: str) -> None:
        """Remember what is held now."""
        memory = MEMORY.usage()
        self._add(
            moment,
            resident_bytes(),
            block_cache_mib=_mib(memory.block_cache),
            block_cache_capacity_mib=_mib(memory.block_cache_capacity),
            memtables_mib=_mib(memory.write_buffers),
            memtables_capacity_mib=_mib(memory.write_buffers_capacity),
        )

    def look_back(self) -> None:
        """Remember the most that was resident at any time; what RocksDB held then is not known."""
        of_rocksdb = dict.fromkeys(list(self.rows[0])[-4:])
        self._add("peak", peak_resident_bytes(), **of_rocksdb)

    def _add(self, moment: str, resident: int, **of_rocksdb: float | None) -> None:
        self.within_limit &= resident <= self._limit
        self.rows.append(
            {
                "moment": moment,
                "seconds": round(time.monotonic() - self._started_s, 1),
                "resident_mib": _mib(resident),
                "limit_mib": _mib(self._limit),
                **of_rocksdb,
            }
        )

    def table(self) -> Table:
        """Return what was seen as a table, with the verdict below."""
        verdict = "never above the limit" if self.within_limit else "ABOVE THE LIMIT"
        table = Table(title="Memory (MiB)", caption=f"Resident memory was {verdict}.")
        for heading in ("moment", "s", "resident", "limit", "block cache", "of", "memtables", "of"):
            table.add_column(heading, justify="left" if heading == "moment" else "right")
        for row in self.rows:
            table.add_row(*memory_cells(row))
        return table


def run(options: dict[str, int], directory: Path, measurement: Measurement) -> None:
    """Open, fill and read the stores."""
    entries, value = options["entries"], bytes(options["value_bytes"])
    with opened(options["stores"], directory) as stores:
        measurement.look("all stores open")
        commits = -(-entries // _COMMIT_ENTRIES)
        looked_at = {commits * tenth // 10 - 1 for tenth in range(1, 11)}
        for commit in range(commits):
            first = commit * _COMMIT_ENTRIES
            for store in stores:
                for number in range(first, min(first + _COMMIT_ENTRIES, entries)):
                    store.put(_key(number), value)
                store.commit({TopicPartition(_CHANGELOG, 0): number})
            if commit in looked_at:
                measurement.look(f"{min(first + _COMMIT_ENTRIES, entries)} entries a store")
        draw = random.Random(1)
        for _ in range(_READS_PER_STORE):
            for store in stores:
                assert store.get(_key(draw.randrange(entries))) == value
        measurement.look("keys read at random")
        for store in stores:
            assert sum(1 for _ in store.all()) == entries
        measurement.look("all stores walked through")


@contextmanager
def opened(count: int, directory: Path) -> Iterator[list[TypedKeyValueStore[bytes, bytes]]]:
    """Open stores, each in a directory of its own; close them at the end."""
    stores: list[TypedKeyValueStore[bytes, bytes]] = []
    try:
        for number in range(count):
            spec = StoreSpec("s", KEY_VALUE, key_serde=serdes.BYTES, value_serde=serdes.BYTES)
            store = build_store(spec)
            assert isinstance(store, TypedKeyValueStore)
            store.init(
                StateStoreContext(
                    environment=StoreEnvironment(application_id="memory"),
                    task_id=TaskId(0, number),
                    task_directory=directory / f"0_{number}",
                    changelog=None,
                    changelog_topic=_CHANGELOG,
                )
            )
            stores.append(store)
        yield stores
    finally:
        for store in stores:
            store.close()


def resident_bytes() -> int:
    """Return the memory of this process that is in RAM; the most it had where only that is told."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text("ascii").split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def peak_resident_bytes() -> int:
    """Return the most memory of this process that was in RAM at any time."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(told for told in status.read_text("ascii").splitlines() if "VmHWM" in told)
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _key(number: int) -> bytes:
    """Return a key; neighbours in number are strangers in order, as hashed keys are."""
    return struct.pack(">Q", number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)


def _mib(size: int) -> float:
    return round(size / _MEBIBYTE, 1)


if __name__ == "__main__":
    main()
