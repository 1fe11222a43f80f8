"""Punctuations on both clocks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystreams import PunctuationType
from pystreams.runtime.core.operators.held_records import HeldRecords
from pystreams.runtime.core.operators.punctuation import PunctuationQueue, Schedule

STREAM = PunctuationType.STREAM_TIME
WALL = PunctuationType.WALL_CLOCK_TIME


class Punctuations:
    """A queue and what fired from it."""

    def __init__(self) -> None:
        self.queue = PunctuationQueue(HeldRecords({}))
        self.fired: list[tuple[str, int]] = []

    def schedule(
        self,
        name: str,
        interval_ms: int,
        kind: PunctuationType = STREAM,
        *,
        now_ms: int = 0,
        start_time_ms: int | None = None,
        then: Callable[[int], None] = lambda _: None,
    ) -> Schedule:
        def punctuate(time: int) -> None:
            self.fired.append((name, time))
            then(time)

        return self.queue.schedule(
            name, interval_ms, kind, punctuate, now_ms=now_ms, start_time_ms=start_time_ms
        )

    def fire(self, time_ms: int, kind: PunctuationType = STREAM) -> int:
        return self.queue.fire(kind, time_ms, lambda entry, time: entry.punctuator(time))


def test_on_stream_time_the_first_fires_with_the_first_record() -> None:
    punctuations = Punctuations()
    punctuations.schedule("p", 100)

    assert punctuations.fire(5) == 1
    assert punctuations.fired == [("p", 5)]


def test_on_the_wall_clock_the_first_fires_one_interval_from_now() -> None:
    punctuations = Punctuations()
    punctuations.schedule("p", 100, WALL, now_ms=1000)

    assert punctuations.queue.next_due_ms(WALL) == 1100
    assert punctuations.fire(1099, WALL) == 0
    assert punctuations.fire(1100, WALL) == 1


def test_the_clocks_do_not_know_of_each_other() -> None:
    punctuations = Punctuations()
    punctuations.schedule("p", 10, WALL, now_ms=0)

    assert punctuations.fire(1_000_000, STREAM) == 0
    assert punctuations.queue.next_due_ms(STREAM) is None


def test_a_late_punctuation_fires_once_and_keeps_to_its_grid() -> None:
    punctuations = Punctuations()
    punctuations.schedule("p", 100)

    assert punctuations.fire(1234) == 1
    assert punctuations.queue.next_due_ms(STREAM) == 1300
    assert punctuations.fire(1299) == 0
    assert punctuations.fire(1300) == 1
    assert punctuations.queue.next_due_ms(STREAM) == 1400


@given(
    st.integers(1, 50),
    st.integers(0, 100),
    st.lists(st.integers(0, 60), min_size=1, max_size=30),
)
def test_each_grid_cell_fires_at_most_once_and_none_that_is_met_is_left_out(
    interval: int, start: int, advances: list[int]
) -> None:
    punctuations = Punctuations()
    punctuations.schedule("p", interval, WALL, now_ms=start)
    now, cells = start, set()
    for advance in advances:
        now += advance
        punctuations.fire(now, WALL)
        if now >= start + interval:
            cells.add((now - start) // interval)
        due = punctuations.queue.next_due_ms(WALL)
        assert due is not None
        assert now < due <= max(now, start) + interval
        assert (due - start) % interval == 0

    assert [(time - start) // interval for _, time in punctuations.fired] == sorted(cells)


def test_what_is_due_for_longest_fires_first() -> None:
    punctuations = Punctuations()
    punctuations.schedule("slow", 100, WALL, now_ms=0)
    punctuations.schedule("quick", 30, WALL, now_ms=0)
    punctuations.schedule("quick too", 30, WALL, now_ms=0)
    punctuations.fire(500, WALL)

    assert [name for name, _ in punctuations.fired] == ["quick", "quick too", "slow"]


def test_a_cancelled_punctuation_never_fires() -> None:
    punctuations = Punctuations()
    entry = punctuations.schedule("p", 10)
    entry.cancel()
    entry.cancel()

    assert punctuations.queue.next_due_ms(STREAM) is None
    assert punctuations.fire(100) == 0


def test_a_punctuator_may_cancel_itself() -> None:
    punctuations = Punctuations()
    entries: list[Schedule] = []
    entries.append(punctuations.schedule("p", 10, then=lambda _: entries[0].cancel()))
    punctuations.fire(100)
    punctuations.fire(200)

    assert punctuations.fired == [("p", 100)]


def test_a_punctuator_may_cancel_another_that_is_due_as_well() -> None:
    punctuations = Punctuations()
    entries: list[Schedule] = []
    punctuations.schedule("first", 10, then=lambda _: entries[0].cancel())
    entries.append(punctuations.schedule("second", 10))
    punctuations.fire(100)

    assert punctuations.fired == [("first", 100)]


def test_what_a_punctuator_schedules_fires_in_the_same_pass_when_it_is_due() -> None:
    """As in Kafka Streams, whose queue is looked at again after each."""
    punctuations = Punctuations()
    once: list[Schedule] = []

    def schedule_another(_: int) -> None:
        if not once:
            once.append(punctuations.schedule("inner", 1000))

    punctuations.schedule("outer", 10, then=schedule_another)

    assert punctuations.fire(100) == 2
    assert punctuations.fired == [("outer", 100), ("inner", 100)]


def test_an_error_in_a_punctuator_does_not_make_it_fire_again() -> None:
    punctuations = Punctuations()

    def fail(_: int) -> None:
        raise RuntimeError("boom")

    punctuations.schedule("p", 10, then=fail)
    with pytest.raises(RuntimeError, match="boom"):
        punctuations.fire(100)

    assert punctuations.fire(100) == 0


def test_clearing_forgets_all() -> None:
    punctuations = Punctuations()
    punctuations.schedule("p", 10)
    punctuations.schedule("w", 10, WALL)
    punctuations.queue.clear()

    assert punctuations.fire(1000) == 0
    assert punctuations.fire(1000, WALL) == 0


@pytest.mark.parametrize("kind", [STREAM, WALL])
@pytest.mark.parametrize(
    ("now_ms", "first_ms"), [(0, 1000), (999, 1000), (1000, 1000), (1001, 1300), (1650, 1900)]
)
def test_an_anchored_one_fires_at_its_start_or_at_the_next_point_of_its_grid(
    kind: PunctuationType, now_ms: int, first_ms: int
) -> None:
    punctuations = Punctuations()
    punctuations.schedule("p", 300, kind, now_ms=now_ms, start_time_ms=1000)

    fired = [time for time in range(now_ms, first_ms + 601) if punctuations.fire(time, kind)]

    assert fired == [first_ms, first_ms + 300, first_ms + 600]


def test_an_anchored_one_that_is_late_keeps_to_its_grid() -> None:
    punctuations = Punctuations()
    punctuations.schedule("p", 300, now_ms=-1, start_time_ms=1000)

    fired = [time for time in (0, 999, 1700, 1899, 1900) if punctuations.fire(time)]

    assert fired == [1700, 1900]
