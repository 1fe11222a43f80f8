"""What stops a running task in the middle of its work: it has to go back to its last commit.

A store that is damaged says so itself, and knows its name; but each task has a store of that name.
A broker that does not tell what a record needs, as how many partitions the topic has that it goes
to, may tell later. In both cases what the task was doing is left half done. So until it goes back
to its last commit, which also rebuilds the store, whatever else is asked of it fails as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from pystreams.errors import (
    RetriableClientError,
    StateStoreCorruptedError,
    StreamsError,
    TaskCorruptedError,
    TransactionAbortableError,
)
from pystreams.ids import TaskId

Trouble = StateStoreCorruptedError | RetriableClientError


class Troubled(Protocol):
    """A task.

    Attributes:
        trouble: What has stopped it since it last went back to a commit; else None.
    """

    task_id: TaskId
    trouble: Trouble | None


_P = ParamSpec("_P")
_R = TypeVar("_R")
_Task = TypeVar("_Task", bound=Troubled)
_Method = Callable[Concatenate[_Task, _P], _R]


def tells_trouble(method: _Method[_Task, _P, _R]) -> _Method[_Task, _P, _R]:
    """Let a task's method raise an error from which the runtime takes it back to its last commit.

    That is `TaskCorruptedError` where a store is damaged, else `TransactionAbortableError`. It is
    raised when the task meets the trouble, and whenever it is asked for something before it has
    gone back.
    """

    @wraps(method)
    def telling(task: _Task, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if task.trouble is None:
            try:
                return method(task, *args, **kwargs)
            except (StateStoreCorruptedError, RetriableClientError) as error:
                task.trouble = error
        raise _as_told(task.task_id, task.trouble) from task.trouble

    return telling


def _as_told(task_id: TaskId, trouble: Trouble) -> StreamsError:
    if isinstance(trouble, StateStoreCorruptedError):
        return TaskCorruptedError(task_id, trouble)
    return TransactionAbortableError(str(trouble))
