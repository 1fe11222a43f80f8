"""The buffer of a temporal join: records leave in order of time, and survive what a store does."""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

import pytest

from pystreams.record import StaticMessage
from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
from pystreams.stores.engines.rocksdb import RocksDBEngine
from pystreams.stores.kinds.buffer.store import TimeOrderedBuffer
from pystreams.stores.kinds.buffer.waiting_record import (
    InBytes,
    WaitingRecord,
    restored_records,
    unpacked,
)
from tests.stores.support import CHANGELOG, Home, Message
from tests.stores.waiting import (
    HELD_BYTES,
    TEXT,
    exchange,
    let_leave,
    packed,
    put,
    stored_key,
)


def opened(home: Home, **limits: int) -> TimeOrderedBuffer:
    buffer = TimeOrderedBuffer(
        BufferedKeyValueStore(
            "s",
            RocksDBEngine("s", timestamped=False),
            value_prefix_bytes=0,
            caching=False,
            restored=restored_records,
        ),
        **limits,
    )
    buffer.init(home.context())
    return buffer


def commit(buffer: TimeOrderedBuffer) -> None:
    buffer.flush_cache()
    buffer.commit({CHANGELOG: 0})


def at(timestamp: int, key: bytes = b"k", value: bytes = b"v") -> WaitingRecord:
    return WaitingRecord(key, value, timestamp)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_records_leave_in_order_of_time_and_then_of_key(home: Home) -> None:
    buffer = opened(home)
    for record in (at(30), at(10, b"b"), at(10, b"a"), at(20)):
        put(buffer, record)

    left = [(record.timestamp, record.key) for record in let_leave(buffer, 20)]

    assert left == [(10, b"a"), (10, b"b"), (20, b"k")]
    assert [record.timestamp for record in let_leave(buffer, 100)] == [30]
    buffer.close()


def test_bytes_are_exact_behind_a_stored_record_of_a_punctuation(home: Home) -> None:
    buffer = opened(home)
    put(buffer, at(10))
    buffer.flush_cache()
    put(buffer, WaitingRecord(b"k", b"v", 11, topic="topic", partition=0, offset=1))
    counted = buffer.approximate_num_uncommitted_bytes()

    buffer.flush_cache()

    assert buffer.approximate_num_uncommitted_bytes() == counted
    buffer.close()


def test_record_leaves_once(home: Home) -> None:
    buffer = opened(home)
    put(buffer, at(10))

    assert len(list(let_leave(buffer, 10))) == 1
    assert list(let_leave(buffer, 10)) == []
    buffer.close()


def test_late_record_leaves_after_newer_ones_have_left(home: Home) -> None:
    buffer = opened(home)
    put(buffer, at(50))
    assert [record.timestamp for record in let_leave(buffer, 60)] == [50]

    put(buffer, at(40))

    assert [record.timestamp for record in let_leave(buffer, 60)] == [40]
    buffer.close()


def test_equal_keys_and_times_are_kept_apart_in_order_of_arrival(home: Home) -> None:
    buffer = opened(home)
    for value in (b"first", b"second", b"third"):
        put(buffer, at(10, value=value))

    assert [record.value for record in let_leave(buffer, 10)] == [b"first", b"second", b"third"]
    buffer.close()


def test_record_keeps_its_headers_and_its_origin(home: Home) -> None:
    buffer = opened(home)
    record = WaitingRecord(b"k", b"", 7, (("a", b"1"), ("a", None), ("é", b"")), "ü", 3, 12)
    put(buffer, record)

    assert list(let_leave(buffer, 7)) == [record]
    buffer.close()


def test_rollback_brings_back_what_left_and_drops_what_came(home: Home) -> None:
    buffer = opened(home)
    put(buffer, at(10))
    commit(buffer)
    assert len(list(let_leave(buffer, 10))) == 1
    put(buffer, at(20))

    buffer.rollback()

    assert [record.timestamp for record in let_leave(buffer, 100)] == [10]
    buffer.close()


def test_reopened_buffer_overwrites_nothing_it_held(home: Home) -> None:
    buffer = opened(home)
    put(buffer, at(10, value=b"before"))
    commit(buffer)
    buffer.close()

    buffer = opened(home)
    put(buffer, at(10, value=b"after"))

    assert sorted(record.value for record in let_leave(buffer, 10)) == [b"after", b"before"]
    buffer.close()


def test_records_of_one_key_and_time_leave_in_order_over_a_restart(home: Home) -> None:
    """Although numbers begin anew."""
    buffer = opened(home)
    for time in range(3):
        put(buffer, at(time))
    put(buffer, at(10, value=b"1"))
    put(buffer, at(10, b"k\x00", b"other key"))
    commit(buffer)
    buffer.close()

    buffer = opened(home)
    put(buffer, at(10, value=b"2"))
    commit(buffer)

    assert len(list(let_leave(buffer, 9))) == 3
    assert [record.value for record in let_leave(buffer, 10) if record.key == b"k"] == [b"1", b"2"]
    buffer.close()


def test_record_that_comes_and_leaves_between_two_commits_is_not_logged(home: Home) -> None:
    buffer = opened(home)
    for time in (10, 20, 30):
        put(buffer, at(time, value=b"%d" % time))
    assert len(list(let_leave(buffer, 20))) == 2
    commit(buffer)

    assert [timestamp for _, _, timestamp in home.logged()] == [30]
    assert buffer.approximate_num_uncommitted_bytes() == 0
    buffer.close()


def test_record_that_leaves_as_it_comes_is_logged_both_ways(home: Home) -> None:
    """As Kafka does with a grace period of 0."""
    buffer = opened(home)
    assert len(exchange(buffer, at(10), 10)) == 1
    commit(buffer)

    assert [value is None for _, value, _ in home.logged()] == [False, True]
    buffer.close()


