"""RocksDB's damage is told as damage wherever it is noticed, and nothing else is taken for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rocksdict import DBCompactionStyle

from pystreams import StateStoreCorruptedError, StateStoreError
from pystreams.stores.engines.rocksdb import RocksDBEngine
from tests.broker.waiting import wait_until
from tests.simulation.state.damaging import flip_data
from tests.stores.managed import in_another_process

CHANGES = {b"k%04d" % number: os.urandom(100) for number in range(1000)}


def merge_soon(_: str, options: Any) -> None:
    options.set_compaction_style(DBCompactionStyle.level())
    options.set_level_zero_file_num_compaction_trigger(2)


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[RocksDBEngine]:
    """An engine that has opened a store whose blocks were damaged."""
    engine = RocksDBEngine("counts", timestamped=False)
    directory = tmp_path / "rocksdb" / "counts"
    engine.open(directory)
    engine.write(CHANGES, {b"app-counts-changelog-0": bytes(8)})
    engine.close()
    flip_data(directory)
    engine.open(directory, merge_soon)
    yield engine
    engine.close()


def test_every_read_tells_it_and_none_ends_early_as_if_that_were_all(
    damaged: RocksDBEngine,
) -> None:
    key = min(CHANGES)
    reads: dict[str, Callable[[], object]] = {
        "get": lambda: damaged.get(key),
        "get_many": lambda: damaged.get_many(list(CHANGES)),
        "range": lambda: list(damaged.range(None, None)),
        "reverse range": lambda: list(damaged.range(None, None, reverse=True)),
        "bounded range": lambda: list(damaged.range(key, max(CHANGES))),
    }
    for name, read in reads.items():
        with pytest.raises(StateStoreCorruptedError, match="its files are damaged"):
            pytest.fail(f"{name} gave {read()!r}")


def test_what_a_merge_of_files_has_met_is_told_to_the_next_write(damaged: RocksDBEngine) -> None:
    """The merge runs in the background; nobody reads."""
    told: list[StateStoreCorruptedError] = []
    directory = damaged._database.directory
    damaged.write({b"k0500": b"x"}, {})
    damaged.close()  # Writes a second file: then the two are merged.

    def refused() -> bool:
        try:  # The merge may be done before the opening is.
            damaged.open(directory, merge_soon)
            damaged.write({b"k0500": b"y"}, {})
        except StateStoreCorruptedError as error:
            told.append(error)
        finally:
            damaged.close()
        return bool(told)

    wait_until(refused, "the merge")

    assert "Corruption" in str(told[0])


def test_damage_that_another_threads_read_has_met_is_told_to_the_next_write(
    damaged: RocksDBEngine,
) -> None:
    """The owner of the store rebuilds it; a query only fails."""
    failed: list[Exception] = []

    def query() -> None:
        try:
            list(damaged.range(None, None))
        except StateStoreCorruptedError as error:
            failed.append(error)

    reader = threading.Thread(target=query)
    reader.start()
    reader.join()

    assert failed
    with pytest.raises(StateStoreCorruptedError):
        damaged.write({b"more": b"x"}, {})


def open_with_few_files(directory: str) -> str:
    """Open a store in a process that may open no more files than it has open already."""
    import resource

    engine = RocksDBEngine("counts", timestamped=False)
    limit = len(list(Path("/dev/fd").iterdir())) + 6
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    try:
        engine.open(Path(directory))
    except StateStoreError as error:
        return f"{type(error).__name__} {error}"
    return "opened"


def test_too_many_open_files_are_no_damage(tmp_path: Path) -> None:
    """RocksDB says `Corruption` of a file that it may not open; the store is whole."""
    engine = RocksDBEngine("counts", timestamped=False)
    for number in range(10):
        engine.open(tmp_path)
        engine.write({b"%d" % number: bytes(100)}, {b"app-counts-changelog-0": bytes(8)})
        engine.close()

    told = in_another_process(open_with_few_files, tmp_path)

    assert told.startswith("StateStoreError ")
    assert "raise its limit (ulimit -n)" in told
    engine.open(tmp_path)
    assert len(list(engine.range(None, None))) == 10
    engine.close()


def test_a_store_whose_name_is_that_of_damage_is_not_taken_for_damaged(tmp_path: Path) -> None:
    """An error's text has the path in it."""
    directory = tmp_path / "Corruption: checksum mismatch"
    holder = RocksDBEngine("Corruption", timestamped=False)
    holder.open(directory)

    with pytest.raises(StateStoreError, match="another process or task has it open") as caught:
        RocksDBEngine("Corruption", timestamped=False).open(directory)

    assert not isinstance(caught.value, StateStoreCorruptedError)
    holder.close()


def test_a_link_to_a_disk_that_is_not_there_is_told_and_kept(tmp_path: Path) -> None:
    link = tmp_path / "rocksdb" / "counts"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "disk")

    with pytest.raises(StateStoreError, match="mount that disk or delete the link") as caught:
        RocksDBEngine("counts", timestamped=False).open(link)

    assert not isinstance(caught.value, StateStoreCorruptedError)
    assert link.is_symlink()
