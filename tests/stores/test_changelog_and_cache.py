"""What a store logs and forwards, with and without the record cache."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

from pystreams import RecordMetadata, StoreEngine, ValueAndTimestamp, serdes
from pystreams.record import StaticMessage
from tests.stores.support import CHANGELOG, Home, Message, spec_of

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams import Headers

Heard = tuple[str, int | None, int | None, int, "Headers"]


def packed(number: int) -> bytes:
    return struct.pack(">q", number)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path, cache_enabled=True)


def memory(**changes: Any) -> Any:
    return spec_of(StoreEngine.IN_MEMORY, **changes)


def listen(store: Any, *, send_old_values: bool = True) -> list[Heard]:
    heard: list[Heard] = []

    def listener(
        key: str, new: int | None, old: int | None, timestamp: int, headers: Headers, _: object
    ) -> None:
        heard.append((key, new, old, timestamp, headers))

    assert store.set_flush_listener(listener, send_old_values=send_old_values)
    return heard


def test_a_plain_store_logs_each_put_with_the_records_timestamp(home: Home) -> None:
    store: Any = home.open(memory())
    home.record.timestamp = 7
    home.record.headers = (("trace", b"1"),)
    store.put("a", 1)
    home.record.timestamp = 8
    store.delete("a")
    assert home.changelog.records == [(b"a", packed(1), 7, ()), (b"a", None, 8, ())]


def test_a_timestamped_store_logs_the_plain_value_with_its_own_timestamp(home: Home) -> None:
    store: Any = home.open(memory(timestamped=True))
    home.record.timestamp = 99
    store.put_with_timestamp("a", 1, 7)
    store.put("b", ValueAndTimestamp(2, 8))
    store.put_with_timestamp("a", None, 7)
    assert store.get_with_timestamp("b") == (2, 8)
    assert store.get_with_timestamp("a") == (None, -1)
    assert home.logged() == [(b"a", packed(1), 7), (b"b", packed(2), 8), (b"a", None, 99)]


def test_a_store_without_logging_logs_nothing(home: Home, tmp_path: Path) -> None:
    store: Any = home.open(memory(logging=False))
    store.close()
    store.init(home.context(changelog=None))
    store.put("a", 1)
    store.flush_cache()
    store.commit({})
    assert store.get("a") == 1
    assert home.changelog.records == []


def test_a_timestamped_store_over_a_plain_engine_reads_unknown_timestamps(home: Home) -> None:
    plain: Any = home.open(spec_of())
    plain.put("old", 1)
    plain.commit({CHANGELOG: 1})
    plain.close()
    home.changelog.records.clear()
    store: Any = home.open(spec_of(timestamped=True, engine_timestamped=False))
    store.put_with_timestamp("new", 2, 50)
    assert store.get_with_timestamp("new") == (2, -1)
    assert list(store.all()) == [
        ("new", ValueAndTimestamp(2, -1)),
        ("old", ValueAndTimestamp(1, -1)),
    ]
    assert home.logged() == [(b"new", packed(2), 50)]
    store.rollback()
    store.restore([Message(b"new", packed(3), 2, 60)])
    assert store.get("new") == ValueAndTimestamp(3, -1)
    store.close()


@pytest.mark.parametrize(("asked", "given"), [(True, False), (False, True)])
def test_caching_needs_both_the_spec_and_a_share_of_the_cache(
    tmp_path: Path, *, asked: bool, given: bool
) -> None:
    home = Home(tmp_path, cache_enabled=given)
    store: Any = home.open(memory(caching=asked))
    assert not store.set_flush_listener(lambda *_: None, send_old_values=True)
    store.put("a", 1)
    assert len(home.changelog.records) == 1
    assert store.cached_bytes() == 0


def test_the_cache_logs_and_forwards_the_last_value_of_each_key_in_order_of_last_update(
    home: Home,
) -> None:
    store: Any = home.open(memory(caching=True))
    heard = listen(store)
    for timestamp, (key, value) in enumerate([("a", 1), ("b", 2), ("c", 3), ("a", 4)]):
        home.record.timestamp = timestamp
        home.record.headers = (("n", str(timestamp).encode()),)
        store.put(key, value)
    assert home.changelog.records == []
    assert heard == []
    store.flush_cache()
    assert home.logged() == [(b"b", packed(2), 1), (b"c", packed(3), 2), (b"a", packed(4), 3)]
    assert heard == [
        ("b", 2, None, 1, (("n", b"1"),)),
        ("c", 3, None, 2, (("n", b"2"),)),
        ("a", 4, None, 3, (("n", b"3"),)),
    ]
    store.flush_cache()
    assert len(heard) == 3


def test_the_old_value_is_that_before_the_first_update_not_yet_forwarded(home: Home) -> None:
    store: Any = home.open(memory(caching=True, timestamped=True))
    heard = listen(store)
    store.put_with_timestamp("a", 1, 10)
    store.flush_cache()
    store.put_with_timestamp("a", 2, 11)
    store.put_with_timestamp("a", 3, 12)
    store.flush_cache()  # The old value is in the dirty map.
    store.commit({CHANGELOG: 1})
    store.put_with_timestamp("a", 4, 13)
    store.put_with_timestamp("a", 5, 14)
    store.flush_cache()  # The old value is in the engine.
    home.record.timestamp = 99
    store.put_with_timestamp("a", None, 15)
    store.flush_cache()
    assert [entry[:4] for entry in heard] == [
        ("a", 1, None, 10),
        ("a", 3, 1, 12),
        ("a", 5, 3, 14),
        ("a", None, 5, 99),
    ]


def test_old_values_are_not_sent_unless_asked_for(home: Home) -> None:
    store: Any = home.open(memory(caching=True))
    heard = listen(store, send_old_values=False)
    store.put("a", 1)
    store.flush_cache()
    store.put("a", 2)
    store.flush_cache()
    store.delete("a")
    store.flush_cache()
    assert [entry[1:3] for entry in heard] == [(1, None), (2, None), (None, None)]


@pytest.mark.parametrize("send_old_values", [False, True])
def test_a_key_put_and_deleted_with_nothing_before_is_neither_logged_nor_forwarded(
    home: Home, *, send_old_values: bool
) -> None:
    """Spec: Kafka CachingKeyValueStore.putAndMaybeForward."""
    store: Any = home.open(memory(caching=True))
    heard = listen(store, send_old_values=send_old_values)
    store.put("a", 1)
    store.delete("a")
    store.flush_cache()
    store.commit({CHANGELOG: 0})
    assert (heard, home.changelog.records, store.get("a")) == ([], [], None)


def test_without_a_listener_the_cache_logs_even_a_deletion_of_nothing(home: Home) -> None:
    """Spec: Kafka CachingKeyValueStore.putAndMaybeForward, which asks only for its listener."""
    store: Any = home.open(memory(caching=True))
    store.delete("a")
    store.flush_cache()
    assert home.logged() == [(b"a", None, -1)]


def test_cached_bytes_fall_to_zero_at_a_flush_and_uncommitted_bytes_stay(home: Home) -> None:
    store: Any = home.open(memory(caching=True))
    store.put("abc", 1)
    store.put("d", 1)
    store.put("abc", 2)
    assert store.cached_bytes() == 3 + 8 + 1 + 8
    store.delete("d")
    assert store.cached_bytes() == 3 + 8 + 1
    store.flush_cache()
    assert store.cached_bytes() == 0
    assert store.approximate_num_uncommitted_bytes() == 3 + 8 + 1
    store.put("abc", 3)
    assert store.cached_bytes() == 3 + 8
    assert store.approximate_num_uncommitted_bytes() == 3 + 8 + 1


def test_the_logged_record_comes_before_what_the_listener_does(home: Home) -> None:
    store: Any = home.open(memory(caching=True))
    seen: list[int] = []
    store.set_flush_listener(
        lambda *_: seen.append(len(home.changelog.records)), send_old_values=True
    )
    store.put("a", 1)
    store.put("b", 1)
    store.flush_cache()
    assert seen == [1, 2]


def test_the_listener_is_told_where_the_last_record_of_a_key_came_from(home: Home) -> None:
    store: Any = home.open(memory(caching=True))
    sources: list[object] = []
    store.set_flush_listener(lambda *change: sources.append(change[-1]), send_old_values=True)
    for offset in (1, 2):
        home.record.message = StaticMessage("in", 0, offset, None, None, 5)
        store.put("a", offset)
    home.record.message = None
    store.put("b", 1)
    home.record.message = StaticMessage("in", 0, 3, None, None, 5)
    store.flush_cache()
    assert sources == [RecordMetadata("in", 0, 2), None]
    assert home.record.message.offset() == 3, "the listener says whose record is processed"


def test_what_the_listener_writes_into_the_store_is_flushed_as_well(home: Home) -> None:
    store: Any = home.open(memory(caching=True))
    heard: list[tuple[str, int | None, int | None]] = []

    def listener(key: str, new: int | None, old: int | None, *_: object) -> None:
        heard.append((key, new, old))
        if new is not None and new < 3:
            store.put(key, new + 1)

    store.set_flush_listener(listener, send_old_values=True)
    store.put("a", 1)
    store.flush_cache()
    assert heard == [("a", 1, None), ("a", 2, 1), ("a", 3, 2)]
    store.commit({CHANGELOG: 2})


def test_a_rollback_forgets_what_was_cached(home: Home) -> None:
    store: Any = home.open(memory(caching=True))
    heard = listen(store)
    store.put("a", 1)
    store.rollback()
    store.flush_cache()
    assert (heard, home.changelog.records) == ([], [])


def test_a_commit_before_the_flush_is_our_bug(home: Home) -> None:
    store: Any = home.open(memory(caching=True))
    store.put("a", 1)
    with pytest.raises(AssertionError, match="commit before flush_cache"):
        store.commit({CHANGELOG: 1})


def test_default_serdes_come_from_the_context(home: Home) -> None:
    store: Any = home.open(memory())
    store.close()
    from pystreams import TopologyError
    from pystreams.stores.build import build_store

    bare: Any = build_store(memory(key_serde=None, value_serde=None))
    with pytest.raises(TopologyError, match=r"no key serde.*default.key.serde"):
        bare.init(home.context())
    bare.init(home.context(default_key_serde=serdes.STRING, default_value_serde=serdes.STRING))
    bare.put("a", "b")
    assert bare.get("a") == "b"
