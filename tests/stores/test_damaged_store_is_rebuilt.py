"""A store whose files are damaged is rebuilt from its changelog, that store alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pystreams import StateStoreCorruptedError, StoreEnvironment, Stores, TaskId, TopicPartition
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.serdes import STRING
from pystreams.stores.engines.rocksdb import RocksDBEngine
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.stores.managed import look_at_changelogs

TASK = TaskId(0, 0)


def builder(name: str) -> StoreSpecBuilder:
    return Stores.key_value_store_builder(Stores.persistent_key_value_store(name), STRING, STRING)


def opened(directory: Path, *, logged: bool = True) -> ProcessorStateManager:
    stores = [(builder(name), f"app-{name}-changelog", logged) for name in ("good", "bad")]
    manager = ProcessorStateManager(
        TASK, stores, StoreSettings(StoreEnvironment(application_id="app"))
    )
    manager.open(directory)
    look_at_changelogs(manager)
    return manager


def fill_and_close(manager: ProcessorStateManager) -> None:
    for name in ("good", "bad"):
        manager.store(name).put("key", "value")
    for output in manager.outputs():
        output.records.clear()
        output.last_offset = 7
    manager.commit()
    manager.close()


def damage(directory: Path) -> None:
    current = directory / "rocksdb" / "bad" / "CURRENT"
    current.write_bytes(b"not a manifest")


def damage_offsets(directory: Path) -> None:
    """Change one byte in the middle of what the column family `offsets` has on the disk."""
    topic = b"app-bad-changelog-0"
    (file,) = (
        path for path in (directory / "rocksdb" / "bad").glob("*.sst") if topic in path.read_bytes()
    )
    content = bytearray(file.read_bytes())
    content[content.index(topic) + 1] ^= 0xFF
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [damage, damage_offsets])
def test_only_the_damaged_store_starts_from_its_changelogs_beginning(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    fill_and_close(opened(tmp_path))
    damage(tmp_path)

    manager = opened(tmp_path)

    assert manager.restore_positions() == {
        TopicPartition("app-good-changelog", 0): 8,
        TopicPartition("app-bad-changelog", 0): None,
    }
    assert manager.store("good").get("key") == "value"
    assert manager.store("bad").get("key") is None
    manager.close()


def test_damaged_offsets_are_told_of_by_name_and_hold_no_lock(tmp_path: Path) -> None:
    fill_and_close(opened(tmp_path))
    damage_offsets(tmp_path)
    engine = RocksDBEngine("bad", timestamped=False)

    for _ in range(2):
        with pytest.raises(StateStoreCorruptedError, match=r"'bad'.*its files are damaged"):
            engine.open(tmp_path / "rocksdb" / "bad")


def test_a_damaged_store_without_changelog_is_refused_with_a_cure(tmp_path: Path) -> None:
    manager = opened(tmp_path, logged=False)
    for name in ("good", "bad"):
        manager.store(name).put("key", "value")
    manager.commit()
    manager.close()
    damage(tmp_path)

    with pytest.raises(StateStoreCorruptedError, match="no changelog to be rebuilt from: delete"):
        opened(tmp_path, logged=False)

    shutil.rmtree(tmp_path / "rocksdb" / "bad")
    manager = opened(tmp_path, logged=False)
    assert manager.store("good").get("key") == "value"
    assert manager.store("bad").get("key") is None
    manager.close()
