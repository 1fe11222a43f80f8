"""Ordered reads beside a plain dict, while stretches of keys are deleted and come back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pystreams.record import NO_RECORD
from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
from pystreams.stores.dirty_map.write_through import WriteThroughKeyValueStore
from pystreams.stores.engines.memory import MemoryEngine
from pystreams.stores.time_segments.segmented_reader import BytesRange
from tests.stores.support import CHANGELOG, Home, Message

KEYS = 30
STEPS = 400


def key_of(number: int) -> bytes:
    return b"%03d" % number


class Beside:
    """A store and the dict it must read like."""

    def __init__(self, store: BufferedKeyValueStore, chooser: random.Random) -> None:
        self.store = store
        self.random = chooser
        self.now: dict[bytes, bytes] = {}
        self.committed: dict[bytes, bytes] = {}

    def key(self) -> bytes:
        return key_of(self.random.randrange(KEYS))

    def put(self) -> None:
        key, value = self.key(), b"%d" % self.random.random()
        self.store.write(key, value, value, 0, NO_RECORD)
        self.now[key] = value

    def delete_from_the_beginning(self) -> None:
        for number in range(self.random.randrange(KEYS)):
            self.store.write(key_of(number), None, None, 0, NO_RECORD)
            self.now.pop(key_of(number), None)

    def delete(self) -> None:
        key = self.key()
        self.store.write(key, None, None, 0, NO_RECORD)
        self.now.pop(key, None)

    def read(self) -> None:
        self.compare(self.store.range, self.now)

    def read_what_was_written(self) -> None:
        """As who wants none of what the engine has there, which may be something."""
        if self.store.transactional:
            written = self.store.dirty.keys() & self.now.keys()
            self.compare(self.store.uncommitted_range, {key: self.now[key] for key in written})

    def compare(self, read: BytesRange, held: dict[bytes, bytes]) -> None:
        start = self.random.choice([None, self.key()])
        end = self.random.choice([None, self.key()])
        reverse = self.random.random() < 0.3
        expected = sorted(
            (key, value)
            for key, value in held.items()
            if (start is None or key >= start) and (end is None or key < end)
        )
        found = list(read(start, end, reverse=reverse))
        assert found == (expected[::-1] if reverse else expected)

    def delete_what_is_read(self) -> None:
        """As one who works off a store: each entry goes while the iterator stands on it."""
        for key, _ in self.store.range(None, None):
            self.store.write(key, None, None, 0, NO_RECORD)
            del self.now[key]
            if self.random.random() < 0.3:
                break

    def commit(self) -> None:
        self.store.flush_cache()
        self.store.commit({CHANGELOG: 0})
        self.committed = dict(self.now)

    def rollback(self) -> None:
        if self.store.transactional:
            self.store.rollback()
            self.now = dict(self.committed)

    def restore(self) -> None:
        self.commit()
        key, value = self.key(), b"%d" % self.random.random()
        self.store.restore([Message(key, value, 0)])
        self.now[key] = self.committed[key] = value


@pytest.mark.parametrize("kind", [BufferedKeyValueStore, WriteThroughKeyValueStore])
@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_reads_find_what_a_dict_holds(
    seed: int, caching: bool, kind: type[BufferedKeyValueStore], tmp_path: Path
) -> None:
    store = kind("s", MemoryEngine("s"), value_prefix_bytes=0, caching=caching)
    store.init(Home(tmp_path, cache_enabled=True).context())
    beside = Beside(store, random.Random(seed))
    often = [beside.put] * 4 + [beside.read] * 5 + [beside.delete, beside.delete_what_is_read]
    often += [beside.read_what_was_written] * 2
    seldom = [beside.delete_from_the_beginning, beside.commit, beside.rollback, beside.restore]
    for _ in range(STEPS):
        beside.random.choice(often * 2 + seldom)()
        beside.read()
    store.close()
