"""What the tasks of a process see of its global stores: views that read, and refuse to write.

Reads see all that has been processed of the topics so far, committed to the disk or not: that is
committed in the topics already.
"""

from __future__ import annotations

from collections.abc import Callable

from pystreams.errors import StoreNotAvailableError
from pystreams.stores.contracts.read_only_store import ReadOnlyStore
from pystreams.stores.contracts.state_store import StateStore


class GlobalStores:
    """The global stores of a process, once they are filled; shared by its threads.

    Args:
        find: Returns a store by its name, None if it is not filled yet.
    """

    def __init__(self, find: Callable[[str], StateStore | None] = lambda _: None) -> None:
        self._find = find

    def view(self, name: str, reader: str) -> ReadOnlyStore:
        """Return a view of a store for a node; its serde functions are its own.

        Raises:
            StoreNotAvailableError: The store is not filled, or closed.
        """
        store = self._find(name)
        if store is None:
            raise StoreNotAvailableError(
                f"global store {name!r} is being filled from its topic: ask again in a moment"
            )
        return global_view(store, reader)


def global_view(store: StateStore, reader: str) -> ReadOnlyStore:
    """Return a global store as a node sees it that does not fill it."""
    return ReadOnlyStore(
        store,
        "it is a global store, and only the processor that fills it from its topic may write "
        f"into it, not {reader!r}: send the record to that topic, from where every process gets it",
    )
