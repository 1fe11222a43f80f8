"""The keys of window stores: bytes as Kafka Streams has them, and bounds that miss nothing.

The cases named after upstream's are those of Kafka's WindowKeySchemaTest.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystreams import Window, Windowed
from pystreams.record import MAX_TIME
from pystreams.stores.kinds.window.keys import (
    MAX_SEQUENCE,
    bounds_of_key,
    key_of,
    lower_bound,
    sequence_of,
    start_of,
    upper_bound,
    window_key,
    window_of,
)

ABC = b"\x0a\x0b\x0c"
LATE = 0x0AFFFFFFFFFFFFFF

KEYS = st.binary(max_size=4) | st.lists(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])).map(bytes)
TIMES = st.integers(0, MAX_TIME) | st.integers(0, 300) | st.sampled_from([1 << 40, 1 << 48, LATE])


def test_a_key_is_record_key_then_start_then_sequence() -> None:
    assert window_key(b"a", 50) == bytes.fromhex("61 0000000000000032 00000000")
    assert window_key(b"", 1, 2) == bytes.fromhex("0000000000000001 00000002")


def test_parts_of_a_key_are_read_back() -> None:
    stored = window_key(b"key", 50, 7)
    assert (key_of(stored), start_of(stored), sequence_of(stored)) == (b"key", 50, 7)
    assert sequence_of(window_key(b"key", 50, MAX_SEQUENCE)) == MAX_SEQUENCE


def test_a_window_that_would_end_after_all_time_ends_with_it() -> None:
    assert window_of(50, 50) == Window(50, 100)
    assert window_of(50, MAX_TIME) == Window(50, MAX_TIME)


def test_a_windowed_key_is_written_as_in_kafka_streams() -> None:
    assert str(Windowed("k", Window(5, 10))) == "[k@5/10]"


# Upstream: hasNextConditionUsingNullKeys has no counterpart, without keys there are no bounds.


def test_upper_bound_with_large_timestamps() -> None:
    upper = upper_bound(ABC, MAX_TIME)
    assert upper >= window_key(b"\x0a", MAX_TIME, MAX_SEQUENCE)
    assert upper >= window_key(b"\x0a\x0b", MAX_TIME, MAX_SEQUENCE)
    # Kafka: window_key(0A, ...); here a key without bytes may have such a start as well.
    assert upper == window_key(b"", MAX_TIME, MAX_SEQUENCE)


def test_upper_bound_with_key_bytes_larger_than_first_timestamp_byte() -> None:
    upper = upper_bound(b"\x8a\x8f\x9f", MAX_TIME)
    assert upper >= window_key(b"\x8a\x8f", MAX_TIME, MAX_SEQUENCE)
    assert upper == window_key(b"\x8a\x8f\x9f", MAX_TIME, MAX_SEQUENCE)


def test_upper_bound_with_key_bytes_larger_and_smaller_than_first_timestamp_byte() -> None:
    upper = upper_bound(b"\x0c\x0c\x09", LATE)
    assert upper >= window_key(b"\x0c\x0c", LATE, MAX_SEQUENCE)
    assert upper == window_key(b"\x0c\x0c", LATE, MAX_SEQUENCE)


def test_upper_bound_with_zero_timestamp() -> None:
    assert upper_bound(ABC, 0) == window_key(ABC, 0, MAX_SEQUENCE)


def test_lower_bound_with_zero_timestamp() -> None:
    assert lower_bound(ABC) < window_key(ABC + b"\x00", 0)
    assert lower_bound(ABC) == window_key(ABC, 0, 0)


def test_lower_bound_with_non_zero_timestamp() -> None:
    assert lower_bound(ABC) < window_key(ABC + b"\x00", 43)


def test_lower_bound_matches_trailing_zeros() -> None:
    assert lower_bound(ABC) < window_key(ABC + bytes(16), MAX_TIME - 1)


def test_bounds_of_one_key_are_its_first_and_last_window_in_time() -> None:
    assert bounds_of_key(b"a", 5, 9) == (window_key(b"a", 5, 0), window_key(b"a", 9, MAX_SEQUENCE))
    assert bounds_of_key(b"a", -5, 9)[0] == window_key(b"a", 0, 0)


def test_upper_bound_counts_a_short_key_before_one_that_goes_on_with_zeros() -> None:
    """Differs from Kafka, whose bound for 61 00 00 at this time is below that window of 61."""
    now = 1_700_000_000_000
    assert upper_bound(b"a\x00\x00", now) >= window_key(b"a", now)
    assert b"a\x00\x00" + window_key(b"", now, MAX_SEQUENCE) < window_key(b"a", now)


@pytest.mark.property
@given(key=KEYS, key_from=KEYS, key_to=KEYS, start=TIMES, time_to=TIMES)
def test_no_window_of_a_key_range_is_outside_its_bounds(
    key: bytes, key_from: bytes, key_to: bytes, start: int, time_to: int
) -> None:
    stored = window_key(key, start, MAX_SEQUENCE)
    if key >= key_from:
        assert stored >= lower_bound(key_from)
    if key <= key_to and start <= time_to:
        assert stored <= upper_bound(key_to, time_to)


@pytest.mark.property
@given(key=KEYS, other=KEYS, start=TIMES, time_from=TIMES, time_to=TIMES)
def test_what_is_as_long_as_the_bounds_of_a_key_and_between_them_is_its_window_in_time(
    key: bytes, other: bytes, start: int, time_from: int, time_to: int
) -> None:
    low, high = bounds_of_key(key, time_from, time_to)
    stored = window_key(other, start)
    found = low <= stored <= high and len(stored) == len(low)
    assert found == (other == key and time_from <= start <= time_to)
