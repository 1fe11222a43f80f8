"""Sums of statistics: over the threads of an application, and over its processes."""

from __future__ import annotations

from pystreams.runtime.loop.reports.statistics import ThreadStatistics, together, total

ONE = ThreadStatistics(
    tasks_running=2, processed_records=10, lag_records=5, uncommitted_bytes=7, cached_bytes=1
)
OTHER = ThreadStatistics(tasks_running=1, processed_records=3, max_uncommitted_bytes=9)


def test_an_application_adds_its_threads_up() -> None:
    both = total("RUNNING", [ONE, OTHER])

    assert (both.state, both.threads) == ("RUNNING", 2)
    assert (both.tasks_running, both.processed_records) == (3, 13)
    assert (both.uncommitted_bytes, both.cached_bytes) == (7, 1)


def test_the_most_ever_held_is_that_of_one_thread() -> None:
    held = ThreadStatistics(max_uncommitted_bytes=4)

    assert total("RUNNING", [OTHER, held]).max_uncommitted_bytes == 9


def test_a_lag_that_some_do_not_know_is_that_of_the_others_and_unknown_when_none_does() -> None:
    assert total("RUNNING", [ONE, OTHER]).lag_records == 5
    assert total("RUNNING", [OTHER]).lag_records is None


def test_that_nothing_waits_is_not_known_where_a_thread_with_tasks_does_not_know() -> None:
    rests, starts = (ThreadStatistics(tasks_running=1, lag_records=lag) for lag in (0, None))

    assert total("RUNNING", [rests, ThreadStatistics()]).lag_records == 0
    assert total("RUNNING", [rests, starts]).lag_records is None


def test_several_processes_are_added_up_thread_by_thread() -> None:
    processes = [total("RUNNING", [ONE, OTHER]), total("REBALANCING", [ONE])]

    all_of_them = together("1 RUNNING, 1 REBALANCING", processes)

    assert all_of_them.state == "1 RUNNING, 1 REBALANCING"
    assert all_of_them.threads == 3
    assert all_of_them.processed_records == 23
    assert all_of_them.lag_records == 10


def test_before_any_process_has_told_something_all_is_nothing() -> None:
    nothing = together("2 STARTING", [])

    assert (nothing.threads, nothing.processed_records, nothing.lag_records) == (0, 0, None)
