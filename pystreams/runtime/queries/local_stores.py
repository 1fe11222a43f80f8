"""What `KafkaStreams.store` returns: reads by other threads, across this instance's tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pystreams.config.guarantee import IsolationLevel
from pystreams.errors import StoreNotAvailableError, TopologyError
from pystreams.stores.contracts.local_store import LocalStore, Views
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.contracts.state_store import StateStore, gives_views


def local_store(spec: StoreSpec, views: Views) -> LocalStore:
    """Return the reads of a store, of the class of its kind.

    Args:
        views: Returns a view of each local task's store.

    Raises:
        TopologyError: Stores of this kind are not for reading.
    """
    local_class = spec.kind.local_store
    if local_class is None:
        raise TopologyError(
            f"state store {spec.name!r} can't be read: it is what an operation keeps for itself; "
            "read the operation's output, or a table made of it"
        )
    return local_class(views)


def views_of(
    name: str, isolation_level: IsolationLevel, stores: Sequence[StateStore], *, ready: bool
) -> list[Any]:
    """Return a view of each local task's store.

    Args:
        stores: The stores of that name of all running local tasks.
        ready: Whether all local tasks that have the store run.

    Raises:
        StoreNotAvailableError: A local task still restores, or there is none.
        TopologyError: A store of the user's own has no views for other threads.
    """
    if not ready:
        message = f"state store {name!r} is restored or moving right now: ask again in a moment"
        raise StoreNotAvailableError(message)
    if not stores:
        message = (
            f"state store {name!r} has no partition on this instance: ask another instance, or "
            "again after the next rebalance"
        )
        raise StoreNotAvailableError(message)
    if not gives_views(stores[0]):
        raise TopologyError(
            f"state store {name!r} gives other threads no view of itself: "
            f"{type(stores[0]).__name__} has no read_only(isolation_level). Write that, or ask the "
            "store with KafkaStreams.query, which calls its query()"
        )
    return [store.read_only(isolation_level) for store in stores]
