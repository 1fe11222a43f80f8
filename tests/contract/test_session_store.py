"""What every session store promises its user and the runtime, over both engines."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from pystreams import (
    IsolationLevel,
    SerializationError,
    StoreEngine,
    StoreNotAvailableError,
    Window,
    Windowed,
)
from pystreams.record import MAX_TIME
from pystreams.serdes import LONG, STRING
from pystreams.stores.build import build_store
from pystreams.stores.contracts.spec import Retention, StoreSpec
from pystreams.stores.kinds.session.keys import session_key
from pystreams.stores.kinds.session.kind import SESSION
from tests.stores.support import CHANGELOG, Home, Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.contract

ENGINES = list(StoreEngine)
# Three segments are live: retention spans two, and neither of its ends is a segment's.
RETENTION = Retention(retention_ms=100, segment_interval_ms=50)
LONG_RETENTION = Retention(retention_ms=10_000, segment_interval_ms=60_000)

pack = struct.Struct(">q").pack


def session(key: str, start: int, end: int) -> Windowed[str]:
    return Windowed(key, Window(start, end))


class Shop:
    """One session store and its home; aggregates are ints."""

    def __init__(
        self,
        directory: Path,
        engine: StoreEngine,
        *,
        caching: bool = False,
        retention: Retention = RETENTION,
        transactional: bool = True,
    ) -> None:
        self.home = Home(directory, cache_enabled=caching)
        self.spec = StoreSpec(
            name="s",
            kind=SESSION,
            engine=engine,
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
        if self.spec.retention is not None and self.spec.retention.time_ordered:
            self.store.keep_from(MAX_TIME)  # Nothing is to be sent on.

    def put(self, key: str, start: int, end: int, number: int | None = 1) -> None:
        self.store.put(session(key, start, end), number)

    def put_all(self, sessions: str) -> None:
        """Put sessions written as `a5-10 b60-60`."""
        for written in sessions.split():
            start, end = written[1:].split("-")
            self.put(written[0], int(start), int(end))

    def commit(self, last_offset: int = 1) -> None:
        self.store.flush_cache()
        self.store.commit({CHANGELOG: last_offset})

    def reopen(self) -> None:
        self.store.close()
        self.open()

    def content(self) -> str:
        return names(self.store.fetch_range(None, None))


def names(entries: Iterable[tuple[Windowed[str], Any]]) -> str:
    """Write sessions as `a5-10 b60-60`."""
    return " ".join(f"{key}{window.start}-{window.end}" for (key, window), _ in entries)


@pytest.fixture(params=[False, True], ids=["logged", "cached"])
def caching(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=ENGINES, ids=[engine.value for engine in ENGINES])
def engine(request: pytest.FixtureRequest) -> StoreEngine:
    return StoreEngine(request.param)


@pytest.fixture(params=[False, True], ids=["by_key", "by_time"])
def time_ordered(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def shop(
    tmp_path: Path, engine: StoreEngine, *, caching: bool, time_ordered: bool
) -> Iterator[Shop]:
    retention = replace(RETENTION, time_ordered=time_ordered)
    made = Shop(tmp_path, engine, caching=caching, retention=retention)
    yield made
    made.store.close()


@pytest.fixture
def long(
    tmp_path: Path, engine: StoreEngine, *, caching: bool, time_ordered: bool
) -> Iterator[Shop]:
    """A store of one segment, to begin with."""
    retention = replace(LONG_RETENTION, time_ordered=time_ordered)
    made = Shop(tmp_path, engine, caching=caching, retention=retention)
    yield made
    made.store.close()


# ---------------------------------------------------------------------- what is found


def test_owner_reads_its_own_uncommitted_writes(shop: Shop) -> None:
    shop.put("a", 0, 10, 1)
    shop.put("a", 0, 10, 2)
    shop.put("b", 5, 5, 3)
    shop.store.remove(session("b", 5, 5))
    assert shop.store.fetch_session("a", 0, 10) == 2
    assert shop.store.fetch_session("b", 5, 5) is None
    assert list(shop.store.fetch("a")) == [(session("a", 0, 10), 2)]


def test_sessions_that_overlap_a_time_are_found_oldest_first(long: Shop) -> None:
    long.put_all("a1500-2000 a10-10 a2500-3000 a500-1000")
    store = long.store
    for _ in range(2):
        assert names(store.find_sessions("a", 0, 1000)) == "a10-10 a500-1000"
        assert names(store.find_sessions("a", 400, 600)) == "a500-1000"
        assert names(store.find_sessions("a", -1, 1500)) == "a10-10 a500-1000 a1500-2000"
        assert names(store.find_sessions("a", 1001, 1499)) == ""
        assert names(store.find_sessions("a", 3000, MAX_TIME)) == "a2500-3000"
        assert names(store.find_sessions("a", -(2**70), 2**70)).count("a") == 4
        assert names(store.find_sessions("a", 2**70, 2**70)) == ""
        assert names(store.find_sessions_range("a", "a", 0, -(2**70))) == ""
        assert names(store.backward_find_sessions("a", 0, 1500)) == "a1500-2000 a500-1000 a10-10"
        long.commit()


def test_sessions_to_merge_are_those_that_touch_the_gap(long: Shop) -> None:
    long.put_all("a0-100 a101-200 a201-300 a301-400 a401-500")
    assert names(long.store.find_sessions("a", 150, 300)) == "a101-200 a201-300"
    assert names(long.store.backward_find_sessions("a", 150, 300)) == "a201-300 a101-200"


def test_sessions_of_one_key_and_end_come_by_their_start(long: Shop) -> None:
    long.put_all("a7-100 a1-100 a4-100")
    assert names(long.store.fetch("a")) == "a1-100 a4-100 a7-100"
    assert names(long.store.backward_fetch("a")) == "a7-100 a4-100 a1-100"


def test_sessions_of_longer_keys_are_not_taken_for_those_of_a_key(long: Shop) -> None:
    for key in ("a", "aa", "aaa"):
        long.put(key, 0, 4)
    long.put("aa", 0, 3, 2)
    long.put("aa", 1, 4, 4)
    store = long.store
    assert store.fetch_session("aa", 0, 4) == 1
    assert store.fetch_session("any", 0, 4) is None
    assert names(store.fetch("a")) == "a0-4"
    assert names(store.find_sessions("aa", 0, 10)) == "aa0-3 aa0-4 aa1-4"
    assert list(store.find_sessions_range("aa", "aa", 0, 10)) == list(
        store.find_sessions("aa", 0, 10)
    )


def test_keys_with_bytes_like_those_of_times_do_not_hide_each_other(
    tmp_path: Path, engine: StoreEngine
) -> None:
    """The end of a session in the far future sorts above the bytes of longer keys."""
    far = 0x7A00000000000000
    shop = Shop(tmp_path, engine, retention=Retention(far, far // 2))
    for key, start, end in [("a", 0, 0), ("aa", 0, 10), ("a", 10, 20), ("aa", 10, 20)]:
        shop.put(key, start, end)
    shop.put("a", far - 2, far - 1)
    everything = {"a0-0", "aa0-10", "a10-20", "aa10-20", f"a{far - 2}-{far - 1}"}
    store = shop.store
    assert set(names(store.fetch("a")).split()) == {"a0-0", "a10-20", f"a{far - 2}-{far - 1}"}
    assert set(names(store.fetch("aa")).split()) == {"aa0-10", "aa10-20"}
    for key_from, key_to in [("a", "aa"), (None, "aa"), ("a", None), (None, None)]:
        found = names(store.find_sessions_range(key_from, key_to, 0, MAX_TIME)).split()
        assert set(found) == everything
        backward = store.backward_find_sessions_range(key_from, key_to, 0, MAX_TIME)
        assert names(backward).split() == found[::-1]
    assert names(store.find_sessions_range("a", "aa", 10, 0)) == "aa0-10"
    store.close()


def test_ranges_of_keys_are_inclusive_and_go_segment_by_segment(
    shop: Shop, *, time_ordered: bool
) -> None:
    """Sessions of all keys come in order of time from a store that is laid out so."""
    shop.put_all("c10-20 a60-60 b60-70 a15-20 d20-20")
    store = shop.store
    first = "c10-20 a15-20" if time_ordered else "a15-20 c10-20"
    for _ in range(2):
        assert names(store.fetch_range(None, None)) == f"{first} d20-20 a60-60 b60-70"
        assert names(store.fetch_range("a", "c")) == "a15-20 c10-20 a60-60 b60-70"
        assert names(store.fetch_range(None, "b")) == "a15-20 a60-60 b60-70"
        assert names(store.fetch_range("b", None)) == "c10-20 d20-20 b60-70"
        assert names(store.backward_fetch_range("b", "c")) == "b60-70 c10-20"
        assert names(store.find_sessions_range("a", "c", 20, 15)) == "a15-20 c10-20"
        assert names(store.backward_find_sessions_range(None, "c", 61, 65)) == "b60-70"
        shop.commit()


def test_a_range_of_keys_that_ends_before_it_starts_is_empty_and_told(shop: Shop) -> None:
    shop.put_all("a0-0 b0-0")
    with structlog.testing.capture_logs() as logs:
        assert names(shop.store.fetch_range("b", "a")) == ""
    assert [entry["event"] for entry in logs] == ["store.empty_range"]


def test_sessions_of_all_keys_are_found_by_their_end(shop: Shop) -> None:
    shop.put_all("a0-0 c30-40 b10-20 b40-110")
    store = shop.store
    for _ in range(2):
        assert names(store.find_sessions_by_end(0, 20)) == "b10-20"
        assert names(store.find_sessions_by_end(0, 19)) == ""
        assert names(store.find_sessions_by_end(20, 40)) == "b10-20 c30-40"
        assert names(store.find_sessions_by_end(41, 109)) == ""
        assert names(store.find_sessions_by_end(19, MAX_TIME)) == "b10-20 c30-40 b40-110"
        shop.commit()


def test_a_null_aggregate_removes_a_session_and_so_does_remove(shop: Shop) -> None:
    shop.put_all("a0-10 a15-25 b0-10")
    shop.commit()
    shop.put("a", 0, 10, None)
    shop.store.remove(session("b", 0, 10))
    shop.store.remove(session("b", 1, 10))
    assert shop.content() == "a15-25"
    shop.commit()
    assert shop.content() == "a15-25"


@pytest.mark.parametrize("reverse", [False, True])
def test_an_open_iterator_sees_what_lies_ahead_as_it_is_now(shop: Shop, *, reverse: bool) -> None:
    shop.put_all("a0-10 a20-30 a40-60 a70-80")
    shop.commit()
    iterator = shop.store.backward_fetch("a") if reverse else shop.store.fetch("a")
    assert names([next(iterator)]) == ("a70-80" if reverse else "a0-10")
    shop.put_all("a41-61 a0-5")
    shop.commit()
    shop.store.remove(session("a", 20, 30))
    shop.put("a", 0, 100)
    assert names(iterator) == (
        "a41-61 a40-60 a0-10 a0-5" if reverse else "a40-60 a41-61 a70-80 a0-100"
    )


def test_an_open_iterator_survives_a_rollback(shop: Shop) -> None:
    shop.put_all("a0-10 a20-30")
    shop.commit()
    shop.put("a", 12, 15)
    iterator = shop.store.fetch("a")
    next(iterator)
    shop.store.rollback()
    assert names(iterator) == "a20-30"


# ---------------------------------------------------------------------- time and expiry


def test_a_session_older_than_the_retention_is_not_found_though_its_segment_lives(
    shop: Shop,
) -> None:
    shop.put_all("a0-10 a5-20 b100-110")
    assert shop.content() == "a5-20 b100-110"
    assert shop.store.fetch_session("a", 0, 10) is None
    assert names(shop.store.find_sessions("a", 0, 200)) == "a5-20"
    assert names(shop.store.find_sessions_by_end(0, 200)) == "a5-20 b100-110"
    shop.commit()
    assert shop.content() == "a5-20 b100-110"


def test_a_session_is_kept_by_its_end_and_not_by_its_start(shop: Shop) -> None:
    shop.put_all("a0-190 b195-200")
    shop.commit()
    assert shop.content() == "a0-190 b195-200"


def test_a_late_put_into_a_live_segment_is_taken(shop: Shop) -> None:
    shop.put_all("b100-149 a0-50 c49-49")
    assert shop.content() == "a0-50 b100-149"
    assert shop.home.dropped.count == 0


def test_a_put_into_an_expired_segment_is_dropped_counted_and_warned_of_once(shop: Shop) -> None:
    shop.put("b", 100, 150)
    with structlog.testing.capture_logs() as logs:
        shop.put("a", 0, 49)
        shop.put("a", 40, 49, None)
    shop.store.flush_cache()
    assert shop.content() == "b100-150"
    assert shop.home.dropped.count == 2
    assert [(entry["log_level"], entry["store"]) for entry in logs] == [("warning", "s")]
    assert [key for key, _, _ in shop.home.logged()] == [session_key(b"b", 100, 150)]


def test_removing_an_expired_session_does_nothing(shop: Shop) -> None:
    shop.put("b", 100, 150)
    shop.store.remove(session("a", 0, 49))
    shop.store.flush_cache()
    assert shop.home.dropped.count == 0
    assert len(shop.home.changelog.records) == 1


def test_expired_segments_go_at_the_commit_and_come_back_with_a_rollback(shop: Shop) -> None:
    shop.put_all("a0-10 b60-70")
    shop.commit()
    shop.put("c", 150, 150)
    assert shop.content() == "b60-70 c150-150"
    shop.store.rollback()
    assert shop.content() == "a0-10 b60-70"
    shop.put("c", 150, 150)
    shop.commit(2)
    assert shop.content() == "b60-70 c150-150"
    stored = [key for key, _ in shop.store._buffer.engine_range(None, None)]
    assert {key[-17:-16] for key in stored} == {b"b", b"c"}


def test_rollback_takes_back_puts_and_stream_time(shop: Shop, *, time_ordered: bool) -> None:
    shop.put("a", 0, 10, 1)
    shop.commit()
    shop.put("a", 0, 10, 2)
    shop.put("b", 500, 500)
    shop.store.rollback()
    assert list(shop.store.fetch_range(None, None)) == [(session("a", 0, 10), 1)]
    shop.put("a", 5, 20)
    assert shop.home.dropped.count == 0
    by_time = (8 + 16 + 17) + (8 + 1 + 17) + 8
    expected = by_time if time_ordered else 8 + 17 + 8
    assert shop.store.approximate_num_uncommitted_bytes() == expected


def test_persistent_stores_keep_sessions_and_the_committed_stream_time(shop: Shop) -> None:
    shop.put_all("a0-30 b120-149")
    shop.commit()
    shop.put("c", 140, 149)
    assert shop.content() == "b120-149 c140-149"
    shop.reopen()
    if not shop.store.persistent:
        assert shop.content() == ""
        return
    # Stream time is 149 again: 30 is not within 100 of that.
    assert shop.content() == "b120-149"
    assert shop.store.committed_offset(CHANGELOG) == 1
    shop.put("a", 130, 130)
    assert shop.content() == "a130-130 b120-149"


# ---------------------------------------------------------------------- changelog and cache


def test_the_changelog_has_kafka_streams_keys_and_the_records_time(shop: Shop) -> None:
    shop.home.record.timestamp = 77
    shop.put("a", 1, 58, 5)
    shop.store.remove(session("b", 3, 4))
    shop.store.flush_cache()
    assert shop.home.logged() == [
        (session_key(b"a", 1, 58), pack(5), 77),
        (session_key(b"b", 3, 4), None, 77),
    ]


def test_restore_puts_each_record_into_its_segment_and_drops_what_is_expired(shop: Shop) -> None:
    def record(key: bytes, start: int, end: int, number: int | None, offset: int) -> Message:
        value = None if number is None else pack(number)
        return Message(session_key(key, start, end), value, offset)

    shop.store.restore(
        [
            record(b"a", 0, 10, 1, 1),
            record(b"a", 0, 60, 2, 2),
            Message(None, pack(9), 3),
            record(b"b", 55, 60, 3, 4),
            record(b"a", 0, 60, 4, 5),
            record(b"b", 55, 60, None, 6),
        ]
    )
    assert list(shop.store.fetch_range(None, None)) == [
        (session("a", 0, 10), 1),
        (session("a", 0, 60), 4),
    ]
    shop.store.restore([record(b"c", 140, 150, 5, 7), record(b"a", 0, 20, 6, 8)])
    assert shop.content() == "a0-60 c140-150"
    assert shop.store.committed_offset(CHANGELOG) == 8
    assert shop.home.changelog.records == []
    shop.store.rollback()
    shop.put("a", 0, 40)
    assert shop.content() == "a0-60 c140-150"
    assert shop.home.dropped.count == 1


def test_restoring_the_changelog_rebuilds_the_store(shop: Shop, tmp_path: Path) -> None:
    for number in range(80):
        start = number * 7 % 300
        shop.put("abc"[number % 3], start, start + number % 20, number)
        if number % 5 == 0:
            shop.store.remove(session("abc"[number % 3], start, start + number % 20))
        if number % 30 == 0:
            shop.commit(number)
    shop.commit()
    copy = Shop(tmp_path / "copy", shop.spec.engine, retention=shop.spec.retention or RETENTION)
    records = shop.home.logged()
    for first in range(0, len(records), 25):
        batch = enumerate(records[first : first + 25], first)
        copy.store.restore([Message(key, value, offset) for offset, (key, value, _) in batch])
    assert list(copy.store.fetch_range(None, None)) == list(shop.store.fetch_range(None, None))
    assert shop.content()
    copy.store.close()


def test_a_flush_logs_and_forwards_the_last_update_of_each_session(
    tmp_path: Path, engine: StoreEngine
) -> None:
    shop = Shop(tmp_path, engine, caching=True)
    heard: list[tuple[Windowed[str], int | None, int | None, int]] = []

    def listener(
        key: Windowed[str], new: int | None, old: int | None, timestamp: int, *_: object
    ) -> None:
        heard.append((key, new, old, timestamp))

    shop.put("a", 0, 10, 1)
    shop.commit()
    assert shop.store.set_flush_listener(listener, send_old_values=True)
    shop.home.changelog.records.clear()
    shop.home.record.timestamp = 5
    shop.put("a", 0, 10, 2)
    shop.put("b", 0, 10, 3)
    shop.put("c", 0, 10, 4)
    shop.home.record.timestamp = 6
    shop.put("a", 0, 10, 7)
    shop.store.remove(session("c", 0, 10))
    assert shop.home.changelog.records == []
    assert shop.store.cached_bytes() > 0
    shop.store.flush_cache()
    assert heard == [(session("b", 0, 10), 3, None, 5), (session("a", 0, 10), 7, 1, 6)]
    assert shop.home.logged() == [
        (session_key(b"b", 0, 10), pack(3), 5),
        (session_key(b"a", 0, 10), pack(7), 6),
    ]
    shop.store.close()


def test_without_caching_the_listener_is_refused(tmp_path: Path, engine: StoreEngine) -> None:
    shop = Shop(tmp_path, engine)
    assert not shop.store.set_flush_listener(lambda *_: None, send_old_values=False)
    shop.store.close()


# ---------------------------------------------------------------------- views, life, mistakes


def test_views_read_at_their_isolation_level(shop: Shop) -> None:
    shop.put_all("a0-10 b5-60")
    shop.commit()
    committed = shop.store.read_only(IsolationLevel.READ_COMMITTED)
    uncommitted = shop.store.read_only(IsolationLevel.READ_UNCOMMITTED)
    shop.put("b", 5, 60, 2)
    shop.store.remove(session("a", 0, 10))
    shop.put("c", 100, 105)
    assert names(committed.fetch_range(None, None)) == "a0-10 b5-60"
    assert names(uncommitted.fetch_range(None, None)) == "b5-60 c100-105"
    assert (committed.fetch_session("b", 5, 60), uncommitted.fetch_session("b", 5, 60)) == (1, 2)
    shop.put("d", 100, 140)  # What is older than 41 has left the retention, but is not committed.
    assert names(committed.find_sessions("a", 0, 50)) == "a0-10"
    shop.commit()
    assert names(committed.backward_fetch_range(None, None)) == "d100-140 c100-105 b5-60"


def test_a_store_that_is_not_open_refuses_everything(shop: Shop) -> None:
    view = shop.store.read_only(IsolationLevel.READ_UNCOMMITTED)
    shop.store.close()
    shop.store.close()
    assert not shop.store.is_open
    for use in (
        lambda: shop.put("a", 900, 900),
        lambda: shop.store.remove(session("a", 0, 10)),
        lambda: list(shop.store.fetch("a")),
        lambda: list(shop.store.backward_fetch_range(None, None)),
        lambda: shop.store.fetch_session("a", 0, 10),
        lambda: list(view.find_sessions("a", 0, 10)),
        lambda: shop.store.read_only(IsolationLevel.READ_COMMITTED),
    ):
        with pytest.raises(StoreNotAvailableError):
            use()


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (6, 5), (0, 2**63)])
def test_a_session_that_cannot_be_is_refused_and_changes_nothing(
    shop: Shop, start: int, end: int
) -> None:
    with pytest.raises(ValueError, match=rf"store 's'.*from {start} to {end}"):
        shop.put("a", start, end)
    with pytest.raises(ValueError, match="starts at 0 or later"):
        shop.store.remove(session("a", start, end))
    assert shop.store.fetch_session("a", start, end) is None
    shop.put("a", 5, 6)
    assert shop.content() == "a5-6"


def test_wrong_types_are_refused_with_the_serde_to_set(shop: Shop) -> None:
    with pytest.raises(SerializationError, match=r"key of a record.*set the right key_serde"):
        shop.store.put(Windowed(3, Window(0, 5)), 1)
    with pytest.raises(SerializationError, match=r"value of a record.*set the right value_serde"):
        shop.store.put(session("a", 900, 900), "x")
    for read in (shop.store.fetch, lambda key: shop.store.find_sessions(key, 0, 5)):
        with pytest.raises(SerializationError, match="key"):
            read(None)
    shop.put("a", 0, 5)
    assert shop.content() == "a0-5"


def test_bytes_that_do_not_fit_the_serde_are_named(shop: Shop) -> None:
    shop.store.restore([Message(session_key(b"a", 0, 5), b"abc", 1)])
    with pytest.raises(SerializationError, match="store 's' holds bytes"):
        shop.store.fetch_session("a", 0, 5)
    with pytest.raises(SerializationError, match="store 's' holds bytes"):
        list(shop.store.fetch("a"))


def test_destroy_deletes_and_the_store_starts_anew(shop: Shop) -> None:
    shop.put("a", 900, 1000)
    shop.commit()
    shop.store.destroy()
    shop.open()
    assert shop.content() == ""
    assert shop.store.committed_offset(CHANGELOG) is None
    shop.put("b", 0, 5)
    assert shop.content() == "b0-5"


def test_a_store_that_writes_through_reads_the_same(tmp_path: Path, engine: StoreEngine) -> None:
    shop = Shop(tmp_path, engine, transactional=False)
    shop.put_all("a0-10 b60-70 c150-150")
    assert not shop.store.transactional
    assert shop.content() == "b60-70 c150-150"
    shop.commit()
    assert shop.content() == "b60-70 c150-150"
    shop.store.close()


# ---------------------------------------------------------------------- kept beyond the retention


def test_what_is_to_be_sent_on_is_kept_and_found_beyond_the_retention(
    tmp_path: Path, engine: StoreEngine
) -> None:
    """By those who send it on only."""
    shop = Shop(tmp_path, engine, retention=replace(RETENTION, time_ordered=True))
    shop.store.keep_from(0)
    shop.put_all("a0-10 b0-40 a5000-5000")
    shop.commit()
    assert shop.content() == "a5000-5000"
    assert names(shop.store.find_kept_sessions(0, 4999)) == "a0-10 b0-40"
    assert names(shop.store.find_kept_sessions(11, 40)) == "b0-40"

    shop.store.keep_from(4000)
    shop.commit(2)
    assert names(shop.store.find_kept_sessions(0, 4999)) == ""
    shop.store.close()
