"""What every key-value store promises its user and the runtime, over both engines."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    IsolationLevel,
    SerializationError,
    StoreEngine,
    StoreNotAvailableError,
    TopicPartition,
    ValueAndTimestamp,
)
from pystreams.serdes import FunctionSerde
from tests.stores.support import CHANGELOG, Home, Message, spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = pytest.mark.contract

ENGINES = list(StoreEngine)


class Shop:
    """One store and its home; values are ints, wrapped with timestamp 5 where there is one."""

    def __init__(
        self, directory: Path, engine: StoreEngine, *, timestamped: bool, caching: bool
    ) -> None:
        self.home = Home(directory, cache_enabled=caching)
        self.spec = spec_of(engine, timestamped=timestamped, caching=caching)
        self.timestamped = timestamped
        self.store: Any = self.home.open(self.spec)

    def value(self, number: int | None, timestamp: int = 5) -> Any:
        if number is None or not self.timestamped:
            return number
        return ValueAndTimestamp(number, timestamp)

    def put(self, key: str, number: int | None) -> None:
        self.store.put(key, self.value(number))

    def content(self) -> dict[str, int]:
        return {key: value.value if self.timestamped else value for key, value in self.store.all()}

    def commit(self, last_offset: int = 1) -> None:
        self.store.flush_cache()
        self.store.commit({CHANGELOG: last_offset})

    def reopen(self) -> None:
        self.store.close()
        self.store = self.home.open(self.spec)


@pytest.fixture(params=[False, True], ids=["logged", "cached"])
def caching(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=[False, True], ids=["plain", "timestamped"])
def timestamped(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=ENGINES, ids=[engine.value for engine in ENGINES])
def shop(
    request: pytest.FixtureRequest, tmp_path: Path, *, timestamped: bool, caching: bool
) -> Iterator[Shop]:
    made = Shop(tmp_path, request.param, timestamped=timestamped, caching=caching)
    yield made
    made.store.close()


def keys(entries: Iterator[tuple[str, Any]]) -> str:
    return "".join(key for key, _ in entries)


def test_owner_reads_its_own_uncommitted_writes(shop: Shop) -> None:
    shop.put("a", 1)
    shop.put("a", 2)
    shop.put("b", 3)
    shop.put("b", None)
    assert shop.store.get("a") == shop.value(2)
    assert shop.store.get("b") is None
    assert shop.content() == {"a": 2}


def test_put_if_absent_put_all_and_delete_return_what_was_there(shop: Shop) -> None:
    store = shop.store
    assert store.put_if_absent("a", shop.value(1)) is None
    assert store.put_if_absent("a", shop.value(2)) == shop.value(1)
    store.put_all([("b", shop.value(2)), ("c", shop.value(3)), ("a", None)])
    assert store.delete("b") == shop.value(2)
    assert store.delete("b") is None
    assert shop.content() == {"c": 3}


def test_ranges_are_inclusive_and_merge_committed_with_uncommitted(shop: Shop) -> None:
    for key in "aceg":
        shop.put(key, 1)
    shop.commit()
    for key in "bdfh":
        shop.put(key, 2)
    shop.put("c", 3)
    shop.put("e", None)
    store = shop.store
    assert keys(store.all()) == "abcdfgh"
    assert keys(store.reverse_all()) == "hgfdcba"
    assert keys(store.range("b", "f")) == "bcdf"
    assert keys(store.reverse_range("b", "f")) == "fdcb"
    assert keys(store.range(None, "c")) == "abc"
    assert keys(store.reverse_range("f", None)) == "hgf"
    assert keys(store.range("e", "e")) == ""
    assert keys(store.range("x", "a")) == ""
    assert dict(store.range("c", "c")) == {"c": shop.value(3)}


@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_that_ends_before_it_starts_is_empty_and_told(shop: Shop, *, reverse: bool) -> None:
    shop.put("b", 1)
    ranged = shop.store.reverse_range if reverse else shop.store.range
    with capture_logs() as logs:
        assert keys(ranged("c", "a")) == ""
    assert [entry["event"] for entry in logs] == ["store.empty_range"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_value_that_its_serde_makes_nothing_of_is_a_deletion(
    tmp_path: Path, engine: StoreEngine
) -> None:
    """Kafka's shouldDeleteIfSerializedValueIsNull."""

    def emptying(value: str) -> Any:
        return None if value == "none" else value.encode()

    serde = FunctionSerde(emptying, bytes.decode, "emptying")
    store: Any = Home(tmp_path).open(spec_of(engine, value_serde=serde))
    for key in "abc":
        store.put(key, key)
    store.commit({CHANGELOG: 1})
    store.put("a", "none")
    assert store.get("a") is None
    assert dict(store.all()) == {"b": "b", "c": "c"}
    store.close()


