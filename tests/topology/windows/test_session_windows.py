"""Aggregations of sessions: which records are one session, what comes out, what is kept.

Upstream's cases of sessions are among them; see `tests/UPSTREAM.md`.
"""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    KTable,
    ProcessingError,
    SessionWindowedKStream,
    SessionWindows,
    StoreEngine,
    Stores,
    StreamsBuilder,
    TopologyError,
    Window,
    Windowed,
    session_windowed_serde,
)
from pystreams.serdes import JSON, LONG, STRING
from pystreams.testing import TopologyTestDriver
from tests.topology.windows.sessions import (
    GAP_5,
    GAP_5_GRACE_10,
    TEXT,
    Aggregation,
    SessionRun,
    counting,
    session,
)

each_caching = pytest.mark.parametrize("caching", [True, False])


def joining(**options: Any) -> Aggregation:
    """Fold values into a text that shows what was merged and added, in which order."""
    return lambda sessions: sessions.aggregate(
        lambda: "0",
        lambda key, value, so_far: f"{so_far}+{value}",
        lambda key, so_far, other: f"({so_far}|{other})",
        value_serde=STRING,
        **options,
    )


# ---------------------------------------------------------------------- the windows


def test_gap_and_grace_are_what_they_were_given() -> None:
    assert SessionWindows.of_inactivity_gap_with_no_grace(42) == SessionWindows(42)
    assert SessionWindows.of_inactivity_gap_and_grace(42, 7) == SessionWindows(42, 7)
    assert (GAP_5.inactivity_gap_ms, GAP_5.grace_period_ms) == (5, 0)
    assert hash(SessionWindows(42, 7)) == hash(SessionWindows(42, 7))
    assert len({SessionWindows(42), SessionWindows(42, 7), SessionWindows(7)}) == 3


@pytest.mark.parametrize(("gap_ms", "grace_ms"), [(0, 0), (-1, 0), (1, -1), (1.5, 0), (True, 0)])
def test_a_gap_that_parts_everything_and_times_before_0_are_refused(
    gap_ms: Any, grace_ms: Any
) -> None:
    with pytest.raises(TopologyError, match="SessionWindows: "):
        SessionWindows.of_inactivity_gap_and_grace(gap_ms, grace_ms)


# ---------------------------------------------------------------------- which records are one


def test_records_within_the_gap_are_one_session() -> None:
    with SessionRun() as run:
        run.pipe(("a", "x", 0), ("a", "y", 5))
        out = run.pipe(("a", "z", 11))

    assert out == [("a", 11, 11, 1, 11)]


def test_the_gap_itself_is_still_within_a_session() -> None:
    with SessionRun(aggregation=counting(name="s")) as run:
        run.pipe(("a", "x", 0), ("a", "y", 5), ("b", "x", 0), ("b", "y", 6))

        assert run.stored("s") == {
            session("a", 0, 5): 2,
            session("b", 0, 0): 1,
            session("b", 6, 6): 1,
        }


def test_sessions_of_other_keys_have_no_part_in_it() -> None:
    with SessionRun(aggregation=counting(name="s")) as run:
        run.pipe(("a", "x", 0), ("b", "y", 1), ("a", "z", 2), ("aa", "z", 2))

        assert run.stored("s") == {
            session("a", 0, 2): 2,
            session("b", 1, 1): 1,
            session("aa", 2, 2): 1,
        }


@each_caching
def test_a_record_that_closes_the_gap_makes_two_sessions_one(caching: bool) -> None:
    with SessionRun(aggregation=counting(caching=caching, name="s")) as run:
        run.pipe(("a", "x", 1), ("a", "y", 8))

        assert run.pipe(("a", "z", 4)) == [
            ("a", 1, 1, None, 1),
            ("a", 8, 8, None, 8),
            ("a", 1, 8, 3, 8),
        ]
        assert run.stored("s") == {session("a", 1, 8): 3}


@each_caching
def test_a_record_that_prolongs_a_session_deletes_the_former_row(caching: bool) -> None:
    with SessionRun(aggregation=counting(caching=caching)) as run:
        out = run.pipe(("a", "x", 0), ("a", "y", 3))

    assert out == [("a", 0, 0, 1, 0), ("a", 0, 0, None, 0), ("a", 0, 3, 2, 3)]


