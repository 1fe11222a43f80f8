"""Damage in the state directory of a `TopologyTestDriver`, told with what helps there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from pystreams.errors import StreamsError, damage_in

DAMAGE_CURE = (
    "A TopologyTestDriver has nothing to rebuild it from: delete its directory, or give another "
    "state_directory, and make a new driver; it is then empty, and restore_stores fills it from "
    "records of its changelog"
)


@contextmanager
def damage_told() -> Iterator[None]:
    """Say of damage that is met what to do about it.

    Raises:
        StateStoreCorruptedError: A store is damaged.
    """
    try:
        yield
    except StreamsError as error:
        damage = damage_in(error)
        if damage is None:
            raise
        raise damage.with_cure(DAMAGE_CURE) from error.__cause__


class TellingStore:
    """A store that a test reads and writes: damage that it meets is told so."""

    def __init__(self, store: Any) -> None:
        self._store = store

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The store's, as `isinstance` asks."""
        return type(self._store)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return _telling(name, found) if callable(found) else found


class _TellingIterator:
    """An iterator of such a store."""

    def __init__(self, entries: Any) -> None:
        self._entries = entries

    def __iter__(self) -> _TellingIterator:
        return self

    def __next__(self) -> Any:
        with damage_told():
            return next(self._entries)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entries, name)


def _telling(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def telling(*arguments: Any, **keywords: Any) -> Any:
        with damage_told():
            result = method(*arguments, **keywords)
        if hasattr(result, "__next__"):
            return _TellingIterator(result)
        return TellingStore(result) if name == "read_only" else result

    return telling
