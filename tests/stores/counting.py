"""What ordered reads walk over, counted: entries and deletions, uncommitted and in the engine."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from pystreams.stores.contracts.key_value import RocksDBConfigSetter
from pystreams.stores.dirty_map import buffered
from pystreams.stores.dirty_map.sorted_keys import SortedKeys


class Walked:
    """How many keys were visited, and how many iterators opened.

    Attributes:
        keys: Keys visited, deleted ones too.
        iterators: Iterators of the engine.
    """

    def __init__(self) -> None:
        self.keys = 0
        self.iterators = 0

    def forget(self) -> None:
        self.keys = self.iterators = 0


class UncompactedEngine:
    """An engine like RocksDB between two compactions: a deleted key is still walked over.

    What goes with `delete_below` is gone at once, as a dropped column family is.
    """

    persistent = True

    def __init__(self, walked: Walked) -> None:
        self._walked = walked
        self._data: dict[bytes, bytes | None] = {}
        self._keys: list[bytes] = []
        self._metadata: dict[bytes, bytes] = {}

    def open(
        self, directory: Path, rocksdb_config_setter: RocksDBConfigSetter | None = None
    ) -> None:
        """What was written stays."""

    def close(self) -> None:
        """Likewise."""

    def get(self, key: bytes) -> bytes | None:
        return self._data.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._data.get(key) for key in keys]

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Generator[tuple[bytes, bytes], None, None]:
        self._walked.iterators += 1
        first = bisect_left(self._keys, start or b"")
        last = len(self._keys) if end is None else bisect_left(self._keys, end)
        keys = self._keys[first:last]
        for key in reversed(keys) if reverse else keys:
            self._walked.keys += 1
            value = self._data[key]
            if value is not None:
                yield key, value

    def write(
        self,
        changes: Mapping[bytes, bytes | None],
        metadata: Mapping[bytes, bytes | None],
        *,
        delete_below: bytes | None = None,
    ) -> None:
        if delete_below is not None:
            self._data = {key: value for key, value in self._data.items() if key >= delete_below}
        self._data.update(changes)
        self._keys = sorted(self._data)
        self._metadata.update({key: value for key, value in metadata.items() if value is not None})

    def metadata(self) -> dict[bytes, bytes]:
        return dict(self._metadata)

    def approximate_num_entries(self) -> int:
        return len(self._data)


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> Walked:
    """Counts what stores that are made from now on visit."""
    count = Walked()

    class CountedKeys(SortedKeys):
        def walk(self, start: bytes | None, end: bytes | None, *, reverse: bool) -> Iterator[bytes]:
            for key in super().walk(start, end, reverse=reverse):
                count.keys += 1
                yield key

    monkeypatch.setattr(buffered, "SortedKeys", CountedKeys)
    return count