@each_caching
def test_a_record_within_a_session_deletes_its_row_and_writes_it_anew(caching: bool) -> None:
    """As Kafka Streams does; a record cache leaves the deletion out."""
    with SessionRun(aggregation=counting(caching=caching)) as run:
        run.pipe(("a", "x", 0), ("a", "y", 4))
        out = run.pipe(("a", "z", 2))

    deletion = [] if caching else [("a", 0, 4, None, 4)]
    assert out == [*deletion, ("a", 0, 4, 3, 4)]


def test_records_of_one_time_are_one_session() -> None:
    with SessionRun() as run:
        assert run.pipe(("a", "x", 0), ("a", "y", 0)) == [("a", 0, 0, 1, 0), ("a", 0, 0, 2, 0)]


def test_sessions_are_merged_in_order_of_time_and_the_record_comes_last() -> None:
    with SessionRun(aggregation=joining()) as run:
        run.pipe(("a", "1", 10), ("a", "2", 16), ("a", "3", 4))

        assert run.pipe(("a", "4", 13)) == [
            ("a", 10, 10, None, 10),
            ("a", 16, 16, None, 16),
            ("a", 10, 16, "((0|0+1)|0+2)+4", 16),
        ]


def test_reduce_begins_with_the_first_value_and_combines_merged_ones() -> None:
    def reduced(sessions: SessionWindowedKStream[str, str]) -> KTable[Windowed[str], str]:
        return sessions.reduce(lambda so_far, value: f"{so_far}+{value}")

    with SessionRun(aggregation=reduced) as run:
        out = run.pipe(("a", "1", 1), ("a", "2", 8), ("a", "3", 4))

    assert [row for row in out if row[3] is not None] == [
        ("a", 1, 1, "1", 1),
        ("a", 8, 8, "2", 8),
        ("a", 1, 8, "1+2+3", 8),
    ]


def test_an_aggregate_of_none_deletes_the_session() -> None:
    def deleting(sessions: SessionWindowedKStream[str, str]) -> KTable[Windowed[str], Any]:
        return sessions.aggregate(
            list,
            lambda key, value, so_far: None if value == "end" else [*so_far, value],
            lambda key, so_far, other: so_far + other,
            value_serde=JSON,
            name="s",
        )

    with SessionRun(aggregation=deleting) as run:
        run.pipe(("a", "x", 0))

        assert run.pipe(("a", "end", 3)) == [("a", 0, 0, None, 0)]
        assert run.stored("s") == {}


# ---------------------------------------------------------------------- what is dropped


def test_a_record_without_a_key_is_dropped_and_counted() -> None:
    with SessionRun() as run:
        assert run.pipe((None, "x", 0), ("a", "y", 0)) == [("a", 0, 0, 1, 0)]
        assert run.dropped() == 1


def test_a_record_without_a_value_counts_as_any_other() -> None:
    """As in Kafka Streams; without windows it is dropped."""
    with SessionRun() as run:
        assert run.pipe(("a", None, 0)) == [("a", 0, 0, 1, 0)]
        assert run.dropped() == 0


def test_a_late_record_is_dropped_once_its_session_would_be_closed() -> None:
    with SessionRun(SessionWindows.of_inactivity_gap_with_no_grace(10)) as run:
        run.pipe(("z", "moves", 0), ("a", "on time", 0), ("z", "moves", 11))

        assert run.pipe(("a", "late", 0)) == []
        assert run.dropped() == 1


def test_a_late_record_is_taken_within_the_grace_period() -> None:
    with SessionRun(SessionWindows.of_inactivity_gap_and_grace(10, 1)) as run:
        run.pipe(("z", "moves", 11))
        assert run.pipe(("a", "in time", 0)) == [("a", 0, 0, 1, 0)]
        run.pipe(("z", "moves", 12))

        assert run.pipe(("a", "late", 0)) == []
        assert run.dropped() == 1


def test_a_late_record_is_taken_if_its_session_goes_on_after_it() -> None:
    with SessionRun(GAP_5, counting(retention_ms=100)) as run:
        run.pipe(("a", "x", 20), ("z", "moves", 24))

        assert run.pipe(("a", "late", 16))[-1] == ("a", 16, 20, 2, 20)


