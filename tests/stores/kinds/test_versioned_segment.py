"""The bytes of a versioned store's rows: built in every way, found by time, mended.

Cases are those of Kafka's RocksDBVersionedStoreSegmentValueFormatterTest.
"""

from __future__ import annotations

import pytest

from pystreams.stores.kinds.versioned.segment import (
    FoundVersion,
    find,
    find_all,
    min_timestamp,
    new_row,
    next_timestamp,
    with_earliest,
    with_inserted,
    with_latest,
    with_updated,
)

Versions = list[tuple[bytes | None, int]]
"""(value, timestamp), newest first; each ends where the one before it in the list begins."""

ROWS: dict[str, tuple[int, Versions]] = {
    "degenerate": (10, [(None, 10)]),
    "one": (10, [(b"foo", 1)]),
    "several": (10, [(b"foo", 8), (b"bar", 3), (b"baz", 0)]),
    "one tombstone": (10, [(None, 1)]),
    "several tombstones": (10, [(None, 4), (None, 1)]),
    "value tombstone value": (10, [(b"foo", 5), (None, 2), (b"bar", 1)]),
    "tombstone value tombstone": (10, [(None, 5), (b"foo", 2), (None, 1)]),
    "values after tombstones": (10, [(b"foo", 6), (b"bar", 5), (None, 2), (None, 1)]),
    "tombstones after values": (10, [(None, 7), (None, 6), (b"foo", 2), (b"bar", 1)]),
    "one empty": (10, [(b"", 1)]),
    "value after empty": (10, [(b"foo", 4), (b"", 1)]),
    "empties after value": (10, [(b"", 8), (b"", 2), (b"foo", 1)]),
}
BROKEN_ROWS: dict[str, tuple[int, Versions]] = {
    "all goes, one": (15, [(None, 12)]),
    "all goes, one at the very time": (15, [(None, 10)]),
    "all goes, several": (15, [(None, 12), (b"foo", 11)]),
    "all goes, several, one at the very time": (15, [(None, 12), (b"foo", 11), (None, 10)]),
    "the end goes, one": (15, [(None, 8)]),
    "the end goes, several": (15, [(b"foo", 12), (b"bar", 8)]),
    "the end goes, at a boundary": (15, [(b"foo", 12), (b"bar", 10), (b"baz", 8)]),
}

Case = tuple[int, Versions]
rows = pytest.mark.parametrize("case", ROWS.values(), ids=ROWS.keys())


def built_by_appending(case: Case) -> bytes:
    ends, versions = case
    row: bytes | None = None
    for position in range(len(versions) - 1, -1, -1):
        value, timestamp = versions[position]
        valid_to = ends if position == 0 else versions[position - 1][1]
        if row is not None:
            row = with_latest(row, timestamp, valid_to, value)
        elif len(versions) > 1 and value is None:
            row = new_row(None, timestamp, timestamp)  # Growing out of a degenerate row.
        else:
            row = new_row(value, timestamp, valid_to)
    assert row is not None
    return row


def built_by_prepending(case: Case) -> bytes:
    ends, versions = case
    value, timestamp = versions[0]
    row = new_row(value, timestamp, ends)
    for value, timestamp in versions[1:]:
        row = with_earliest(row, timestamp, value)
    return row


def check(row: bytes, case: Case) -> None:
    """The row reads as the case, and has the very bytes of the format."""
    ends, versions = case
    assert next_timestamp(row) == ends
    assert min_timestamp(row) == versions[-1][1]
    entries = b"".join(
        timestamp.to_bytes(8, "big")
        + (-1 if value is None else len(value)).to_bytes(4, "big", signed=True)
        for value, timestamp in versions
    )
    values = b"".join(value or b"" for value, _ in reversed(versions))
    bounds = ends.to_bytes(8, "big") + versions[-1][1].to_bytes(8, "big")
    assert row == bounds + entries + values
    if ends == versions[-1][1]:
        return
    for position, (value, timestamp) in enumerate(versions):
        valid_to = ends if position == 0 else versions[position - 1][1]
        assert find(row, timestamp) == FoundVersion(position, timestamp, valid_to, value)


