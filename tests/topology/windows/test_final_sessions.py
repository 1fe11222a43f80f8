"""Sessions with `EmitStrategy.on_window_close()`: each result once, when its session has closed."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import (
    EmitStrategy,
    KTable,
    SessionWindowedKStream,
    SessionWindows,
    Stores,
    Windowed,
)
from pystreams.serdes import STRING
from tests.topology.windows.sessions import GAP_5, GAP_5_GRACE_10, Aggregation, SessionRun, session
from tests.topology.windows.test_session_model import Model

SECOND = 1000
SELDOM: Any = {"window_emit_interval_ms": SECOND}
"""Looks for closed sessions once a second, as it is outside of the driver."""


def final(**options: Any) -> Aggregation:
    """Join the values of each session, and send the result on when it has closed."""

    def joined(sessions: SessionWindowedKStream[str, str]) -> KTable[Windowed[str], str]:
        return sessions.emit_strategy(EmitStrategy.on_window_close()).aggregate(
            str,
            lambda key, value, so_far: so_far + value,
            lambda key, so_far, other: so_far + other,
            value_serde=STRING,
            **options,
        )

    return joined


def test_a_result_is_sent_once_its_session_can_not_change_any_more() -> None:
    with SessionRun(GAP_5_GRACE_10, final()) as run:
        assert run.pipe(("a", "x", 0), ("a", "y", 5), ("z", "-", 20)) == []
        assert run.pipe(("z", "-", 21)) == [("a", 0, 5, "xy", 5)]
        assert run.pipe(("z", "-", 22), ("z", "-", 30)) == []


def test_results_come_in_order_of_their_ends_then_of_their_starts_and_keys() -> None:
    with SessionRun(GAP_5_GRACE_10, final()) as run:
        run.pipe(("b", "1", 9), ("c", "2", 5), ("c", "3", 9), ("a", "4", 9), ("a", "5", 1))

        assert run.pipe(("z", "-", 100)) == [
            ("a", 1, 1, "5", 1),
            ("c", 5, 9, "23", 9),
            ("a", 9, 9, "4", 9),
            ("b", 9, 9, "1", 9),
        ]


def test_merged_sessions_are_one_result() -> None:
    with SessionRun(GAP_5_GRACE_10, final()) as run:
        run.pipe(("a", "x", 1), ("a", "y", 8), ("a", "z", 4))

        assert run.pipe(("z", "-", 100)) == [("a", 1, 8, "xyz", 8)]


def test_results_are_looked_for_once_a_second_of_the_wall_clock() -> None:
    with SessionRun(GAP_5, final(), **SELDOM) as run:
        assert run.pipe(("a", "x", 0), ("z", "-", 6), ("z", "-", 7)) == []
        run.driver.advance_wall_clock_ms(SECOND - 1)
        assert run.pipe(("z", "-", 8)) == []
        run.driver.advance_wall_clock_ms(1)

        assert run.pipe(("z", "-", 8)) == [("a", 0, 0, "x", 0)]


def test_a_late_record_may_be_what_it_takes_to_look() -> None:
    with SessionRun(GAP_5, final(), **SELDOM) as run:
        run.pipe(("a", "x", 0), ("z", "-", 6))
        run.driver.advance_wall_clock_ms(SECOND)

        assert run.pipe(("a", "late", 0)) == [("a", 0, 0, "x", 0)]
        assert run.dropped() == 1


def test_a_result_has_the_headers_of_the_record_that_led_to_it() -> None:
    with SessionRun(GAP_5, final()) as run:
        run.driver.pipe_raw("in", b"a", b"x", 0, (("trace", b"1"),))
        run.driver.advance_wall_clock_ms(SECOND)
        run.driver.pipe_raw("in", b"z", b"-", 6, (("trace", b"2"),))

        assert [record[2:] for record in run.driver.produced_raw("out")] == [
            (0, (("trace", b"2"),))
        ]


def test_a_session_that_has_closed_is_not_merged_though_it_is_kept() -> None:
    """Its result was sent on. Differs from Kafka, which sends another one that holds it."""
    with SessionRun(GAP_5, final(retention_ms=1000)) as run:
        run.pipe(("a", "x", 10), ("z", "-", 16))

        assert run.pipe(("a", "y", 12), ("z", "-", 30)) == [
            ("a", 12, 12, "y", 12),
            ("z", 16, 16, "-", 16),
        ]


def test_a_result_is_sent_though_stream_time_has_left_its_session_far_behind() -> None:
    """Differs from Kafka, which deletes a session that expires before it was looked for."""
    with SessionRun(GAP_5, final(), **SELDOM) as run:
        assert run.pipe(("a", "x", 0), ("b", "y", 50_000)) == []

        assert run.pipe(("z", "-", 10_000_000)) == [
            ("a", 0, 0, "x", 0),
            ("b", 50_000, 50_000, "y", 50_000),
        ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"supplier": Stores.persistent_session_store("s", 15)},
        {"supplier": Stores.in_memory_session_store("s", 15)},
    ],
    ids=["own store", "supplier on disk", "supplier in memory"],
)
def test_stores_are_in_order_of_time_whoever_supplies_them(options: Any, tmp_path: Path) -> None:
    with SessionRun(GAP_5_GRACE_10, final(**options), directory=tmp_path) as run:
        run.pipe(("b", "x", 1), ("a", "y", 2))
        (store,) = run.driver.get_all_state_stores()

        assert [row for row, _ in run.driver.get_session_store(store).fetch_range(None, None)] == [
            session("b", 1, 1),
            session("a", 2, 2),
        ]
        assert run.pipe(("z", "-", 100)) == [("b", 1, 1, "x", 1), ("a", 2, 2, "y", 2)]


def test_the_changelog_is_that_of_any_session_store() -> None:
    logged = []
    for strategy in (EmitStrategy.on_window_close(), EmitStrategy.on_window_update()):

        def counted(
            sessions: SessionWindowedKStream[str, str], strategy: EmitStrategy = strategy
        ) -> KTable[Windowed[str], int]:
            return sessions.emit_strategy(strategy).count(name="s", caching=False)

        with SessionRun(GAP_5_GRACE_10, counted) as run:
            run.pipe(("a", "x", 1), ("a", "y", 8), ("a", "z", 4))
            logged.append(run.driver.produced_raw("app-s-changelog"))

    assert logged[0] == logged[1]


def test_final_sessions_can_be_looked_up_by_key_and_by_time() -> None:
    with SessionRun(GAP_5_GRACE_10, final(name="s")) as run:
        run.pipe(("a", "x", 1), ("b", "y", 2), ("a", "z", 8))
        store = run.driver.get_session_store("s")

        assert store.fetch_session("a", 1, 1) == "x"
        assert [row for row, _ in store.fetch("a")] == [session("a", 1, 1), session("a", 8, 8)]
        assert next(row for row, _ in store.backward_fetch("a")) == session("a", 8, 8)
        assert dict(store.find_sessions("a", 5, 9)) == {session("a", 8, 8): "z"}
        assert [row for row, _ in store.fetch_range("b", None)] == [session("b", 2, 2)]
        assert [row for row, _ in store.find_sessions_by_end(2, 8)] == [
            session("b", 2, 2),
            session("a", 8, 8),
        ]


@pytest.mark.parametrize("keys_before", [1, 400])
def test_a_restart_loses_no_result(keys_before: int, tmp_path: Path) -> None:
    """Of those that had closed and were not sent on yet, and of those that were open."""
    opened = [(f"k{number:03}", "x", 1) for number in range(keys_before)]
    with SessionRun(GAP_5, final(), directory=tmp_path, **SELDOM) as run:
        assert run.pipe(*opened, ("open", "y", 7)) == []
    with SessionRun(GAP_5, final(), directory=tmp_path) as run:
        out = run.pipe(("z", "-", 8), ("z", "-", 13))

    assert out == [(key, 1, 1, "x", 1) for key, _, _ in opened] + [("open", 7, 7, "y", 7)]


records = st.lists(st.tuples(st.sampled_from(["a", "b", "aa"]), st.integers(0, 80)), max_size=30)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 12), st.integers(0, 40), records, st.booleans())
def test_each_result_comes_once_and_is_that_of_the_model(
    gap_ms: int, grace_ms: int, came: list[tuple[str, int]], in_time: bool
) -> None:
    """However often it is looked for; a record finds open sessions only."""
    windows = SessionWindows(gap_ms, grace_ms)
    model = Model(windows, gap_ms + grace_ms)
    out = []
    interval_ms = SECOND if in_time else 10**6
    with SessionRun(windows, final(), window_emit_interval_ms=interval_ms) as run:
        for number, (key, time) in enumerate(came):
            model.take(key, f"<{number}>", time)
            run.driver.advance_wall_clock_ms(SECOND)
            out += run.pipe((key, f"<{number}>", time))
        run.driver.advance_wall_clock_ms(10**6)
        out += run.pipe(("end", "-", 10_000))
        late = run.dropped()

    assert late == model.late
    assert sorted(row[:4] for row in out) == sorted(
        (row.key, *row.window, value) for row, value in model.rows.items()
    )
