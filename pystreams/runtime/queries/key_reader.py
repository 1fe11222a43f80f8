"""Reads single keys of a store, again and again: what a query finds out each time, once.

The view of a task's store is kept with the task, and goes with it. Whatever is out of the ordinary
(a task that restores, a store with a `query` of its own, a serde that raises) is not answered here:
a query tells what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from pystreams.config.guarantee import IsolationLevel
from pystreams.ids import TaskId
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.core.task import StreamTask
from pystreams.stores.contracts.position import Position
from pystreams.stores.contracts.queries import Query
from pystreams.stores.contracts.spec import Answer, StoreSpec
from pystreams.stores.contracts.state_store import StateStore, gives_views


class Unread(Enum):
    """Why nothing was read."""

    ELSEWHERE = "elsewhere"
    """No task of this instance has the partition."""
    UNKNOWN = "unknown"
    """A query tells why."""


class Read(NamedTuple):
    """What a partition has of a key.

    Attributes:
        value: None: no such key.
        position: Which input it reflects, at least.
    """

    value: Any
    position: Position


class _View(NamedTuple):
    """A view of a task's store, for one reader."""

    store: StateStore
    view: Any
    answer: Answer


class KeyReader:
    """Reads keys of one store as `KafkaStreams.query` does, at a fraction of its cost.

    Threads: belongs to the thread that reads.

    Args:
        query_of: Returns what asks for a key: queries of one class.
        isolation_level: What is seen.
        subtopology: The part of the topology that has the store; not that of a global store.
        find_task: Returns the task of an id, if this instance has it.
    """

    def __init__(
        self,
        spec: StoreSpec,
        query_of: Callable[[Any], Query[Any]],
        isolation_level: IsolationLevel,
        subtopology: int,
        find_task: Callable[[TaskId], StreamTask | None],
    ) -> None:
        self._spec = spec
        self._name = spec.name
        self._query_of = query_of
        self._level = isolation_level
        self._subtopology = subtopology
        self._find_task = find_task
        self._task_ids: dict[int, TaskId] = {}

    def read(self, number: int, key: Any) -> Read | Unread:
        """Return what a partition has of a key; the position is no newer than that."""
        task_id = self._task_ids.get(number)
        if task_id is None:
            task_id = self._task_ids[number] = TaskId(self._subtopology, number)
        task = self._find_task(task_id)
        if task is None:
            return Unread.ELSEWHERE
        if task.state is not TaskState.RUNNING:
            return Unread.UNKNOWN
        query, manager = self._query_of(key), task.state_manager
        position = manager.positions.of(self._name, self._level)
        store, kept = manager.readers_store(self._name), task.views.get(self)
        try:
            if not isinstance(kept, _View) or kept.store is not store:
                kept = task.views[self] = self._view_of(store, query)
            return Read(kept.answer(kept.view, query), position)
        except Exception:  # noqa: BLE001 - a query meets it again, and tells of it
            return Unread.UNKNOWN

    def _view_of(self, store: StateStore | None, query: Query[Any]) -> _View:
        answer = self._spec.kind.answer(query, self._spec)
        if answer is None or store is None or not gives_views(store):
            raise NotImplementedError
        if type(store).query is not StateStore.query:
            raise NotImplementedError
        return _View(store, store.read_only(self._level), answer)