def test_the_worked_example_of_the_module() -> None:
    row = built_by_appending((9, [(b"bc", 5), (None, 3), (b"a", 1)]))
    assert row == bytes.fromhex(
        "0000000000000009 0000000000000001"
        "0000000000000005 00000002 0000000000000003 ffffffff 0000000000000001 00000001"
        "61 6263"
    )


@rows
def test_row_built_by_appending(case: Case) -> None:
    check(built_by_appending(case), case)


@rows
def test_row_built_by_prepending(case: Case) -> None:
    check(built_by_prepending(case), case)


@rows
def test_row_of_one_version(case: Case) -> None:
    ends, versions = case
    value, timestamp = versions[0]
    check(new_row(value, timestamp, ends), (ends, [(value, timestamp)]))


@rows
def test_bounds_are_read_without_parsing(case: Case) -> None:
    row = built_by_appending(case)
    assert (next_timestamp(row), min_timestamp(row)) == (case[0], case[1][-1][1])


def test_appending_after_a_gap_makes_a_tombstone() -> None:
    row = with_latest(new_row(b"foo", 1, 4), 6, 9, b"bar")
    check(row, (9, [(b"bar", 6), (None, 4), (b"foo", 1)]))


def test_appending_after_a_gap_to_a_degenerate_row_makes_a_tombstone() -> None:
    row = with_latest(new_row(None, 4, 4), 6, 9, b"bar")
    check(row, (9, [(b"bar", 6), (None, 4)]))


@rows
def test_version_is_inserted_at_each_place(case: Case) -> None:
    ends, versions = case
    for place, (_, begins) in enumerate(versions):
        timestamp = begins + 1
        valid_to = ends if place == 0 else versions[place - 1][1]
        if timestamp < valid_to:
            row = with_inserted(built_by_appending(case), place, timestamp, b"new")
            check(row, (ends, [*versions[:place], (b"new", timestamp), *versions[place:]]))


@rows
def test_version_is_updated_at_each_place(case: Case) -> None:
    ends, versions = case
    if ends == versions[-1][1]:
        return
    for place, (_, begins) in enumerate(versions):
        valid_to = ends if place == 0 else versions[place - 1][1]
        timestamp = begins + 1 if begins + 1 < valid_to else begins
        for value in (b"updated", b"", None):
            row = with_updated(built_by_appending(case), place, timestamp, value)
            changed = [*versions[:place], (value, timestamp), *versions[place + 1 :]]
            check(row, (ends, changed))


@rows
def test_version_is_found_at_every_time_it_is_valid(case: Case) -> None:
    ends, versions = case
    row = built_by_appending(case)
    for place, (value, begins) in enumerate(versions):
        valid_to = ends if place == 0 else versions[place - 1][1]
        for timestamp in range(begins, valid_to):
            assert find(row, timestamp) == FoundVersion(place, begins, valid_to, value)


@rows
def test_time_outside_of_the_row_is_refused(case: Case) -> None:
    ends, versions = case
    row = built_by_appending(case)
    for timestamp in (ends, ends + 1, versions[-1][1] - 1):
        with pytest.raises(ValueError, match="is not in the row"):
            find(row, timestamp)


@rows
def test_all_values_are_found_but_no_tombstone(case: Case) -> None:
    ends, versions = case
    found = find_all(built_by_appending(case), None, None)
    assert [(version.value, version.valid_from) for version in found] == [
        version for version in versions if version[0] is not None
    ]
    assert all(version.valid_to <= ends for version in found)


def test_versions_that_touch_a_range_are_found() -> None:
    row = built_by_appending((10, [(b"c", 8), (b"b", 3), (b"a", 0)]))

    def values(from_time: int | None, to_time: int | None) -> bytes:
        return b"".join(version.value or b"" for version in find_all(row, from_time, to_time))

    assert values(2, 3) == b"ba"
    assert values(3, 7) == b"b"
    assert values(3, 8) == b"cb"
    assert values(10, None) == b""
    assert values(None, 0) == b"a"


@pytest.mark.parametrize("case", BROKEN_ROWS.values(), ids=BROKEN_ROWS.keys())
def test_versions_beyond_a_new_latest_one_are_dropped(case: Case) -> None:
    """Only a writer that failed between two rows leaves such a row."""
    row = with_latest(built_by_appending(case), 10, 13, b"new")
    kept = [version for version in case[1] if version[1] < 10]
    check(row, (13, [(b"new", 10), *kept]))
