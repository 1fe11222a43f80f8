"""What a store of limited size promises: the keys used last stay; what goes, the changelog says."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import (
    IsolationLevel,
    StoreNotAvailableError,
    Stores,
    TopologyError,
    ValueAndTimestamp,
)
from pystreams.serdes import LONG, STRING
from pystreams.stores.engines.memory import MemoryEngine
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.stores.managed import commit, opened
from tests.stores.support import CHANGELOG, Home, Message

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.contract

pack = struct.Struct(">q").pack


class Shop:
    """A store that keeps three keys, and its home; values are ints."""

    def __init__(self, directory: Path, *, timestamped: bool = False, max_entries: int = 3) -> None:
        self.home = Home(directory, cache_enabled=True)
        supplier = Stores.lru_map("s", max_entries)
        self.timestamped = timestamped
        self.builder = (
            Stores.timestamped_key_value_store_builder(supplier, STRING, LONG)
            if timestamped
            else Stores.key_value_store_builder(supplier, STRING, LONG)
        ).with_caching_enabled()
        self.store: Any = self.home.open_builder(self.builder)

    def put(self, keys: str, number: int = 1) -> None:
        for key in keys:
            self.store.put(key, ValueAndTimestamp(number, 5) if self.timestamped else number)

    def keys(self) -> str:
        return "".join(key for key, _ in self.store.all())

    def commit(self) -> None:
        self.store.flush_cache()
        self.store.commit({CHANGELOG: 1})
        self.home.changelog.records.clear()

    def logged(self) -> list[tuple[bytes | None, bool]]:
        """(key, whether it has a value) of what was logged."""
        return [(key, value is not None) for key, value, _ in self.home.logged()]


@pytest.fixture(params=[False, True], ids=["plain", "timestamped"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    return Shop(tmp_path, timestamped=request.param)


def test_a_full_store_lets_go_of_the_key_written_longest_ago(shop: Shop) -> None:
    shop.put("abcd")
    assert shop.keys() == "bcd"
    assert shop.store.get("a") is None
    assert shop.store.approximate_num_entries() == 3


def test_writing_a_key_again_is_a_use(shop: Shop) -> None:
    shop.put("abcad")
    assert shop.keys() == "acd"


def test_reading_a_key_is_a_use_committed_or_not(shop: Shop) -> None:
    shop.put("abc")
    assert shop.store.get("a") is not None
    shop.put("d")
    assert shop.keys() == "acd"
    shop.commit()
    assert shop.store.get("c") is not None
    shop.put("e")
    assert shop.keys() == "cde"


def test_put_if_absent_is_a_use_of_what_is_there(shop: Shop) -> None:
    shop.put("abc")
    assert shop.store.put_if_absent("a", shop.store.get("a")) == shop.store.get("a")
    shop.put("d")
    assert shop.keys() == "acd"


def test_reading_a_range_is_no_use(shop: Shop) -> None:
    shop.put("abc")
    assert [key for key, _ in shop.store.range("a", "b")] == ["a", "b"]
    shop.put("d")
    assert shop.keys() == "bcd"


def test_a_deletion_makes_place(shop: Shop) -> None:
    shop.put("abc")
    shop.store.delete("b")
    shop.put("d")
    assert shop.keys() == "acd"
    shop.store.delete("x")
    assert shop.keys() == "acd"


def test_an_eviction_is_logged_before_the_key_that_caused_it(shop: Shop) -> None:
    shop.home.record.timestamp = 7
    shop.put("abcd")
    assert shop.logged() == [
        (b"a", True),
        (b"b", True),
        (b"c", True),
        (b"a", False),
        (b"d", True),
    ]
    assert shop.home.logged()[3] == (b"a", None, 7)


def test_an_eviction_of_a_committed_key_is_committed_and_not_before(shop: Shop) -> None:
    shop.put("abc")
    shop.commit()
    shop.put("d")
    committed = shop.store.read_only(IsolationLevel.READ_COMMITTED)
    uncommitted = shop.store.read_only(IsolationLevel.READ_UNCOMMITTED)
    assert [key for key, _ in committed.all()] == ["a", "b", "c"]
    assert [key for key, _ in uncommitted.all()] == ["b", "c", "d"]
    shop.commit()
    assert [key for key, _ in committed.all()] == ["b", "c", "d"]


def test_reads_of_other_threads_are_no_use(shop: Shop) -> None:
    shop.put("abc")
    shop.commit()
    for level in IsolationLevel:
        assert shop.store.read_only(level).get("a") is not None
    shop.put("d")
    assert shop.keys() == "bcd"


def test_a_rollback_brings_evicted_keys_back_as_those_used_longest_ago(shop: Shop) -> None:
    shop.put("abc")
    shop.commit()
    shop.store.get("b")
    shop.put("de")
    shop.store.delete("b")
    shop.store.rollback()
    assert shop.keys() == "abc"
    assert shop.store.approximate_num_entries() == 3
    shop.put("xyz")
    assert shop.keys() == "xyz"
    shop.store.rollback()
    assert shop.keys() == "abc"


def test_a_commit_without_writes_keeps_the_order_of_uses_and_reads_no_entry(
    tmp_path: Path,
) -> None:
    """However many there are; under exactly-once it may come ten times a second."""

    class Counted(MemoryEngine):
        walks = 0

        def range(self, *bounds: Any, **how: Any) -> Any:
            type(self).walks += 1
            return super().range(*bounds, **how)

    supplier = Stores.lru_map("lru", 3)
    builder = Stores.key_value_store_builder(supplier, STRING, LONG)
    counted = StoreSpecBuilder(replace(builder.spec, engine_factory=Counted))
    manager = opened(tmp_path, counted, exactly_once=True)
    store = manager.store("lru")
    for key in "abc":
        store.put(key, 1)
    commit(manager, lru=0)
    assert store.get("a") == 1
    walks = Counted.walks

    manager.commit()

    assert Counted.walks == walks
    store.put("d", 1)
    assert [key for key, _ in store.all()] == ["a", "c", "d"]
    manager.close()


def test_restore_keeps_the_keys_written_last_and_logs_nothing(shop: Shop) -> None:
    messages = [Message(key.encode(), pack(1), offset) for offset, key in enumerate("abcdea")]
    messages.append(Message(b"d", None, 6))
    messages.append(Message(None, pack(1), 7))
    shop.store.restore(messages)
    assert shop.keys() == "ae"
    shop.store.restore([Message(key.encode(), pack(1), 8) for key in "fg"])
    assert shop.keys() == "afg"
    assert shop.home.changelog.records == []
    assert shop.store.committed_offset(CHANGELOG) == 8
    shop.put("x")
    assert shop.keys() == "fgx"


def test_the_changelog_rebuilds_the_store(shop: Shop, tmp_path: Path) -> None:
    for number, key in enumerate("abcabdefgabcdhhhiab"):
        shop.put(key, number)
    records = shop.home.logged()
    copy = Shop(tmp_path / "copy", timestamped=shop.timestamped)
    copy.store.restore(
        [Message(key, value, offset, 5) for offset, (key, value, _) in enumerate(records)]
    )
    assert list(copy.store.all()) == list(shop.store.all())


def test_there_is_no_record_cache(shop: Shop) -> None:
    assert not shop.store.set_flush_listener(lambda *_: None, send_old_values=True)
    shop.put("a")
    assert len(shop.home.changelog.records) == 1


def test_uncommitted_bytes_count_evicted_keys(tmp_path: Path) -> None:
    shop = Shop(tmp_path, max_entries=1)
    shop.put("ab")
    assert shop.store.approximate_num_uncommitted_bytes() == 1 + 1 + 8
    assert shop.keys() == "b"


def test_a_closed_store_is_empty_when_it_is_opened_again(shop: Shop) -> None:
    shop.put("abc")
    shop.commit()
    shop.store.close()
    shop.store.close()
    with pytest.raises(StoreNotAvailableError):
        shop.store.get("a")
    shop.store.init(shop.home.context())
    assert shop.keys() == ""
    shop.put("xyz")
    assert shop.keys() == "xyz"


@pytest.mark.parametrize("max_entries", [0, -1])
def test_a_store_that_keeps_nothing_is_refused(max_entries: int) -> None:
    with pytest.raises(TopologyError, match=f"max_entries must be 1 or more, not {max_entries}"):
        Stores.lru_map("s", max_entries)


@pytest.mark.property
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "get", "delete", "commit"]), st.sampled_from("abcdef")),
        max_size=40,
    )
)
@settings(max_examples=60, deadline=None)
def test_random_steps_keep_what_a_list_of_uses_keeps(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    shop = Shop(tmp_path_factory.getbasetemp())
    uses: list[str] = []
    for step, key in steps:
        if step == "put":
            shop.put(key)
            uses = [*(used for used in uses if used != key), key][-3:]
        elif step == "get":
            assert (shop.store.get(key) is not None) == (key in uses)
            if key in uses:
                uses = [*(used for used in uses if used != key), key]
        elif step == "delete":
            shop.store.delete(key)
            uses = [used for used in uses if used != key]
        else:
            shop.commit()
        assert shop.keys() == "".join(sorted(uses))
