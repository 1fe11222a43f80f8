"""The state directory: who this process is, and which tasks' directories it holds.

    <state.dir>/<application.id>/
      kafka-streams-process-metadata        {"processId": "<uuid>"}, held by the first process; with
                                            "applicationServer", if the process has told one
      kafka-streams-process-metadata-<n>    the same for further ones, n = 1, 2, ...
      state-directory-id                    what all of them tell the group of the directory
      0_1/.lock  0_1/...                    one directory a task
      0_1.removed-<uuid>/                   one that is being removed
      0_1.asked-for                         a task waits for one that a standby holds
      global/                               global stores of the first process
      global-<n>/                           the same of further ones: each has all of them

Several processes of an application may share the directory. Each takes the first identity that
is free and keeps it for its life, so that after a restart it is the same member of the group with
the same transactional ids: those first that were at its address, as the group goes on to tell where
a member answers. What it owns is locked (`file_lock`), and free when it has ended.

Differs from Kafka: one process a directory there, with one `.lock`, and locks of tasks only
between threads; `.lock` files in task directories are from before 2.8. The first identity's file
and the layout of the task directories are the same.
"""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from pystreams.errors import StateDirectoryError, TaskLockedError
from pystreams.ids import TaskId
from pystreams.kernel.file_lock import FileLock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.directory_id import id_in

_log = get_logger("pystreams.state")

PROCESS_FILE = "kafka-streams-process-metadata"
LOCK_FILE = ".lock"
GLOBAL = "global"

_DIRECTORY_MODE = 0o750
_REMOVED = ".removed-"
_ASKED_FOR = ".asked-for"
_SLOTS_MAX = 1000
_CURES = {
    errno.EACCES: "give this user write access, or set another state.dir",
    errno.EPERM: "give this user write access, or set another state.dir",
    errno.EROFS: "the file system is read-only: set another state.dir",
    errno.ENOSPC: "the disk is full: free some space, or set another state.dir",
    errno.EDQUOT: "the quota is used up: free some space, or set another state.dir",
    errno.ENOTDIR: "a file is in the way: remove it, or set another state.dir",
    errno.EEXIST: "a file is in the way: remove it, or set another state.dir",
    errno.ENOLCK: "the file system has no locks: set a state.dir on a local disk",
}

_T = TypeVar("_T")


