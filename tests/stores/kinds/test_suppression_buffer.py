"""The buffer of a suppression: one change a key, let go by time, over commits and restarts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pystreams import SerializationError, StoreEngine
from pystreams.record import RecordMetadata
from pystreams.stores.dirty_map.upcoming_keys import KEPT_KEYS
from pystreams.stores.kinds.suppress.buffered_change import packed, unpacked
from pystreams.stores.kinds.suppress.store import NEVER, PORTION_BYTES
from tests.stores.kinds.suppression_buffers import (
    Buffer,
    Left,
    commit,
    let_leave,
    logged,
    opened,
    put,
    record_at,
    the_first,
    until,
)
from tests.stores.support import CHANGELOG, Home

each_engine = pytest.mark.parametrize("engine", StoreEngine)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture(params=StoreEngine)
def buffer(request: pytest.FixtureRequest, home: Home) -> Buffer:
    return opened(home, request.param)


def totals(buffer: Buffer) -> tuple[int, int]:
    return buffer.totals.records, buffer.totals.counted_bytes


# ---------------------------------------------------------------------- what goes, and when


def test_changes_leave_in_order_of_time_and_then_of_key(buffer: Buffer) -> None:
    for time, key in ((30, "c"), (10, "b"), (10, "a"), (20, "d")):
        put(buffer, time, key, "v")

    assert [left.key for left in let_leave(buffer, until(20))] == ["a", "b", "d"]
    assert [left.key for left in let_leave(buffer)] == ["c"]
    assert let_leave(buffer) == []


def test_a_key_keeps_its_time_and_leaves_with_its_last_change(buffer: Buffer) -> None:
    put(buffer, 10, "a", "first", timestamp=10)
    put(buffer, 5, "a", "last", timestamp=7, old="first")

    assert let_leave(buffer, until(9)) == []
    assert let_leave(buffer, until(10)) == [Left("a", ("last", None), 7)]


def test_change_leaves_with_the_value_from_before_it_came_as_the_old_one(buffer: Buffer) -> None:
    put(buffer, 10, "a", "2", old="1")
    put(buffer, 10, "a", "3", old="2")

    assert let_leave(buffer) == [Left("a", ("3", "1"))]


def test_what_leaves_is_asked_for_one_by_one(buffer: Buffer) -> None:
    put(buffer, 0, "asdf", "eyt")
    put(buffer, 1, "zxcv", "rtg")

    left = let_leave(buffer, lambda _: buffer.totals.records > 1)

    assert left == [Left("asdf", ("eyt", None))]
    assert buffer.totals.records == 1


def test_change_is_there_until_the_next_one_is_asked_for(buffer: Buffer) -> None:
    put(buffer, 1, "zxcv", "o23i4")
    assert (totals(buffer), buffer.prior_value("zxcv")) == ((1, 42), (None,))
    put(buffer, 0, "asdf", "3ng")
    seen = []

    for key, _ in buffer.leave_while(lambda _: True):
        seen.append((key, *totals(buffer), buffer.prior_value(key.decode())))

    assert seen == [(b"asdf", 2, 82, (None,)), (b"zxcv", 1, 42, (None,))]
    assert totals(buffer) == (0, 0)
    assert buffer.earliest_time == NEVER


def test_change_keeps_headers_and_origin_of_its_record(buffer: Buffer) -> None:
    headers = (("a", b"1"), ("a", None), ("é", b""))
    put(buffer, 1, "k", "v", timestamp=7, headers=headers, offset=12)

    ((_, change),) = buffer.leave_while(lambda _: True)

    assert (change.timestamp, change.headers) == (7, headers)
    assert change.origin == RecordMetadata("topic", 0, 12)


def test_keys_that_a_serde_refuses_change_nothing(buffer: Buffer) -> None:
    with pytest.raises(SerializationError):
        buffer.put(1, "k", (b"no text", None), record_at(0))  # type: ignore[arg-type]

    assert totals(buffer) == (0, 0)
    assert let_leave(buffer) == []


# ---------------------------------------------------------------------- how much there is


def test_a_key_counts_once(buffer: Buffer) -> None:
    put(buffer, 0, "asdf", "oin")
    put(buffer, 1, "asdf", "wekjn")
    assert buffer.totals.records == 1
    put(buffer, 0, "zxcv", "24inf")

    assert buffer.totals.records == 2


def test_bytes_are_counted_as_kafka_counts_them(buffer: Buffer) -> None:
    counted = []
    for time, key, value in ((0, "asdf", "23roni"), (1, "asdf", "3l"), (0, "zxcv", "qfowin")):
        put(buffer, time, key, value)
        counted.append(buffer.totals.counted_bytes)

    assert counted == [43, 39, 82]


def test_headers_and_prior_and_old_values_count_and_equal_ones_once(buffer: Buffer) -> None:
    put(buffer, 0, "k", "new", old="prior", headers=(("ab", b"cde"), ("f", None)))
    assert buffer.totals.counted_bytes == 1 + 8 + 25 + 3 + 5 + 6

    put(buffer, 0, "k", "newer", old="new")
    assert buffer.totals.counted_bytes == 1 + 8 + 25 + 5 + 5 + 3


def test_the_earliest_time_is_that_of_the_first_change(buffer: Buffer) -> None:
    assert let_leave(buffer) == []
    assert buffer.earliest_time == NEVER
    put(buffer, 1, "asdf", "2093j")
    assert buffer.earliest_time == 1
    put(buffer, 0, "zxcv", "3gon4i")
    assert buffer.earliest_time == 0

    let_leave(buffer, until(0))

    assert buffer.earliest_time == 1


# ---------------------------------------------------------------------- what the table had


def test_key_that_is_not_buffered_has_no_prior_value(buffer: Buffer) -> None:
    assert buffer.prior_value("ASDF") is None


def test_prior_value_is_the_old_one_of_the_first_change(home: Home, buffer: Buffer) -> None:
    put(buffer, 1, "A", "new", old="old")
    put(buffer, 1, "B", "new")
    put(buffer, 1, "A", "newer", old="new")
    commit(buffer)
    put(buffer, 1, "A", "newest", old="newer")

    assert buffer.prior_value("A") == ("old",)
    assert buffer.prior_value("B") == (None,)


# ---------------------------------------------------------------------- the changelog


def test_a_flush_logs_the_last_change_of_each_key_and_deletions(home: Home, buffer: Buffer) -> None:
    put(buffer, 2, "asdf", "2093j", timestamp=4)
    put(buffer, 1, "zxcv", "3gon4i", timestamp=1)
    put(buffer, 0, "gone", "deadbeef", timestamp=2)
    put(buffer, 9, "asdf", "last", timestamp=5, old="2093j")
    let_leave(buffer, until(0))
    assert home.changelog.records == []

    buffer.flush_cache()

    records = {key: rest for key, *rest in home.changelog.records}
    version = (("v", b"\x03"),)
    origin = RecordMetadata("topic", 0, 0)
    assert records == {
        b"asdf": [packed(5, (), origin, None, b"2093j", b"last", 2), 5, version],
        b"zxcv": [packed(1, (), origin, None, None, b"3gon4i", 1), 1, version],
        b"gone": [None, 2, ()],
    }


def test_nothing_is_logged_twice(home: Home, buffer: Buffer) -> None:
    put(buffer, 1, "k", "v")
    commit(buffer)
    commit(buffer, 1)

    assert len(home.changelog.records) == 1


def test_logged_bytes_are_those_of_the_format() -> None:
    origin = RecordMetadata("t", 2, 3)
    stored = packed(1, (("h", None),), origin, b"p", b"p", b"v", 5)

    assert stored == bytes.fromhex(
        "0000000000000001 0000000000000003 00000001 74 00000002 00000001 00000001 68 ffffffff "
        "00000001 70 fffffffe 00000001 76 0000000000000005"
    )
    assert packed(*unpacked(stored)) == stored


@each_engine
def test_restored_buffer_holds_what_was_logged(tmp_path: Path, engine: StoreEngine) -> None:
    home = Home(tmp_path / "first")
    buffer = opened(home, engine)
    for time in (30, 10, 20):
        put(buffer, time, f"k{time}", f"v{time}", timestamp=time)
    commit(buffer)
    let_leave(buffer, until(10))
    put(buffer, 40, "k20", "later", timestamp=25, old="v20")
    commit(buffer, 4)
    before = totals(buffer)

    restored = opened(Home(tmp_path / "second"), engine)
    restored.restore(logged(home)[:2])
    restored.restore(logged(home)[2:])

    assert totals(restored) == before
    assert restored.totals.stream_time == 30
    assert let_leave(restored) == [
        Left("k20", ("later", None), 25),
        Left("k30", ("v30", None), 30),
    ]
    assert restored.committed_offset(CHANGELOG) == 4


@each_engine
def test_dumped_buffer_restores_what_is_committed(tmp_path: Path, engine: StoreEngine) -> None:
    buffer = opened(Home(tmp_path / "first"), engine)
    put(buffer, 10, "a", "1", timestamp=3)
    put(buffer, 5, "b", "2", timestamp=4)
    commit(buffer)
    dumped = Home(tmp_path / "dumped")
    dumped.changelog.records += buffer.changelog_records()

    restored = opened(Home(tmp_path / "second"), engine)
    restored.restore(logged(dumped))

    assert let_leave(restored) == [Left("b", ("2", None), 4), Left("a", ("1", None), 3)]


def test_key_that_left_and_came_back_has_the_time_that_was_logged(tmp_path: Path) -> None:
    home = Home(tmp_path / "first")
    buffer = opened(home)
    put(buffer, 5, "a", "1")
    commit(buffer)
    let_leave(buffer)
    put(buffer, 9, "a", "2", old="1")
    commit(buffer)

    restored = opened(Home(tmp_path / "second"))
    restored.restore(logged(home))

    assert let_leave(restored, until(8)) == []
    assert let_leave(restored, until(9)) == [Left("a", ("2", "1"))]


# ---------------------------------------------------------------------- commits and restarts


@each_engine
def test_rollback_brings_back_what_left_and_drops_what_came(
    home: Home, engine: StoreEngine
) -> None:
    buffer = opened(home, engine)
    put(buffer, 10, "a", "1", timestamp=10)
    commit(buffer)
    before = totals(buffer)
    let_leave(buffer)
    put(buffer, 20, "b", "2", timestamp=20)
    put(buffer, 5, "a", "3", timestamp=21)

    buffer.rollback()

    assert totals(buffer) == before
    assert buffer.totals.stream_time == 10
    assert let_leave(buffer) == [Left("a", ("1", None), 10)]


def test_restart_keeps_totals_and_stream_time_without_reading_the_buffer(home: Home) -> None:
    buffer = opened(home)
    put(buffer, 10, "a", "1", timestamp=30)
    put(buffer, 20, "b", "2", timestamp=2)
    let_leave(buffer, until(10))
    commit(buffer)
    before = totals(buffer)
    buffer.close()

    buffer = opened(home)

    assert (totals(buffer), buffer.totals.stream_time) == (before, 30)
    assert let_leave(buffer) == [Left("b", ("2", None), 2)]


def test_totals_are_written_beside_offsets_and_taken_for_none(home: Home) -> None:
    buffer = opened(home)
    put(buffer, 10, "a", "1")
    commit(buffer, 7)
    buffer.commit({})
    assert buffer.committed_offset(CHANGELOG) is None
    buffer.close()

    buffer = opened(home)

    assert buffer.totals.records == 1


@pytest.mark.parametrize("seed", range(8))
def test_a_buffer_does_what_a_sorted_list_does(seed: int, home: Home) -> None:
    """While few keys are read at a time: commits, rollbacks and restarts change nothing."""
    chooser = random.Random(seed)
    engine = chooser.choice(list(StoreEngine))
    buffer = opened(home, engine)
    buffer._upcoming._kept_keys = chooser.choice([1, 2, 5])
    now: dict[str, tuple[int, str, str | None]] = {}
    committed: dict[str, tuple[int, str, str | None]] = {}
    due = 0
    for number in range(300):
        action = chooser.choice(["put"] * 9 + ["leave"] * 2 + ["first", "commit", "rollback"])
        key = chooser.choice(["a", "b", "ab", "c", "d", "e\x00", "e"])
        if action == "put":
            value = str(number)
            time, _, prior = now.get(key, (due + chooser.randrange(-3, 12), "", f"p{number}"))
            newest = now[key][1] if key in now else prior
            put(buffer, max(time, 0), key, value, old=newest)
            now[key] = max(time, 0), value, prior
            assert buffer.prior_value(key) == (prior,)
        elif action in {"leave", "first"}:
            due += chooser.randrange(4)
            going = sorted(now, key=lambda key: (now[key][0], key))
            if action == "leave":
                going = [key for key in going if now[key][0] <= due]
                left = let_leave(buffer, until(due))
            else:
                going = going[:1]
                left = let_leave(buffer, the_first())
            assert left == [Left(key, now[key][1:]) for key in going]
            for key in going:
                del now[key]
        elif action == "commit":
            commit(buffer, number)
            committed = dict(now)
        else:
            buffer.rollback()
            now = dict(committed)
            if engine is StoreEngine.ROCKSDB and chooser.random() < 0.5:
                buffer.close()
                buffer = opened(home, engine)
                buffer._upcoming._kept_keys = 2
        assert buffer.totals.records == len(now)
        assert buffer.earliest_time <= min((time for time, *_ in now.values()), default=NEVER)
    buffer.close()


def test_memory_holds_a_bounded_number_of_keys(home: Home) -> None:
    buffer = opened(home)
    let_leave(buffer)
    for number in range(5 * KEPT_KEYS):
        put(buffer, number * 7919 % 10_000, f"{number:05}", "v")
        assert len(buffer._upcoming) <= 2 * KEPT_KEYS

    portions = list(iter(lambda: let_leave(buffer), []))

    assert max(map(len, portions)) == PORTION_BYTES // 1024
    assert [key for portion in portions for key, *_ in portion] == [
        f"{number:05}"
        for number in sorted(range(5 * KEPT_KEYS), key=lambda number: number * 7919 % 10_000)
    ]
