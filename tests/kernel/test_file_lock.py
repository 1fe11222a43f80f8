"""Locks on files: who is kept out, and what becomes of a file that its holder removes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pystreams.kernel.file_lock import FileLock


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def taken(file: Path, *, shared: bool = False) -> FileLock:
    lock = FileLock.taken(file, shared=shared)
    assert lock is not None
    return lock


def test_locked_file_is_nobody_elses_until_it_is_released(file: Path) -> None:
    lock = taken(file)
    assert FileLock.taken(file) is None
    assert FileLock.taken(file, shared=True) is None
    lock.release()
    taken(file).release()


def test_shared_lock_keeps_out_only_those_who_do_not_share(file: Path) -> None:
    first, second = taken(file, shared=True), taken(file, shared=True)
    first.release()
    assert FileLock.taken(file) is None
    second.release()
    taken(file).release()


def test_lock_released_twice_does_not_close_what_was_opened_since(file: Path) -> None:
    lock = taken(file)
    lock.release()
    with file.open("rb") as opened_since:
        lock.release()
        assert opened_since.read() == b""


def test_awaited_lock_comes_when_its_holder_lets_it_go(file: Path) -> None:
    held, got = taken(file), threading.Event()

    def wait() -> None:
        lock = FileLock.awaited(file)
        got.set()
        lock.release()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not got.is_set()
    held.release()
    assert got.wait(timeout=30)
    waiting.join()


def test_text_in_the_file_is_replaced_as_a_whole(file: Path) -> None:
    lock = taken(file)
    lock.write("a long text")
    lock.write("short")
    assert lock.read() == file.read_text() == "short"
    lock.release()


def test_lock_of_a_directory_that_was_just_removed_is_taken_anew(tmp_path: Path) -> None:
    directory = tmp_path / "task"
    made = 0

    def make() -> None:
        nonlocal made
        made += 1
        if made > 1:  # The first time its remover is faster.
            directory.mkdir()

    lock = FileLock.taken_in(directory / "lock", make)
    assert lock is not None
    assert lock.is_of(directory / "lock")
    assert made == 2
    lock.release()
