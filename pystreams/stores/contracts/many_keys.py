"""Many keys of an engine at once: in one call, where the engine has one for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine


@runtime_checkable
class ReadsManyKeys(Protocol):
    """What an engine may have beside a `KeyValueEngine`'s methods: one call for many keys."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys, in their order; None for each that is not there.

        Raises:
            StoreNotAvailableError: The engine is closed.
            StateStoreError: The data can't be read.
        """


def get_many(engine: KeyValueEngine, keys: Sequence[bytes]) -> list[bytes | None]:
    """Return the committed values of keys, in their order; None for each that is not there.

    Raises:
        StoreNotAvailableError: The engine is closed.
        StateStoreError: The data can't be read.
    """
    if isinstance(engine, ReadsManyKeys):
        return engine.get_many(keys)
    return list(map(engine.get, keys))
