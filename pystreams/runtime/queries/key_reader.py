"""Reads single keys of a store, again and again: what a query finds out each time, once.

The view of a task's store is kept with the task, and goes with it. Whatever is out of the ordinary
(a task that restores, a store with a `query` of its own, a serde that raises) is not answered here:
a query tells what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

from pystreams.config.guarantee import IsolationLevel
from pystreams.ids import TaskId
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.core.task import StreamTask
from pystreams.stores.contracts.position import Position
from pystreams.stores.contracts.queries import Query
from pystreams.stores.contracts.spec import Answer, StoreSpec, value_of_key
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


_read = tuple.__new__
"""Makes a `Read`: its own constructor is a function of Python more."""


class _Way:
    """How keys are read in one partition, for as long as its task runs; belongs to the task."""

    __slots__ = ("__weakref__", "position", "task", "value_of")

    def __init__(
        self,
        task: StreamTask,
        position: Callable[[], Position],
        value_of: Callable[[Any], Any],
    ) -> None:
        self.task = task
        self.position = position
        self.value_of = value_of


class KeyReader:
    """Reads keys of one store as `KafkaStreams.query` does, at a fraction of its cost.

    Threads: belongs to the thread that reads.

    Args:
        query_of: Returns what asks for a key: queries of one class.
        isolation_level: What is seen.
        subtopology: The part of the topology that has the store; not that of a global store.
        find_task: Returns the task of an id, if this instance has it. One that it has no more runs
            no more.
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
        self._ways: dict[int, ref[_Way]] = {}

    def read(self, number: int, key: Any) -> Read | Unread:
        """Return what a partition has of a key; the position is no newer than that."""
        known = self._ways.get(number)
        way = None if known is None else known()
        try:
            if way is None or way.task.state is not TaskState.RUNNING:
                task = self._find_task(TaskId(self._subtopology, number))
                if task is None:
                    return Unread.ELSEWHERE
                way = self._find_way(task, key)
                self._ways[number] = ref(way)
            position = way.position()
            return _read(Read, (way.value_of(key), position))
        except Exception:  # noqa: BLE001 - a query meets it again, and tells of it
            return Unread.UNKNOWN

    def _find_way(self, task: StreamTask, key: Any) -> _Way:
        query, manager = self._query_of(key), task.state_manager
        answer, store = self._spec.kind.answer(query, self._spec), manager.readers_store(self._name)
        if answer is None or store is None or not gives_views(store):
            raise NotImplementedError
        if type(store).query is not StateStore.query or task.state is not TaskState.RUNNING:
            raise NotImplementedError
        view: Any = store.read_only(self._level)
        value_of = view.get if answer is value_of_key else self._asking(view, answer)
        committed = self._level is IsolationLevel.READ_COMMITTED
        positions = manager.positions
        position_of = positions.committed_of if committed else positions.uncommitted_of
        way = task.views[self] = _Way(task, partial(position_of, self._name), value_of)
        return way

    def _asking(self, view: Any, answer: Answer) -> Callable[[Any], Any]:
        query_of = self._query_of
        return lambda key: answer(view, query_of(key))
