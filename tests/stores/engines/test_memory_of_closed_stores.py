"""What a closed store had in native memory is freed: options, column families, iterators."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MEBIBYTE = 1 << 20
MOST_BYTES = 30 * MEBIBYTE
"""Stores that stay open, each with its memtable, take more than 70 MiB."""

# Opens a store, writes a mebibyte, reads it, keeps iterators that are half read, and closes it;
# prints by how many bytes the process grows in 120 such rounds after the first 20.
OPENED_AGAIN_AND_AGAIN = """
import gc, os, pathlib, resource, sys
from pystreams.stores.engines.rocksdb import MEMORY, RocksDBEngine

MEMORY.configure(1 << 20, 16 << 20)
KEYS = 200
half_read = []

def open_and_close(number):
    engine = RocksDBEngine("counts", timestamped=True)
    engine.open(pathlib.Path(sys.argv[1]))
    engine.write({b"%05d" % key: os.urandom(5000) for key in range(KEYS)}, {b"t-0": b"%d" % number})
    assert sum(1 for _ in engine.range(None, None)) == KEYS
    for _ in range(3):
        half_read.append(engine.range(None, None))
        next(half_read[-1])
    engine.close()

def resident_bytes():
    gc.collect()
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()

for number in range(20):
    open_and_close(number)
before_bytes = resident_bytes()
for number in range(120):
    open_and_close(number)
print(resident_bytes() - before_bytes)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
def test_a_store_that_is_opened_and_closed_again_and_again_leaves_nothing_in_memory(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPENED_AGAIN_AND_AGAIN, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )

    assert int(done.stdout) < MOST_BYTES
