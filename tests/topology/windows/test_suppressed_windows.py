"""Final results of windows: one each, when the window and its grace period have passed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pystreams import (
    BufferConfig,
    KTable,
    SessionWindows,
    SlidingWindows,
    StoreEngine,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyError,
    UnlimitedWindows,
    Windowed,
    serdes,
)
from pystreams.topology.operators.tables.suppress import SuppressOperator
from tests.topology.tables.test_suppress import TEXT, Driven, limited, unbounded

AnyWindows = TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows
Counts = KTable[Windowed[str], int]
Result = tuple[str, Any, int]


def counting(windows: AnyWindows) -> Callable[..., Counts]:
    def count(builder: StreamsBuilder) -> Counts:
        grouped: Any = builder.stream("in", **TEXT).group_by_key()
        counted: Counts = grouped.windowed_by(windows).count()
        return counted

    return count


def closing(
    table: Callable[[StreamsBuilder], KTable[Windowed[str], Any]],
    config: BufferConfig | None = None,
) -> Topology:
    builder = StreamsBuilder()
    results = table(builder).suppress(Suppressed.until_window_closes(config or unbounded()))
    told = results.to_stream().map(lambda windowed, value: (str(windowed), str(value)))
    told.to("out", **TEXT)
    return builder.build()


def final_results(
    table: Callable[[StreamsBuilder], Counts],
    *records: tuple[str, int],
    engine: StoreEngine = StoreEngine.ROCKSDB,
) -> list[Result]:
    """What comes out when keys come at these times, with numbers as numbers."""
    driven = Driven(closing(table, unbounded(store_type=engine)))
    return driven.pipe(*((key, "v", time) for key, time in records))


def at(key: str, *times: int) -> list[tuple[str, int]]:
    return [(key, time) for time in times]


# ---------------------------------------------------------------------- each kind of windows


@pytest.mark.parametrize("engine", StoreEngine)
def test_time_windows_give_one_result_each_after_their_grace_period(engine: StoreEngine) -> None:
    windows = TimeWindows.of_size_and_grace(2, 1)
    # The last one is late.
    results = final_results(counting(windows), *at("k1", 0, 1, 2, 1, 0, 5, 0), engine=engine)

    assert results == [("[k1@0/2]", "4", 1), ("[k1@2/4]", "1", 2)]


def test_a_jump_in_time_closes_all_windows_behind_it_in_their_order() -> None:
    windows = TimeWindows.of_size_and_grace(2, 2)

    assert final_results(counting(windows), *at("k1", 0, 1, 2, 0, 3, 0, 4, 0, 30)) == [
        ("[k1@0/2]", "4", 1),
        ("[k1@2/4]", "2", 3),
        ("[k1@4/6]", "1", 4),
    ]


def test_sliding_windows_give_one_result_each() -> None:
    windows = SlidingWindows.of_time_difference_and_grace(5, 15)

    assert final_results(counting(windows), *at("k1", 10, 11, 10, 13, 10, 24, 5, 7, 90)) == [
        ("[k1@5/10]", "5", 10),
        ("[k1@6/11]", "5", 11),
        ("[k1@8/13]", "5", 13),
        ("[k1@11/16]", "2", 13),
        ("[k1@12/17]", "1", 13),
        ("[k1@19/24]", "1", 24),
    ]


def test_sessions_give_one_result_each_and_merged_ones_none() -> None:
    """A session waits for its gap as well, in which a record would still prolong it."""
    windows = SessionWindows.of_inactivity_gap_with_no_grace(5)
    records = [*at("k1", 0, 5, 1), *at("k2", 11), *at("k1", 5, 30)]

    assert final_results(counting(windows), *records) == [
        ("[k1@0/5]", "3", 5),
        ("[k2@11/11]", "1", 11),
    ]


def test_windows_of_grouped_streams_together_give_one_result_each() -> None:
    def together(builder: StreamsBuilder) -> KTable[Windowed[str], str]:
        appended = lambda _, value, so_far: so_far + value  # noqa: E731 - twice the same
        one: Any = builder.stream("in", **TEXT).group_by_key()
        two = builder.stream("two", **TEXT).group_by_key()
        grouped = one.cogroup(appended).cogroup(two, appended)
        windowed = grouped.windowed_by(TimeWindows.of_size_with_no_grace(10))
        table: KTable[Windowed[str], str] = windowed.aggregate(str, value_serde=serdes.STRING)
        return table

    driven = Driven(closing(together))
    two = driven.driver.create_input_topic("two", serdes.STRING, serdes.STRING)
    driven.pipe(("k", "a", 0))
    two.pipe_input("k", "b", timestamp=3)

    assert driven.pipe(("k", "c", 5), ("tick", "", 10)) == [("[k@0/10]", "abc", 5)]


# ---------------------------------------------------------------------- when windows close


def test_a_window_closes_with_the_first_record_at_its_end_and_grace() -> None:
    table = counting(TimeWindows.of_size_and_grace(10, 5))

    assert final_results(table, ("a", 3), ("other", 14)) == []
    assert final_results(table, ("a", 3), ("other", 15)) == [("[a@0/10]", "1", 3)]


def test_the_longest_of_several_grace_periods_counts() -> None:
    """Windows reach a suppression on two ways, through a merge of streams."""
    builder = StreamsBuilder()
    short = counting(TimeWindows.of_size_and_grace(10, 5))(builder)
    long = counting(TimeWindows.of_size_and_grace(10, 50))(builder)
    merged = short.to_stream().merge(long.to_stream()).to_table(value_serde=serdes.LONG)
    suppressed = merged.suppress(Suppressed.until_window_closes(unbounded()).with_name("closed"))
    suppressed.to_stream().foreach(lambda *_: None)

    assert operator_of(builder.build(), "closed").wait_ms == 50


def operator_of(topology: Topology, name: str) -> SuppressOperator:
    operator: Any = getattr(topology.nodes[name], "operator", None)
    assert isinstance(operator, SuppressOperator)
    return operator


@pytest.mark.parametrize(
    ("windows", "grace_ms"),
    [
        (TimeWindows.of_size_and_grace(10, 3), 3),
        (SlidingWindows.of_time_difference_and_grace(10, 4), 4),
        (SessionWindows.of_inactivity_gap_and_grace(10, 5), 15),
    ],
)
def test_the_grace_period_is_found_above_filters_and_new_values(
    windows: Any, grace_ms: int
) -> None:
    builder = StreamsBuilder()
    counts = counting(windows)(builder)
    kept = counts.filter(lambda *_: True).map_values(lambda value: value, value_serde=serdes.LONG)
    kept.suppress(Suppressed.until_window_closes(unbounded()).with_name("closed"))

    assert operator_of(builder.build(), "closed").wait_ms == grace_ms


def test_one_way_up_without_windows_is_refused_by_its_names() -> None:
    builder = StreamsBuilder()
    counts: Any = counting(TimeWindows.of_size_with_no_grace(10))(builder)
    plain = builder.stream("plain", **TEXT)
    merged: Any = counts.to_stream().merge(plain, name="both").to_table(node_name="table")

    with pytest.raises(TopologyError, match=r"windowed aggregation.*SOURCE-.*both -> table"):
        merged.suppress(Suppressed.until_window_closes(unbounded()))


# ---------------------------------------------------------------------- what is sent on


def test_windows_that_never_close_are_refused() -> None:
    def numbered(builder: StreamsBuilder) -> Counts:
        counts = counting(UnlimitedWindows.of())(builder)
        return counts.map_values(lambda count: count + 1)

    with pytest.raises(TopologyError, match=r"unlimited windows of KSTREAM-AGG\S+ -> KTABLE"):
        closing(numbered)


def test_a_window_that_holds_nothing_at_its_end_is_not_sent_on() -> None:
    """A filter has taken it out again."""

    def small(builder: StreamsBuilder) -> Counts:
        table = counting(TimeWindows.of_size_with_no_grace(10))(builder)
        return table.filter(lambda _, count: count < 2)

    assert final_results(small, *at("a", 0, 1), ("b", 2), ("tick", 10)) == [("[b@0/10]", "1", 2)]


def test_a_time_limit_sends_deletions_of_windows_on() -> None:
    builder = StreamsBuilder()
    counts = counting(TimeWindows.of_size_with_no_grace(100))(builder)
    small = counts.filter(lambda _, count: count < 2).suppress(limited(5))
    small.to_stream().map(lambda key, value: (str(key), str(value))).to("out", **TEXT)
    driven = Driven(builder.build())

    gone = driven.pipe(("a", "", 0), ("a", "", 1), ("tick", "", 9))

    assert gone == [("[a@0/100]", "None", 1)]


def test_a_time_limit_counts_from_the_first_change_of_a_window() -> None:
    builder = StreamsBuilder()
    counts = counting(TimeWindows.of_size_with_no_grace(100))(builder)
    counts.suppress(limited(5)).to_stream().map(lambda key, value: (str(key), str(value))).to(
        "out", **TEXT
    )
    driven = Driven(builder.build())

    assert driven.pipe(*(("a", "", time) for time in (0, 1, 4, 5, 6))) == [("[a@0/100]", "4", 5)]


def test_sums_of_final_results_hold_each_once() -> None:
    builder = StreamsBuilder()
    counts = counting(TimeWindows.of_size_with_no_grace(10))(builder)
    final = counts.suppress(Suppressed.until_window_closes(unbounded()))
    grouped = final.group_by(
        lambda windowed, count: (windowed.key, count),
        key_serde=serdes.STRING,
        value_serde=serdes.LONG,
    )
    totals = grouped.aggregate(
        lambda: 0,
        lambda _key, count, so_far: so_far + count,
        lambda _key, count, so_far: so_far - count,
        value_serde=serdes.LONG,
    )
    totals.to_stream().map_values(str).to("out", **TEXT)
    driven = Driven(builder.build())

    totals_told = driven.pipe(*(("a", "", time) for time in (0, 1, 2, 11, 12, 25)))

    assert [value for _, value, _ in totals_told] == ["3", "5"]


def test_more_open_windows_than_may_wait_are_an_error_and_those_that_close_are_not() -> None:
    config = BufferConfig.max_records(2).shut_down_when_full()
    table = counting(TimeWindows.of_size_with_no_grace(10))
    driven = Driven(closing(table, config))

    assert len(driven.pipe(("a", "", 0), ("b", "", 1), ("c", "", 10), ("d", "", 20))) == 3
    with pytest.raises(Exception, match="holds back 3 keys"):
        driven.pipe(("e", "", 21), ("f", "", 22))


# ---------------------------------------------------------------------- over restarts


def test_a_restart_gives_each_final_result_once(tmp_path: Path) -> None:
    topology = closing(counting(TimeWindows.of_size_and_grace(10, 5)))
    records = [(f"k{number % 3}", "", number * 4) for number in range(12)]
    whole = Driven(topology).pipe(*records, ("tick", "", 999))
    parts = []
    for first in range(0, 12, 4):
        driven = Driven(topology, tmp_path)
        parts += driven.pipe(*records[first : first + 4])
        driven.driver.close()
    parts += Driven(topology, tmp_path).pipe(("tick", "", 999))

    assert parts == whole
    assert len(whole) == len({key for key, _, _ in whole}) > 10


# ---------------------------------------------------------------------- sessions that are told


def joined_sessions(**options: Any) -> Callable[[StreamsBuilder], KTable[Windowed[str], str]]:
    """Values of sessions with a gap of 30 ms, one after the other."""

    def join(builder: StreamsBuilder) -> KTable[Windowed[str], str]:
        windows = SessionWindows.of_inactivity_gap_with_no_grace(30)
        grouped: Any = builder.stream("in", **TEXT).group_by_key().windowed_by(windows)
        table: KTable[Windowed[str], str] = grouped.reduce(lambda one, two: one + two, **options)
        return table

    return join


@pytest.mark.parametrize("closed_at", [1030, 1031, 1035])
def test_a_session_that_was_told_is_not_merged_though_it_is_kept(closed_at: int) -> None:
    """Differs from Kafka, which tells another one that holds it."""
    driven = Driven(closing(joined_sessions(retention_ms=10_000, caching=False)))

    assert driven.pipe(("a", "1", 1000), ("b", "-", closed_at)) == [("[a@1000/1000]", "1", 1000)]
    assert driven.pipe(("a", "2", 1025), ("end", "-", 5000))[0] == ("[a@1025/1025]", "2", 1025)


def test_a_record_of_the_time_at_which_a_told_session_ended_is_late() -> None:
    driven = Driven(closing(joined_sessions(retention_ms=10_000, caching=False)))
    driven.pipe(("a", "1", 1000), ("b", "-", 1030))

    told = driven.pipe(("a", "2", 1000), ("end", "-", 5000))

    assert told == [("[b@1030/1030]", "-", 1030)]


def test_a_record_a_gap_after_the_last_one_is_of_its_session_though_that_would_close() -> None:
    driven = Driven(closing(joined_sessions(retention_ms=10_000, caching=False)))

    told = driven.pipe(("a", "1", 1000), ("a", "2", 1030), ("end", "-", 5000))

    assert told == [("[a@1000/1030]", "12", 1030)]


def test_sessions_that_silence_has_closed_are_told_once() -> None:
    builder = StreamsBuilder(idle_timeout_ms=300)
    sessions = joined_sessions(caching=False)(builder)
    final = sessions.suppress(Suppressed.until_window_closes(unbounded()))
    final.to_stream().map(lambda windowed, value: (str(windowed), value)).to("out", **TEXT)
    driven = Driven(builder.build())
    driven.pipe(("a", "1", 1000))
    driven.driver.advance_wall_clock_ms(4000)

    told = driven.pipe(("a", "2", 1025), ("end", "-", 5000))

    assert told == [("[a@1000/1000]", "1", 1000), ("[a@1025/1025]", "2", 1025)]


@pytest.mark.parametrize("limited_too", [False, True])
def test_sessions_that_are_not_told_once_are_merged_while_they_are_kept(
    *, limited_too: bool
) -> None:
    builder = StreamsBuilder()
    sessions = joined_sessions(retention_ms=10_000, caching=False)(builder)
    if limited_too:
        sessions = sessions.suppress(limited(0))
    sessions.to_stream().map(lambda key, value: (str(key), str(value))).to("out", **TEXT)

    changes = Driven(builder.build()).pipe(("a", "1", 1000), ("b", "-", 1035), ("a", "2", 1025))

    assert changes[-1] == ("[a@1000/1025]", "12", 1025)


@pytest.mark.parametrize("gap_ms", [1, 5])
@pytest.mark.parametrize("grace_ms", [0, 3])
@pytest.mark.parametrize("seed", range(8))
def test_each_record_is_in_one_told_session_or_late(gap_ms: int, grace_ms: int, seed: int) -> None:
    chance = Random(seed)
    records = [
        (chance.choice("ab"), f"<{number}>", number + chance.randrange(-8, 3) + 8)
        for number in range(120)
    ]
    late: list[str] = []
    builder = StreamsBuilder()
    windowed: Any = builder.stream("in", **TEXT).group_by_key()
    windowed = windowed.windowed_by(
        SessionWindows(gap_ms, grace_ms), late=lambda _, value, *__: late.append(value)
    )
    table = windowed.reduce(lambda one, two: one + two, retention_ms=1000, caching=False)
    final = table.suppress(Suppressed.until_window_closes(unbounded()))
    final.to_stream().map(lambda key, value: (str(key), value)).to("out", **TEXT)

    told = Driven(builder.build()).pipe(*records, ("end", "", 10_000))

    values = "".join(value for _, value, _ in told) + "".join(late)
    assert sorted(values.split(">")) == sorted("".join(value for _, value, _ in records).split(">"))
    assert len({key for key, _, _ in told}) == len(told)
