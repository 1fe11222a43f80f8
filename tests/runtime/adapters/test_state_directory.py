"""The state directory: identities, locks that end with their process, clear errors."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pystreams import StateDirectoryError, TaskId
from pystreams.errors import TaskLockedError
from pystreams.runtime.adapters.state_directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

TASK = TaskId(0, 1)

HOLDER = r"""
import sys
from pystreams.ids import TaskId
from pystreams.runtime.adapters.state_directory import StateDirectory
held = StateDirectory(sys.argv[1], "app")
held.lock_task(TaskId(0, 1))
print("\nheld", held.slot, held.process_id, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds task 0_1."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.kill()


def _wait_for(process: subprocess.Popen[str]) -> list[str]:
    """Wait until the process holds the task; return its slot and identity."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("held "):
            return line.split()[1:]
    raise AssertionError("the process has ended")


def test_nobody_else_may_look_into_directories_that_are_made_whatever_the_umask(
    tmp_path: Path,
) -> None:
    before = os.umask(0)
    try:
        made = StateDirectory(tmp_path / "state", "app")
        task = made.lock_task(TaskId(0, 0))
        shared = made.global_directory()
    finally:
        os.umask(before)

    directories = [tmp_path / "state", made.directory, task, shared]
    assert [stat.S_IMODE(path.stat().st_mode) for path in directories] == [0o750] * 4
    made.close()


def test_an_identity_survives_restarts(tmp_path: Path) -> None:
    first = StateDirectory(tmp_path, "app")
    process_id = first.process_id
    assert not first.kept_identity
    assert first.directory == tmp_path / "app"
    assert stat.S_IMODE(first.directory.stat().st_mode) == 0o750
    first.close()
    first.close()

    again = StateDirectory(tmp_path, "app")
    assert (again.slot, again.process_id) == (0, process_id)
    assert again.kept_identity
    written = json.loads((tmp_path / "app" / "kafka-streams-process-metadata").read_text())
    assert written == {"processId": process_id}
    again.close()


def test_all_processes_in_a_directory_know_it_by_one_id_which_survives_restarts(
    tmp_path: Path,
) -> None:
    first, second = StateDirectory(tmp_path, "app"), StateDirectory(tmp_path, "app")
    elsewhere = StateDirectory(tmp_path / "elsewhere", "app")
    known = first.directory_id()

    assert second.directory_id() == known != elsewhere.directory_id()
    for directory in (first, second, elsewhere):
        directory.close()
    again = StateDirectory(tmp_path, "app")
    assert again.directory_id() == known
    (tmp_path / "app" / "state-directory-id").write_text("damaged")
    assert len(again.directory_id()) == 8
    again.close()


def test_an_identity_that_kafka_streams_wrote_is_taken(tmp_path: Path) -> None:
    process_id = str(uuid.uuid4())
    (tmp_path / "app").mkdir()
    metadata = tmp_path / "app" / "kafka-streams-process-metadata"
    metadata.write_text(json.dumps({"processId": process_id, "later": 1}))
    directory = StateDirectory(tmp_path, "app")
    assert directory.process_id == process_id
    directory.close()


def test_an_unreadable_identity_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    metadata = tmp_path / "app" / "kafka-streams-process-metadata"
    metadata.write_text("{torn")
    directory = StateDirectory(tmp_path, "app")
    assert json.loads(metadata.read_text()) == {"processId": directory.process_id}
    assert not directory.kept_identity
    directory.close()


def test_processes_that_share_a_directory_have_identities_of_their_own(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    slot, process_id = _wait_for(holder)
    assert slot == "0"
    here = StateDirectory(tmp_path, "app")
    assert here.slot == 1
    assert here.process_id != process_id
    assert (tmp_path / "app" / "kafka-streams-process-metadata-1").exists()
    here.close()

    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    back = StateDirectory(tmp_path, "app")
    assert (back.slot, back.process_id) == (0, process_id)
    back.close()


def test_processes_that_share_a_directory_have_the_identity_of_their_address_again(
    tmp_path: Path,
) -> None:
    def started(*addresses: str) -> dict[str, str]:
        """Return who has which identity, started in this order."""
        directories = [StateDirectory(tmp_path, "app", address) for address in addresses]
        for directory in directories:
            directory.close()
        return {
            address: directory.process_id
            for address, directory in zip(addresses, directories, strict=True)
        }

    first = started("host:1", "host:2")
    assert started("host:2", "host:1") == first
    assert started("host:2") == {"host:2": first["host:2"]}
    moved = started("host:3", "host:2")  # None was there: it takes one that is free.
    assert moved == {"host:3": first["host:1"], "host:2": first["host:2"]}
    longer = "host.of.a.longer.name:1"
    assert started("host:2", longer)[longer] == first["host:1"]
    assert started("host:2", "host:1")["host:1"] == first["host:1"]
    assert set(started("", "host:2").values()) == set(first.values())


def test_a_task_belongs_to_one_process_until_that_dies(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    _wait_for(holder)
    here = StateDirectory(tmp_path, "app")
    with pytest.raises(TaskLockedError, match="0_1") as raised:
        here.lock_task(TASK)
    assert raised.value.task_id == TASK
    assert not here.remove(TASK)
    assert (tmp_path / "app" / "0_1").is_dir()

    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert here.lock_task(TASK) == tmp_path / "app" / "0_1"
    here.close()


def test_a_task_belongs_to_one_thread(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    assert directory.lock_task(TASK) == directory.lock_task(TASK)
    refused: list[TaskLockedError] = []

    def other_thread() -> None:
        with pytest.raises(TaskLockedError) as raised:
            directory.lock_task(TASK)
        refused.append(raised.value)
        directory.lock_task(TaskId(0, 2))

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    holder = threading.current_thread().name
    assert f"held by this process's thread {holder!r}" in str(refused[0])
    assert "another process" not in str(refused[0])
    assert refused
    directory.unlock_task(TASK)
    directory.unlock_task(TASK)
    directory.close()


def test_tasks_on_the_disk_are_listed(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    for task_id in (TaskId(1, 0), TaskId(0, 10), TaskId(0, 2)):
        directory.lock_task(task_id)
    for name in ("global", "0_1x", "00_1", "1"):
        (directory.directory / name).mkdir()
    (directory.directory / "5_5").write_text("a file")
    assert directory.task_ids() == [TaskId(0, 2), TaskId(0, 10), TaskId(1, 0)]
    directory.close()


def test_a_directory_is_removed_unless_it_is_held(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    free, held = TaskId(0, 0), TaskId(0, 2)
    for task_id in (free, held):
        (directory.lock_task(task_id) / "state").write_text("state")
    directory.unlock_task(free)

    assert directory.remove(free)
    assert not directory.remove(held)
    assert directory.task_ids() == [held]
    assert directory.leftovers() == []
    directory.close()


def test_a_removed_directory_can_be_locked_again_and_is_empty(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    (directory.lock_task(TASK) / "state").write_text("state")
    directory.unlock_task(TASK)
    directory.remove(TASK)

    assert [entry.name for entry in directory.lock_task(TASK).iterdir()] == [".lock"]
    directory.close()


def test_a_directory_that_can_not_be_deleted_leaves_its_name_and_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = StateDirectory(tmp_path, "app")
    (directory.lock_task(TASK) / "state").write_text("state")
    directory.unlock_task(TASK)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", _refuse)
        with pytest.raises(StateDirectoryError, match="give this user write access"):
            directory.remove(TASK)

    assert directory.task_ids() == []
    [leftover] = directory.leftovers()
    assert (leftover / "state").read_text() == "state"
    directory.discard(leftover)
    assert directory.leftovers() == []
    directory.close()


def test_a_leftover_that_another_process_deletes_meanwhile_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = StateDirectory(tmp_path, "app")
    leftover = directory.directory / "0_1.removed-x"
    leftover.mkdir()
    rmtree = shutil.rmtree

    def after_another_one(path: Path, ignore_errors: bool = False) -> None:
        if leftover.exists():
            rmtree(leftover)
        rmtree(path, ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", after_another_one)
    directory.discard(leftover)
    assert directory.leftovers() == []
    directory.close()


def test_a_directory_is_as_old_as_its_last_holder_says(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    assert directory.last_used_ms(TASK) is None
    home = directory.lock_task(TASK)
    _age(home, 1000)
    assert directory.last_used_ms(TASK) == 1000

    directory.stamp_held()
    stamped_ms = directory.last_used_ms(TASK)
    assert stamped_ms is not None
    assert stamped_ms > 1000

    _age(home, 2000)
    directory.unlock_task(TASK)
    given_up_ms = directory.last_used_ms(TASK)
    assert given_up_ms is not None
    assert given_up_ms > 2000
    _age(home, 3000)
    directory.stamp_held()
    assert directory.last_used_ms(TASK) == 3000
    directory.close()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateDirectoryError, match=r"file/app.*a file is in the way"):
        StateDirectory(tmp_path / "file", "app")


def test_a_file_in_the_place_of_a_tasks_directory_is_named(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    file = tmp_path / "app" / "0_0"
    file.write_text("in the way")
    with pytest.raises(StateDirectoryError, match="a file is in the way: remove it") as caught:
        directory.lock_task(TaskId(0, 0))
    assert str(file) in str(caught.value)
    file.unlink()
    assert directory.lock_task(TaskId(0, 0)) == file
    directory.close()


def test_a_directory_that_can_not_be_written_is_named() -> None:
    with tempfile.TemporaryDirectory() as name:
        state_dir = Path(name) / "state"
        state_dir.mkdir()
        state_dir.chmod(0o555)
        Path(name).chmod(0o755)
        root = os.geteuid() == 0
        if root:  # Root may write anywhere.
            os.seteuid(65534)
        try:
            with pytest.raises(StateDirectoryError, match=r"state/app.*give this user write"):
                StateDirectory(state_dir, "app")
        finally:
            if root:
                os.seteuid(0)


@pytest.mark.parametrize(
    ("number", "cure"), [(errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only")]
)
def test_a_full_or_read_only_disk_names_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, cure: str
) -> None:
    directory = StateDirectory(tmp_path, "app")

    def fail(path: Path, *_: int) -> int:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(StateDirectoryError, match=f"{tmp_path}/app.*{cure}"):
        directory.lock_task(TASK)
    directory.close()


def test_a_task_is_given_up_on_a_disk_that_has_become_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = StateDirectory(tmp_path, "app")
    directory.lock_task(TASK)
    with monkeypatch.context() as patched:
        patched.setattr(os, "utime", _read_only)
        directory.unlock_task(TASK)

    directory.lock_task(TASK)
    directory.close()


def test_a_directory_that_can_not_be_stamped_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = StateDirectory(tmp_path, "app")
    with monkeypatch.context() as patched:
        patched.setattr(os, "utime", _read_only)
        with pytest.raises(StateDirectoryError, match="the file system is read-only"):
            directory.lock_task(TASK)

    directory.lock_task(TASK)
    directory.close()


def _read_only(_: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def _refuse(path: Path) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _age(directory: Path, used_ms: int) -> None:
    for path in (directory / ".lock", directory):
        os.utime(path, ns=(used_ms * 1_000_000, used_ms * 1_000_000))


def test_global_stores_of_a_process_are_removed_unless_it_runs(tmp_path: Path) -> None:
    first, second = StateDirectory(tmp_path, "app"), StateDirectory(tmp_path, "app")
    for directory in (first, second):
        (directory.global_directory() / "file").touch()
    theirs = second.global_directory()

    assert [path.name for path in first.global_directories()] == ["global", "global-1"]
    assert not first.remove_global(theirs)
    assert first.remove_global(first.global_directory())
    second.close()
    assert first.remove_global(theirs)
    assert first.global_directories() == []
    assert first.task_ids() == []
    first.close()


def test_who_waits_for_a_task_asks_for_its_directory_until_it_has_it(tmp_path: Path) -> None:
    """A standby of another process may hold it."""
    holder, waiting = StateDirectory(tmp_path, "app"), StateDirectory(tmp_path, "app")
    holder.lock_task(TaskId(0, 1))
    with pytest.raises(TaskLockedError):
        waiting.lock_task(TaskId(0, 1))
    waiting.ask_for(TaskId(0, 1))
    asked = [holder.is_asked_for(TaskId(0, number)) for number in range(2)]
    holder.unlock_task(TaskId(0, 1))
    waiting.lock_task(TaskId(0, 1))

    assert asked == [False, True]
    assert not holder.is_asked_for(TaskId(0, 1))
    assert waiting.task_ids() == [TaskId(0, 1)]
    holder.close()
    waiting.close()
