"""What must come out of a windowed aggregation, and whether it did.

- On update, tumbling, hopping, sessions: every change of every window, in the order of the input;
  what a session was before it grew is deleted first (Quix Streams sends no deletions).
- On update, sliding: the counts of a window rise by one, from whatever it begins with, to how many
  records are in it; each window there must be is there, and no other. A window that begins right
  after one record and ends with the next is made for both, so its first 1 may come twice.
- On close: the result of each window once. With Quix Streams, where a key's own records close its
  windows (sessions, sliding), of those that are closed by the key's last one.

The windows of the key that closes all others at the end are not looked at.
"""

from __future__ import annotations

import itertools
import json
import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from benchmarks.harness.cluster import Cluster
from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.timed_topics import read_committed
from benchmarks.harness.window_kinds import (
    ADVANCE_MS,
    CLOSING_KEY,
    DIFFERENCE_MS,
    GAP_MS,
    GRACE_MS,
    SIZE_MS,
    WindowInput,
)

QUIX = "quix"

Result = tuple[str, int, int, int | None]
"""Key, start and end of the window (ms), and its value; None for a deletion."""

Row = tuple[str, int, int]

_START = struct.Struct(">q")
_END_AND_START = struct.Struct(">qq")
_PROBLEMS_SHOWN = 3


def check(
    cluster: Cluster, topic: str, program: str, kind: str, emit: str, source: WindowInput
) -> int:
    """Check an output; return how many records it has.

    Raises:
        WrongOutputError: It is not what the input demands.
    """
    found = results(read_committed(cluster, topic), program, kind)
    return check_results(found, program, kind, emit, source)


def check_results(
    found: Iterable[Result], program: str, kind: str, emit: str, source: WindowInput
) -> int:
    """Check the results of an output; return how many there are.

    Raises:
        WrongOutputError: They are not what the input demands.
    """
    if emit == "close":
        return _check_finals(found, finals(program, kind, source))
    if kind == "sliding":
        return _check_rising(
            found, sliding_counts(source, ends_with_record=program == QUIX), source
        )
    return _check_in_order(found, updates(program, kind, source))


def results(
    records: Iterable[tuple[bytes, bytes | None]], program: str, kind: str
) -> Iterator[Result]:
    """Yield what the records of an output say, but for the closing key."""
    for raw_key, raw_value in records:
        if raw_key.startswith(CLOSING_KEY.encode()):
            continue
        if program == QUIX:
            said = json.loads(raw_value or b"{}")
            # An end is the first millisecond after a session here, and the last one otherwise.
            end = said["end"] - (kind == "session")
            yield raw_key.decode(), said["start"], end, said["value"]
            continue
        value = None if raw_value is None else int.from_bytes(raw_value, "big", signed=True)
        if kind == "session":
            end, start = _END_AND_START.unpack_from(raw_key, len(raw_key) - _END_AND_START.size)
            yield raw_key[: -_END_AND_START.size].decode(), start, end, value
        else:
            (start,) = _START.unpack_from(raw_key, len(raw_key) - _START.size)
            size = DIFFERENCE_MS if kind == "sliding" else SIZE_MS
            yield raw_key[: -_START.size].decode(), start, start + size, value


def updates(program: str, kind: str, source: WindowInput) -> Iterator[Result]:
    """Yield each change of each window, in order."""
    if kind == "session":
        return _session_updates(source, deletes=program != QUIX)
    return _time_window_updates(kind, source)


def _time_window_updates(kind: str, source: WindowInput) -> Iterator[Result]:
    advance_ms = ADVANCE_MS if kind == "hopping" else SIZE_MS
    values: dict[tuple[str, int], int] = {}
    for key, text, timestamp in source.records:
        first = (timestamp - SIZE_MS) // advance_ms * advance_ms + advance_ms
        for start in range(first, timestamp + 1, advance_ms):
            value = values.get((key, start), 0) + (int(text) if kind == "hopping" else 1)
            values[key, start] = value
            yield key, start, start + SIZE_MS, value


