"""Damage that a running task meets in a store: the task is told by name, and does nothing more.

A store that is damaged says so itself, and knows its name; but each task has a store of that name.
What the task was doing is left half done. So until it goes back to its last commit, which rebuilds
the store, whatever else is asked of it fails as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from pystreams.errors import StateStoreCorruptedError, TaskCorruptedError
from pystreams.ids import TaskId


class Damageable(Protocol):
    """A task.

    Attributes:
        damage: What the store said, since the task last went back to a commit; else None.
    """

    task_id: TaskId
    damage: StateStoreCorruptedError | None


_P = ParamSpec("_P")
_R = TypeVar("_R")
_Task = TypeVar("_Task", bound=Damageable)
_Method = Callable[Concatenate[_Task, _P], _R]


def tells_damage(method: _Method[_Task, _P, _R]) -> _Method[_Task, _P, _R]:
    """Let a task's method raise `TaskCorruptedError` when it meets damage, or the task has."""

    @wraps(method)
    def telling(task: _Task, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if task.damage is None:
            try:
                return method(task, *args, **kwargs)
            except StateStoreCorruptedError as error:
                task.damage = error
        raise TaskCorruptedError(task.task_id, task.damage) from task.damage

    return telling
