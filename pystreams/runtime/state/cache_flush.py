"""The record caches of a task, flushed until none holds anything."""

from __future__ import annotations

from collections.abc import Collection

from pystreams.errors import FatalStreamsError
from pystreams.ids import TaskId
from pystreams.stores.contracts.state_store import StateStore

_ROUNDS_MAX = 1000


def flush_all(task_id: TaskId, stores: Collection[StateStore]) -> None:
    """Log and forward what the stores' caches hold.

    Processors below a cached table may write into stores that were flushed before it: those are
    flushed once more.

    Args:
        task_id: Told in the error.
        stores: Those upstream first.

    Raises:
        FatalStreamsError: Such stores write into each other without an end.
    """
    unflushed = stores
    for _ in range(_ROUNDS_MAX):
        for store in unflushed:
            store.flush_cache()
        unflushed = [store for store in stores if store.needs_flush()]
        if not unflushed:
            return
    names = ", ".join(store.name for store in unflushed)
    raise FatalStreamsError(
        f"task {task_id}: processors below cached tables write into each other's stores without "
        f"an end ({names}): materialize one of them with caching=False"
    )
