"""Checkpoint files of stores that persist and do not manage their offsets."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import ChangelogLossError, StateStoreError, TopicPartition
from pystreams.record import StaticMessage
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.stores.files.checkpoint_file import (
    CheckpointFileError,
    read_checkpoint,
    write_checkpoint,
)
from tests.stores.custom import (
    CustomStore,
    OffsetKeepingStore,
    SqliteStore,
    TellingStore,
    files_of,
)
from tests.stores.managed import (
    changelog,
    commit,
    in_another_process,
    look_at_changelogs,
    manager_of,
    opened,
    send,
)

CUSTOM = changelog("custom")
OTHER = changelog("other")
EITHER = pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly"])


def file_of(directory: Path, store: str = "custom") -> Path:
    return directory / f".checkpoint_{store}"


def start(
    directory: Path, *, exactly_once: bool = False, kind: type[SqliteStore] = SqliteStore
) -> ProcessorStateManager:
    return opened(directory, CustomStore("custom", kind), exactly_once=exactly_once)


def put(manager: ProcessorStateManager, *keys: str, store: str = "custom") -> None:
    for key in keys:
        manager.store(store).put(key, "value")


def content(manager: ProcessorStateManager, store: str = "custom") -> list[str]:
    return [key for key, _ in manager.store(store).all()]


def rebuilt(logs: list[Any]) -> list[str]:
    return [line["store"] for line in logs if "rebuilt from its changelog" in line["event"]]


def restored(manager: ProcessorStateManager, first: int, count: int) -> None:
    topic, partition = CUSTOM
    manager.restore(
        CUSTOM,
        [
            StaticMessage(topic, partition, offset, f"{offset:06}".encode(), b"v", 0)
            for offset in range(first, first + count)
        ],
    )


# At-least-once


def test_the_file_is_written_when_the_store_is_made(tmp_path: Path) -> None:
    manager = start(tmp_path)

    assert file_of(tmp_path).read_text() == "0\n1\napp-custom-changelog 0 -4\n"
    assert manager.restore_positions() == {CUSTOM: None}
    manager.close()


def test_the_file_is_written_at_the_close(tmp_path: Path) -> None:
    manager = start(tmp_path)
    put(manager, "a", "b")
    commit(manager, custom=0)
    manager.close()
    assert read_checkpoint(file_of(tmp_path)) == {CUSTOM: 1}

    again = start(tmp_path)

    assert again.restore_positions() == {CUSTOM: 2}
    assert content(again) == ["a", "b"]
    again.close()


def test_the_file_follows_after_ten_thousand_changelog_records(tmp_path: Path) -> None:
    manager = start(tmp_path)
    put(manager, "a")
    commit(manager, custom=9_999)
    assert read_checkpoint(file_of(tmp_path)) == {CUSTOM: None}
    put(manager, "a")
    commit(manager, custom=10_000)
    assert read_checkpoint(file_of(tmp_path)) == {CUSTOM: 10_000}
    put(manager, "a")
    commit(manager, custom=20_000)
    assert read_checkpoint(file_of(tmp_path)) == {CUSTOM: 10_000}
    assert manager.restore_positions() == {CUSTOM: 20_001}
    manager.close()


def test_a_long_restore_is_kept_as_well(tmp_path: Path) -> None:
    manager = start(tmp_path)
    restored(manager, 0, 5)
    assert read_checkpoint(file_of(tmp_path)) == {CUSTOM: None}
    restored(manager, 10_490, 10)
    assert read_checkpoint(file_of(tmp_path)) == {CUSTOM: 10_499}
    restored(manager, 10_500, 10)
    assert read_checkpoint(file_of(tmp_path)) == {CUSTOM: 10_499}
    manager.close()

    assert read_checkpoint(file_of(tmp_path)) == {CUSTOM: 10_509}


def test_a_rollback_keeps_the_offset(tmp_path: Path) -> None:
    manager = start(tmp_path)
    put(manager, "a")
    commit(manager, custom=0)
    put(manager, "b")

    with capture_logs() as logs:
        manager.rollback()

    assert rebuilt(logs) == []
    assert manager.restore_positions() == {CUSTOM: 1}
    assert content(manager) == ["a", "b"]
    manager.close()
    assert read_checkpoint(file_of(tmp_path)) == {CUSTOM: 0}


# Exactly-once


def test_exactly_once_has_a_file_between_a_clean_close_and_the_next_start_only(
    tmp_path: Path,
) -> None:
    manager = start(tmp_path, exactly_once=True)
    assert not file_of(tmp_path).exists()
    put(manager, "a")
    commit(manager, custom=20_000)
    assert not file_of(tmp_path).exists()
    manager.close()
    assert read_checkpoint(file_of(tmp_path)) == {CUSTOM: 20_000}

    with capture_logs() as logs:
        again = start(tmp_path, exactly_once=True)

    assert rebuilt(logs) == []
    assert not file_of(tmp_path).exists()
    assert again.restore_positions() == {CUSTOM: 20_001}
    assert content(again) == ["a"]
    again.close()


@pytest.mark.parametrize("sent", [False, True])
def test_exactly_once_closed_with_uncommitted_writes_it_is_wiped_and_restored(
    tmp_path: Path, sent: bool
) -> None:
    manager = start(tmp_path, exactly_once=True)
    put(manager, "a")
    commit(manager, custom=0)
    put(manager, "b")
    if sent:
        send(manager, {"custom": 1})
    manager.close()
    assert not file_of(tmp_path).exists()

    with capture_logs() as logs:
        again = start(tmp_path, exactly_once=True)

    assert rebuilt(logs) == ["custom"]
    assert again.restore_positions() == {CUSTOM: None}
    assert content(again) == []
    again.close()


def test_exactly_once_a_rollback_wipes_and_restores_it_alone(tmp_path: Path) -> None:
    manager = opened(
        tmp_path,
        CustomStore("custom"),
        CustomStore("other"),
        CustomStore("keeping", OffsetKeepingStore),
        exactly_once=True,
    )
    for store in ("custom", "other", "keeping"):
        put(manager, "a", store=store)
    commit(manager, custom=0, other=0, keeping=0)
    for store in ("custom", "keeping"):
        put(manager, "b", store=store)
    send(manager, {"custom": 1, "keeping": 1})

    with capture_logs() as logs:
        manager.rollback()
        look_at_changelogs(manager)

    assert rebuilt(logs) == ["custom"]
    assert manager.restore_positions() == {CUSTOM: None, OTHER: 1, changelog("keeping"): 1}
    assert content(manager) == []
    assert content(manager, "other") == ["a"]
    assert content(manager, "keeping") == ["a"]
    manager.close()


def test_a_restore_that_was_cut_short_goes_on_where_it_was(tmp_path: Path) -> None:
    manager = start(tmp_path, exactly_once=True)
    restored(manager, 0, 10)
    manager.close()

    again = start(tmp_path, exactly_once=True)

    assert again.restore_positions() == {CUSTOM: 10}
    again.close()


# Kills


def killed_with_uncommitted_writes(directory: str, guarantee: str) -> None:
    manager = start(Path(directory), exactly_once=guarantee == "exactly_once")
    put(manager, "a")
    commit(manager, custom=10_001)
    put(manager, "b")
    commit(manager, custom=10_002)
    put(manager, "c")
    os.kill(os.getpid(), signal.SIGKILL)


def test_killed_at_least_once_it_restores_from_the_last_file_over_its_data(
    tmp_path: Path,
) -> None:
    assert in_another_process(killed_with_uncommitted_writes, tmp_path, "at_least_once") is None

    with capture_logs() as logs:
        again = start(tmp_path)

    assert rebuilt(logs) == []
    assert again.restore_positions() == {CUSTOM: 10_002}
    assert content(again) == ["a", "b", "c"]
    again.close()


def test_killed_exactly_once_it_is_wiped_and_restored(tmp_path: Path) -> None:
    assert in_another_process(killed_with_uncommitted_writes, tmp_path, "exactly_once") is None

    with capture_logs() as logs:
        again = start(tmp_path, exactly_once=True)

    assert rebuilt(logs) == ["custom"]
    assert again.restore_positions() == {CUSTOM: None}
    assert content(again) == []
    again.close()


def in_topic(directory: Path, topic_id: str) -> ProcessorStateManager:
    """Open its state where its changelog is the topic of that id."""
    manager = manager_of(CustomStore("custom", SqliteStore), exactly_once=True)
    manager.open(directory)
    manager.identify(CUSTOM, topic_id)
    return manager


def killed_in_the_first_topic(directory: str) -> None:
    manager = in_topic(Path(directory), "first")
    look_at_changelogs(manager)
    put(manager, "a")
    commit(manager, custom=0)
    os.kill(os.getpid(), signal.SIGKILL)


def test_killed_exactly_once_it_is_not_wiped_when_its_changelog_was_made_again_meanwhile(
    tmp_path: Path,
) -> None:
    assert in_another_process(killed_in_the_first_topic, tmp_path) is None

    for _ in range(2):
        manager = in_topic(tmp_path, "second")
        with pytest.raises(ChangelogLossError, match="its offset is of another topic"):
            look_at_changelogs(manager)
        manager.close()

    kept = start(tmp_path)
    assert content(kept) == ["a"]
    kept.close()


def killed_early(directory: str) -> None:
    manager = start(Path(directory))
    put(manager, "a")
    os.kill(os.getpid(), signal.SIGKILL)


def test_killed_before_any_offset_was_known_it_is_wiped_and_restored(tmp_path: Path) -> None:
    """All is restored anyway; what compaction has since removed must not stay."""
    assert in_another_process(killed_early, tmp_path) is None

    with capture_logs() as logs:
        again = start(tmp_path)

    assert rebuilt(logs) == ["custom"]
    assert content(again) == []
    again.close()


# Files of others


@EITHER
def test_a_rebuilt_store_is_at_its_changelogs_beginning(tmp_path: Path, exactly_once: bool) -> None:
    manager = start(tmp_path, exactly_once=exactly_once)
    put(manager, "a")
    commit(manager, custom=0)

    assert manager.rebuild(CUSTOM) == "custom"

    assert manager.restore_positions() == {CUSTOM: None}
    assert content(manager) == []
    manager.close()


@EITHER
def test_a_store_that_manages_its_offsets_has_no_file(tmp_path: Path, exactly_once: bool) -> None:
    keeping = CustomStore("keeping", OffsetKeepingStore)
    manager = opened(tmp_path, keeping, exactly_once=exactly_once)
    put(manager, "a", store="keeping")
    commit(manager, keeping=0)
    put(manager, "b", store="keeping")
    manager.close()

    again = opened(tmp_path, keeping, exactly_once=exactly_once)

    assert not file_of(tmp_path, "keeping").exists()
    assert again.restore_positions() == {changelog("keeping"): 1}
    assert content(again, "keeping") == ["a"]
    again.close()


def older_layout(directory: Path, kind: type[SqliteStore]) -> None:
    """A store with one entry, whose offset is in the file of its task."""
    manager = start(directory, kind=kind)
    put(manager, "a")
    commit(manager, custom=0)
    manager.close()
    file_of(directory).rename(directory / ".checkpoint")


@EITHER
def test_the_tasks_file_of_an_older_layout_is_taken_in_by_a_store_that_holds_data(
    tmp_path: Path, exactly_once: bool
) -> None:
    older_layout(tmp_path, TellingStore)

    with capture_logs() as logs:
        again = start(tmp_path, exactly_once=exactly_once, kind=TellingStore)

    assert rebuilt(logs) == []
    assert again.restore_positions() == {CUSTOM: 1}
    assert content(again) == ["a"]
    assert not (tmp_path / ".checkpoint").exists()
    assert file_of(tmp_path).exists() is not exactly_once
    again.close()
    assert read_checkpoint(file_of(tmp_path)) == {CUSTOM: 0}


@EITHER
def test_the_tasks_file_says_nothing_of_a_store_that_is_empty(
    tmp_path: Path, exactly_once: bool
) -> None:
    older_layout(tmp_path, TellingStore)
    shutil.rmtree(files_of(tmp_path, "custom"))

    for _ in range(2):
        manager = start(tmp_path, exactly_once=exactly_once, kind=TellingStore)
        assert manager.restore_positions() == {CUSTOM: None}
        assert not (tmp_path / ".checkpoint").exists()
        manager.close()


@EITHER
def test_a_store_that_can_not_tell_whether_it_is_empty_is_wiped_and_restored(
    tmp_path: Path, exactly_once: bool
) -> None:
    """The file is Java's; whether the store's data are, nobody knows."""
    older_layout(tmp_path, SqliteStore)

    with capture_logs() as logs:
        again = start(tmp_path, exactly_once=exactly_once)

    assert rebuilt(logs) == ["custom"]
    assert again.restore_positions() == {CUSTOM: None}
    assert content(again) == []
    assert not (tmp_path / ".checkpoint").exists()
    again.close()


@EITHER
def test_a_store_that_keeps_its_offsets_takes_those_of_the_tasks_file_if_it_holds_data(
    tmp_path: Path, exactly_once: bool
) -> None:
    class Keeping(OffsetKeepingStore, TellingStore):
        pass

    keeping = CustomStore("keeping", Keeping)
    full, empty = tmp_path / "full", tmp_path / "empty"
    for directory in (full, empty):
        directory.mkdir()
    manager = opened(full, keeping)
    put(manager, "a", store="keeping")
    manager.stores()["keeping"].commit({})
    manager.close()

    for directory, offset in ((full, 42), (empty, None)):
        write_checkpoint(directory / ".checkpoint", {changelog("keeping"): 41})
        for _ in range(2):
            again = opened(directory, keeping, exactly_once=exactly_once)
            assert again.restore_positions() == {changelog("keeping"): offset}
            again.close()


@EITHER
def test_a_store_that_lost_its_data_beside_its_file_is_restored_from_the_beginning(
    tmp_path: Path, exactly_once: bool
) -> None:
    manager = start(tmp_path, exactly_once=exactly_once, kind=TellingStore)
    put(manager, "a")
    commit(manager, custom=0)
    manager.close()
    shutil.rmtree(files_of(tmp_path, "custom"))

    with capture_logs() as logs:
        again = start(tmp_path, exactly_once=exactly_once, kind=TellingStore)

    assert rebuilt(logs) == ["custom"]
    assert again.restore_positions() == {CUSTOM: None}
    again.close()


def test_a_file_that_can_not_be_read_is_told_and_its_store_restored(tmp_path: Path) -> None:
    start(tmp_path).close()
    file_of(tmp_path).write_bytes(b"\xff\xfe\x00")

    with capture_logs() as logs:
        again = start(tmp_path)

    assert any(str(file_of(tmp_path)) in str(line.get("reason")) for line in logs)
    assert rebuilt(logs) == ["custom"]
    again.close()


def test_a_file_that_can_not_be_written_is_told_with_a_cure(tmp_path: Path) -> None:
    (tmp_path / ".checkpoint_custom.tmp").mkdir()

    with pytest.raises(StateStoreError, match=r"'custom'.*\.checkpoint_custom.*free some space"):
        start(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "1\n0\n", "0\n2\ntopic 0 1\n", "0\n1\ntopic 0\n", "0\n1\ntopic x 1\n", "0\nmany\n"],
)
def test_text_that_is_no_checkpoint_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / ".checkpoint"
    file.write_text(text)

    with pytest.raises(CheckpointFileError, match="checkpoint"):
        read_checkpoint(file)


def test_no_file_is_no_checkpoint(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path / ".checkpoint") is None


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / ".checkpoint"
    write_checkpoint(file, {TopicPartition("topic", 0): 1})
    (tmp_path / ".checkpoint.tmp").mkdir()

    with pytest.raises(OSError, match="directory"):
        write_checkpoint(file, {TopicPartition("topic", 0): 2})

    assert read_checkpoint(file) == {TopicPartition("topic", 0): 1}
