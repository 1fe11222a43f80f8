"""The engine in memory: what a write and a walk cost does not go by all the keys there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from pystreams.stores.engines.memory import MemoryEngine

KEYS = 2_000
FEW = 60
"""Comparisons that one look for a place among so many keys takes at most, several times over."""


class CountedKey(bytes):
    """A key that counts how often any such key is hashed or compared."""

    looks = 0

    def __hash__(self) -> int:
        CountedKey.looks += 1
        return bytes.__hash__(self)

    def __lt__(self, other: bytes) -> bool:
        CountedKey.looks += 1
        return bytes.__lt__(self, other)


@pytest.fixture
def engine() -> Iterator[MemoryEngine]:
    made = MemoryEngine("s")
    made.open(Path())
    yield made
    made.close()


def test_key_costs_the_same_however_many_there_are(engine: MemoryEngine) -> None:
    engine.write({CountedKey(b"%06d" % number): b"v" for number in range(0, 2 * KEYS, 2)}, {})
    assert len(list(engine.range(None, None))) == KEYS

    CountedKey.looks = 0
    engine.write({CountedKey(b"%06d" % KEYS): b"again", CountedKey(b"001001"): b"new"}, {})
    assert CountedKey.looks < FEW

    CountedKey.looks = 0
    walk = engine.range(CountedKey(b"001000"), None)
    assert [key for key, _ in islice(walk, 3)] == [b"001000", b"001001", b"001002"]
    assert CountedKey.looks < FEW


@pytest.mark.parametrize("size", [1, 5, 100])
def test_keys_that_go_and_come_again_are_walked_once_in_their_order(
    engine: MemoryEngine, size: int
) -> None:
    expected: dict[bytes, bytes | None] = {}
    for number in range(40):
        first = number * 37 % 101
        keys = [b"%04d" % ((first + 7 * index) % 401) for index in range(size)]
        changes = dict.fromkeys(keys, None if number % 3 == 2 else b"%d" % number)
        engine.write(changes, {})
        expected |= changes
        rows = sorted((key, value) for key, value in expected.items() if value is not None)
        assert list(engine.range(None, None)) == rows
        assert list(engine.range(None, None, reverse=True)) == rows[::-1]
