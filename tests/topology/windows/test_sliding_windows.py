"""Sliding windows: which there are, what they hold, what is late. The cases are Kafka's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import (
    EmitStrategy,
    KGroupedStream,
    KTable,
    Processor,
    Record,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyError,
    Window,
    Windowed,
)
from pystreams.serdes import LONG, STRING
from pystreams.testing import TopologyTestDriver

Result = tuple[str, int, str | None, int]
"""(key, start of the window, value, time)."""

SMALL = [("1", 10), ("2", 10), ("3", 14), ("4", 15), ("5", 20), ("6", 22), ("7", 30)]


@pytest.fixture
def grouped(builder: StreamsBuilder) -> KGroupedStream[str, str]:
    return builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key()


def join_values(so_far: str, value: str) -> str:
    return f"{so_far}+{value}"


def add_value(key: str, value: str, so_far: str) -> str:
    return f"{so_far}+{value}"


def plus(key: str, value: int, so_far: int) -> int:
    return so_far + value


def minus(key: str, value: int, so_far: int) -> int:
    return so_far - value


def zero() -> str:
    return "0"


def within(difference_ms: int, grace_ms: int = 0) -> SlidingWindows:
    return SlidingWindows.of_time_difference_and_grace(difference_ms, grace_ms)


class Noting(Processor[Windowed[str], str, Any, Any]):
    """Notes the records it is given."""

    def __init__(self, noted: list[Result]) -> None:
        self._noted = noted

    def process(self, record: Record[Windowed[str], str]) -> None:
        key, window = record.key
        assert window.end > window.start
        self._noted.append((key, window.start, record.value, record.timestamp))


def note(table: KTable[Windowed[str], str]) -> list[Result]:
    """Return the list that the table's changes come to."""
    noted: list[Result] = []
    table.to_stream().process(lambda: Noting(noted))
    return noted


def pipe(driver: Any, *records: tuple[str | None, str | None, int]) -> None:
    source = driver.create_input_topic("in", STRING, STRING)
    for key, value, timestamp in records:
        source.pipe_input(key, value, timestamp)


def dropped(driver: TopologyTestDriver) -> int:
    """Return how often a record was dropped, by an operation or for a window."""
    return sum(task.counts.dropped for task in driver._tasks)


def by_start(results: list[Result]) -> dict[int, list[tuple[str | None, int]]]:
    """Return what came of each window, in order, as the keys are alike."""
    found: dict[int, list[tuple[str | None, int]]] = {}
    for _, start, value, time in results:
        found.setdefault(start, []).append((value, time))
    return dict(sorted(found.items()))


def aggregated(
    grouped: KGroupedStream[str, str], windows: SlidingWindows, **options: Any
) -> list[Result]:
    return note(grouped.windowed_by(windows).aggregate(zero, add_value, **options))


def test_aggregate_of_records_in_order(grouped: KGroupedStream[str, str], drive: Any) -> None:
    results = aggregated(grouped, within(10, 5))

    pipe(drive(), *(("A", value, time) for value, time in SMALL))

    assert by_start(results) == {
        0: [("0+1", 10), ("0+1+2", 10)],
        4: [("0+1+2+3", 14)],
        5: [("0+1+2+3+4", 15)],
        10: [("0+1+2+3+4+5", 20)],
        11: [("0+3", 14), ("0+3+4", 15), ("0+3+4+5", 20)],
        12: [("0+3+4+5+6", 22)],
        15: [("0+4", 15), ("0+4+5", 20), ("0+4+5+6", 22)],
        16: [("0+5", 20), ("0+5+6", 22)],
        20: [("0+5+6+7", 30)],
        21: [("0+6", 22), ("0+6+7", 30)],
        23: [("0+7", 30)],
    }


