"""Idle stores make room in the shared memtables, and are whole commits when they are flushed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pystreams.stores.engines.rocksdb import MEMORY, RocksDBEngine
from pystreams.stores.engines.rocksdb.idle_memtables import IDLE_MEMTABLES

ROOT = Path(__file__).parents[3]
MEBIBYTE = 1 << 20
IDLE_STORES = 14

# A busy store beside nine idle ones that together fill the memtables, of the same thread or of
# another one; prints how many files the busy one was flushed to. The budget is the process's, so
# nobody else's memtables may be in it.
BUSY = """
import os, pathlib, sys, threading
from pystreams.stores.engines.rocksdb import MEMORY, RocksDBEngine

MEMORY.configure(1 << 20, 16 << 20)
engines = [RocksDBEngine(f"s{number}", timestamped=False) for number in range(10)]
for number, engine in enumerate(engines):
    engine.open(pathlib.Path(sys.argv[1], str(number)))

def fill():
    for engine in engines[1:]:
        engine.write({os.urandom(8): bytes(1000) for _ in range(1500)}, {b"t-0": b"1"})

if sys.argv[2] == "another thread":
    other = threading.Thread(target=fill)
    other.start()
    other.join()
else:
    fill()
files = set()
for commit in range(60):
    engines[0].write({os.urandom(8): bytes(100) for _ in range(100)}, {b"t-0": b"%d" % commit})
    files |= {path.name for path in pathlib.Path(sys.argv[1], "0").glob("*.sst")}
print(len(files))
"""

# Each thread counts what its stores held when they were opened again.
COMING_AND_GOING = """
import os, pathlib, sys
from concurrent.futures import ThreadPoolExecutor
from pystreams.stores.engines.rocksdb import MEMORY, RocksDBEngine

MEMORY.configure(1 << 20, 1 << 20)

def come_and_go(thread):
    right = 0
    for number in range(12):
        directory = pathlib.Path(sys.argv[1], f"{thread}-{number}")
        engine = RocksDBEngine("store", timestamped=False)
        engine.open(directory)
        for commit in range(20):
            engine.write({b"%d" % commit: os.urandom(10_000)}, {b"t-0": b"%d" % commit})
        engine.close()
        engine = RocksDBEngine("store", timestamped=False)
        engine.open(directory)
        right += engine.metadata()[b"t-0"] == b"19" and len(list(engine.range(None, None))) == 20
        engine.close()
    print(right)

with ThreadPoolExecutor(2) as threads:
    list(threads.map(come_and_go, range(2)))
"""

# One busy store, and four that are written every fiftieth commit. Commit n of a store writes ten
# keys and the offset n; a key's value is the commit that wrote it.
WRITER = """
import pathlib, sys
from pystreams.stores.engines.rocksdb import MEMORY, RocksDBEngine

MEMORY.configure(1 << 20, 1 << 20)
engines = [RocksDBEngine(f"s{number}", timestamped=True) for number in range(5)]
for number, engine in enumerate(engines):
    engine.open(pathlib.Path(sys.argv[1], str(number)))
commits = [0] * 5
for turn in range(1 << 40):
    number = 1 + turn // 50 % 4 if turn % 50 == 0 else 0
    commit = commits[number]
    changes = {b"k%04d" % ((commit * 10 + n) % 1000): b"%090d" % commit for n in range(10)}
    engines[number].write(changes, {b"t-0": b"%d" % commit})
    commits[number] += 1
    if turn % 100 == 0:
        print(turn, flush=True)
"""


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[list[RocksDBEngine]]:
    """A busy store and many idle ones, which together hold more than there is room for."""
    before = (MEMORY.block_cache_bytes, MEMORY.write_buffer_bytes)
    MEMORY.configure(MEBIBYTE, 16 * MEBIBYTE)
    opened = [RocksDBEngine(f"s{number}", timestamped=False) for number in range(1 + IDLE_STORES)]
    try:
        for number, engine in enumerate(opened):
            engine.open(tmp_path / str(number))
        for engine in opened[1:]:
            engine.write({os.urandom(8): bytes(1000) for _ in range(1500)}, {b"t-0": b"1"})
        yield opened
    finally:
        for engine in opened:
            engine.close()
        MEMORY.configure(*before)


@pytest.mark.parametrize("idle_stores_of", ["the same thread", "another thread"])
def test_a_busy_store_is_not_flushed_with_every_commit(tmp_path: Path, idle_stores_of: str) -> None:
    script = [sys.executable, "-c", BUSY, str(tmp_path), idle_stores_of]
    ran = subprocess.run(script, cwd=ROOT, stdout=subprocess.PIPE, check=True)

    # A flush writes two files or more, so that 60 of them would be 120.
    assert int(ran.stdout) < 60


def test_stores_that_close_while_other_threads_make_room_close_in_order(tmp_path: Path) -> None:
    """Two threads that open, fill and close stores, each beside those of the other."""
    script = [sys.executable, "-c", COMING_AND_GOING, str(tmp_path)]
    ran = subprocess.run(script, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)

    assert ran.stdout.split() == ["12"] * 2


def test_a_closed_store_is_asked_no_more(engines: list[RocksDBEngine]) -> None:
    closing = engines[1]._database
    assert closing in IDLE_MEMTABLES._databases

    engines[1].close()

    assert closing not in IDLE_MEMTABLES._databases


def test_after_sigkill_every_store_holds_what_its_offset_says(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) >= 1_500:
                writer.send_signal(signal.SIGKILL)
                break
    assert writer.returncode == -signal.SIGKILL

    flushed = []
    for number in range(5):
        engine = RocksDBEngine(f"s{number}", timestamped=True)
        engine.open(tmp_path / str(number))
        content, offset = dict(engine.range(None, None)), engine.metadata().get(b"t-0")
        engine.close()
        flushed.append(offset is not None)
        last = -1 if offset is None else int(offset)
        expected = {
            b"k%04d" % ((commit * 10 + n) % 1000): b"%090d" % commit
            for commit in range(max(0, last - 100), last + 1)
            for n in range(10)
        }
        assert content == expected
    assert any(flushed[1:]), "idle stores were flushed as well"