def _session_updates(source: WindowInput, *, deletes: bool) -> Iterator[Result]:
    sessions: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for key, _, timestamp in source.records:
        of_key = sessions[key]
        near = [
            session
            for session in of_key[-3:]
            if session[0] - GAP_MS <= timestamp <= session[1] + GAP_MS
        ]
        start = min([timestamp, *(session[0] for session in near)])
        end = max([timestamp, *(session[1] for session in near)])
        count = 1 + sum(session[2] for session in near)
        for session in near:
            of_key.remove(session)
            if deletes and start != end:
                yield key, session[0], session[1], None
        of_key.append((start, end, count))
        of_key.sort()
        yield key, start, end, count


def finals(program: str, kind: str, source: WindowInput) -> dict[Row, int]:
    """Return the result of each window that is closed at the end."""
    if kind == "sliding":
        rows = sliding_counts(source, ends_with_record=program == QUIX)
        closes_after_ms = GRACE_MS + 1
    else:
        rows = {}
        changes = (
            _session_updates(source, deletes=True)
            if kind == "session"
            else _time_window_updates(kind, source)
        )
        for key, start, end, value in changes:
            if value is None:
                del rows[key, start, end]
            else:
                rows[key, start, end] = value
        closes_after_ms = GRACE_MS + 2 * GAP_MS + 1
    if program != QUIX or kind in {"tumbling", "hopping"}:
        return rows
    last: dict[str, int] = defaultdict(int)
    for key, _, timestamp in source.records:
        last[key] = max(last[key], timestamp)
    return {row: value for row, value in rows.items() if row[2] <= last[row[0]] - closes_after_ms}


def _check_in_order(found: Iterable[Result], expected: Iterator[Result]) -> int:
    number = 0
    for number, (came, due) in enumerate(itertools.zip_longest(found, expected), 1):
        if came != due:
            raise WrongOutputError(f"result {number} is {came} instead of {due}")
    return number


def _check_rising(found: Iterable[Result], expected: dict[Row, int], source: WindowInput) -> int:
    values: dict[Row, int] = {}
    times = {(key, timestamp) for key, _, timestamp in source.records}
    number = 0
    for number, (key, start, end, value) in enumerate(found, 1):
        row = key, start, end
        before = values.get(row)
        rises = value is not None and (before is None or value == before + 1)
        is_made_twice = value == before == 1 and {(key, start - 1), (key, end)} <= times
        if not rises and not is_made_twice:
            raise WrongOutputError(f"{row} goes from {before} to {value} (result {number})")
        values[row] = value or 0
    _compare(values, expected)
    return number


def _check_finals(found: Iterable[Result], expected: dict[Row, int]) -> int:
    values: dict[Row, int | None] = {}
    for key, start, end, value in found:
        row = key, start, end
        if row in values:
            raise WrongOutputError(f"{row} came twice: {values[row]}, then {value}")
        values[row] = value
    _compare(values, expected)
    return len(values)


def _compare(found: Mapping[Row, int | None], expected: Mapping[Row, int]) -> None:
    if found == expected:
        return
    rows = found.keys() | expected.keys()
    wrong = sorted(row for row in rows if found.get(row) != expected.get(row))
    shown = ", ".join(
        f"{row}: {found.get(row)}, the input has {expected.get(row)}"
        for row in wrong[:_PROBLEMS_SHOWN]
    )
    raise WrongOutputError(f"{len(wrong)} of {len(expected)} windows are wrong: {shown}")


def sliding_counts(source: WindowInput, *, ends_with_record: bool) -> dict[Row, int]:
    """Return how many records are in each sliding window.

    Args:
        source: The input.
        ends_with_record: Whether only windows that end with a record count; else also those that
            begin right after one, and are not empty.
    """
    times: dict[str, list[int]] = defaultdict(list)
    for key, _, timestamp in source.records:
        times[key].append(timestamp)
    rows: dict[Row, int] = {}
    for key, of_key in times.items():
        of_key.sort()
        for timestamp in of_key:
            for start in (timestamp - DIFFERENCE_MS, timestamp + 1):
                end = start + DIFFERENCE_MS
                count = bisect_right(of_key, end) - bisect_left(of_key, start)
                if count and (end == timestamp or not ends_with_record):
                    rows[key, start, end] = count
    return rows
