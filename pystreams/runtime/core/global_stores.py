"""What the tasks of a process see of its global stores: views that read, and refuse to write.

Reads see all that has been processed of the topics so far, committed to the disk or not: that is
committed in the topics already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pystreams.config.guarantee import IsolationLevel
from pystreams.errors import StateStoreError, StoreNotAvailableError
from pystreams.stores.contracts.state_store import StateStore, gives_views

_WRITES = frozenset(
    (
        "commit",
        "delete",
        "destroy",
        "flush",
        "init",
        "close",
        "put",
        "put_all",
        "put_if_absent",
        "put_with_timestamp",
        "remove",
        "restore",
        "rollback",
    )
)


class ReadOnlyGlobalStore:
    """A global store as processors other than its own see it; for any thread.

    Reads are those of the store's view. A method that writes raises `StateStoreError`.

    Args:
        store: The store, open.
    """

    def __init__(self, store: StateStore) -> None:
        self._name = store.name
        self._reads: Any = store
        if gives_views(store):
            self._reads = store.read_only(IsolationLevel.READ_UNCOMMITTED)

    @property
    def name(self) -> str:
        """The store's name."""
        return self._name

    def __getattr__(self, name: str) -> Any:
        if name in _WRITES:
            return self._refuse
        return getattr(self._reads, name)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise StateStoreError(
            self._name,
            "it is a global store, and only the processor that fills it from its topic may write "
            "into it: send the record to that topic, from where every process gets it",
        )


class GlobalStores:
    """The global stores of a process, once they are filled; shared by its threads.

    Args:
        find: Returns a store by its name, None if it is not filled yet.
    """

    def __init__(self, find: Callable[[str], StateStore | None] = lambda _: None) -> None:
        self._find = find

    def view(self, name: str) -> ReadOnlyGlobalStore:
        """Return a view of a store; its serde functions are its own.

        Raises:
            StoreNotAvailableError: The store is not filled, or closed.
        """
        store = self._find(name)
        if store is None:
            raise StoreNotAvailableError(
                f"global store {name!r} is being filled from its topic: ask again in a moment"
            )
        return ReadOnlyGlobalStore(store)