def test_prefix_scan_finds_what_starts_with_the_prefix(shop: Shop) -> None:
    for key in ("a", "ab", "abc", "ac", "b"):
        shop.put(key, 1)
    assert [key for key, _ in shop.store.prefix_scan(b"ab")] == ["ab", "abc"]
    assert [key for key, _ in shop.store.prefix_scan(b"\xff")] == []
    assert len(list(shop.store.prefix_scan(b""))) == 5


def test_rollback_returns_to_the_last_commit(shop: Shop) -> None:
    shop.put("a", 1)
    shop.commit(10)
    shop.put("a", 2)
    shop.put("b", 2)
    shop.store.rollback()
    assert shop.content() == {"a": 1}
    assert shop.store.approximate_num_uncommitted_bytes() == 0
    assert shop.store.cached_bytes() == 0
    assert shop.store.committed_offset(CHANGELOG) == 10


def test_close_without_commit_keeps_the_last_commit(shop: Shop) -> None:
    shop.put("a", 1)
    shop.commit(10)
    shop.put("a", 2)
    shop.reopen()
    survives = shop.store.manages_offsets()
    assert shop.content() == ({"a": 1} if survives else {})
    assert shop.store.committed_offset(CHANGELOG) == (10 if survives else None)


def test_an_empty_commit_clears_the_offsets(shop: Shop) -> None:
    other = TopicPartition("other", 3)
    shop.store.commit({CHANGELOG: 4, other: 5})
    assert shop.store.committed_offset(other) == 5
    shop.store.commit({})
    assert shop.store.committed_offset(CHANGELOG) is None
    assert shop.store.committed_offset(other) is None
    shop.reopen()
    assert shop.store.committed_offset(CHANGELOG) is None


def test_restore_applies_the_last_record_of_a_key_and_its_offset(shop: Shop) -> None:
    pack = struct.Struct(">q").pack
    shop.store.restore(
        [
            Message(b"a", pack(1), 10, 5),
            Message(b"b", pack(2), 11, 5),
            Message(None, pack(9), 12, 5),
            Message(b"a", pack(3), 13, 5),
            Message(b"b", None, 14, 5),
        ]
    )
    shop.store.restore([])
    assert dict(shop.store.all()) == {"a": shop.value(3)}
    assert shop.store.committed_offset(CHANGELOG) == 14
    assert shop.home.changelog.records == []
    assert shop.store.approximate_num_uncommitted_bytes() == 0


def test_restoring_the_changelog_rebuilds_the_store(shop: Shop, tmp_path: Path) -> None:
    shop.home.record.timestamp = 5
    for number in range(50):
        shop.put(f"k{number % 7}", None if number % 5 == 0 else number)
    shop.commit()
    copy = Shop(tmp_path / "copy", shop.spec.engine, timestamped=shop.timestamped, caching=False)
    copy.store.restore(
        [
            Message(key, value, offset, timestamp)
            for offset, (key, value, timestamp) in enumerate(shop.home.logged())
        ]
    )
    assert list(copy.store.all()) == list(shop.store.all())
    copy.store.close()


