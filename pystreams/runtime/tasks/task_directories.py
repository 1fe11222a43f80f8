"""Locked directories of tasks, as the task manager needs them; an adapter has them on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pystreams.ids import TaskId


class TaskDirectories(Protocol):
    """Locked directories of tasks."""

    def lock_task(self, task_id: TaskId) -> Path:
        """Return the task's directory, locked for this thread.

        Raises:
            TaskLockedError: Somebody else holds it.
        """

    def ask_for(self, task_id: TaskId) -> None:
        """Ask whoever keeps a task warm in its directory to give that up, in any process."""

    def is_asked_for(self, task_id: TaskId) -> bool:
        """Return whether somebody asks for a directory that is held here."""

    def global_directory(self) -> Path:
        """Return the directory of the process's global stores, made if needed.

        Raises:
            StateDirectoryError: It can't be made.
        """

    def unlock_task(self, task_id: TaskId) -> None:
        """Give the directory up; safe to call when it is not held."""
