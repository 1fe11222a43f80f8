"""The crash table of stores in memory, of every kind, and of stores that cache.

Of a store in memory nothing outlives a crash. When it has been restored it holds what its
changelog does, and nothing that was aborted; a store of limited size holds its newest keys. A store
that caches loses what it held back, and nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams.stores.dirty_map import write_through
from tests.every_store import BUILDERS, IN_MEMORY, NEWEST_KEYS, WriteInMemory, cached
from tests.simulation.crash_tables.crash_run import CrashRun, die_at_each_step, steps_of
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once", "at_least_once")
WITH_CACHE = {"statestore_cache_max_bytes": 1 << 20}


class InMemoryRun(CrashRun):
    """All stores in memory: the disk stays empty."""

    builders = IN_MEMORY
    write = WriteInMemory

    def until_running(self) -> None:
        """Also: which key of limited size goes next is told by the changelog."""
        super().until_running()
        if "newest" in self.left_out:
            return
        puts = [put for put in self.logged("newest") if put.message_value is not None]
        newest = list(dict.fromkeys(reversed([put.message_key for put in puts])))
        used_last = list(reversed(self.newest()._uses))
        assert used_last == [key for key in newest if key in self.newest()._uses]

    def check_open_stores(self) -> None:
        """Also: a store of limited size has deleted what it evicted from its changelog."""
        super().check_open_stores()
        if "newest" in self.left_out:
            return
        held = dict(self.newest().engine_range(None, None))
        assert held == self.app.broker.log(self.changelog_of("newest")).compacted()
        assert len(held) <= NEWEST_KEYS
        assert held.keys() == set(self.newest()._uses)

    def newest(self) -> Any:
        """Return the bytes-level store of limited size."""
        [task] = self.tasks()
        store: Any = task.state_manager.stores()["newest"]
        return store._buffer


class CachingRun(CrashRun):
    """Stores on the disk that cache."""

    builders = cached(BUILDERS)
    config = WITH_CACHE


class CachingInMemoryRun(InMemoryRun):
    """Stores in memory that cache."""

    builders = cached(IN_MEMORY)
    config = WITH_CACHE


class WritingThroughInMemoryRun(InMemoryRun):
    """Stores in memory that are not transactional: no crash finds them ahead either."""

    def __init__(self, root: Path, guarantee: str, seed: int) -> None:
        super().__init__(root, guarantee, seed, transactional=False)
        self.exact = True


@pytest.fixture(autouse=True)
def _batches_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writes reach such an engine in the middle of a record, and not only at the commit."""
    monkeypatch.setattr(write_through, "_BATCH_RECORDS", 2)


KINDS = [InMemoryRun, CachingRun, CachingInMemoryRun]
each_kind = pytest.mark.parametrize("kind", [*KINDS, WritingThroughInMemoryRun])
each_guarantee = pytest.mark.parametrize("guarantee", GUARANTEES)


# Otherwise the crashes below would miss what they are for


def test_the_run_evicts_keys_and_writes_to_no_disk(tmp_path: Path) -> None:
    run = InMemoryRun(tmp_path, "exactly_once", seed=0)
    steps = "\n".join(steps_of(run))

    assert " write " not in steps
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    run.app.broker.settle()
    evicted = [entry for entry in run.logged("newest") if entry.message_value is None]
    assert len(evicted) > NEWEST_KEYS


def test_the_run_logs_only_the_last_update_of_a_cached_key(tmp_path: Path) -> None:
    logged = {}
    for kind in (CrashRun, CachingRun):
        run = kind(tmp_path / kind.__name__, "exactly_once", seed=0)
        run.run()
        run.app.broker.settle()
        logged[kind] = {name: len(run.logged(name)) for name in BUILDERS}
    for name in ("plain", "timestamped"):
        assert logged[CachingRun][name] < logged[CrashRun][name], name


# The tables


@each_kind
@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_crash_at_a_step_leaves_every_store_with_what_its_offset_says(
    kind: type[CrashRun], guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=11) > 5


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@each_kind
@each_guarantee
def test_crash_at_every_single_step_leaves_every_store_with_what_its_offset_says(
    kind: type[CrashRun], guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=1) > 60
