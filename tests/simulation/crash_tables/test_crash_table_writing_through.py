"""The crash table with stores that are not transactional, of every kind.

What must hold after a crash, on the disk and after a restart:

- under exactly-once nothing is said of a store that was in use, because it is rebuilt: after the
  restart every output is there once, and every store equals its changelog;
- under at-least-once every entry is at least as new as the store's offset says, and is one that
  was written; after the restart each record was counted at least once.

A store that is ahead of its changelog under at-least-once stays so where processing the record
again does not write the same keys: a session that was merged is gone from the store and not from
the changelog, a duplicate is in the store twice and in the changelog once. Kafka Streams' stores
that are not transactional do the same; it is what transactional stores are for.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pystreams import TopicPartition
from pystreams.stores.dirty_map import write_through
from pystreams.stores.files.metadata import OPEN, STATUS, pack_long
from pystreams.stores.kinds.expiring.layout import ROW, timestamp_of
from pystreams.stores.kinds.versioned.reader import SegmentIndex, Version, VersionReader
from pystreams.stores.time_segments.segments import Segments, segment_id_of
from pystreams.testing.simulation.disk import StoreFiles
from tests.every_store import BUILDERS, RETENTION_MS, replayed, without_stale_entries
from tests.simulation.crash_tables.crash_run import STEP_MS, CrashRun, live, offset_of, steps_of
from tests.variants import first_of

pytestmark = pytest.mark.simulation

EXACTLY_ONCE = ("exactly_once_v2", "exactly_once")


@pytest.fixture(autouse=True)
def _batches_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writes reach the engine in the middle of a record, and not only at the commit."""
    monkeypatch.setattr(write_through, "_BATCH_RECORDS", 2)


def closed(files: StoreFiles) -> bool:
    return files.metadata.get(STATUS) not in {None, pack_long(OPEN)}


def die_at_each_step(root: Path, guarantee: str, every: int) -> set[str]:
    """Run once a step under exactly-once and die there; return which stores were rebuilt."""
    reference = CrashRun(root / "reference", guarantee, seed=0, transactional=False)
    steps = len(steps_of(reference))
    rebuilt: set[str] = set()
    for step in range(0, steps, every):
        run = CrashRun(root / f"step-{step}", guarantee, seed=step, transactional=False)
        run.die_at(step)
        run.check_stores(trusted=closed)
        with capture_logs() as logs:
            run.go_on()
        rebuilt |= {line["store"] for line in logs if "rebuilt" in line["event"]}
        run.check_stores(up_to_the_end=True)
        run.check_outputs()
    return rebuilt


@pytest.mark.parametrize("guarantee", first_of(*EXACTLY_ONCE))
def test_crash_at_a_step_rebuilds_every_store_that_was_in_use(
    guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(tmp_path, guarantee, every=23) == BUILDERS.keys()


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("guarantee", EXACTLY_ONCE)
def test_crash_at_every_single_step_rebuilds_every_store_that_was_in_use(
    guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(tmp_path, guarantee, every=1) == BUILDERS.keys()


# At least once


def die_at_each_step_at_least_once(root: Path, every: int) -> int:
    """Run once a step and die there; return how many stores were ahead of their offset."""
    reference = CrashRun(root / "reference", "at_least_once", seed=0, transactional=False)
    steps = len(steps_of(reference))
    ahead = 0
    for step in range(0, steps, every):
        run = CrashRun(root / f"step-{step}", "at_least_once", seed=step, transactional=False)
        run.die_at(step)
        for _, name, files in run.process.disk.stores():
            ahead += is_ahead(name, files, reference)
        run.go_on()
        run.check_outputs_at_least_once()
        check_stores_after_the_restart(run)
    return ahead


def is_ahead(name: str, files: StoreFiles, reference: CrashRun) -> bool:
    """Check each entry of a store; return whether one is newer than the store's offset says.

    Until a crash all runs write the same records, so that the reference says what came after.
    """
    changelog = TopicPartition(f"app-{name}-changelog", 0)
    offset = offset_of(changelog, files)
    logged = reference.app.broker.log(changelog).committed_records()
    first = [message for message in logged if message.message_offset <= offset]
    expected, oldest_live = replayed(name, first)
    spec = BUILDERS[name].spec
    held = without_stale_entries(spec, live(files, oldest_live))
    expected = without_stale_entries(spec, expected)
    later = [replayed(name, logged[:end])[0] for end in range(len(first), len(logged) + 1)]
    for key in held.keys() | expected.keys():
        written = [state.get(key) for state in later]
        assert held.get(key) in written, f"store {name} at offset {offset}: {key!r}"
    return held != expected


def check_stores_after_the_restart(run: CrashRun) -> None:
    """Compare the stores with their changelogs, as far as they must agree."""
    for _, name, files in run.process.disk.stores():
        changelog = TopicPartition(f"app-{name}-changelog", 0)
        logged = run.app.broker.log(changelog).committed_records()
        assert offset_of(changelog, files) >= logged[-1].message_offset, f"store {name} is behind"
        expected, oldest_live = replayed(name, logged)
        held = live(files, oldest_live)
        if name == "duplicates":
            assert expected.items() <= held.items(), name
        elif name == "session":
            assert held.items() <= expected.items(), name
        elif name == "versioned":
            assert versions(held, run.time) == versions(expected, run.time), name
        elif name == "expiring":
            over = run.time - RETENTION_MS
            assert rows_since(over, held) == rows_since(over, expected), name
        else:
            assert held == expected, name


def rows_since(time: int, held: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return rows that are not over; others may be deleted in the store, and not in the changelog.

    Whoever restores that one deletes them as well, when he sees what time it is.
    """
    rows = {key: stored for key, stored in held.items() if key[:1] == ROW}
    return {key: stored for key, stored in rows.items() if timestamp_of(stored) >= time}


def versions(rows: dict[bytes, bytes], now: int) -> list[Version | None]:
    """Return what rows answer; a tombstone that is put twice takes another place in them."""
    retention = BUILDERS["versioned"].spec.retention
    assert retention is not None
    segments = Segments(retention.retention_ms, retention.segment_interval_ms)
    segments.advance(now)
    index = SegmentIndex()
    for row in rows:
        if segment_id_of(row) >= 0:
            index.add(segment_id_of(row))
    reader = VersionReader(rows.get, index, segments)
    times = range(now - retention.retention_ms, now + 1, STEP_MS // 5)
    return [reader.as_of(key, time) for key in (b"a", b"b") for time in times]


def test_crash_at_a_step_leaves_at_least_what_the_offset_says(tmp_path: Path) -> None:
    assert die_at_each_step_at_least_once(tmp_path, every=11) > 0


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_crash_at_every_single_step_leaves_at_least_what_the_offset_says(tmp_path: Path) -> None:
    assert die_at_each_step_at_least_once(tmp_path, every=1) > 0