def test_late_records_are_told_with_the_session_they_are_late_for() -> None:
    """Which is closed: the one that the record would have been part of."""
    told: list[Any] = []
    builder = StreamsBuilder()
    grouped = builder.stream("in", **TEXT).group_by_key()
    sessions = grouped.windowed_by(GAP_5, late=lambda *late: told.append(late))
    sessions.count(retention_ms=1000)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", STRING, STRING)
        for key, value, time in (("a", "x", 3), ("z", "moves", 100), ("a", "y", 1), ("b", "z", 9)):
            source.pipe_input(key, value, time)

    assert told == [("a", "y", 1, Window(1, 3)), ("b", "z", 9, Window(9, 9))]


@pytest.mark.parametrize("caching", [True, False])
def test_late_records_are_written_to_their_topic_as_they_came(caching: bool) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", **TEXT).group_by_key(**TEXT)
    counts = grouped.windowed_by(GAP_5, late="late").count(caching=caching)
    counts.to_stream().to("out", key_serde=session_windowed_serde(STRING), value_serde=LONG)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "moves", 100)
        driver.pipe_raw("in", b"a", b"y", 9, (("trace", b"1"),))

        assert driver.produced_raw("late") == [(b"a", b"y", 9, (("trace", b"1"),))]
        assert len(driver.produced_raw("out")) == 1


def test_stream_time_is_that_of_the_records_the_aggregation_met() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", **TEXT).filter(lambda key, value: value != "skip")
    stream.group_by_key().windowed_by(GAP_5).count(name="s")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", STRING, STRING)
        source.pipe_input("z", "skip", 1000)
        source.pipe_input("a", "x", 1)

        assert driver.get_session_store("s").fetch_session("a", 1, 1) == 1


# ---------------------------------------------------------------------- errors


def failing_on_no(**options: Any) -> Aggregation:
    return lambda sessions: sessions.aggregate(
        int,
        lambda key, value, so_far: so_far + int(value),
        lambda key, so_far, other: so_far + other,
        value_serde=LONG,
        **options,
    )


@each_caching
def test_a_record_that_an_aggregator_fails_with_leaves_sessions_as_they_were(caching: bool) -> None:
    """Differs from Kafka, which has deleted the sessions that it would have merged."""
    aggregation = failing_on_no(name="s", caching=caching)
    with SessionRun(aggregation=aggregation, processing_exception_handler="continue") as run:
        run.pipe(("a", "1", 1), ("a", "2", 8))

        assert run.pipe(("a", "no", 4)) == []
        assert run.stored("s") == {session("a", 1, 1): 1, session("a", 8, 8): 2}
        assert run.pipe(("a", "3", 4))[-1] == ("a", 1, 8, 6, 8)


def test_a_failed_aggregation_names_its_node() -> None:
    with (
        SessionRun(aggregation=failing_on_no(node_name="adding")) as run,
        pytest.raises(ProcessingError, match="adding"),
    ):
        run.pipe(("a", "no", 4))


def test_a_failed_merger_names_its_node() -> None:
    def merging(sessions: SessionWindowedKStream[str, str]) -> KTable[Windowed[str], int]:
        return sessions.aggregate(
            int,
            lambda key, value, so_far: 1,
            lambda *_: 1 // 0,
            node_name="merging",
            value_serde=LONG,
        )

    with (
        SessionRun(aggregation=merging) as run,
        pytest.raises(ProcessingError, match="merging"),
    ):
        run.pipe(("a", "x", 4), ("a", "y", 5))


