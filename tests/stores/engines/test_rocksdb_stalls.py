"""A RocksDB that takes no writes: waited for while it works, told with a cure when it can't."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import WriteBatch

from pystreams.stores.engines.rocksdb import RocksDBEngine, writing
from pystreams.stores.engines.rocksdb.closing import lift_stalls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[3]
DISK_BYTES = 2 << 20

# Memtables fill faster than a flush fails: the writer is made to wait when it does.
FASTER_THAN_THE_DISK = """
import os, sys
from pathlib import Path
from pystreams.errors import StateStoreError
from pystreams.stores.engines.rocksdb import RocksDBEngine

def small(name, options):
    options.set_write_buffer_size(1 << 20)
    options.set_max_write_buffer_number(2)

engine = RocksDBEngine("s", timestamped=False)
engine.open(Path(sys.argv[1]), small)
batches = [{b"%d-%d" % (n, i): os.urandom(100_000) for i in range(15)} for n in range(20)]
try:
    for number, batch in enumerate(batches):
        engine.write(batch, {b"t-0": b"%d" % number})
except StateStoreError as error:
    print(error)
engine.close()
"""


@contextmanager
def small_disk(directory: Path) -> Iterator[None]:
    """Put a file system of its own, and of few bytes, in a directory's place."""
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only the superuser can make a disk that is really full")
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"can't mount: {done.stderr}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_a_disk_that_fills_up_under_a_waiting_writer_fails_the_write(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk):
        done = subprocess.run(
            [sys.executable, "-c", FASTER_THAN_THE_DISK, str(disk / "store")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=60,
        )

    assert "the disk is full; free space" in done.stdout
    assert "No space left on device" in done.stdout


def test_a_writer_faster_than_the_disk_waits_and_loses_nothing(tmp_path: Path) -> None:
    def small(_: str, options: Any) -> None:
        options.set_write_buffer_size(64 << 10)
        options.set_max_write_buffer_number(2)
        options.set_level_zero_slowdown_writes_trigger(2)

    engine = RocksDBEngine("s", timestamped=False)
    engine.open(tmp_path, small)

    for number in range(30):
        engine.write({b"%d-%d" % (number, i): bytes(10_000) for i in range(20)}, {b"t-0": b"x"})

    assert len(list(engine.range(None, None))) == 30 * 20
    engine.close()


def test_a_store_with_as_many_files_as_stall_it_closes_although_nothing_merges_them(
    tmp_path: Path,
) -> None:
    """Its last flush does not wait for a merge that never comes: each file is half the last."""

    def easily_stalled(_: str, options: Any) -> None:
        options.set_level_zero_slowdown_writes_trigger(2)

    for number in range(6):
        engine = RocksDBEngine("s", timestamped=False)
        engine.open(tmp_path, easily_stalled)
        value = os.urandom(320_000 >> number)
        engine.write({b"%d" % number: value}, {b"t-0": b"%d" % number})
        engine.close()

    engine = RocksDBEngine("s", timestamped=False)
    engine.open(tmp_path)
    assert len(list(engine.range(None, None))) == 6
    assert engine.metadata()[b"t-0"] == b"5"
    engine.close()


class Full:
    """In RocksDB's place, because files are merged too soon to come near to a stall at will.

    Args:
        files: How many files it has that were not merged.
        pending_bytes: How much is to be merged.
    """

    def __init__(self, files: str | None, pending_bytes: int | None) -> None:
        self._files, self._pending_bytes = files, pending_bytes
        self.set: list[Mapping[str, str]] = []

    def property_value(self, _: str) -> str | None:
        return self._files

    def property_int_value(self, _: str) -> int | None:
        return self._pending_bytes

    def set_options(self, options: Mapping[str, str]) -> None:
        self.set.append(options)


@pytest.mark.parametrize(
    ("files", "pending_bytes", "own_options", "lifted"),
    [
        ("9", 0, False, False),
        ("9", 0, True, True),
        ("10", 0, False, True),
        ("0", 32 << 30, False, True),
        (None, 0, False, True),
        ("0", None, False, True),
    ],
)
def test_what_makes_writers_wait_is_lifted_near_it_before_a_store_closes(
    files: str | None, pending_bytes: int | None, own_options: bool, lifted: bool
) -> None:
    native: Any = Full(files, pending_bytes)

    lift_stalls(native, own_options=own_options)

    assert bool(native.set) is lifted


def test_a_store_that_nothing_stalls_closes_without_a_file_of_options(tmp_path: Path) -> None:
    """Each is synced: a process that closes a hundred stores would wait for hundreds of them."""
    engine = RocksDBEngine("s", timestamped=False)
    engine.open(tmp_path)
    engine.write({b"k": b"v"}, {b"t-0": b"x"})
    before = set(tmp_path.rglob("OPTIONS-*"))

    engine.close()

    assert set(tmp_path.rglob("OPTIONS-*")) == before != set()


class Stalled:
    """In RocksDB's place, because it can't be brought to this at will: it takes no writes.

    Args:
        failures: Background errors it has counted.
        tries: How often it refuses a write.
    """

    def __init__(self, failures: int, tries: int) -> None:
        self._failures = failures
        self.tries = tries
        self.written: list[WriteBatch] = []

    def write(self, batch: WriteBatch, _: object) -> None:
        if self.tries:
            self.tries -= 1
            raise RuntimeError("Result incomplete: Write stall")
        self.written.append(batch)

    def property_int_value(self, name: str) -> int:
        return {"rocksdb.background-errors": self._failures, "rocksdb.is-write-stopped": 1}[name]


def test_a_stall_after_background_errors_is_told_after_a_while() -> None:
    native: Any = Stalled(failures=3, tries=10_000)

    with pytest.raises(writing.StalledForeverError, match="failed 3 times"):
        writing.write(native, lambda: WriteBatch(raw_mode=True), writing.write_options(), 0.01)

    assert native.written == []


def test_a_stall_without_background_errors_is_waited_out() -> None:
    native: Any = Stalled(failures=0, tries=5)
    batches: list[WriteBatch] = []

    def make_batch() -> WriteBatch:
        batches.append(WriteBatch(raw_mode=True))
        return batches[-1]

    writing.write(native, make_batch, writing.write_options(), hopeless_after_s=0)

    assert len(batches) == 2
    assert native.written[-1] is batches[-1]
