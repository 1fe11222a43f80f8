"""A database that is filled with sorted files holds what write batches would have put there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pystreams.stores.contracts.key_value import KeyValueEngine
from pystreams.stores.engines.rocksdb import (
    BulkLoadEngine,
    RocksDBEngine,
    RocksDBSegmentEngine,
    bulk_load,
)
from pystreams.stores.time_segments.segments import segment_prefix
from tests.stores.families import families
from tests.stores.managed import ROOT

INTERVAL_MS = 60_000
RUN_ENTRIES = 50

Engine = RocksDBEngine | RocksDBSegmentEngine
ENGINES: dict[str, Callable[[], Engine]] = {
    "plain": lambda: RocksDBEngine("s", timestamped=False),
    "timestamped": lambda: RocksDBEngine("s", timestamped=True),
    "segments": lambda: RocksDBSegmentEngine("s", INTERVAL_MS),
}


@pytest.fixture(params=list(ENGINES))
def make(request: pytest.FixtureRequest) -> Callable[[], Engine]:
    """Makes the engines that a bulk load may be over."""
    return ENGINES[request.param]


def loading(make: Callable[[], Engine], directory: Path, **limits: int) -> BulkLoadEngine:
    engine = BulkLoadEngine(make(), **limits)
    engine.open(directory)
    return engine


def at(segment: int, number: int) -> bytes:
    return segment_prefix(segment) + b"%06d" % number


Batch = tuple[dict[bytes, bytes | None], dict[bytes, bytes | None], bytes | None]


def batches(seed: int) -> list[Batch]:
    """Changes in any order, the same keys again and again, deletions, and segments that expire."""
    random = Random(seed)
    made: list[Batch] = []
    for number in range(60):
        changes: dict[bytes, bytes | None] = {}
        for _ in range(random.randrange(40)):
            key = at(number // 20 + random.randrange(3), random.randrange(200))
            changes[key] = None if random.random() < 0.2 else random.randbytes(5)
        expired = segment_prefix(number // 20) if number % 20 == 0 and number else None
        made.append((changes, {b"t-0": b"%08d" % number}, expired))
    return made


def apply(engine: KeyValueEngine, made: list[Batch]) -> None:
    for changes, metadata, delete_below in made:
        engine.write(changes, metadata, delete_below=delete_below)


@pytest.mark.parametrize("seed", range(3))
def test_loaded_database_is_the_written_one(
    make: Callable[[], Engine], seed: int, tmp_path: Path
) -> None:
    written = make()
    written.open(tmp_path / "written")
    apply(written, batches(seed))
    written.close()
    loaded = loading(make, tmp_path / "loaded", run_entries=RUN_ENTRIES)
    apply(loaded, batches(seed))
    loaded.close()

    found = families(tmp_path / "loaded")
    assert found == families(tmp_path / "written")
    assert found["offsets"] == [(b"t-0", b"00000059")]


def test_reads_see_what_waits_and_what_is_ingested(
    make: Callable[[], Engine], tmp_path: Path
) -> None:
    loaded = loading(make, tmp_path, run_entries=RUN_ENTRIES)
    model: dict[bytes, bytes | None] = {}
    for changes, metadata, _ in batches(7):
        loaded.write(changes, metadata)
        model.update(changes)
        assert {key: loaded.get(key) for key in model} == model
        assert dict(zip(model, loaded.get_many(list(model)), strict=True)) == model

    live = sorted((key, value) for key, value in model.items() if value is not None)
    assert list(loaded.range(None, None)) == live
    assert list(loaded.range(None, None, reverse=True)) == live[::-1]
    loaded.close()


def test_what_waits_is_bounded_by_number_and_bytes(
    make: Callable[[], Engine], tmp_path: Path
) -> None:
    loaded = loading(make, tmp_path, run_entries=10, run_bytes=1000)
    most = 0
    for number in range(35):
        loaded.write({at(0, number): b"x" * 10}, {})
        most = max(most, len(loaded._waiting))
    for number in range(35, 40):
        loaded.write({at(0, number): b"x" * 2000}, {})
        assert not loaded._waiting
    loaded.close()

    assert most == 9
    opened = make()
    opened.open(tmp_path)
    assert sum(1 for _ in opened.range(None, None)) == 40
    opened.close()


def test_metadata_is_on_the_disk_only_when_all_data_is(
    make: Callable[[], Engine], tmp_path: Path
) -> None:
    loaded = loading(make, tmp_path)
    loaded.write({at(0, 1): b"x"}, {b"t-0": b"12345678"})
    list(loaded.range(None, None))  # Ingests.
    assert loaded.metadata() == {b"t-0": b"12345678"}
    loaded.abandon()

    opened = make()
    opened.open(tmp_path)
    assert (opened.get(at(0, 1)), opened.metadata()) == (b"x", {})
    opened.close()


def test_rows_in_order_become_files_that_are_not_written_again(tmp_path: Path) -> None:
    engine = RocksDBEngine("s", timestamped=True)
    loaded = BulkLoadEngine(engine)
    loaded.open(tmp_path)
    for number in range(5):
        rows = range(number * bulk_load.RUN_ENTRIES, (number + 1) * bulk_load.RUN_ENTRIES)
        loaded.write({b"%08d" % row: b"v" for row in rows}, {})
    data: Any = engine._data
    levels = [
        int(data.property_value(f"rocksdb.num-files-at-level{level}") or 0) for level in range(7)
    ]
    loaded.close()

    assert levels == [0, 0, 0, 0, 0, 0, 5]


FULL_DISK = """
import os, resource, signal, sys
from pathlib import Path
from pystreams.errors import StateStoreError
from pystreams.stores.engines.rocksdb import BulkLoadEngine, RocksDBEngine

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
loaded = BulkLoadEngine(RocksDBEngine("s", timestamped=True))
loaded.open(Path(sys.argv[1]))
loaded.write({os.urandom(8): os.urandom(100) for _ in range(1000)}, {b"t-0": b"12345678"})
try:
    loaded.close()
except StateStoreError as error:
    print(error)
"""


def test_full_disk_is_told_and_leaves_no_offset(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "the disk is full" in done.stdout

    engine = RocksDBEngine("s", timestamped=True)
    engine.open(tmp_path)
    assert (engine.metadata(), list(engine.range(None, None))) == ({}, [])
    engine.close()
