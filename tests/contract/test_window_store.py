"""What every window store promises its user and the runtime, over both engines."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    IsolationLevel,
    SerializationError,
    StoreEngine,
    StoreNotAvailableError,
    ValueAndTimestamp,
    Window,
    Windowed,
)
from pystreams.record import MAX_TIME
from pystreams.serdes import LONG, STRING
from pystreams.stores.build import build_store
from pystreams.stores.contracts.spec import Retention, StoreSpec
from pystreams.stores.kinds.window.keys import window_key
from pystreams.stores.kinds.window.kind import WINDOW
from tests.stores.support import CHANGELOG, Home, Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.contract

ENGINES = list(StoreEngine)
SIZE_MS = 10
# Three segments are live: retention spans two, and neither of its ends is a segment's.
RETENTION = Retention(retention_ms=100, segment_interval_ms=50, window_size_ms=SIZE_MS)
TIME_ORDERED = replace(RETENTION, time_ordered=True)
DUPLICATES = Retention(100, 50, window_size_ms=SIZE_MS, retain_duplicates=True)

UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
COMMITTED = IsolationLevel.READ_COMMITTED


class Shop:
    """One window store and its home; values are ints, with timestamp 5 where there is one."""

    def __init__(
        self,
        directory: Path,
        engine: StoreEngine,
        *,
        timestamped: bool = False,
        caching: bool = False,
        retention: Retention = RETENTION,
        transactional: bool = True,
    ) -> None:
        self.home = Home(directory, cache_enabled=caching)
        self.timestamped = timestamped
        self.time_ordered = retention.time_ordered
        self.spec = StoreSpec(
            name="s",
            kind=WINDOW,
            engine=engine,
            timestamped=timestamped,
            engine_timestamped=timestamped,
            key_serde=STRING,
            value_serde=LONG,
            caching=caching,
            retention=retention,
            transactional=transactional,
        )
        self.store: Any = None
        self.open()

    def open(self) -> None:
        self.store = build_store(self.spec)
        self.store.init(self.home.context())
        if self.time_ordered:
            self.store.keep_from(MAX_TIME)  # Nothing is to be sent on.

    def value(self, number: int | None, timestamp: int = 5) -> Any:
        if number is None or not self.timestamped:
            return number
        return ValueAndTimestamp(number, timestamp)

    def put(self, key: str, number: int | None, start: int) -> None:
        self.store.put(key, self.value(number), start)

    def put_all(self, entries: str) -> None:
        """Put windows written as `a5 b60`: value 1000 + start."""
        for entry in entries.split():
            start = int(entry[1:])
            self.put(entry[0], 1000 + start, start)

    def commit(self, last_offset: int = 1) -> None:
        self.store.flush_cache()
        self.store.commit({CHANGELOG: last_offset})

    def reopen(self) -> None:
        self.store.close()
        self.open()

    def keys_in_engine(self) -> set[bytes]:
        """Return the first byte of each key."""
        stored = [key for key, _ in self.store._buffer._engine.range(None, None)]
        return {key[-13:-12] for key in stored}

    def content(self) -> str:
        return names(self.store.all())


def names(entries: Iterable[tuple[Windowed[str], Any]]) -> str:
    """Write windows as `a5 b60`."""
    return " ".join(f"{windowed.key}{windowed.window.start}" for windowed, _ in entries)


def starts(entries: Iterable[tuple[int, Any]]) -> list[int]:
    return [start for start, _ in entries]


@pytest.fixture(params=[False, True], ids=["logged", "cached"])
def caching(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=[False, True], ids=["plain", "timestamped"])
def timestamped(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=[RETENTION, TIME_ORDERED], ids=["by_key", "by_time"])
def retention(request: pytest.FixtureRequest) -> Retention:
    kept: Retention = request.param
    return kept


@pytest.fixture(params=ENGINES, ids=[engine.value for engine in ENGINES])
def shop(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    retention: Retention,
    *,
    timestamped: bool,
    caching: bool,
) -> Iterator[Shop]:
    made = Shop(
        tmp_path, request.param, timestamped=timestamped, caching=caching, retention=retention
    )
    yield made
    made.store.close()


@pytest.fixture(params=ENGINES, ids=[engine.value for engine in ENGINES])
def plain(request: pytest.FixtureRequest, tmp_path: Path, retention: Retention) -> Iterator[Shop]:
    made = Shop(tmp_path, request.param, retention=retention)
    yield made
    made.store.close()


@pytest.fixture(params=ENGINES, ids=[engine.value for engine in ENGINES])
def duplicates(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path, request.param, retention=DUPLICATES)
    yield made
    made.store.close()


# Reads


def test_owner_reads_its_own_uncommitted_writes(shop: Shop) -> None:
    shop.put("a", 1, 0)
    shop.put("a", 2, 0)
    shop.put("a", 3, 60)
    shop.put("b", 4, 0)
    shop.put("b", None, 0)
    assert shop.store.fetch("a", 0) == shop.value(2)
    assert shop.store.fetch("a", 60) == shop.value(3)
    assert shop.store.fetch("a", 1) is None
    assert shop.store.fetch("b", 0) is None
    assert shop.content() == "a0 a60"


def test_fetch_of_a_key_is_inclusive_in_order_of_time_and_merges_all_layers(shop: Shop) -> None:
    shop.put_all("a0 a49 a50 a99 b50")
    shop.commit()
    shop.put_all("a1 a51 b0 b51")
    shop.put("a", None, 49)
    store = shop.store
    assert starts(store.fetch("a", 0, 99)) == [0, 1, 50, 51, 99]
    assert starts(store.fetch("a", 1, 50)) == [1, 50]
    assert starts(store.backward_fetch("a", 1, 99)) == [99, 51, 50, 1]
    assert starts(store.fetch("a", -5, MAX_TIME)) == [0, 1, 50, 51, 99]
    assert starts(store.fetch("a", 2, 49)) == []
    assert starts(store.fetch("a", 60, 50)) == []
    assert starts(store.fetch("c", 0, 99)) == []
    assert list(store.fetch("b", 0, 0)) == [(0, shop.value(1000))]


def test_windows_of_longer_keys_are_not_taken_for_those_of_a_key(shop: Shop) -> None:
    for key in ("a", "a\x00", "a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "aa", ""):
        shop.put(key, 1, 7)
        shop.put(key, 1, 60)
    assert starts(shop.store.fetch("a", 0, 99)) == [7, 60]
    assert starts(shop.store.fetch("", 0, 99)) == [7, 60]
    assert {w.key for w, _ in shop.store.fetch_range("a", "a\x00", 0, MAX_TIME)} == {"a", "a\x00"}
    assert {w.key for w, _ in shop.store.fetch_range("", "a", 0, MAX_TIME)} == {"", "a"}


def test_fetch_of_a_key_range_is_inclusive_and_goes_segment_by_segment(shop: Shop) -> None:
    shop.put_all("d0 a0 b60 c60")
    shop.commit()
    shop.put_all("b0 a60 c0")
    store = shop.store
    assert names(store.fetch_range("b", "c", 0, 60)) == "b0 c0 b60 c60"
    assert names(store.backward_fetch_range("b", "c", 0, 60)) == "c60 b60 c0 b0"
    assert names(store.fetch_range(None, "b", 0, 60)) == "a0 b0 a60 b60"
    assert names(store.fetch_range("c", None, 0, 60)) == "c0 d0 c60"
    assert names(store.fetch_range("b", "c", 1, MAX_TIME)) == "b60 c60"
    assert names(store.fetch_range("c", "b", 0, 60)) == ""


def test_fetch_all_and_all_give_windows_of_all_keys(shop: Shop) -> None:
    shop.put_all("a0 b0 a60")
    shop.commit()
    shop.put_all("\xff0 c60 d99")
    store = shop.store
    assert names(store.all()) == "a0 b0 \xff0 a60 c60 d99"
    assert names(store.backward_all()) == "d99 c60 a60 \xff0 b0 a0"
    assert names(store.fetch_all(1, 60)) == "a60 c60"
    assert names(store.backward_fetch_all(0, 60)) == "c60 a60 \xff0 b0 a0"
    assert next(store.all()) == (Windowed("a", Window(0, SIZE_MS)), shop.value(1000))


def test_open_ends_find_windows_of_keys_made_of_zeros(shop: Shop) -> None:
    keys = ["\x00", "\x00\x00", "\x00\x00\x00"]
    for key in keys:
        shop.put(key, 1, 0)
    shop.commit()
    for key in keys:
        shop.put(key, 2, 10)
    found = {(windowed.key, windowed.window.start) for windowed, _ in shop.store.all()}
    assert found == {(key, start) for key in keys for start in (0, 10)}
    for entries in (shop.store.fetch_range(None, None, 0, 10), shop.store.fetch_all(0, 10)):
        assert {(windowed.key, windowed.window.start) for windowed, _ in entries} == found
    assert starts(shop.store.fetch(keys[1], 0, 10)) == [0, 10]


def test_an_open_iterator_goes_on_over_puts_and_commits(shop: Shop) -> None:
    shop.put_all("a0 a20 a60")
    iterator = shop.store.fetch("a", 0, 99)
    assert next(iterator)[0] == 0
    shop.put_all("a10 a70")
    shop.commit()
    shop.put("a", None, 20)
    assert starts(iterator) == [10, 60, 70]


# Retention


def test_a_window_older_than_the_retention_is_not_found_though_its_segment_lives(
    shop: Shop,
) -> None:
    shop.put_all("a0 a1 a49 a50")
    newest = f"b{102 if shop.time_ordered else 101}"  # Kafka's layout by time reads 1 ms more.
    shop.put_all(newest)
    assert shop.store.fetch("a", 1) is None
    assert shop.store.fetch("a", 49) is not None
    assert starts(shop.store.fetch("a", 0, 200)) == [49, 50]
    assert shop.content() == f"a49 a50 {newest}"
    assert names(shop.store.fetch_range("a", "a", 0, 200)) == "a49 a50"
    assert names(shop.store.backward_fetch_all(0, 49)) == "a49"


def test_a_late_put_into_a_live_segment_is_taken(shop: Shop) -> None:
    shop.put_all("b149 a40")
    assert shop.content() == "b149"  # 40 is older than the retention ...
    shop.put_all("a50")
    assert shop.content() == "a50 b149"  # ... and 50 is not.
    assert shop.home.dropped.count == 0


def test_a_put_into_an_expired_segment_is_dropped_counted_and_not_logged(plain: Shop) -> None:
    plain.put_all("b150 a49")
    assert plain.content() == "b150"
    assert plain.home.dropped.count == 1
    assert len(plain.home.logged()) == 1


def test_only_the_first_expired_put_is_logged(plain: Shop) -> None:
    with capture_logs() as lines:
        plain.put_all("b150 a49 a48 a47")
    assert plain.home.dropped.count == 3
    assert sum("write to an expired segment is dropped" in line["event"] for line in lines) == 1


def test_a_negative_start_is_expired_from_the_beginning(shop: Shop) -> None:
    shop.put("a", 1, -1)
    shop.put("a", 1, -60)
    assert shop.home.dropped.count == 2
    assert shop.content() == ""
    assert shop.store.fetch("a", -1) is None


def test_expired_segments_go_at_the_commit_and_come_back_with_a_rollback(shop: Shop) -> None:
    shop.put_all("a0 a60")
    shop.commit()
    shop.put_all("b150")
    assert shop.content() == "a60 b150"
    shop.store.rollback()
    assert shop.content() == "a0 a60"
    shop.put_all("b161")
    shop.commit()
    assert shop.content() == "b161"
    assert shop.keys_in_engine() == {b"a", b"b"}  # The segment of a60 is live.
    shop.put_all("b300")
    shop.commit()
    assert shop.keys_in_engine() == {b"b"}


def test_rollback_takes_back_puts_and_stream_time(shop: Shop) -> None:
    shop.put_all("a0")
    shop.commit()
    shop.put("a", None, 0)
    shop.put_all("c149 b500")
    shop.store.rollback()
    assert shop.content() == "a0"
    shop.put_all("d3")
    assert shop.home.dropped.count == 0
    assert shop.content() == "a0 d3"


# Changelog, restore, reopening


def test_the_changelog_has_kafka_streams_keys_and_times(shop: Shop) -> None:
    shop.home.record.timestamp = 77
    shop.put("a", 1, 3)
    shop.put("b", 2, 60)
    shop.store.flush_cache()
    shop.put("a", None, 3)
    shop.store.flush_cache()
    time = 5 if shop.timestamped else 77
    assert shop.home.logged() == [
        (window_key(b"a", 3), struct.pack(">q", 1), time),
        (window_key(b"b", 60), struct.pack(">q", 2), time),
        (window_key(b"a", 3), None, 77),
    ]


def test_persistent_stores_keep_windows_and_the_committed_stream_time(shop: Shop) -> None:
    shop.put_all("a98 b199")
    shop.commit(last_offset=8)
    assert shop.content() == "b199"
    shop.reopen()
    if not shop.store.persistent:
        assert shop.content() == ""
        assert shop.store.committed_offset(CHANGELOG) is None
        return
    assert shop.store.committed_offset(CHANGELOG) == 8
    assert shop.content() == "b199"
    assert shop.store.fetch("b", 199) == shop.value(1199)
    shop.put_all("a49")
    assert shop.home.dropped.count == 1


def restored(number: int, offset: int, key: bytes, start: int, time: int = 5) -> Message:
    return Message(window_key(key, start), struct.pack(">q", number), offset, time)


def test_restore_puts_each_record_into_its_segment_and_drops_what_is_expired(shop: Shop) -> None:
    shop.store.restore(
        [
            restored(1, 0, b"a", 0),
            restored(2, 1, b"a", 60),
            Message(None, b"without a key", 2),
            restored(3, 3, b"b", 161),
            restored(4, 4, b"c", 161),
            Message(window_key(b"c", 161), None, 5),
        ]
    )
    assert shop.content() == "b161"
    assert list(shop.store.fetch_all(60, 300)) == [(Windowed("b", Window(161, 171)), shop.value(3))]
    assert shop.store.committed_offset(CHANGELOG) == 5
    assert shop.keys_in_engine() == {b"a", b"b"}  # The segment of a60 is live.
    shop.store.restore([restored(5, 6, b"b", 260)])
    shop.store.restore([])
    shop.put_all("b261")
    shop.commit(last_offset=7)
    assert shop.keys_in_engine() == {b"b"}
    assert shop.home.dropped.count == 0


def test_after_restore_the_stream_time_survives_a_rollback(shop: Shop) -> None:
    shop.store.restore([restored(1, 0, b"a", 160)])
    shop.store.rollback()
    shop.put_all("a49")
    assert shop.home.dropped.count == 1


# Cache


def test_a_flush_logs_and_forwards_the_last_update_of_each_window(shop: Shop) -> None:
    heard: list[Any] = []
    caches = shop.store.set_flush_listener(
        lambda *change: heard.append(change[:-1]), send_old_values=True
    )
    shop.put("a", 1, 3)
    shop.put("b", 1, 60)
    shop.store.flush_cache()
    heard.clear()
    shop.home.record.timestamp = 42
    shop.put("a", 2, 3)
    shop.put("a", 3, 3)
    shop.put("b", None, 60)
    shop.store.flush_cache()
    if not caches:
        assert heard == []
        return
    time = 5 if shop.timestamped else 42
    assert heard == [
        (Windowed("a", Window(3, 13)), 3, 1, time, ()),
        (Windowed("b", Window(60, 70)), None, 1, 42, ()),
    ]
    assert len(shop.home.logged()) == 4


# Duplicates


def test_duplicates_are_kept_in_order_of_their_puts(duplicates: Shop) -> None:
    for number in (1, 2, 3):
        duplicates.put("a", number, 0)
    duplicates.put("b", 4, 0)
    duplicates.put("a", None, 0)
    duplicates.commit()
    duplicates.put("a", 5, 0)
    store = duplicates.store
    assert list(store.fetch("a", 0, 0)) == [(0, 1), (0, 2), (0, 3), (0, 5)]
    assert [number for _, number in store.backward_fetch("a", 0, 9)] == [5, 3, 2, 1]
    assert store.fetch("a", 0) == 5
    assert store.fetch("a", 1) is None
    assert [key for key, _, _ in duplicates.home.logged()] == [
        window_key(key, 0, sequence)
        for sequence, key in enumerate((b"a", b"a", b"a", b"b", b"a"), 1)
    ]


def test_duplicates_of_before_a_restart_are_not_overwritten(duplicates: Shop) -> None:
    """Differs from Kafka: its numbers start again, see the module."""
    for number in (1, 2, 3):
        duplicates.put("a", number, 0)
    duplicates.commit(last_offset=2)
    logged = [
        Message(key, value, offset)
        for offset, (key, value, _) in enumerate(duplicates.home.logged())
    ]
    duplicates.reopen()
    if not duplicates.store.persistent:
        duplicates.store.restore(logged)
    for number in (4, 5, 6):
        duplicates.put("a", number, 0)
    assert [number for _, number in duplicates.store.fetch("a", 0, 0)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_of_dropped_puts_are_not_given_again_after_a_restart(
    engine: StoreEngine, tmp_path: Path, *, transactional: bool
) -> None:
    """They are not in the changelog, so that its offset is below the numbers of what is."""
    duplicates = Shop(tmp_path, engine, retention=DUPLICATES, transactional=transactional)
    duplicates.put("a", 1, 500)
    for _ in range(5):
        duplicates.put("late", 0, 0)
    for number in (2, 3, 4):
        duplicates.put("a", number, 500)
    logged = [
        Message(key, value, offset)
        for offset, (key, value, _) in enumerate(duplicates.home.logged())
    ]
    duplicates.commit(last_offset=len(logged) - 1)
    for _ in range(2):
        duplicates.reopen()
        if not duplicates.store.persistent:
            duplicates.store.restore(logged)
    for number in range(5, 10):
        duplicates.put("a", number, 500)
    found = [number for _, number in duplicates.store.fetch("a", 500, 500)]
    assert found == list(range(1, 10))
    duplicates.store.close()


def test_a_rollback_takes_puts_of_duplicates_back_and_not_their_numbers(duplicates: Shop) -> None:
    duplicates.put("a", 1, 0)
    duplicates.commit()
    duplicates.put("a", 2, 0)
    duplicates.store.rollback()
    duplicates.put("a", 3, 0)
    assert [key[-1] for key, _, _ in duplicates.home.logged() if key] == [1, 2, 3]
    assert [number for _, number in duplicates.store.fetch("a", 0, 0)] == [1, 3]


@pytest.mark.parametrize("commits", [False, True])
def test_numbers_of_duplicates_do_not_depend_on_when_commits_come(
    duplicates: Shop, *, commits: bool
) -> None:
    duplicates.put("a", 1, 500)
    duplicates.commit()
    duplicates.put("late", 0, 0)
    if commits:
        duplicates.store.rollback()  # What a commit does to a store without data.
    duplicates.put("a", 2, 500)
    assert [key[-1] for key, _, _ in duplicates.home.logged() if key] == [1, 3]


def test_a_store_that_retains_duplicates_does_not_cache(tmp_path: Path) -> None:
    shop = Shop(tmp_path, StoreEngine.IN_MEMORY, caching=True, retention=DUPLICATES)
    assert not shop.store.set_flush_listener(lambda *_: None, send_old_values=False)
    shop.put("a", 1, 0)
    assert len(shop.home.logged()) == 1
    shop.store.close()


# Timestamps


def test_the_timestamped_store_reads_and_writes_without_the_object(tmp_path: Path) -> None:
    shop = Shop(tmp_path, StoreEngine.ROCKSDB, timestamped=True)
    shop.store.put_with_timestamp("a", 7, 3, 60)
    assert shop.store.fetch_with_timestamp("a", 60) == (7, 3)
    assert shop.store.fetch_with_timestamp("a", 61) == (None, -1)
    assert shop.store.fetch("a", 60) == ValueAndTimestamp(7, 3)
    shop.store.put("a", None, 60)
    assert shop.store.fetch_with_timestamp("a", 60) == (None, -1)
    shop.store.close()


def test_over_a_plain_engine_timestamps_go_to_the_changelog_and_read_as_unknown(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    spec = StoreSpec(
        "s",
        WINDOW,
        timestamped=True,
        key_serde=STRING,
        value_serde=LONG,
        retention=RETENTION,
    )
    store: Any = build_store(spec)
    store.init(home.context())
    store.put("a", ValueAndTimestamp(7, 3), 60)
    assert store.fetch("a", 60) == ValueAndTimestamp(7, -1)
    assert store.fetch_with_timestamp("a", 60) == (7, -1)
    assert home.logged() == [(window_key(b"a", 60), struct.pack(">q", 7), 3)]
    store.close()


# Views and errors


def test_views_read_at_their_isolation_level(shop: Shop) -> None:
    shop.put_all("a0 a60")
    shop.commit()
    dirty, clean = shop.store.read_only(UNCOMMITTED), shop.store.read_only(COMMITTED)
    shop.put_all("a120 b149")
    assert names(clean.all()) == "a0 a60"
    assert names(dirty.all()) == "a60 a120 b149"
    assert clean.fetch("a", 0) == shop.value(1000)
    assert dirty.fetch("a", 0) is None
    assert starts(dirty.backward_fetch("a", 0, 200)) == [120, 60]
    assert starts(clean.fetch("a", 0, 200)) == [0, 60]
    shop.commit()
    assert names(clean.fetch_range("a", "b", 0, 300)) == "a60 a120 b149"


def test_a_store_that_is_not_open_refuses_reads_writes_and_views(shop: Shop) -> None:
    shop.put_all("a0")
    shop.commit()
    view, iterator = shop.store.read_only(UNCOMMITTED), shop.store.all()
    next(iterator)
    shop.store.close()
    for read in (
        lambda: shop.store.fetch("a", 0),
        lambda: list(shop.store.fetch("a", 0, 10)),
        lambda: list(shop.store.all()),
        lambda: shop.put("a", 1, 0),
        lambda: view.fetch("a", 0),
        lambda: list(view.all()),
        lambda: shop.store.read_only(COMMITTED),
    ):
        with pytest.raises(StoreNotAvailableError, match="'s' is"):
            read()


def test_a_value_that_does_not_fit_its_serde_changes_nothing(shop: Shop) -> None:
    with pytest.raises(SerializationError):
        shop.store.put("a", shop.value("one"), 500)  # type: ignore[arg-type]
    with pytest.raises(SerializationError):
        shop.store.put(7, shop.value(1), 500)
    shop.put_all("a0")
    assert shop.content() == "a0"


def test_bytes_the_serdes_cannot_read_are_told_with_the_store(plain: Shop) -> None:
    plain.store.restore([Message(window_key(b"a", 0), b"odd", 0)])
    for read in (
        lambda: plain.store.fetch("a", 0),
        lambda: list(plain.store.fetch("a", 0, 9)),
        lambda: list(plain.store.all()),
    ):
        with pytest.raises(SerializationError, match="state store 's' holds bytes"):
            read()


def test_destroy_deletes_and_the_store_starts_anew(shop: Shop) -> None:
    shop.put_all("a200")
    shop.commit(last_offset=8)
    shop.store.destroy()
    shop.open()
    assert shop.content() == ""
    assert shop.store.committed_offset(CHANGELOG) is None
    shop.put_all("a0")
    assert shop.content() == "a0"
