"""The bytes of session keys, and the bounds and the filter that find sessions among them.

All cases of Kafka's SessionKeySchemaTest but those of its serde for topics, which is another's.
"""

from __future__ import annotations

import pytest

from pystreams import Window
from pystreams.record import MAX_TIME
from pystreams.stores.kinds.session.keys import (
    is_found,
    key_of,
    lower_bound,
    lower_bound_of_key,
    session_key,
    upper_bound,
    upper_bound_of_key,
    window_of,
)

SESSIONS = [
    session_key(bytes(2), 0, 0),
    session_key(bytes(1), 0, 0),
    session_key(bytes(3), 0, 0),
    session_key(bytes(1), 10, 20),
    session_key(bytes(2), 10, 20),
    session_key(bytes(3), 10, 20),
]


def found(
    key_from: bytes | None,
    key_to: bytes | None,
    earliest_end: int = 0,
    latest_start: int = MAX_TIME,
) -> list[int]:
    """Numbers of the sessions found, from 1."""
    return [
        number
        for number, session in enumerate(SESSIONS, 1)
        if is_found(session, key_from, key_to, earliest_end, latest_start)
    ]


def test_the_key_of_the_worked_example() -> None:
    assert session_key(b"a", 1, 258) == bytes.fromhex("61 0000000000000102 0000000000000001")


def test_sessions_of_a_key_skip_longer_keys() -> None:
    assert found(bytes(1), bytes(1)) == [2, 4]


def test_sessions_of_a_key_skip_shorter_keys() -> None:
    assert found(bytes(2), bytes(2)) == [1, 5]


def test_open_ends_find_all_keys() -> None:
    assert found(None, None) == [1, 2, 3, 4, 5, 6]
    assert found(None, bytes(2)) == [1, 2, 4, 5]
    assert found(bytes(2), None) == [1, 3, 5, 6]


def test_a_session_is_found_if_it_overlaps_the_time_asked_for() -> None:
    assert found(None, None, earliest_end=20) == [4, 5, 6]
    assert found(None, None, earliest_end=21) == []
    assert found(None, None, latest_start=9) == [1, 2, 3]
    assert found(None, None, 1, 10) == [4, 5, 6]


def test_the_upper_bound_with_large_timestamps_covers_shorter_keys() -> None:
    upper = upper_bound(b"\x0a\x0b\x0c", MAX_TIME)

    assert upper >= session_key(b"\x0a", MAX_TIME, MAX_TIME)
    assert upper >= session_key(b"\x0a\x0b", MAX_TIME, MAX_TIME)
    assert upper == session_key(b"\x0a", MAX_TIME, MAX_TIME)


def test_the_upper_bound_keeps_key_bytes_above_the_first_byte_of_a_time() -> None:
    upper = upper_bound(b"\x0a\x8f\x9f", MAX_TIME)

    assert upper >= session_key(b"\x0a\x8f", MAX_TIME, MAX_TIME)
    assert upper == session_key(b"\x0a\x8f\x9f", MAX_TIME, MAX_TIME)


def test_the_upper_bound_with_start_zero() -> None:
    assert upper_bound(b"\x0a\x0b\x0c", 0) == session_key(b"\x0a", 0, MAX_TIME)


def test_the_upper_bound_covers_a_short_key_before_one_that_goes_on_like_a_time() -> None:
    # Kafka's bound is below this one.
    late = session_key(b"\x0a", MAX_TIME, MAX_TIME)
    assert upper_bound(b"\x0a\x7f", MAX_TIME) >= late


def test_the_upper_bound_of_a_key_without_bytes_is_its_highest_session() -> None:
    assert upper_bound(b"", 7) == session_key(b"", 7, MAX_TIME)


def test_the_lower_bound_is_the_lowest_session_of_the_key() -> None:
    assert lower_bound(b"\x0a\x0b\x0c") == session_key(b"\x0a\x0b\x0c", 0, 0)


def test_the_lower_bound_covers_keys_that_go_on_with_zeros() -> None:
    longer = session_key(b"\x0a\x0b\x0c" + bytes(16), MAX_TIME, MAX_TIME)
    assert lower_bound(b"\x0a\x0b\x0c") < longer


@pytest.mark.parametrize("start", [0, 5, MAX_TIME])
def test_bounds_of_one_key_cover_its_sessions_from_the_earliest_end_on(start: int) -> None:
    low, high = lower_bound_of_key(b"k", 5), upper_bound_of_key(b"k", start)

    assert low <= session_key(b"k", 0, 5)
    assert low > session_key(b"k", 4, 4)
    assert high >= session_key(b"k", start, MAX_TIME)


def test_key_and_window_are_read_back() -> None:
    session = session_key(b"key", 50, 100)

    assert key_of(session) == b"key"
    assert window_of(session) == Window(50, 100)
