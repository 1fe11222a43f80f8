"""A store's position is written in the same batch as data and offsets, and never alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import Position, StoreEngine, TaskId, TopicPartition, serdes
from pystreams.runtime.maintenance.state_reading import StoreOnDisk
from pystreams.stores.build import build_store
from pystreams.stores.contracts.state_store import ChangelogIdentity
from tests.stores.support import CHANGELOG, Home, Message, spec_of

INPUT = TopicPartition("orders", 0)


class Task:
    """The task of a store: says how far the input was processed."""

    def __init__(self, directory: Path, engine: StoreEngine = StoreEngine.ROCKSDB) -> None:
        self.home = Home(directory)
        self.processed = 0
        self.spec = spec_of(engine)

    def open(self) -> Any:
        store = build_store(self.spec)
        store.init(self.home.context(position=lambda: Position({INPUT: self.processed})))
        return store


def test_a_new_store_has_no_position(tmp_path: Path) -> None:
    store = Task(tmp_path).open()

    assert store.position == Position()
    store.close()


@pytest.mark.parametrize("engine", list(StoreEngine))
def test_a_commit_takes_the_position_along(tmp_path: Path, engine: StoreEngine) -> None:
    task = Task(tmp_path, engine)
    store = task.open()
    task.processed = 7
    store.put("a", 1)
    assert store.position == Position()

    store.commit({CHANGELOG: 0})

    assert store.position == Position({INPUT: 7})
    store.close()


def test_position_and_data_come_back_together(tmp_path: Path) -> None:
    task = Task(tmp_path)
    store = task.open()
    task.processed = 7
    store.put("a", 1)
    store.commit({CHANGELOG: 3})
    task.processed = 8
    store.put("a", 2)
    store.close()

    again = task.open()

    assert again.get("a") == 1
    assert again.committed_offset(CHANGELOG) == 3
    assert again.position == Position({INPUT: 7})
    again.close()


def test_a_rollback_leaves_the_committed_position(tmp_path: Path) -> None:
    task = Task(tmp_path)
    store = task.open()
    task.processed = 7
    store.put("a", 1)
    store.commit({CHANGELOG: 3})
    task.processed = 8
    store.put("a", 2)

    store.rollback()

    assert store.position == Position({INPUT: 7})
    store.close()


def test_a_position_that_moved_alone_is_not_written(tmp_path: Path) -> None:
    """Or each commit of an idle store would cost a write."""
    task = Task(tmp_path)
    store = task.open()
    task.processed = 7
    store.put("a", 1)
    store.commit({CHANGELOG: 3})
    task.processed = 8

    store.commit({CHANGELOG: 3})

    assert store.position == Position({INPUT: 7})
    store.close()


def test_a_commit_without_offsets_keeps_the_position(tmp_path: Path) -> None:
    """Upstream once cleared it together with the offsets of stores without a changelog."""
    task = Task(tmp_path)
    store = task.open()
    task.processed = 7
    store.put("a", 1)
    store.commit({})
    task.processed = 8

    store.commit({})

    assert store.position == Position({INPUT: 7})
    store.close()


def test_a_restore_leaves_the_position_where_it_was(tmp_path: Path) -> None:
    task = Task(tmp_path)
    store = task.open()
    task.processed = 7
    store.put("a", 1)
    store.commit({CHANGELOG: 3})
    task.processed = 9

    store.restore([Message(b"a", None, 4)])

    assert store.get("a") is None
    assert store.position == Position({INPUT: 7})
    store.close()


def test_a_position_of_another_version_is_dropped_and_said_so(tmp_path: Path) -> None:
    task = Task(tmp_path)
    store = task.open()
    store._buffer._engine.write({}, {b"position": b"\x01"})
    store.close()
    again = task.open()

    with capture_logs() as logs:
        position = again.position

    assert position == Position()
    assert "version" in logs[0]["why"] or "cut off" in logs[0]["why"]
    again.close()


def test_an_offset_that_is_the_same_in_another_changelog_is_noted_as_of_that_one(
    tmp_path: Path,
) -> None:
    """As when a store that was kept is logged anew: the last offset may be that of before."""
    task, identity = Task(tmp_path), ChangelogIdentity()
    store: Any = build_store(task.spec)
    identity.is_now("the former topic")
    store.init(task.home.context(changelog_identity=identity))
    store.put("a", 1)
    store.commit({CHANGELOG: 0})
    identity.is_now("the present topic")
    assert identity.is_another

    store.commit({CHANGELOG: 0})
    store.close()

    again = ChangelogIdentity(current=identity.current)
    store.init(task.home.context(changelog_identity=again))
    assert not again.is_another
    store.close()


def told_by_files(task: Task) -> tuple[Position, bool]:
    directory = task.home.directory / "rocksdb" / task.spec.name
    store = StoreOnDisk("app", TaskId(0, 0), task.spec.name, directory)
    return store.position(), store.restored_since()


def test_a_store_that_is_restored_says_that_it_holds_more_than_its_position(
    tmp_path: Path,
) -> None:
    task = Task(tmp_path)
    store = task.open()
    task.processed = 7
    store.put("a", 1)
    store.commit({CHANGELOG: 3})
    store.close()
    before = told_by_files(task)
    store = task.open()
    store.restore([Message(b"a", serdes.LONG.serializer("")(2), 4)])
    store.commit({CHANGELOG: 4})  # As a standby does, which knows no more than the store.
    store.close()
    restored = told_by_files(task)
    store = task.open()
    task.processed = 9  # It is taken over, where the group is.
    store.commit({CHANGELOG: 4})
    store.close()

    assert before == (Position({INPUT: 7}), False)
    assert restored == (Position({INPUT: 7}), True)
    assert told_by_files(task) == (Position({INPUT: 9}), False)
