"""What every engine promises: one suite over memory and RocksDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pystreams import StoreNotAvailableError
from pystreams.stores.contracts.many_keys import get_many
from pystreams.stores.engines.memory import MemoryEngine
from pystreams.stores.engines.rocksdb import RocksDBEngine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pystreams.stores.contracts.key_value import KeyValueEngine

pytestmark = pytest.mark.contract


@pytest.fixture(params=["memory", "rocksdb", "rocksdb timestamped"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyValueEngine]:
    made: KeyValueEngine
    if request.param == "memory":
        made = MemoryEngine("s")
    else:
        made = RocksDBEngine("s", timestamped=request.param.endswith("timestamped"))
    made.open(tmp_path / "s")
    yield made
    made.close()


def fill(engine: KeyValueEngine, *keys: bytes) -> None:
    engine.write({key: b"v" + key for key in keys}, {})


def test_what_was_written_is_read(engine: KeyValueEngine) -> None:
    engine.write({b"a": b"1", b"b": b""}, {})
    assert (engine.get(b"a"), engine.get(b"b"), engine.get(b"c")) == (b"1", b"", None)


def test_many_keys_are_read_in_their_order(engine: KeyValueEngine) -> None:
    engine.write({b"a": b"1", b"b": b"", b"c": b"3"}, {})
    engine.write({b"c": None}, {})
    assert get_many(engine, [b"b", b"x", b"a", b"c", b"a"]) == [b"", None, b"1", None, b"1"]
    assert get_many(engine, []) == []


def test_none_deletes(engine: KeyValueEngine) -> None:
    fill(engine, b"a", b"b")
    engine.write({b"a": None, b"absent": None}, {})
    assert list(engine.range(None, None)) == [(b"b", b"vb")]


def test_a_key_deleted_and_written_again_appears_once(engine: KeyValueEngine) -> None:
    fill(engine, b"a", b"b")
    assert len(list(engine.range(None, None))) == 2
    engine.write({b"a": None}, {})
    fill(engine, b"a")
    assert [key for key, _ in engine.range(None, None)] == [b"a", b"b"]


def test_order_is_that_of_unsigned_bytes(engine: KeyValueEngine) -> None:
    keys = [b"", b"\x00", b"\x00\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff"]
    fill(engine, *reversed(keys))
    assert [key for key, _ in engine.range(None, None)] == keys
    assert [key for key, _ in engine.range(None, None, reverse=True)] == keys[::-1]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (b"b", b"d", [b"b", b"c"]),
        (b"aa", b"cc", [b"b", b"c"]),
        (None, b"b", [b"a"]),
        (b"d", None, [b"d", b"e"]),
        (b"c", b"c", []),
        (b"d", b"b", []),
        (b"x", None, []),
    ],
)
def test_ranges_include_the_start_and_exclude_the_end(
    engine: KeyValueEngine,
    start: bytes | None,
    end: bytes | None,
    expected: list[bytes],
    *,
    reverse: bool,
) -> None:
    fill(engine, b"a", b"b", b"c", b"d", b"e")
    found = [key for key, _ in engine.range(start, end, reverse=reverse)]
    assert found == (expected[::-1] if reverse else expected)


def test_metadata_is_kept_apart_from_data(engine: KeyValueEngine) -> None:
    engine.write({b"k": b"v"}, {b"t-0": b"1", b"t-1": b"2"})
    engine.write({}, {b"t-0": b"3", b"t-1": None})
    assert engine.metadata() == {b"t-0": b"3"}
    assert list(engine.range(None, None)) == [(b"k", b"v")]
    assert engine.get(b"t-0") is None


def test_an_open_iterator_survives_writes(engine: KeyValueEngine) -> None:
    fill(engine, b"a", b"b", b"c")
    iterator = engine.range(None, None)
    assert next(iterator)[0] == b"a"
    engine.write({b"c": b"new", b"d": b"new"}, {})
    assert [key for key, _ in iterator][:2] == [b"b", b"c"]


def test_an_exhausted_iterator_stays_exhausted(engine: KeyValueEngine) -> None:
    iterator = engine.range(None, None)
    assert list(iterator) == []
    assert list(iterator) == []
    iterator.close()


def test_a_closed_engine_refuses_reads_and_writes(engine: KeyValueEngine) -> None:
    fill(engine, b"a", b"b")
    iterator = engine.range(None, None)
    next(iterator)
    engine.close()
    engine.close()
    for read in (
        lambda: engine.get(b"a"),
        lambda: get_many(engine, [b"a"]),
        lambda: list(engine.range(None, None)),
        lambda: engine.write({b"a": b"1"}, {}),
        lambda: next(iterator),
    ):
        with pytest.raises(StoreNotAvailableError, match="'s' is closed"):
            read()


def test_persistent_engines_keep_data_and_metadata(engine: KeyValueEngine, tmp_path: Path) -> None:
    engine.write({b"a": b"1"}, {b"t-0": b"7"})
    unfinished = engine.range(None, None)  # Must not keep the database open.
    engine.close()
    engine.open(tmp_path / "s")
    expected = ({b"a": b"1"}, {b"t-0": b"7"}) if engine.persistent else ({}, {})
    assert (dict(engine.range(None, None)), engine.metadata()) == expected
    unfinished.close()


def test_the_number_of_entries_is_about_right(engine: KeyValueEngine) -> None:
    fill(engine, *(b"%04d" % number for number in range(1000)))
    assert 900 <= engine.approximate_num_entries() <= 1100