@pytest.mark.parametrize(("value_bytes", "kept"), [(10, True), (10_000, False)])
def test_message_is_kept_with_its_record_unless_it_is_much_larger(
    value_bytes: int, kept: bool, home: Home
) -> None:
    """It tells where the record came from."""
    buffer = opened(home)
    message = StaticMessage("topic", 3, 12, b"k", bytes(value_bytes), 10)
    before = sys.getrefcount(message)

    buffer.exchange(b"k", b"v", 10, (), message, 2, -1)

    assert (sys.getrefcount(message) > before) == kept
    assert let_leave(buffer, 10) == [WaitingRecord(b"k", b"v", 10, (), "topic", 3, 12)]
    buffer.close()


def test_uncommitted_bytes_are_those_that_a_commit_will_write(home: Home) -> None:
    buffer = opened(home)
    record = at(10)._replace(topic="topic", headers=(("a", b"1"), ("é", None)))
    put(buffer, record)
    put(buffer, record._replace(timestamp=20))
    assert len(list(let_leave(buffer, 10))) == 1

    waiting = buffer.approximate_num_uncommitted_bytes()
    buffer.flush_cache()

    assert waiting == len(stored_key(record, 1)) + len(packed(record))
    assert buffer.approximate_num_uncommitted_bytes() == waiting
    buffer.close()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("in_bytes", [InBytes(), TEXT], ids=["bytes", "text"])
@pytest.mark.parametrize("kept_records", [2, 1000])
def test_records_leave_as_out_of_a_sorted_list(
    kept_records: int, in_bytes: InBytes, seed: int, home: Home
) -> None:
    """However few are known: commits, rollbacks and restarts change nothing."""
    chooser = random.Random(seed)
    kept_bytes = kept_records * HELD_BYTES
    buffer = opened(home, kept_bytes=kept_bytes)
    buffer.in_bytes = in_bytes
    now: list[tuple[int, bytes, int]] = []
    committed: list[tuple[int, bytes, int]] = []
    due = 0
    for number in range(200):
        action = chooser.choice(
            ["put"] * 6 + ["leave", "exchange"] * 2 + ["commit", "rollback", "reopen"]
        )
        if action == "put":
            entry = (due + chooser.randrange(-3, 12), chooser.choice([b"a", b"b", b"ab"]), number)
            if entry[0] >= 0:
                put(buffer, at(*entry[:2], b"%d" % number))
                now.append(entry)
        elif action in {"leave", "exchange"}:
            due += chooser.randrange(4)
            if action == "leave":
                found = let_leave(buffer, due)
            else:
                entry = (due + chooser.randrange(12), chooser.choice([b"a", b"ab"]), number)
                now.append(entry)
                found = exchange(buffer, at(*entry[:2], b"%d" % number), due)
            left = [(gone.timestamp, gone.key, int(gone.value)) for gone in found]
            assert sorted(left) == sorted(entry for entry in now if entry[0] <= due)
            places = [(time, key) for time, key, _ in left]
            assert places == sorted(places)
            for key in (b"a", b"b", b"ab"):
                of_key = [entry for entry in left if entry[1] == key]
                assert of_key == sorted(of_key)
            now = [entry for entry in now if entry[0] > due]
        elif action == "commit":
            commit(buffer)
            committed = list(now)
        else:
            buffer.rollback()
            now = list(committed)
            if action == "reopen":
                buffer.close()
                buffer = opened(home, kept_bytes=kept_bytes)
                buffer.in_bytes = in_bytes
        if action in {"commit", "rollback", "reopen"}:
            assert buffer.latest_timestamp() == max((entry[0] for entry in now), default=-1)
    buffer.close()


def test_restored_buffer_holds_what_was_logged(tmp_path: Path) -> None:
    home = Home(tmp_path / "first")
    buffer = opened(home)
    for timestamp in (30, 10, 20):
        put(buffer, at(timestamp, value=b"%d" % timestamp))
    assert [record.timestamp for record in let_leave(buffer, 10)] == [10]
    buffer.flush_cache()
    buffer.close()

    logged = [
        Message(key, value, message_offset=offset, timestamp_ms=timestamp)
        for offset, (key, value, timestamp) in enumerate(home.logged())
    ]
    restored = opened(Home(tmp_path / "second"))
    restored.restore(logged)

    assert [(record.timestamp, record.value) for record in let_leave(restored, 100)] == [
        (20, b"20"),
        (30, b"30"),
    ]
    assert restored.committed_offset(CHANGELOG) == len(logged) - 1
    restored.close()


def test_stored_bytes_are_those_of_the_format() -> None:
    record = WaitingRecord(b"k", b"v", 1, (("h", None),), "t", 2, 3)

    assert stored_key(record, 1).hex(" ") == "00 00 00 00 00 00 00 00 01 6b 00 00 00 01"
    context = "0000000000000001 0000000000000003 00000001 74 00000002 00000001 00000001 68 ffffffff"
    assert packed(record) == bytes.fromhex(f"{context} ffffffff ffffffff 00000001 76")


@pytest.mark.parametrize(
    ("headers", "value"),
    list(itertools.product([(), (("a", b"x" * 300),)], [b"", b"\xff" * 9])),
)
def test_what_is_packed_is_unpacked(
    headers: tuple[tuple[str, bytes | None], ...], value: bytes
) -> None:
    record = WaitingRecord(b"\x00key\xff", value, 2**40, headers, "topic", 0, 2**50)

    assert unpacked(stored_key(record, 5), packed(record)) == record
