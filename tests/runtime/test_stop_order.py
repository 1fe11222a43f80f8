"""How long a thread that is to stop waits for brokers."""

from __future__ import annotations

import threading

import pytest

from pystreams.runtime.tasks.stop_order import StopOrder
from pystreams.testing.simulation import ManualClock


def order_given(*, ago_s: float | None) -> StopOrder:
    clock = ManualClock()
    order = StopOrder(threading.Event(), clock)
    if ago_s is not None:
        order.give()
        clock.advance_ms(ago_s * 1000)
    return order


@pytest.mark.parametrize("ago_s", [None, 0.0, 9.5])
def test_without_an_order_or_soon_behind_it_nothing_is_given_up(ago_s: float | None) -> None:
    assert not order_given(ago_s=ago_s).gives_up(60)


def test_a_commit_that_begins_late_waits_for_a_broker_that_is_slow() -> None:
    order = order_given(ago_s=60)

    assert [order.gives_up(silent_s) for silent_s in (0.0, 0.7, 2.9, 3.0)] == [False] * 3 + [True]


def test_where_brokers_have_been_silent_once_others_get_half_a_second() -> None:
    order = order_given(ago_s=11)
    order.gives_up(3)

    assert [order.gives_up(silent_s) for silent_s in (0.0, 0.4, 0.5)] == [False, False, True]


def test_a_silence_before_the_order_does_not_count() -> None:
    clock = ManualClock()
    order = StopOrder(threading.Event(), clock)
    order.note_silence()
    order.give()
    clock.advance_ms(11_000)

    assert (order.has_no_time_left, order.gives_up(2.9)) == (False, False)


def test_a_commit_that_succeeds_gives_others_their_time_anew_but_not_their_patience() -> None:
    clock = ManualClock()
    order = StopOrder(threading.Event(), clock)
    order.give()
    clock.advance_ms(11_000)
    order.note_silence()
    clock.advance_ms(2000)
    before = order.has_no_time_left
    order.note_answer()

    assert before
    assert not order.has_no_time_left
    assert [order.gives_up(silent_s) for silent_s in (0.4, 0.5)] == [False, True]


def test_a_silence_that_a_commit_has_ended_early_does_not_count_later() -> None:
    clock = ManualClock()
    order = StopOrder(threading.Event(), clock)
    order.give()
    order.note_silence()
    clock.advance_ms(1000)
    order.note_answer()
    clock.advance_ms(12_000)

    assert (order.has_no_time_left, order.gives_up(2.9)) == (False, False)


def test_a_commit_that_succeeds_before_any_silence_leaves_slow_brokers_their_patience() -> None:
    order = order_given(ago_s=11)
    order.note_answer()

    assert (order.has_no_time_left, order.gives_up(2.9)) == (False, False)


@pytest.mark.parametrize(("ago_s", "abort_s"), [(None, 5), (0, 5), (12, 3), (15, 0), (60, 0)])
def test_an_abort_gets_what_is_left_and_a_late_one_is_left_to_the_release(
    ago_s: float | None, abort_s: float
) -> None:
    order = order_given(ago_s=ago_s)

    assert order.abort_s == abort_s
    assert order.release_s >= 0.5