class StateDirectory:
    """The part of a state directory that belongs to this process.

    May be used from any thread; a task's directory belongs to the thread that locked it.

    Args:
        address: Where this process answers (`application.server`); empty if it tells nothing.

    Raises:
        StateDirectoryError: The directory can't be made, read or written; says what to do.

    Attributes:
        directory: `<state.dir>/<application.id>`.
        slot: Number of this process among those that share the directory, from 0.
        process_id: Identity of this process, the same after a restart.
        kept_identity: Whether the identity was there before this run: one made in it may lie on a
            disk that ends with the process.
    """

    def __init__(self, state_dir: Path | str, application_id: str, address: str = "") -> None:
        self.directory = Path(state_dir).absolute() / application_id
        self._address = address
        self._lock = threading.Lock()
        self._held: dict[TaskId, tuple[FileLock, threading.Thread]] = {}
        self._attempt(self._make)
        if self.directory.is_relative_to(tempfile.gettempdir()):
            message = "state lies in the temporary directory: set state.dir to keep it for good"
            _log.info(message, state_directory=str(self.directory))
        self.slot, self._slot_lock = self._attempt(self._take_slot)
        self.process_id, self.kept_identity = self._attempt(self._identify)

    def close(self) -> None:
        """Give up all locks."""
        with self._lock:
            for lock, _ in self._held.values():
                lock.release()
            self._held.clear()
            self._slot_lock.release()

    def close_copies(self) -> None:
        """Close what a child process has of the locks by `os.fork`; this process keeps them.

        It waits for no thread: the child has none of those that use this. What it has closed by
        itself may be something else by now, and is left alone.
        """
        copies = [(self._slot_lock, self._process_file(self.slot))]
        for task_id, (lock, _) in list(self._held.items()):
            copies.append((lock, self.directory / str(task_id) / LOCK_FILE))
        for lock, file in copies:
            with contextlib.suppress(OSError):
                if lock.is_of(file):
                    lock.release()

    def rename(self, process_id: uuid.UUID) -> None:
        """Take another identity in this run, before anybody was told the one it has.

        Raises:
            StateDirectoryError: It can't be written.
        """
        self.process_id = self._attempt(partial(self._keep, process_id))

    def directory_id(self) -> str:
        """Return what tells the directory from others; whoever asks first makes it.

        Raises:
            StateDirectoryError: It can't be read, or written.
        """
        return self._attempt(partial(id_in, self.directory / "state-directory-id"))

    # ------------------------------------------------------------------ tasks

    def lock_task(self, task_id: TaskId) -> Path:
        """Return the task's directory, made if needed and locked for the calling thread.

        Raises:
            TaskLockedError: Another process or thread holds it.
            StateDirectoryError: It can't be made or written.
        """
        directory = self.directory / str(task_id)
        with self._lock:
            held = self._held.get(task_id)
            if held is not None:
                if held[1] is not threading.current_thread():
                    raise TaskLockedError(task_id, str(directory), held[1].name)
                return directory
            lock = self._attempt(partial(_lock_directory, directory))
            if lock is None:
                raise TaskLockedError(task_id, str(directory))
            try:
                self._attempt(lock.stamp)
            except StateDirectoryError:
                lock.release()
                raise
            self._held[task_id] = (lock, threading.current_thread())
        self._attempt(partial(self._wish(task_id).unlink, missing_ok=True))
        return directory

    def ask_for(self, task_id: TaskId) -> None:
        """Ask whoever keeps a task warm in its directory to give that up, in any process.

        Raises:
            StateDirectoryError: The wish can't be written.
        """
        self._attempt(self._wish(task_id).touch)

    def is_asked_for(self, task_id: TaskId) -> bool:
        """Return whether somebody asks for a directory that is held here."""
        return self._wish(task_id).exists()

    def unlock_task(self, task_id: TaskId) -> None:
        """Give a task's directory up; safe to call when it is not held."""
        with self._lock:
            held = self._held.pop(task_id, None)
            if held is not None:
                with contextlib.suppress(OSError):  # It only tells how old the directory is.
                    held[0].stamp()
                held[0].release()

    def global_directory(self) -> Path:
        """Return the directory of this process's global stores, made if needed."""
        directory = self.directory / (f"{GLOBAL}-{self.slot}" if self.slot else GLOBAL)
        self._attempt(partial(directory.mkdir, _DIRECTORY_MODE, exist_ok=True))
        return directory

    def task_ids(self) -> list[TaskId]:
        """Return the tasks that have a directory on the disk, in order."""
        return self._attempt(partial(tasks_in, self.directory))

    # ------------------------------------------------------------------ age and removal

    def stamp_held(self) -> None:
        """Note that the held directories are in use now, so that a kill leaves their age right.

        Raises:
            StateDirectoryError: A file can't be written.
        """
        with self._lock:
            for lock, _ in self._held.values():
                self._attempt(lock.stamp)

    def last_used_ms(self, task_id: TaskId) -> int | None:
        """Return when a task's directory was last held or changed (wall clock, ms).

        None when there is none.

        Raises:
            StateDirectoryError: It can't be read.
        """
        return self._attempt(partial(_last_used_ms, self.directory / str(task_id)))

    def remove(self, task_id: TaskId) -> bool:
        """Remove a task's directory unless a thread or process holds it; return whether it is gone.

        It leaves its name in one step, under its lock: a task that comes meanwhile finds either
        nobody's whole directory or none, and need not wait for the deletion of many files.

        Raises:
            StateDirectoryError: It can't be removed. What is left of it is in `leftovers`, unless
                it still has its name.
        """
        directory = self.directory / str(task_id)
        with self._lock:
            if task_id in self._held:
                return False
            lock = self._attempt(partial(_lock_directory, directory))
            if lock is None:
                return False
            doomed = self._doomed(directory, lock)
        self.discard(doomed)
        return True

    def global_directories(self) -> list[Path]:
        """Return the directories of global stores there are, those of other processes too."""
        entries = self._attempt(lambda: list(self.directory.iterdir()))
        return sorted(entry for entry in entries if _slot_of_global(entry.name) is not None)

    def remove_global(self, directory: Path) -> bool:
        """Remove the global stores of a process unless it runs; return whether they are gone.

        Args:
            directory: One of `global_directories`.

        Raises:
            StateDirectoryError: It can't be removed.
        """
        slot = _slot_of_global(directory.name)
        lock = None
        if slot != self.slot:
            lock = self._attempt(partial(FileLock.taken, self._process_file(slot or 0)))
            if lock is None:
                return False
        self.discard(self._doomed(directory, lock))
        return True

    def leftovers(self) -> list[Path]:
        """Return what removals that failed or were killed have left, in no task's use any more."""
        entries = self._attempt(lambda: list(self.directory.iterdir()))
        return sorted(entry for entry in entries if _REMOVED in entry.name)

    def discard(self, leftover: Path) -> None:
        """Delete a leftover; another process may be at it, too.

        Raises:
            StateDirectoryError: It can't be deleted.
        """
        self._attempt(partial(_delete, leftover))

    # ------------------------------------------------------------------ inside

    def _make(self) -> None:
        self.directory.parent.mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)
        self.directory.mkdir(_DIRECTORY_MODE, exist_ok=True)

    def _doomed(self, directory: Path, lock: FileLock | None) -> Path:
        """Take a directory's name away, in one step, and give up its lock; return where it is."""
        doomed = self.directory / f"{directory.name}{_REMOVED}{uuid.uuid4().hex}"
        try:
            self._attempt(partial(directory.rename, doomed))
        finally:
            if lock is not None:
                lock.release()
        return doomed

    def _take_slot(self) -> tuple[int, FileLock]:
        for slot in (*self._slots_of_address(), *range(_SLOTS_MAX)):
            lock = FileLock.taken(self._process_file(slot))
            if lock is not None:
                return slot, lock
        message = f"{self.directory} is used by {_SLOTS_MAX} processes: set another state.dir"
        raise StateDirectoryError(message)

    def _slots_of_address(self) -> list[int]:
        """Return those whose last process was at this one's address."""
        if not self._address:
            return []
        files = takewhile(Path.exists, map(self._process_file, range(_SLOTS_MAX)))
        texts = [file.read_text("utf-8", "replace") for file in files]
        return [slot for slot, text in enumerate(texts) if _kept_in(text)[1] == self._address]

    def _wish(self, task_id: TaskId) -> Path:
        return self.directory / f"{task_id}{_ASKED_FOR}"

    def _process_file(self, slot: int) -> Path:
        return self.directory / (f"{PROCESS_FILE}-{slot}" if slot else PROCESS_FILE)

    def _identify(self) -> tuple[str, bool]:
        """Return the identity the slot's file holds, and whether it held one: else it is new."""
        text = self._slot_lock.read()
        process_id, address = _kept_in(text)
        if process_id is None:
            if text:
                _log.warning("process identity unreadable, taking a new one", slot=self.slot)
            return self._keep(uuid.uuid4()), False
        if self._address not in ("", address):
            self._keep(process_id)
        return str(process_id), True

    def _keep(self, process_id: uuid.UUID) -> str:
        kept = {"processId": str(process_id)}
        if self._address:
            kept["applicationServer"] = self._address
        self._slot_lock.write(json.dumps(kept))
        return str(process_id)

    def _attempt(self, action: Callable[[], _T]) -> _T:
        """Run a file operation, turning its failure into an error that says what to do."""
        try:
            return action()
        except OSError as error:
            cure = _CURES.get(error.errno or 0, "set another state.dir")
            reason = error.strerror or str(error)
            if error.filename not in {None, str(self.directory)}:
                reason = f"{reason}: {error.filename}"
            message = f"state directory {self.directory} can't be used ({reason}): {cure}"
            raise StateDirectoryError(message) from error


