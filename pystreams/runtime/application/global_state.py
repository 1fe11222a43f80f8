"""The global stores of one client: its `GlobalStreamThread`, and what is read of them meanwhile.

Everything read of a topic is committed there. So readers see all that was processed of it, at
either isolation level. Differs from Kafka, where `query` does not answer for global stores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pystreams.config import IsolationLevel, StreamsConfig
from pystreams.errors import StateStoreCorruptedError, StoreNotAvailableError, StreamsError
from pystreams.runtime.core.global_stores import GlobalStores
from pystreams.runtime.core.global_task import GlobalTask
from pystreams.runtime.loop.global_stream_thread import GlobalStreamThread
from pystreams.runtime.loop.reports.thread_metrics import Metrics, global_metrics
from pystreams.runtime.queries.local_stores import local_store, views_of
from pystreams.runtime.queries.query_execution import StateQueryRequest, query_global_store
from pystreams.runtime.queries.query_results import StateQueryResult
from pystreams.runtime.settings import global_task_settings
from pystreams.runtime.tasks.thread_parts import ThreadParts
from pystreams.stores.contracts.local_store import LocalStore
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.contracts.state_store import StateStore
from pystreams.topology.plan.topology_plan import TopologyPlan

R = TypeVar("R")


class GlobalState:
    """The global stores of a client; may be used from any thread.

    Args:
        failed: Called with what has failed in the thread, if something does.

    Attributes:
        stores: What tasks see of them.
    """

    def __init__(self, plan: TopologyPlan, failed: Callable[[StreamsError], None]) -> None:
        self.stores = GlobalStores(self._find)
        self._plan = plan
        self._failed = failed
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._serving = False
        self._task: GlobalTask | None = None
        self._thread: GlobalStreamThread | None = None
        self._running: threading.Thread | None = None

    def fill(self, config: StreamsConfig, parts: ThreadParts, counts: Mapping[str, int]) -> bool:
        """Start the thread and wait until all stores are filled; return whether they are.

        They are not when the client was asked to stop meanwhile, or the thread failed: `failed`
        has been called then.

        Args:
            parts: What the stream threads are made of.
        """
        if not self.wanted:
            return True
        self._task = GlobalTask(
            self._plan, global_task_settings(config, parts.task_settings), counts
        )
        self._thread = thread = GlobalStreamThread(
            self._task,
            parts,
            look_interval_ms=config.metadata_max_age_ms,
            stop=self._stop,
            failed=self._failed,
        )
        running = threading.Thread(target=thread.run, name=thread.name)
        running.start()
        self._running = running
        thread.filled.wait()
        with self._lock:
            self._serving = thread.error is None and not self._stop.is_set()
            return self._serving

    @property
    def wanted(self) -> bool:
        """Whether the topology has global stores."""
        return bool(self._plan.global_subtopologies)

    @property
    def is_all(self) -> bool:
        """Whether global stores are all there is to the topology, and they are filled."""
        filled = self._thread is not None and self._thread.filled.is_set()
        return filled and not self._plan.subtopologies

    @property
    def threads(self) -> Sequence[GlobalStreamThread]:
        """The thread, once there is one."""
        return () if self._thread is None else (self._thread,)

    def stop_filling(self) -> None:
        """Ask the thread to end if it is still filling: nobody reads the stores yet."""
        with self._lock:
            if not self._serving:
                self._stop.set()

    def close(self, error: StreamsError | None) -> None:
        """End the thread, when all tasks have ended: it commits and closes the stores.

        Args:
            error: What has stopped the application. A store that it says is damaged is emptied.
        """
        damaged = isinstance(error, StateStoreCorruptedError) and error.store
        if self._thread is not None and damaged in self._plan.topology.global_stores:
            self._thread.empty_at_end(str(damaged), str(error))
        self._stop.set()
        if self._running is not None:
            self._running.join()

    def local_store(self, spec: StoreSpec, check: Callable[[], object]) -> LocalStore | None:
        """Return the reads of a global store; None if it is not one.

        Args:
            check: Called before each read; raises if the application does not run.
        """
        if spec.name not in self._plan.topology.global_stores:
            return None

        def views() -> list[Any]:
            check()
            store = self._find(spec.name)
            found = [] if store is None else [store]
            level = IsolationLevel.READ_UNCOMMITTED
            return views_of(spec.name, level, found, ready=store is not None)

        return local_store(spec, views)

    def query(self, request: StateQueryRequest[R]) -> StateQueryResult[R] | None:
        """Return what a global store answers; None if it is not one."""
        name = request.spec.name
        if name not in self._plan.topology.global_stores:
            return None
        store, task = self._find(name), self._task
        if store is None or task is None:
            message = f"global store {name!r} is being filled from its topic: ask again in a moment"
            raise StoreNotAvailableError(message)
        return query_global_store(request, store, task.state.position_of(name))

    def metrics(self) -> Metrics:
        """Return the metrics of the thread's stores and topics."""
        if self._task is None or self._thread is None:
            return {}
        return global_metrics(self._thread.name, self._task, self._thread.remaining_records())

    def _find(self, name: str) -> StateStore | None:
        thread = self._thread
        if thread is None or self._task is None or not thread.filled.is_set():
            return None
        return self._task.state.stores()[name]
