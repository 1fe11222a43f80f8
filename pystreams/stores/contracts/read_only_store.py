"""A store as one sees it who may not write into it."""

from __future__ import annotations

from typing import Any, NoReturn

from pystreams.config.guarantee import IsolationLevel
from pystreams.errors import StateStoreError
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


class ReadOnlyStore:
    """A view of a store, of all that was written so far, committed or not; for any thread.

    Reads are those of the store's own view. A method that writes raises `StateStoreError`.

    Args:
        store: The store, open.
        refusal: What that error says: why, and what to do instead.
    """

    def __init__(self, store: StateStore, refusal: str) -> None:
        self._name = store.name
        self._refusal = refusal
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
        raise StateStoreError(self._name, self._refusal)