def tasks_in(directory: Path) -> list[TaskId]:
    """Return the tasks that have a directory in another one, in order."""
    found = []
    for entry in directory.iterdir():
        try:
            task_id = TaskId.parse(entry.name)
        except ValueError:
            continue
        if entry.is_dir() and str(task_id) == entry.name:
            found.append(task_id)
    return sorted(found)


def _kept_in(text: str) -> tuple[uuid.UUID | None, str]:
    """Return the identity that a process's file holds, if one, and the address that it has told."""
    try:
        kept = json.loads(text)
        return uuid.UUID(kept["processId"]), str(kept.get("applicationServer", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None, ""


def _lock_directory(directory: Path) -> FileLock | None:
    """Return the lock of a task's directory, which is made if needed, or None if it is taken."""
    make = partial(directory.mkdir, _DIRECTORY_MODE, exist_ok=True)
    return FileLock.taken_in(directory / LOCK_FILE, make)


def _slot_of_global(name: str) -> int | None:
    """Return whose global stores a directory of this name has; None if it is no such directory."""
    if name == GLOBAL:
        return 0
    number = name.removeprefix(f"{GLOBAL}-")
    return int(number) if number != name and number.isdecimal() else None


def _delete(directory: Path) -> None:
    """Delete a directory, of which another process may delete files at the same time."""
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        shutil.rmtree(directory, ignore_errors=True)


def _last_used_ms(directory: Path) -> int | None:
    """Return when a task's directory was last locked, stamped, given up or changed."""
    newest = None
    for path in (directory, directory / LOCK_FILE):
        try:
            changed_ms = path.stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            continue
        newest = changed_ms if newest is None else max(newest, changed_ms)
    return newest
