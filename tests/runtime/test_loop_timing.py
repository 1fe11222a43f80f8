"""Runs are cut by the time they take; a poll and a commit come due while there is work."""

from __future__ import annotations

import pytest

from pystreams import TopicPartition
from pystreams.runtime.loop.loop_timing import LoopTiming
from pystreams.testing.simulation.clock import ManualClock

IN = TopicPartition("in", 0)
OTHER = TopicPartition("other", 0)


def begun(timing: LoopTiming, partition: TopicPartition) -> int:
    """Begin a run of one partition; return how many records it may take."""
    timing.begin_run()
    return timing.run_records(partition)


def after_runs(record_ms: float, runs: int) -> list[int]:
    """How long runs become when each of their records takes so long."""
    clock = ManualClock()
    timing = LoopTiming(clock, 100)
    lengths = []
    for _ in range(runs):
        records = begun(timing, IN)
        clock.advance_ms(record_ms * records)
        timing.end_run({IN: records})
        lengths.append(begun(timing, IN))
    return lengths


def test_runs_of_fast_records_grow_to_a_thousand() -> None:
    assert after_runs(0.01, 6) == [4, 16, 64, 256, 1000, 1000]


@pytest.mark.parametrize(("record_ms", "records"), [(1, 100), (20, 5), (60, 1), (5000, 1)])
def test_runs_of_slow_records_take_a_tenth_of_a_second_or_one_record(
    record_ms: float, records: int
) -> None:
    assert after_runs(record_ms, 5)[-1] == records


def test_runs_grow_again_when_records_become_fast() -> None:
    clock = ManualClock()
    timing = LoopTiming(clock, 100)
    begun(timing, IN)
    clock.advance_ms(5000)
    timing.end_run({IN: 1})
    found = []
    for _ in range(7):
        found.append(begun(timing, IN))
        timing.end_run({IN: found[-1]})

    assert found == [1, 4, 16, 64, 256, 1000, 1000]


def test_a_run_without_records_does_not_stop_the_next() -> None:
    clock = ManualClock()
    timing = LoopTiming(clock, 100)
    begun(timing, IN)
    clock.advance_ms(7)
    timing.end_run({IN: 0})

    assert begun(timing, IN) == 1


def test_what_one_partition_costs_says_nothing_of_another() -> None:
    clock = ManualClock()
    timing = LoopTiming(clock, 100)
    slow = TopicPartition("slow", 0)
    for partition, record_ms in [(IN, 0), (slow, 50)] * 5:
        records = begun(timing, partition)
        clock.advance_ms(record_ms * records)
        timing.end_run({partition: records})

    assert (begun(timing, IN), begun(timing, slow)) == (1000, 2)


def test_a_run_of_two_partitions_may_have_spent_all_its_time_on_either() -> None:
    clock = ManualClock()
    timing = LoopTiming(clock, 100)
    for _ in range(6):
        begun(timing, IN)
        timing.end_run({IN: 1, OTHER: 1})
    timing.begin_run()
    clock.advance_ms(200)
    timing.end_run({IN: 100, OTHER: 4})

    assert (timing.run_records(IN), timing.run_records(OTHER)) == (50, 2)


def test_the_group_is_polled_again_after_a_second_of_work() -> None:
    clock = ManualClock()
    timing = LoopTiming(clock, 100)
    timing.polled()
    clock.advance_ms(999)
    before = timing.poll_due()
    clock.advance_ms(1)
    due = timing.poll_due()
    timing.polled()

    assert (before, due, timing.poll_due()) == (False, True, False)


def test_a_commit_is_due_an_interval_after_the_last() -> None:
    clock = ManualClock()
    timing = LoopTiming(clock, 100)
    clock.advance_ms(60)
    found = [timing.until_commit_ms()]
    clock.advance_ms(60)
    found.append(timing.until_commit_ms())
    timing.committed()
    found.append(timing.until_commit_ms())

    assert found == [40, 0, 100]
    assert timing.committed_ms == clock.monotonic_ms()


def test_a_consumer_has_no_more_when_an_idle_thread_gets_less_than_a_poll_may_bring() -> None:
    clock = ManualClock()
    timing = LoopTiming(clock, 30_000)

    def emptied_after(records: int, *, idle: bool) -> bool:
        clock.advance_ms(100)
        timing.polled()
        timing.brought(records, idle=idle, limit=500)
        return timing.emptied_ms == clock.monotonic_ms()

    assert not emptied_after(500, idle=True)
    assert not emptied_after(20, idle=False)
    assert not emptied_after(0, idle=True)
    assert emptied_after(499, idle=True)


def test_a_consumer_has_no_more_when_polls_bring_nothing_for_seconds() -> None:
    clock = ManualClock()
    timing = LoopTiming(clock, 30_000)
    clock.advance_ms(5_000)
    timing.polled()
    timing.brought(0, idle=True, limit=500)

    assert timing.emptied_ms == clock.monotonic_ms()
