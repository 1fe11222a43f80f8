"""What a client answers of the stores of its own tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeVar

from pystreams.config import IsolationLevel, StreamsConfig
from pystreams.errors import StoreNotAvailableError
from pystreams.ids import TaskId
from pystreams.kernel.clock import Clock
from pystreams.runtime.application.client_state import State
from pystreams.runtime.application.discovering import DiscoveringClient
from pystreams.runtime.application.global_state import GlobalState
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.queries.key_reader import KeyReader
from pystreams.runtime.queries.local_stores import local_store, views_of
from pystreams.runtime.queries.local_tasks import local_tasks
from pystreams.runtime.queries.query_execution import StateQueryRequest, query_tasks
from pystreams.runtime.queries.query_results import StateQueryResult
from pystreams.runtime.topics.application_topics import TopicManager
from pystreams.stores.contracts.position import PositionBound
from pystreams.stores.contracts.queries import KeyQuery, Query
from pystreams.topology.plan.topology_plan import TopologyPlan

R = TypeVar("R")


class QueryingClient(DiscoveringClient):
    """A client whose stores any thread may ask; `KafkaStreams` is the only one."""

    _global: GlobalState

    def __init__(self, config: StreamsConfig, plan: TopologyPlan, clock: Clock | None) -> None:
        super().__init__(clock)
        self._config = config
        self._plan = plan
        self._topics: TopicManager | None = None

    def store(self, name: str, isolation_level: IsolationLevel | None = None) -> Any:
        """Return a read-only view of a state store, over the tasks of this instance.

        Args:
            name: The store's name (`count(name=...)`, `queryable_store_name`).
            isolation_level: What reads see; `default.state.isolation.level` when None.

        Returns:
            By the store's kind a `LocalKeyValueStore`, `LocalWindowStore`, `LocalSessionStore` or
            `LocalVersionedKeyValueStore`.

        Raises:
            TopologyError: The topology has no store of that name, or one that is not for reading.
        """
        spec = self._plan.spec_of(name)
        check = partial(self._check_runs, name)
        if (shared := self._global.local_store(spec, check)) is not None:
            return shared
        level = isolation_level or self._config.default_state_isolation_level

        def views() -> list[Any]:
            check()
            tasks = [task for task in self._tasks_with(name) if task.state is TaskState.RUNNING]
            found = [task.state_manager.readers_store(name) for task in tasks]
            stores = [store for store in found if store is not None]
            return views_of(name, level, stores, ready=self.state is State.RUNNING)

        return local_store(spec, views)

    def query(
        self,
        query: Query[R],
        *,
        store: str,
        partitions: Collection[int] | None = None,
        isolation_level: IsolationLevel | None = None,
        position_bound: PositionBound | None = None,
    ) -> StateQueryResult[R]:
        """Ask a state store, partition by partition; any thread may, beside the processing.

        Args:
            query: What is asked: `KeyQuery("alice")`, `RangeQuery()`, ...
            store: The store's name (`count(name=...)`, `queryable_store_name`).
            partitions: Which partitions are asked; None asks all that are on this instance.
            isolation_level: What is seen; `default.state.isolation.level` when None, which is
                READ_COMMITTED under exactly-once unless it was set.
            position_bound: How far a partition must have come to answer; None asks nothing.

        Returns:
            An answer or a failure of each partition: one that can't answer does not raise.

        Raises:
            TopologyError: The topology has no store of that name.
            StoreNotAvailableError: The application was not started, starts, or has stopped.
        """
        spec = self._plan.spec_of(store)
        topics = self._check_runs(store)
        request = StateQueryRequest(
            query,
            spec,
            None if partitions is None else frozenset(partitions),
            isolation_level or self._config.default_state_isolation_level,
            position_bound or PositionBound.unbounded(),
        )
        if (shared := self._global.query(request)) is not None:
            return shared
        tasks = self._tasks_with(store, partitions)
        return query_tasks(request, tasks, topics.num_partitions_of_store(store))

    def key_reader(
        self, store: str, query_of: Callable[[Any], Query[Any]] = KeyQuery
    ) -> KeyReader | None:
        """Return what reads keys of a store as `query` does by default, at a fraction of its cost.

        Args:
            query_of: Returns what asks for a key: queries of one class.

        Returns:
            None of a global store. It belongs to the thread that reads.

        Raises:
            TopologyError: The topology has no store of that name.
        """
        spec, part = self._plan.spec_of(store), self._plan.subtopology_of_store(store)
        if part is None:
            return None
        level = self._config.default_state_isolation_level
        return KeyReader(spec, query_of, level, part.id, self._live_task)

    # ------------------------------------------------------------------ inside

    def _check_runs(self, store: str) -> TopicManager:
        """Return the topics of the application, which are known while a store can be asked.

        Raises:
            StoreNotAvailableError: The application was not started, starts, or has stopped.
        """
        if self._finished.is_set():
            raise StoreNotAvailableError(
                f"state store {store!r} can't be asked: the application has stopped, in state "
                f"{self.state.value}; ask another instance, or make and start a new KafkaStreams"
            )
        if self._topics is None:
            raise StoreNotAvailableError(
                f"state store {store!r} can't be asked: the application is {self.state.value}; "
                "start it, or ask again in a moment"
            )
        return self._topics

    def _tasks_with(self, store: str, only: Collection[int] | None = None) -> list[StreamTask]:
        return [
            task
            for thread in self._threads
            for task in local_tasks(self._plan, thread.tasks, store, only)
        ]

    def _live_task(self, task_id: TaskId) -> StreamTask | None:
        """Return a task of this instance, if it has it.

        Raises:
            StoreNotAvailableError: It has none any more.
        """
        for thread in self._threads:
            task = thread.tasks.get(task_id)
            if task is not None:
                return task
        if self._finished.is_set():
            raise StoreNotAvailableError("the application has stopped")
        return None
