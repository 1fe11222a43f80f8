"""Joins of two streams beside a plain model: any order of records, any windows.

The model knows nothing of stores. It keeps every record with the number it came as, and says from
those which pairs meet. Of a left or outer join it says in addition what is sure: a record that met
nobody comes out alone at the end, once; one that met somebody before its window and the grace
period were over does not.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import JoinWindows
from tests.topology.joins.joined_streams import KINDS, JoinedStreams, Kind, Result

END = 10**6
"""Beyond all windows: what comes then lets everything go."""

times = st.integers(0, 120)
records = st.lists(
    st.tuples(st.sampled_from(["left", "right"]), st.sampled_from("ab"), times),
    max_size=25,
)
windows_of_any_shape = st.builds(
    lambda before, size, grace: JoinWindows(before, size - before, grace),
    st.integers(-20, 40),
    st.integers(2, 60),
    st.integers(0, 50),
)


class Came(NamedTuple):
    """A record, in the order of coming."""

    number: int
    side: str
    key: str
    time: int
    value: str


def meet(windows: JoinWindows, record: Came, other: Came) -> bool:
    """Whether two records of a key are within each other's window."""
    left, right = (record, other) if record.side == "left" else (other, record)
    return (
        record.key == other.key
        and record.side != other.side
        and left.time - windows.before_ms <= right.time <= left.time + windows.after_ms
    )


def kept_until(windows: JoinWindows, came: list[Came], kept: Came, number: int) -> bool:
    """Whether the store of a record's side still gives it out when record `number` comes."""
    side_time = max(
        record.time for record in came if record.side == kept.side and record.number < number
    )
    return kept.time > side_time - windows.retention_ms


def pairs(windows: JoinWindows, came: list[Came]) -> dict[int, set[int]]:
    """Which records each record meets: by number, both ways."""
    found: dict[int, set[int]] = {record.number: set() for record in came}
    for later in came:
        for earlier in came[: later.number]:
            if meet(windows, later, earlier) and kept_until(windows, came, earlier, later.number):
                found[later.number].add(earlier.number)
                found[earlier.number].add(later.number)
    return found


def joined(came: list[Came], number: int, other: int) -> Result:
    """The result of a pair."""
    left, right = (number, other) if came[number].side == "left" else (other, number)
    time = max(came[number].time, came[other].time)
    return came[number].key, f"{came[left].value}+{came[right].value}", time


def alone(record: Came) -> Result:
    """The result of a record that met nobody."""
    left = record.side == "left"
    value = f"{record.value}+none" if left else f"none+{record.value}"
    return record.key, value, record.time


def play(kind: Kind, windows: JoinWindows, came: list[Came]) -> list[Result]:
    with JoinedStreams(kind, windows) as streams:
        results = []
        for record in came:
            results += streams.pipe(record.side, record.key, record.value, record.time)
        # Of both sides: the first may be what the last look was for.
        for number, side in enumerate(("left", "right", "left", "right")):
            results += streams.pipe(side, f"end{number}", "end", END * (number + 1))
    return [result for result in results if result[0] in {"a", "b"}]


def coming(drawn: list[tuple[str, str, int]]) -> list[Came]:
    return [
        Came(number, side, key, time, f"{side[0]}{number}")
        for number, (side, key, time) in enumerate(drawn)
    ]


@settings(max_examples=40, deadline=None)
@given(drawn=records, windows=windows_of_any_shape, kind=st.sampled_from(KINDS))
def test_each_pair_in_a_window_meets_once(
    drawn: list[tuple[str, str, int]], windows: JoinWindows, kind: Kind
) -> None:
    came = coming(drawn)
    met = pairs(windows, came)

    results = [result for result in play(kind, windows, came) if "none" not in result[1]]

    expected = [
        joined(came, later, earlier)
        for later, earlier_ones in met.items()
        for earlier in sorted(earlier_ones, key=lambda number: (came[number].time, number))
        if earlier < later
    ]
    assert results == expected


@settings(max_examples=40, deadline=None)
@given(
    drawn=records,
    windows=windows_of_any_shape,
    kind=st.sampled_from(["left_join", "outer_join"]),
)
def test_each_record_comes_out_with_a_match_or_alone_and_alone_once(
    drawn: list[tuple[str, str, int]], windows: JoinWindows, kind: Kind
) -> None:
    came = coming(drawn)
    met = pairs(windows, came)
    outer_sides = {"left"} if kind == "left_join" else {"left", "right"}

    results = Counter(result for result in play(kind, windows, came) if "none" in result[1])

    assert set(results.values()) <= {1}
    for record in came:
        is_alone = alone(record) in results
        if record.side not in outer_sides:
            assert not is_alone
        elif not met[record.number]:
            assert is_alone
        elif is_alone:
            # A match came after it was let go; the first did, or it would have been forgotten.
            assert min(met[record.number]) > record.number


@settings(max_examples=40, deadline=None)
@given(drawn=records, windows=windows_of_any_shape)
def test_a_record_whose_match_comes_within_window_and_grace_is_never_alone(
    drawn: list[tuple[str, str, int]], windows: JoinWindows
) -> None:
    """Unless its window was over when it came."""
    came = coming(drawn)
    met = pairs(windows, came)

    results = set(play("outer_join", windows, came))

    for record in came:
        reach = windows.after_ms if record.side == "left" else windows.before_ms
        now = max(other.time for other in came[: record.number + 1])
        over_when_it_came = record.time + reach < now
        for match in sorted(met[record.number]):
            before_match = max(other.time for other in came[: match + 1])
            in_time = record.time + reach + windows.grace_period_ms >= before_match
            if in_time and not over_when_it_came:
                assert alone(record) not in results