def test_a_record_opens_its_predecessors_right_window_before_its_own_left_one(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    results = aggregated(grouped, within(10, 100))

    pipe(drive(), ("A", "1", 10), ("B", "2", 11), ("A", "1", 15), ("B", "2", 16))

    assert results == [
        ("A", 0, "0+1", 10),
        ("B", 1, "0+2", 11),
        ("A", 11, "0+1", 15),
        ("A", 5, "0+1+1", 15),
        ("B", 12, "0+2", 16),
        ("B", 6, "0+2+2", 16),
    ]


def test_reduce_of_records_in_order(grouped: KGroupedStream[str, str], drive: Any) -> None:
    results = note(grouped.windowed_by(within(10, 5)).reduce(join_values))

    times = [("1", 10), ("2", 14), ("3", 15), ("4", 22), ("5", 26), ("6", 30)]
    pipe(drive(), *(("A", value, time) for value, time in times))

    assert by_start(results) == {
        0: [("1", 10)],
        4: [("1+2", 14)],
        5: [("1+2+3", 15)],
        11: [("2", 14), ("2+3", 15)],
        12: [("2+3+4", 22)],
        15: [("3", 15), ("3+4", 22)],
        16: [("4", 22), ("4+5", 26)],
        20: [("4+5+6", 30)],
        23: [("5", 26), ("5+6", 30)],
        27: [("6", 30)],
    }


OUT_OF_ORDER = [
    *(("A", "1", 10), ("A", "2", 20), ("A", "3", 22), ("A", "4", 15)),
    *(("B", "1", 12), ("B", "2", 13), ("B", "3", 18), ("B", "4", 19), ("B", "5", 25)),
    ("B", "6", 14),
    *(("C", "1", 11), ("C", "2", 15), ("C", "3", 16), ("C", "4", 21), ("C", "5", 23)),
    *(("D", "4", 11), ("D", "2", 12), ("D", "3", 29), ("D", "5", 16)),
]


def test_aggregate_of_records_out_of_order(grouped: KGroupedStream[str, str], drive: Any) -> None:
    results = aggregated(grouped, within(10, 50))

    pipe(drive(), *OUT_OF_ORDER)

    def of(key: str) -> dict[int, list[tuple[str | None, int]]]:
        return by_start([result for result in results if result[0] == key])

    assert of("A") == {
        0: [("0+1", 10)],
        5: [("0+1+4", 15)],
        10: [("0+1+2", 20), ("0+1+2+4", 20)],
        11: [("0+2", 20), ("0+2+4", 20)],
        12: [("0+2+3", 22), ("0+2+3+4", 22)],
        16: [("0+2+3", 22)],
        21: [("0+3", 22)],
    }
    assert of("B") == {
        2: [("0+1", 12)],
        3: [("0+1+2", 13)],
        4: [("0+1+2+6", 14)],
        8: [("0+1+2+3", 18), ("0+1+2+3+6", 18)],
        9: [("0+1+2+3+4", 19), ("0+1+2+3+4+6", 19)],
        13: [("0+2", 13), ("0+2+3", 18), ("0+2+3+4", 19), ("0+2+3+4+6", 19)],
        14: [("0+3", 18), ("0+3+4", 19), ("0+3+4+6", 19)],
        15: [("0+3+4+5", 25)],
        19: [("0+4", 19), ("0+4+5", 25)],
        20: [("0+5", 25)],
    }
    assert of("C") == {
        1: [("0+1", 11)],
        5: [("0+1+2", 15)],
        6: [("0+1+2+3", 16)],
        11: [("0+1+2+3+4", 21)],
        12: [("0+2", 15), ("0+2+3", 16), ("0+2+3+4", 21)],
        13: [("0+2+3+4+5", 23)],
        16: [("0+3", 16), ("0+3+4", 21), ("0+3+4+5", 23)],
        17: [("0+4", 21), ("0+4+5", 23)],
        22: [("0+5", 23)],
    }
    assert of("D") == {
        1: [("0+4", 11)],
        2: [("0+4+2", 12)],
        6: [("0+4+2+5", 16)],
        12: [("0+2", 12), ("0+2+5", 16)],
        13: [("0+5", 16)],
        19: [("0+3", 29)],
    }


EARLY = [("1", 0), ("2", 5), ("3", 6), ("4", 3), ("5", 13), ("6", 10), ("7", 70)]


def test_records_nearer_to_zero_than_the_difference_share_the_first_window(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    results = aggregated(grouped, within(50))

    pipe(drive(), *(("A", value, time) for value, time in EARLY))

    first = ["0+1", "0+1+2", "0+1+2+3", "0+1+2+3+4", "0+1+2+3+4+5", "0+1+2+3+4+5+6"]
    assert by_start(results) == {
        0: list(zip(first, [0, 5, 6, 6, 13, 13], strict=True)),
        1: [("0+2", 5), ("0+2+3", 6), ("0+2+3+4", 6), ("0+2+3+4+5", 13), ("0+2+3+4+5+6", 13)],
        4: [("0+2+3", 6), ("0+2+3+5", 13), ("0+2+3+5+6", 13)],
        6: [("0+3", 6), ("0+3+5", 13), ("0+3+5+6", 13)],
        7: [("0+5", 13), ("0+5+6", 13)],
        11: [("0+5", 13)],
        20: [("0+7", 70)],
    }


def test_records_of_one_early_time_repeated(grouped: KGroupedStream[str, str], drive: Any) -> None:
    results = aggregated(grouped, within(5))

    times = [0, 2, 4, 0, 2, 2, 0, 7]
    pipe(drive(), *(("A", str(number), time) for number, time in enumerate(times, 1)))

    of_window = by_start(results)
    assert of_window[0][-1] == ("0+1+2+3+4+5+6+7", 4)
    assert len(of_window[0]) == 7
    assert of_window[1] == [("0+2", 2), ("0+2+3", 4), ("0+2+3+5", 4), ("0+2+3+5+6", 4)]
    assert of_window[2] == [("0+2+3+5+6+8", 7)]
    assert of_window[3] == [("0+3", 4), ("0+3+8", 7)]
    assert of_window[5] == [("0+8", 7)]
    assert set(of_window) == {0, 1, 2, 3, 5}


ACROSS = [("1", 0), ("3", 5), ("4", 6), ("2", 3), ("6", 13), ("5", 10), ("7", 4), ("8", 2)]
"""Early records and others, out of order; one more, "9" at 15, ends it."""


@pytest.mark.parametrize("grace_ms", [50, 0])
@pytest.mark.parametrize("begin", [0, 100])
def test_records_that_are_early_and_others_out_of_order(
    grouped: KGroupedStream[str, str], drive: Any, grace_ms: int, begin: int
) -> None:
    results = aggregated(grouped, within(10, grace_ms))

    pipe(drive(), *(("E", value, begin + time) for value, time in [*ACROSS, ("9", 15)]))

    expected = {
        1: [("0+3", 5), ("0+3+4", 6), ("0+3+4+2", 6)],
        3: [("0+3+4+2+6", 13), ("0+3+4+2+6+5", 13), ("0+3+4+2+6+5+7", 13)],
        4: [("0+3+4", 6), ("0+3+4+6", 13), ("0+3+4+6+5", 13), ("0+3+4+6+5+7", 13)],
        5: [("0+3+4+6+5", 13), ("0+3+4+6+5+9", 15)],
        6: [("0+4", 6), ("0+4+6", 13), ("0+4+6+5", 13), ("0+4+6+5+9", 15)],
        7: [("0+6", 13), ("0+6+5", 13), ("0+6+5+9", 15)],
        11: [("0+6", 13), ("0+6+9", 15)],
        14: [("0+9", 15)],
    }
    if grace_ms:
        expected[1] += [
            ("0+3+4+2+5", 10),
            ("0+3+4+2+5+7", 10),
            ("0+3+4+2+5+7+8", 10),
        ]
    of_window = {start - begin: came for start, came in by_start(results).items()}
    later = {start: came for start, came in of_window.items() if start > 0}
    assert later == {
        start: [(value, begin + time) for value, time in came] for start, came in expected.items()
    }
    lasts = {0: {0: "0+1+3+4+2", 50: "0+1+3+4+2+5+7+8"}, 100: {}}
    if begin == 0:
        assert of_window[0][-1][0] == lasts[begin][grace_ms]


def test_no_grace_drops_the_windows_that_are_closed_and_keeps_the_others(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    results = aggregated(grouped, within(50))

    times = [("1", 100), ("2", 105), ("3", 106), ("4", 103), ("5", 113), ("6", 110)]
    pipe(drive(), *(("A", value, time) for value, time in times))

    assert by_start(results) == {
        50: [("0+1", 100)],
        55: [("0+1+2", 105)],
        56: [("0+1+2+3", 106), ("0+1+2+3+4", 106)],
        63: [("0+1+2+3+4+5", 113), ("0+1+2+3+4+5+6", 113)],
        101: [
            *(("0+2", 105), ("0+2+3", 106), ("0+2+3+4", 106)),
            *(("0+2+3+4+5", 113), ("0+2+3+4+5+6", 113)),
        ],
        104: [("0+2+3", 106), ("0+2+3+5", 113), ("0+2+3+5+6", 113)],
        106: [("0+3", 106), ("0+3+5", 113), ("0+3+5+6", 113)],
        107: [("0+5", 113), ("0+5+6", 113)],
        111: [("0+5", 113)],
    }


def test_a_record_without_key_or_value_is_in_no_window(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    results = aggregated(grouped, within(10, 100))

    driver = drive()
    pipe(driver, (None, "1", 10), ("A", None, 10), ("A", "2", 20))

    assert results == [("A", 10, "0+2", 20)]
    assert dropped(driver) == 2


def test_a_record_that_is_late_for_all_windows_or_for_its_left_one_changes_nothing(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    results = aggregated(grouped, within(10, 90))

    late = [100, 101, 102, 103, 104, 105, 15]
    times = [200, *late, 300, 400]
    driver = drive()
    pipe(driver, *(("k", str(time), time) for time in times))

    assert dropped(driver) == len(late)
    assert results == [("k", 190, "0+200", 200), ("k", 290, "0+300", 300), ("k", 390, "0+400", 400)]


_TIMES = [10, 15, 16, 18, 30, 40, 55, 56, 58, 58, 62, 63, 63, 63, 76, 77, 80, 2, 3, 5, 8]
LETTERS = dict(zip("ABCDEFGHIJKLMNOPQRSTU", _TIMES, strict=True))
LAST = (
    "0 ARSTU, 3 ASTU, 4 ATU, 5 ABTU, 6 ABCU, 8 ABCDU, 9 ABCD, 11 BCD, 16 CD, 17 D, 20 E, 30 EF, "
    "31 F, 45 G, 46 GH, 48 GHIJ, 52 GHIJK, 53 GHIJKLMN, 56 HIJKLMN, 57 IJKLMN, 59 KLMN, 63 LMN, "
    "66 O, 67 OP, 70 OPQ, 77 PQ, 78 Q, 171 V"
)


@given(st.permutations(list(LETTERS)))
@settings(max_examples=50, deadline=None)
def test_last_results_do_not_depend_on_the_order_of_records(letters: list[str]) -> None:
    def add_sorted(key: str, value: str, so_far: str) -> str:
        return "".join(sorted(so_far + value))

    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    windowed = stream.group_by_key().windowed_by(within(10, 100))
    results = note(windowed.aggregate(str, add_sorted, value_serde=STRING))
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, *(("A", letter, LETTERS[letter]) for letter in letters), ("A", "V", 181))

    last = {start: (value, time) for _, start, value, time in results}
    expected = (window.split() for window in LAST.split(", "))
    assert last == {
        int(start): (inside, max({**LETTERS, "V": 181}[letter] for letter in inside))
        for start, inside in expected
    }


CLOSING = EmitStrategy.on_window_close()


def closed(grouped: KGroupedStream[str, str], windows: SlidingWindows) -> list[Result]:
    """Return the list that the final results of an aggregate come to."""
    windowed = grouped.windowed_by(windows).emit_strategy(CLOSING)
    return note(windowed.aggregate(zero, add_value))


def test_final_results_of_records_in_order(grouped: KGroupedStream[str, str], drive: Any) -> None:
    results = closed(grouped, within(10, 5))

    pipe(drive(), *(("A", value, time) for value, time in SMALL))

    assert results == [
        ("A", 0, "0+1+2", 10),
        ("A", 4, "0+1+2+3", 14),
        ("A", 5, "0+1+2+3+4", 15),
        ("A", 10, "0+1+2+3+4+5", 20),
        ("A", 11, "0+3+4+5", 20),
        ("A", 12, "0+3+4+5+6", 22),
    ]


def test_final_results_of_a_reduction(grouped: KGroupedStream[str, str], drive: Any) -> None:
    results = note(grouped.windowed_by(within(10, 5)).emit_strategy(CLOSING).reduce(join_values))

    times = [("1", 10), ("2", 14), ("3", 15), ("4", 22), ("5", 26), ("6", 30)]
    pipe(drive(), *(("A", value, time) for value, time in times))

    assert results == [
        ("A", 0, "1", 10),
        ("A", 4, "1+2", 14),
        ("A", 5, "1+2+3", 15),
        ("A", 11, "2+3", 15),
        ("A", 12, "2+3+4", 22),
    ]


def test_final_results_of_records_out_of_order_leave_out_what_was_late(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    results = closed(grouped, within(10, 10))

    pipe(drive(), *OUT_OF_ORDER)

    assert sorted(results) == [
        ("A", 0, "0+1", 10),
        ("A", 5, "0+1+4", 15),
        ("B", 2, "0+1", 12),
        ("B", 3, "0+1+2", 13),
        ("B", 8, "0+1+2+3+6", 18),
        ("C", 5, "0+2", 15),
        ("C", 6, "0+2+3", 16),
    ]


def test_final_results_come_by_start_of_their_windows_whatever_the_key(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    results = closed(grouped, within(10))
    driver = drive()

    pipe(driver, ("A", "1", 10), ("B", "2", 11), ("C", "3", 12))
    assert results == [("A", 0, "0+1", 10), ("B", 1, "0+2", 11)]

    pipe(driver, ("A", "1", 15), ("B", "2", 16), ("C", "3", 19))
    assert results[2:] == [
        ("C", 2, "0+3", 12),
        ("A", 5, "0+1+1", 15),
        ("B", 6, "0+2+2", 16),
    ]


def test_final_results_of_early_records_wait_for_one_that_is_not(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    results = closed(grouped, within(50))
    driver = drive()

    pipe(driver, *(("A", value, time) for value, time in EARLY[:-1]))
    assert results == []
    pipe(driver, ("A", "7", 70))

    assert results == [
        ("A", 0, "0+1+2+3+4+5+6", 13),
        ("A", 1, "0+2+3+4+5+6", 13),
        ("A", 4, "0+2+3+5+6", 13),
        ("A", 6, "0+3+5+6", 13),
        ("A", 7, "0+5+6", 13),
        ("A", 11, "0+5", 13),
    ]


def test_final_results_of_one_early_time_repeated(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    results = closed(grouped, within(5))

    times = [0, 2, 4, 0, 2, 2, 0, 7]
    pipe(drive(), *(("A", str(number), time) for number, time in enumerate(times, 1)))

    assert results == [("A", 0, "0+1+2+3+4+5+6+7", 4), ("A", 1, "0+2+3+5+6", 4)]


@pytest.mark.parametrize(
    ("begin", "grace_ms", "expected"),
    [
        (0, 1, {0: "0+1+3+4+2", 1: "0+3+4+2", 3: "0+3+4+2+6+5+7"}),
        (0, 0, {0: "0+1+3+4+2", 1: "0+3+4+2", 3: "0+3+4+2+6+5+7", 4: "0+3+4+6+5+7"}),
        (
            100,
            0,
            {
                -10: "0+1",
                -5: "0+1+3",
                -4: "0+1+3+4+2",
                1: "0+3+4+2",
                3: "0+3+4+2+6+5+7",
                4: "0+3+4+6+5+7",
            },
        ),
    ],
)
def test_final_results_of_early_records_and_others_out_of_order(
    grouped: KGroupedStream[str, str],
    drive: Any,
    begin: int,
    grace_ms: int,
    expected: dict[int, str],
) -> None:
    results = closed(grouped, within(10, grace_ms))

    pipe(drive(), *(("E", value, begin + time) for value, time in [*ACROSS, ("9", 15)]))

    assert {start - begin: value for _, start, value, _ in results} == expected
    assert len(results) == len(expected)


def test_a_late_record_changes_no_final_result(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    results = closed(grouped, within(10, 90))

    late = [100, 101, 102, 103, 104, 105, 15]
    pipe(drive(), *(("k", str(time), time) for time in [200, *late, 300, 400]))

    assert results == [("k", 190, "0+200", 200), ("k", 290, "0+300", 300)]


def test_final_results_are_looked_for_once_an_interval_of_the_wall_clock(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    results = closed(grouped, within(10))
    driver = drive(window_emit_interval_ms=1000)

    pipe(driver, ("A", "1", 10), ("A", "2", 100))
    assert results == []  # The first record was looked at, and closed none.
    driver.advance_wall_clock_ms(1000)
    assert results == []
    pipe(driver, ("B", "3", 100))

    assert results == [("A", 0, "0+1", 10)]


TWO_KEYS = [("1", "1", 100), ("1", "2", 150), ("1", "3", 500), ("2", "10", 200), ("2", "20", 150)]

Fold = Callable[..., KTable[Windowed[str], Any]]


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize(
    ("fold", "values"),
    [
        (lambda windowed, **options: windowed.count(**options), [1, 2, 1, 1, 1, 2, 1]),
        (
            lambda windowed, **options: windowed.reduce(join_values, **options),
            ["1", "1+2", "2", "3", "20", "10+20", "10"],
        ),
        (
            lambda windowed, **options: windowed.aggregate(zero, add_value, **options),
            ["0+1", "0+1+2", "0+2", "0+3", "0+20", "0+10+20", "0+10"],
        ),
    ],
    ids=["count", "reduce", "aggregate"],
)
def test_windows_are_kept_and_sent_on_with_the_time_of_their_last_record(
    builder: StreamsBuilder, drive: Any, fold: Fold, values: list[Any], caching: bool
) -> None:
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    windowed = stream.group_by_key().windowed_by(within(100, 1000))
    results = note(fold(windowed, name="kept", caching=caching))
    driver = drive()

    pipe(driver, *TWO_KEYS)

    starts = [("1", 0), ("1", 50), ("1", 101), ("1", 400), ("2", 50), ("2", 100), ("2", 151)]
    times = [100, 150, 150, 500, 150, 200, 200]
    expected = dict(zip(starts, zip(values, times, strict=True), strict=True))
    kept = {
        (key, window): (held.value, held.timestamp)
        for (key, window), held in driver.get_timestamped_window_store("kept").all()
    }
    plain = {(key, window): value for (key, window), value in driver.get_window_store("kept").all()}
    assert kept == {
        (key, Window(start, start + 100)): held for (key, start), held in expected.items()
    }
    assert plain == {window: value for window, (value, _) in kept.items()}
    assert {(key, start): (value, time) for key, start, value, time in results} == expected


@pytest.mark.parametrize("caching", [True, False])
def test_a_table_downstream_subtracts_of_a_window_only_what_it_has_added(
    builder: StreamsBuilder, drive: Any, caching: bool
) -> None:
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    counts = stream.group_by_key().windowed_by(within(10, 100)).count(caching=caching)
    by_key = counts.group_by(
        lambda window, count: (window.key, count), key_serde=STRING, value_serde=LONG
    )
    by_key.aggregate(int, plus, minus, name="sums", value_serde=LONG)
    driver = drive()

    pipe(driver, *(("A", "x", time) for time in [20, 25, 40, 22, 25, 31]))

    # [10, 20]: 1, [12, 22]: 2, [15, 25]: 4, [21, 31]: 4, [23, 33]: 3, [26, 36]: 1, [30, 40]: 2,
    # [32, 42]: 1
    assert driver.get_state_store("sums").get("A").value == 18


@pytest.mark.parametrize("caching", [True, False])
def test_a_window_that_is_two_records_own_is_added_once_by_a_table_downstream(
    builder: StreamsBuilder, drive: Any, caching: bool
) -> None:
    """It begins just after one record and ends with the next."""
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    counts = stream.group_by_key().windowed_by(within(10, 100)).count(caching=caching)
    by_key = counts.group_by(
        lambda window, count: (window.key, count), key_serde=STRING, value_serde=LONG
    )
    by_key.aggregate(int, plus, minus, name="sums", value_serde=LONG)
    driver = drive()

    pipe(driver, *(("A", "x", time) for time in [29, 31, 42]))

    # [19, 29]: 1, [21, 31]: 2, [30, 40]: 1, [32, 42]: 1
    assert driver.get_state_store("sums").get("A").value == 5


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("windows", [within(10), TimeWindows.of_size_with_no_grace(10)])
def test_a_window_that_begins_with_nothing_has_the_initial_value_as_its_old_one(
    builder: StreamsBuilder, drive: Any, windows: SlidingWindows | TimeWindows, caching: bool
) -> None:
    """As in Kafka Streams; with a record cache it has none. An empty group subtracts nothing."""
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    counts = stream.group_by_key().windowed_by(windows).count(caching=caching)
    by_key = counts.group_by(
        lambda window, count: (window.key, count), key_serde=STRING, value_serde=LONG
    )
    subtracted = []

    def note_and_subtract(key: str, value: int, so_far: int) -> int:
        subtracted.append(value)
        return so_far - value

    by_key.aggregate(int, plus, note_and_subtract, name="sums", value_serde=LONG)
    pipe(drive(), ("A", "x", 20), ("A", "x", 60))

    assert subtracted == ([] if caching else [0])


def test_windows_beyond_the_retention_are_gone(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    supplier = Stores.in_memory_window_store("kept", 1200, 100)
    aggregated(grouped, within(100, 1000), supplier=supplier, caching=False)
    driver = drive()

    pipe(driver, *(("1", str(time), time) for time in [100, 500, 799, 1000, 2000]))

    kept = driver.get_timestamped_window_store("kept").fetch("1", 0, 10_000)
    assert [(start, *held) for start, held in kept] == [
        (900, "0+1000", 1000),
        (1900, "0+2000", 2000),
    ]


def test_a_store_that_forgets_windows_before_they_are_closed_is_refused(
    grouped: KGroupedStream[str, str],
) -> None:
    windowed = grouped.windowed_by(within(100, 1000))

    with pytest.raises(TopologyError, match="1200 ms"):
        windowed.aggregate(zero, add_value, name="kept", retention_ms=1199)
    windowed.aggregate(zero, add_value, name="kept", retention_ms=1200)


def test_an_aggregation_without_its_functions_is_refused(
    grouped: KGroupedStream[str, str],
) -> None:
    windowed: Any = grouped.windowed_by(within(10))

    with pytest.raises(TopologyError, match="not None"):
        windowed.aggregate(None, add_value)
    with pytest.raises(TopologyError, match="not None"):
        windowed.aggregate(zero, None)
    with pytest.raises(TopologyError, match="not None"):
        windowed.reduce(None)


def test_windows_are_equal_when_their_times_are() -> None:
    assert within(5) == SlidingWindows.of_time_difference_with_no_grace(5)
    assert hash(within(5, 7)) == hash(within(5, 7))
    assert within(5, 7) != within(6, 7)
    assert within(5, 7) != within(5, 8)
    assert within(5, 7).time_difference_ms == 5
    assert within(5, 7).grace_period_ms == 7


@pytest.mark.parametrize("times", [(-1, 5), (10, -1), ("10", 5), (10, 5.0)])
def test_times_that_are_none_are_refused(times: tuple[Any, Any]) -> None:
    with pytest.raises(TopologyError, match="must be"):
        SlidingWindows.of_time_difference_and_grace(*times)


def test_tables_of_sliding_windows_join_window_by_window(
    builder: StreamsBuilder, drive: Any
) -> None:
    def table(topic: str) -> KTable[Windowed[str], str]:
        stream = builder.stream(topic, key_serde=STRING, value_serde=STRING)
        windowed = stream.group_by_key().windowed_by(within(10, 100))
        return windowed.aggregate(zero, add_value, value_serde=STRING)

    joined = note(table("in").join(table("other"), lambda left, right: f"{left}%{right}"))
    driver = drive()
    pipe(driver, ("A", "1", 10), ("B", "2", 11), ("C", "3", 12))
    pipe(driver, ("A", "1", 15), ("B", "2", 16), ("C", "3", 19))
    other = driver.create_input_topic("other", STRING, STRING)
    other.pipe_input("A", "a", 10)
    other.pipe_input("C", "c", 12)

    assert joined == [("A", 0, "0+1%0+a", 10), ("C", 2, "0+3%0+c", 12)]

    other.pipe_input("A", "a", 15)
    other.pipe_input("B", "b", 16)
    other.pipe_input("C", "c", 17)

    assert joined[2:] == [
        ("A", 11, "0+1%0+a", 15),
        ("A", 5, "0+1+1%0+a+a", 15),
        ("B", 6, "0+2+2%0+b", 16),
        ("C", 13, "0+3%0+c", 19),
    ]


def test_late_records_are_told_for_each_closed_window_and_written_once_as_they_came(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    told: list[tuple[str, str, int, Window]] = []

    def tell(key: str, value: str, timestamp: int, window: Window) -> None:
        told.append((key, value, timestamp, window))

    note(grouped.windowed_by(within(10), late=tell).reduce(join_values))
    note(grouped.windowed_by(within(10), late="late").reduce(join_values))
    driver = drive()

    pipe(driver, ("A", "1", 100), ("A", "2", 112), ("A", "3", 105), ("A", "4", 99))

    # The right window of the first record is closed, and so is the left one of the third.
    assert told == [
        ("A", "3", 105, Window(101, 111)),
        ("A", "3", 105, Window(95, 105)),
        ("A", "4", 99, Window(99, 109)),
    ]
    late = driver.create_output_topic("late", STRING, STRING).read_records()
    assert [(record.value, record.timestamp) for record in late] == [("3", 105), ("4", 99)]


def test_a_closed_window_that_is_two_records_own_is_told_as_late_once(
    grouped: KGroupedStream[str, str], drive: Any
) -> None:
    """It begins just after one record and ends with the next."""
    told: list[tuple[str, Window]] = []
    windowed = grouped.windowed_by(
        within(10), late=lambda _key, value, _timestamp, window: told.append((value, window))
    )
    note(windowed.reduce(join_values))
    driver = drive()

    pipe(driver, ("A", "1", 29), ("A", "2", 31), ("B", "3", 45), ("A", "4", 42))

    assert told == [("4", Window(32, 42))]
    assert dropped(driver) == 1
