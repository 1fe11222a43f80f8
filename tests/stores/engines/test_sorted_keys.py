"""The ordered keys of a dict that grows: for its owner, and for threads that do not own it."""

from __future__ import annotations

import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from pystreams import IsolationLevel, StoreEngine
from pystreams.stores.dirty_map.sorted_keys import ReadersKeys, SortedKeys
from pystreams.stores.typed_stores import views
from tests.stores.support import CHANGELOG, Home, spec_of

FEW = 3
PORTION = views._FEW
MANY = 100


def names(*numbers: int) -> list[bytes]:
    return [b"%05d" % number for number in numbers]


def found(keys: ReadersKeys, start: bytes | None, end: bytes | None) -> list[bytes]:
    """Return all the keys between bounds."""
    return keys.between(start, end, sys.maxsize)


def walked(keys: SortedKeys, start: bytes | None, end: bytes | None) -> list[bytes]:
    """Return the keys between bounds, seen to be the same both ways."""
    forwards = list(keys.walk(start, end, reverse=False))
    assert list(keys.walk(start, end, reverse=True)) == forwards[::-1]
    return forwards


@pytest.mark.parametrize("step", [1, FEW, MANY])
@pytest.mark.parametrize("many", [0, 50, 4096])
def test_the_owner_walks_between_bounds_however_many_keys_there_are_and_are_new(
    many: int, step: int
) -> None:
    source: dict[bytes, Any] = {}
    keys = SortedKeys(source, one_list_max=many)
    assert walked(keys, None, None) == []
    numbers = [number * 37 % 1000 for number in range(1000)]
    for begin in range(0, 1000, step):
        source.update(dict.fromkeys(names(*numbers[begin : begin + step])))
        present = sorted(source)
        assert walked(keys, None, None) == present
        assert walked(keys, *names(400, 600)) == [key for key in present if 400 <= int(key) < 600]
        assert walked(keys, *names(600, 400)) == []
        assert walked(keys, names(700)[0], None) == [key for key in present if int(key) >= 700]


def test_the_owner_of_a_cleared_dict_starts_again() -> None:
    source: dict[bytes, Any] = dict.fromkeys(names(*range(MANY)))
    keys = SortedKeys(source)
    assert len(walked(keys, None, None)) == MANY
    source.clear()
    keys.clear()
    source.update(dict.fromkeys(names(*range(MANY, 2 * MANY))))

    assert walked(keys, None, None) == names(*range(MANY, 2 * MANY))


@pytest.mark.parametrize("step", [FEW, MANY])
def test_readers_find_the_keys_between_bounds_however_many_are_new(step: int) -> None:
    source: dict[bytes, Any] = {}
    keys = ReadersKeys(source)
    assert found(keys, None, None) == []
    for begin in range(0, 5 * step, step):
        source.update(dict.fromkeys(names(*range(1000 + begin, 1000 + begin + step))))
        source.update(dict.fromkeys(names(*range(900 - begin, 900 - begin - step, -1))))
        assert found(keys, None, None) == sorted(source)
        assert found(keys, None, names(1000)[0]) == sorted(source)[: begin + step]
        assert found(keys, names(1000)[0], None) == sorted(source)[begin + step :]
        assert found(keys, *names(900, 1001)) == names(900, 1000)
    assert found(keys, *names(1001, 900)) == []


def test_readers_find_a_few_new_keys_between_many_known_ones() -> None:
    source: dict[bytes, Any] = dict.fromkeys(names(*range(0, 2000, 2)))
    keys = ReadersKeys(source)
    assert len(found(keys, None, None)) == 1000
    for number in (1001, 7, 1999, 1003):
        source.update(dict.fromkeys(names(number)))
        assert found(keys, None, None) == sorted(source)
    assert found(keys, *names(1000, 1004)) == names(1000, 1001, 1002, 1003)
    assert found(keys, *names(8, 1000)) == names(*range(8, 1000, 2))


@pytest.mark.parametrize("recent", [0, 1, 30])
def test_readers_take_the_first_keys_from_either_end(recent: int) -> None:
    source: dict[bytes, Any] = dict.fromkeys(names(*range(0, 2000, 2)))
    keys = ReadersKeys(source)
    assert found(keys, None, None) == sorted(source)
    source.update(dict.fromkeys(names(*range(1, 2 * recent, 2))))
    for start, end in ((None, None), names(3, 1900), names(1000, 1002), names(7, 7), names(9, 3)):
        there = found(keys, start, end)
        for limit in (1, 2, 50, 5000):
            assert keys.between(start, end, limit) == there[:limit]
            assert keys.between(start, end, limit, reverse=True) == there[::-1][:limit]


def test_what_a_reader_got_is_not_changed_by_the_next_one() -> None:
    source: dict[bytes, Any] = dict.fromkeys(names(2, 4))
    keys = ReadersKeys(source)
    first = found(keys, None, None)
    source[b"00003"] = None
    assert found(keys, None, None) == names(2, 3, 4)
    assert first == names(2, 4)


def test_readers_of_a_cleared_dict_start_again_even_if_it_is_as_full_as_before() -> None:
    source: dict[bytes, Any] = dict.fromkeys(names(1, 2))
    keys = ReadersKeys(source)
    assert found(keys, None, None) == names(1, 2)
    source.clear()
    keys.clear()
    source.update(dict.fromkeys(names(3, 4)))
    assert found(keys, None, None) == names(3, 4)


def test_a_reader_beside_the_owner_misses_no_key_that_was_there_before_it_asked() -> None:
    source: dict[bytes, Any] = {}
    keys = ReadersKeys(source)
    written = rounds = 0
    done = threading.Event()
    faults: list[object] = []

    def read() -> None:
        nonlocal rounds
        while not done.is_set() and not faults:
            life, there = rounds, written
            seen = found(keys, None, None)
            if life == rounds and not set(names(*range(there))) <= set(seen):
                faults.append((life, there, seen))

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(100):
        for number in range(200):
            source[b"%05d" % number] = None
            written = number + 1
        written, rounds = 0, rounds + 1
        source.clear()
        keys.clear()
    done.set()
    thread.join()
    assert faults == []


@pytest.mark.parametrize("committed", [0, 10_000])
def test_a_read_beside_many_uncommitted_entries_copies_a_few_at_a_time(
    tmp_path: Path, committed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_FEW", PORTION)
    store: Any = Home(tmp_path).open(spec_of(StoreEngine.IN_MEMORY))
    for number in range(20_000):
        store.put(f"{number:05d}", number)
        if number == committed:
            store.commit({CHANGELOG: 0})
    view = store.read_only(IsolationLevel.READ_UNCOMMITTED)
    assert sum(1 for _ in view.all()) == 20_000  # The keys are in order for all readers now.
    for read in (view.all, view.reverse_all, lambda: view.range("00007", "15000")):
        tracemalloc.start()
        try:
            assert sum(1 for _ in read()) > 14_000
            assert tracemalloc.get_traced_memory()[1] < 60_000
        finally:
            tracemalloc.stop()
    store.close()