def test_a_function_that_is_missing_or_takes_other_parameters_is_refused() -> None:
    sessions = StreamsBuilder().stream("in", **TEXT).group_by_key().windowed_by(GAP_5)

    def add(key: str, value: str, so_far: int) -> int:
        return so_far

    def merge(key: str, so_far: int, other: int) -> int:
        return so_far

    def of_two(so_far: int, other: int) -> int:
        return so_far

    for call in (
        lambda: sessions.aggregate(None, add, merge),  # type: ignore[call-overload]
        lambda: sessions.aggregate(int, None, merge),  # type: ignore[call-overload]
        lambda: sessions.aggregate(int, add, None),  # type: ignore[call-overload]
        lambda: sessions.aggregate(int, add, of_two),  # type: ignore[arg-type]
        lambda: sessions.reduce(None),  # type: ignore[arg-type]
        lambda: sessions.count(materialized="s"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TopologyError):
            call()


# ---------------------------------------------------------------------- what is sent on


def test_results_have_the_time_of_their_sessions_end_and_no_headers_without_a_cache() -> None:
    """As in Kafka Streams, which makes a new record there."""
    with SessionRun(aggregation=counting(caching=False)) as run:
        run.driver.pipe_raw("in", b"a", b"x", 7, (("trace", b"1"),))
        run.driver.pipe_raw("in", b"a", b"x", 4, (("trace", b"2"),))

        assert [record[2:] for record in run.driver.produced_raw("out")] == [
            (7, ()),
            (7, ()),
            (7, ()),
        ]


def test_results_that_leave_a_cache_have_the_headers_of_the_record_that_changed_them() -> None:
    with SessionRun() as run:
        run.driver.pipe_raw("in", b"a", b"x", 7, (("trace", b"1"),))

        assert [record[2:] for record in run.driver.produced_raw("out")] == [
            (7, (("trace", b"1"),))
        ]


@each_caching
def test_changes_below_carry_the_value_a_row_had(caching: bool) -> None:
    """A group of sessions holds what its present rows say, however they came to be.

    Differs from Kafka without a cache, which does not subtract the row that a record of its very
    time joins, and counts it twice.
    """
    builder = StreamsBuilder()
    sessions = builder.stream("in", **TEXT).group_by_key().windowed_by(GAP_5_GRACE_10)
    counts = sessions.count(caching=caching)
    counts.group_by(
        lambda windowed, count: (windowed.key, count), key_serde=STRING, value_serde=LONG
    ).reduce(lambda total, new: total + new, lambda total, old: total - old, name="records")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", STRING, STRING)
        for time in (1, 8, 8, 8, 4, 20, 20):
            source.pipe_input("a", "x", time)

        assert driver.get_key_value_store("records").get("a") == 7


def test_changes_below_carry_what_was_written_though_the_merger_changed_it_in_place() -> None:
    def merge(key: str, so_far: list[str], other: list[str]) -> list[str]:
        other[:0] = so_far
        return other

    builder = StreamsBuilder()
    sessions = builder.stream("in", **TEXT).group_by_key().windowed_by(GAP_5_GRACE_10)
    lists = sessions.aggregate(
        list,
        lambda key, value, so_far: [*so_far, value],
        merge,
        value_serde=JSON,
        caching=False,
    )
    lengths = lists.group_by(
        lambda windowed, values: (windowed.key, values), key_serde=STRING, value_serde=JSON
    )
    lengths.aggregate(
        int,
        lambda key, values, total: total + len(values),
        lambda key, values, total: total - len(values),
        value_serde=LONG,
        name="values",
    )
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", STRING, STRING)
        for time in (1, 8, 4, 4):
            source.pipe_input("a", "x", time)

        assert driver.get_key_value_store("values").get("a") == 4


@each_caching
def test_a_filter_deletes_a_session_that_no_longer_passes(caching: bool) -> None:
    def filtered(sessions: SessionWindowedKStream[str, str]) -> KTable[Windowed[str], int]:
        return sessions.count(caching=caching).filter(lambda windowed, count: count == 1)

    with SessionRun(aggregation=filtered) as run:
        assert run.pipe(("a", "x", 1), ("a", "y", 1)) == [("a", 1, 1, 1, 1), ("a", 1, 1, None, 1)]


def test_map_values_over_sessions_may_be_kept_under_their_windowed_keys() -> None:
    def mapped(sessions: SessionWindowedKStream[str, str]) -> KTable[Windowed[str], str]:
        return sessions.count().map_values(lambda count: "x" * count, name="m", value_serde=STRING)

    with SessionRun(aggregation=mapped) as run:
        assert run.pipe(("a", "x", 1), ("a", "y", 3))[-1] == ("a", 1, 3, "xx", 3)
        store = run.driver.get_key_value_store("m")

        assert store.get(session("a", 1, 3)) == "xx"
        assert store.get(session("a", 1, 1)) is None


def test_a_stream_of_windowed_keys_looks_sessions_up() -> None:
    """The row carries the time of the session's end, and what filters leave out is not there."""
    builder = StreamsBuilder()
    counts = builder.stream("in", **TEXT).group_by_key().windowed_by(GAP_5_GRACE_10).count()
    several = counts.filter(lambda windowed, count: count > 1)
    windowed_serde = session_windowed_serde(STRING)
    asked = builder.stream("ask", key_serde=windowed_serde, value_serde=STRING)
    joined = asked.join(several, lambda value, count: f"{value} {count}")
    joined.to("out", value_serde=STRING)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", STRING, STRING)
        for key, time in (("a", 1), ("a", 3), ("b", 3)):
            source.pipe_input(key, "x", time)
        ask = driver.create_input_topic("ask", windowed_serde, STRING)
        for windowed in (session("a", 1, 3), session("a", 1, 1), session("b", 3, 3)):
            ask.pipe_input(windowed, "count", 9)
        out = driver.create_output_topic("out", windowed_serde, STRING)

        assert out.read_key_values() == [(session("a", 1, 3), "count 2")]


# ---------------------------------------------------------------------- where they are kept


def test_changelog_has_each_session_under_its_key_end_and_start_with_the_records_time() -> None:
    with SessionRun(aggregation=counting(name="s", caching=False)) as run:
        run.pipe(("a", "x", 7), ("a", "y", 4))

        key = session_windowed_serde(STRING).serializer("")
        assert run.driver.produced_raw("app-s-changelog") == [
            (key(session("a", 7, 7)), LONG.serializer("")(1), 7, ()),
            (key(session("a", 7, 7)), None, 4, ()),
            (key(session("a", 4, 7)), LONG.serializer("")(2), 4, ()),
        ]


@pytest.mark.parametrize("make", [Stores.persistent_session_store, Stores.in_memory_session_store])
def test_a_supplier_says_where_sessions_are_kept(make: Any, tmp_path: Path) -> None:
    aggregation = counting(supplier=make("own", 100))
    with SessionRun(aggregation=aggregation, directory=tmp_path) as run:
        run.pipe(("a", "x", 1), ("a", "y", 2))

        assert run.stored("own") == {session("a", 1, 2): 2}
        store = run.driver.get_state_store("own")
        assert store.persistent == (make is Stores.persistent_session_store)


def test_store_type_says_where_sessions_are_kept(tmp_path: Path) -> None:
    aggregation = counting(name="s", store_type=StoreEngine.IN_MEMORY)
    with SessionRun(aggregation=aggregation, directory=tmp_path) as run:
        assert not run.driver.get_state_store("s").persistent


@pytest.mark.parametrize(
    "supplier",
    [
        Stores.persistent_timestamped_key_value_store("own"),
        Stores.persistent_window_store("own", 100, 10),
        Stores.persistent_versioned_key_value_store("own", 10),
    ],
    ids=lambda supplier: supplier.kind.name,
)
def test_a_supplier_that_can_not_hold_sessions_is_refused(supplier: Any) -> None:
    sessions = StreamsBuilder().stream("in", **TEXT).group_by_key().windowed_by(GAP_5)

    with pytest.raises(TopologyError, match="can't hold results of sessions"):
        sessions.count(supplier=supplier)


@pytest.mark.parametrize(
    "options",
    [{"retention_ms": 14}, {"supplier": Stores.persistent_session_store("own", 14)}],
    ids=["retention", "supplier"],
)
def test_sessions_must_be_kept_as_long_as_they_may_change(options: Any) -> None:
    sessions = StreamsBuilder().stream("in", **TEXT).group_by_key().windowed_by(GAP_5_GRACE_10)

    with pytest.raises(TopologyError, match="make it at least 15"):
        sessions.count(**options)


def test_sessions_are_kept_for_gap_and_grace_unless_more_is_asked_for() -> None:
    for retention_ms, kept_ms in ((None, 15), (60_000, 60_000)):
        builder = StreamsBuilder()
        sessions = builder.stream("in", **TEXT).group_by_key().windowed_by(GAP_5_GRACE_10)
        sessions.count(name="s", retention_ms=retention_ms)
        store: Any = builder.build().stores["s"]

        assert store.spec.retention.retention_ms == kept_ms


# ---------------------------------------------------------------------- restarts


@each_caching
def test_a_restart_changes_no_result(caching: bool, tmp_path: Path) -> None:
    """Neither which sessions are merged, nor which records are late."""
    first = [("a", "x", 1), ("a", "y", 8), ("z", "moves", 18), ("b", "x", 14)]
    then = [("a", "late", 2), ("a", "z", 4), ("b", "y", 10), ("c", "late", 2)]
    found = []
    for name in ("undisturbed", "restarted"):
        run = SessionRun(aggregation=joining(caching=caching), directory=tmp_path / name)
        out = run.pipe(*first)
        if name == "restarted":
            run.driver.close()
            run = SessionRun(aggregation=joining(caching=caching), directory=tmp_path / name)
        with run:
            found.append((out, run.pipe(*then)))

    assert found[0] == found[1]
    assert found[0][1]