def test_uncommitted_bytes_count_each_key_once(shop: Shop) -> None:
    width = 16 if shop.timestamped else 8
    shop.put("abc", 1)
    shop.put("abc", 2)
    assert shop.store.approximate_num_uncommitted_bytes() == 3 + width
    shop.put("d", 1)
    shop.put("d", None)
    assert shop.store.approximate_num_uncommitted_bytes() == 3 + width + 1
    shop.put("d", 1)
    assert shop.store.max_uncommitted_bytes() == 3 + width + 1 + width
    shop.commit()
    assert shop.store.approximate_num_uncommitted_bytes() == 0
    assert shop.store.max_uncommitted_bytes() == 3 + width + 1 + width


@pytest.mark.parametrize("reverse", [False, True])
def test_an_open_iterator_sees_what_lies_ahead_as_it_is_now(shop: Shop, *, reverse: bool) -> None:
    for key in "bdfhj":
        shop.put(key, 1)
    shop.commit()
    shop.put("c", 2)
    iterator = shop.store.reverse_all() if reverse else shop.store.all()
    assert next(iterator)[0] == ("j" if reverse else "b")
    shop.put("e", 3)
    shop.put("f", 3)
    assert next(iterator) == (("h", shop.value(1)) if reverse else ("c", shop.value(2)))
    shop.commit()
    shop.put("d", None)
    assert keys(iterator) == ("fecb" if reverse else "efhj")


def test_an_open_iterator_survives_a_rollback(shop: Shop) -> None:
    for key in "ace":
        shop.put(key, 1)
    shop.commit()
    shop.put("b", 2)
    shop.put("e", None)
    iterator = shop.store.all()
    assert next(iterator)[0] == "a"
    shop.store.rollback()
    assert keys(iterator) == "ce"


def test_views_show_their_isolation_level(shop: Shop) -> None:
    shop.put("a", 1)
    shop.put("b", 1)
    shop.commit()
    committed = shop.store.read_only(IsolationLevel.READ_COMMITTED)
    uncommitted = shop.store.read_only(IsolationLevel.READ_UNCOMMITTED)
    shop.put("a", 2)
    shop.put("b", None)
    shop.put("c", 3)
    assert (committed.get("a"), uncommitted.get("a")) == (shop.value(1), shop.value(2))
    assert keys(committed.all()) == "ab"
    assert keys(uncommitted.all()) == "ac"
    assert keys(uncommitted.reverse_range("a", "b")) == "a"
    assert keys(uncommitted.prefix_scan(b"c")) == "c"
    shop.commit()
    assert keys(committed.reverse_all()) == "ca"


def test_wrong_types_are_refused_with_the_serde_to_set(shop: Shop) -> None:
    with pytest.raises(SerializationError, match=r"key of a record.*set the right key_serde"):
        shop.store.put(3, shop.value(1))
    with pytest.raises(SerializationError, match=r"value of a record.*set the right value_serde"):
        shop.store.put("a", ValueAndTimestamp("x", 5) if shop.timestamped else "x")
    with pytest.raises(SerializationError, match="key"):
        shop.store.get(3)
    with pytest.raises(SerializationError, match="key"):
        shop.store.range(1, None)
    assert shop.content() == {}
    assert shop.store.approximate_num_uncommitted_bytes() == 0


def test_bytes_that_do_not_fit_the_serde_are_named(shop: Shop) -> None:
    shop.store.restore([Message(b"a", b"abc", 1, 5)])
    with pytest.raises(SerializationError, match="store 's' holds bytes"):
        shop.store.get("a")
    with pytest.raises(SerializationError, match="store 's' holds bytes"):
        list(shop.store.all())


def test_a_store_that_is_not_open_refuses_everything(shop: Shop) -> None:
    shop.put("a", 1)
    view = shop.store.read_only(IsolationLevel.READ_UNCOMMITTED)
    shop.store.close()
    shop.store.close()
    assert not shop.store.is_open
    for use in (
        lambda: shop.store.get("a"),
        lambda: shop.put("a", 1),
        lambda: shop.put("a", None),
        lambda: list(shop.store.all()),
        lambda: view.get("a"),
        lambda: shop.store.read_only(IsolationLevel.READ_COMMITTED),
    ):
        with pytest.raises(StoreNotAvailableError):
            use()
