"""The watchdog: what stands still is told once, with where it is, and when it is over."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from dataclasses import replace
from typing import Any

import pytest

from pystreams import TaskId, TopicPartition
from pystreams.runtime.application.troubles import TroubleKind
from pystreams.runtime.application.watchdog import Watchdog, stack_of
from pystreams.runtime.loop.reports.thread_metadata import TaskMetadata, ThreadMetadata
from pystreams.runtime.tasks.concurrent_calls import ConcurrentCalls
from pystreams.testing.simulation import ManualClock
from tests.broker.waiting import wait_until

TASK = TaskMetadata(
    task_id=TaskId(0, 1),
    state="running",
    partitions=(TopicPartition("in", 1),),
    processed_records=5,
    lag_records=3,
    stream_time_ms=0,
    stores=(),
    changelogs={},
    restored_offsets={},
)
THREAD = ThreadMetadata(
    thread_name="t1", silent_ms=0, max_poll_interval_ms=300_000, active_tasks=()
)


class Watched:
    """A watchdog that is shown the same thread again and again."""

    def __init__(self, caplog: pytest.LogCaptureFixture, *, alive: bool = True) -> None:
        caplog.set_level(logging.INFO, "pystreams.watchdog")
        self._records = caplog.records
        self.clock = ManualClock(1_000_000)
        self.paused = threading.Event()
        stack = "in work(value)" if alive else ""
        self.watchdog = Watchdog(self.clock, self.paused, lambda _: stack)

    def look(self, thread: ThreadMetadata, *, after_ms: int = 0) -> list[TroubleKind]:
        self.clock.advance_ms(after_ms)
        self.watchdog.look([thread])
        return [trouble.kind for trouble in self.watchdog.troubles]

    def silent(self, silent_ms: int, at_work: str = "") -> list[TroubleKind]:
        return self.look(replace(THREAD, silent_ms=silent_ms, at_work=at_work))

    def told(self) -> list[str]:
        return [record.getMessage() for record in self._records]


def test_a_function_that_blocks_is_told_with_the_record_and_the_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(caplog)
    assert watched.silent(9_000) == []
    assert watched.silent(10_000, "task 0_1 is at the record at in-1 offset 7") == [
        TroubleKind.BLOCKED_THREAD
    ]

    [line] = watched.told()
    assert "stream thread stands still" in line
    assert "in-1 offset 7" in line
    assert "in work(value)" in line


def test_it_is_told_again_each_time_it_has_lasted_twice_as_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(caplog)
    for seconds in range(10, 200):
        watched.silent(seconds * 1000)

    assert len(watched.told()) == 5
    assert watched.watchdog.begun == {TroubleKind.BLOCKED_THREAD: 1}


def test_a_poll_interval_that_is_about_to_pass_is_a_trouble_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(caplog)

    assert watched.silent(239_000) == [TroubleKind.BLOCKED_THREAD]
    assert watched.silent(241_000) == [TroubleKind.BLOCKED_THREAD, TroubleKind.LATE_POLL]
    assert "consumer.max.poll.interval.ms=300000" in watched.told()[-1]


def test_when_it_is_over_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)
    watched.silent(10_000)

    assert watched.silent(0) == []
    assert "over" in watched.told()[-1]


def test_a_thread_that_has_ended_does_not_stand_still(caplog: pytest.LogCaptureFixture) -> None:
    assert Watched(caplog, alive=False).silent(60_000) == []


def test_a_task_that_records_wait_for_and_that_takes_none_is_stalled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(caplog)
    thread = replace(THREAD, active_tasks=(TASK,))
    assert watched.look(thread) == []
    assert watched.look(thread, after_ms=59_000) == []
    assert watched.look(thread, after_ms=1_000) == [TroubleKind.STALLED_TASK]

    assert "of in-1 3 records wait" in watched.told()[0]


@pytest.mark.parametrize(
    "moves",
    [
        {"processed_records": 6},
        {"lag_records": 0},
        {"lag_records": None},
        {"state": "restoring"},
    ],
)
def test_a_task_that_moves_or_has_nothing_to_do_is_not_stalled(
    moves: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(caplog)
    watched.look(replace(THREAD, active_tasks=(TASK,)))
    moved = replace(THREAD, active_tasks=(replace(TASK, **moves),))

    assert watched.look(moved, after_ms=60_000) == []


def test_a_paused_application_has_no_stalled_tasks(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)
    watched.paused.set()
    thread = replace(THREAD, active_tasks=(TASK,))
    watched.look(thread)

    assert watched.look(thread, after_ms=60_000) == []


def test_a_look_that_fails_is_told_once_and_the_next_ones_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class ChangingThread:
        def __init__(self) -> None:
            self.asked = 0

        def metadata(self) -> ThreadMetadata:
            self.asked += 1
            if self.asked <= 2:
                raise RuntimeError("dictionary changed size during iteration")
            return replace(THREAD, silent_ms=10_000)

    watched, ended, thread = Watched(caplog), threading.Event(), ChangingThread()
    watched.watchdog.start(lambda: [thread], ended)
    try:
        wait_until(lambda: bool(watched.watchdog.troubles), "a look after those that failed")
    finally:
        ended.set()

    told = [line for line in watched.told() if "dictionary changed size" in line]
    assert len(told) == 1
    assert "in metadata" in told[0]


CHANGELOGS = TopicPartition("app-s-changelog", 1), TopicPartition("app-t-changelog", 1)


def at(offset: int, other_offset: int | None) -> dict[TopicPartition, int | None]:
    """Two changelogs, or inputs, of which nothing is here."""
    return dict(zip(CHANGELOGS, (offset, other_offset), strict=True))


WHATEVER_IS_READ = pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("running", TroubleKind.STALLED_PARTITION),
        ("restoring", TroubleKind.STALLED_RESTORE),
        ("standby", TroubleKind.STALLED_STANDBY),
        ("global", TroubleKind.STALLED_GLOBAL),
    ],
)


def reading(state: str, number: int, thread: ThreadMetadata = THREAD) -> ThreadMetadata:
    """A thread of which one partition stands, and another goes on with the number."""
    awaited = at(7, 100 * number)
    if state == "global":
        return replace(thread, awaited=awaited)
    task = replace(TASK, state=state, processed_records=number, awaited=awaited)
    if state == "standby":
        return replace(thread, standby_tasks=(task,))
    return replace(thread, active_tasks=(task,))


@WHATEVER_IS_READ
def test_a_partition_of_which_nothing_comes_is_told_though_others_go_on(
    state: str, kind: TroubleKind, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(caplog)

    watched.look(reading(state, 1))
    assert watched.look(reading(state, 2), after_ms=59_000) == []
    assert watched.look(reading(state, 3), after_ms=1_000) == [kind]
    [line] = watched.told()
    assert "nothing comes of app-s-changelog-1 at offset 7:" in line
    assert watched.watchdog.begun == {kind: 1}

    watched.look(replace(THREAD, active_tasks=(replace(TASK, processed_records=4),)))
    assert "over" in watched.told()[-1]


@WHATEVER_IS_READ
def test_a_partition_whose_records_come_behind_those_of_others_is_not_stalled(
    state: str, kind: TroubleKind, caplog: pytest.LogCaptureFixture
) -> None:
    """A client hands on one fetched piece after the other: that may take minutes."""
    watched = Watched(caplog)
    begun_ms = watched.clock.monotonic_ms()

    def thread(number: int, emptied_ms: float) -> ThreadMetadata:
        behind = replace(THREAD, emptied_ms=emptied_ms, restores_emptied_ms=emptied_ms)
        return reading(state, number, behind)

    watched.look(thread(1, begun_ms))
    assert watched.look(thread(2, begun_ms + 30_000), after_ms=90_000) == []
    assert watched.look(thread(3, begun_ms + 91_000), after_ms=1_000) == [kind]


def test_a_task_of_several_inputs_whose_records_come_behind_those_of_others_is_not_stalled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(caplog)
    begun_ms = watched.clock.monotonic_ms()
    behind, read = TopicPartition("behind", 1), TopicPartition("read", 1)
    task = replace(
        TASK,
        partitions=(behind, read),
        lag_by_topic={"behind": 3, "read": 0},
        awaited={behind: 7},
    )
    thread = replace(THREAD, active_tasks=(task,), emptied_ms=begun_ms)

    watched.look(thread)
    assert watched.look(thread, after_ms=90_000) == []
    assert watched.look(replace(thread, emptied_ms=begun_ms + 91_000), after_ms=1_000) == [
        TroubleKind.STALLED_TASK
    ]


def test_a_task_that_has_records_here_and_takes_none_is_stalled_whatever_comes_behind_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(caplog)
    behind, here = TopicPartition("behind", 1), TopicPartition("here", 1)
    task = replace(
        TASK,
        partitions=(behind, here),
        lag_by_topic={"behind": 3, "here": 1},
        awaited={behind: 7},
    )
    thread = replace(THREAD, active_tasks=(task,), emptied_ms=0)

    watched.look(thread)
    assert watched.look(thread, after_ms=60_000) == [TroubleKind.STALLED_TASK]


def test_a_partition_whose_broker_is_silent_is_told_however_much_comes_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(caplog)

    def thread(number: int) -> ThreadMetadata:
        task = replace(TASK, processed_records=number, awaited=at(7, 100 * number))
        silent = frozenset(CHANGELOGS[:1])
        return replace(THREAD, active_tasks=(task,), emptied_ms=0, silent=silent)

    watched.look(thread(1))
    assert watched.look(thread(2), after_ms=60_000) == [TroubleKind.STALLED_PARTITION]


def test_a_task_of_which_one_partition_holds_up_the_other_names_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(caplog)
    thread = replace(THREAD, active_tasks=(replace(TASK, awaited=at(7, None)),))
    watched.look(thread)

    assert watched.look(thread, after_ms=60_000) == [TroubleKind.STALLED_TASK]
    assert "nothing comes of app-s-changelog-1 at offset 7, app-t-changelog-1" in watched.told()[0]


def test_a_task_that_does_not_begin_is_told(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)
    thread = replace(THREAD, active_tasks=(replace(TASK, state="created", lag_records=None),))
    watched.look(thread)

    assert watched.look(thread, after_ms=60_000) == [TroubleKind.STALLED_RESTORE]


def test_standbys_may_wait_while_tasks_restore(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)

    def thread(offset: int) -> ThreadMetadata:
        restoring = replace(TASK, state="restoring", awaited=at(offset, offset))
        standby = replace(TASK, state="standby", awaited=at(7, 8))
        return replace(THREAD, active_tasks=(restoring,), standby_tasks=(standby,))

    watched.look(thread(100))
    assert watched.look(thread(200), after_ms=60_000) == []


def test_a_stack_ends_with_what_the_thread_does() -> None:
    begun, end = threading.Event(), threading.Event()

    def waiting_for_its_end() -> None:
        begun.set()
        end.wait()

    thread = threading.Thread(target=waiting_for_its_end, name="stack-of-me")
    thread.start()
    begun.wait()
    stack = stack_of("stack-of-me")
    end.set()
    thread.join()

    assert "waiting_for_its_end" in stack
    assert stack_of("no-such-thread") == ""


def test_a_stack_tells_of_the_calls_that_a_thread_waits_for_side_by_side() -> None:
    """The commits of several producers: which step of them waits is in none of its own frames."""
    end = threading.Event()

    def waiting_for_a_coordinator(_: int) -> None:
        end.wait()

    def commits() -> None:
        concurrent = ConcurrentCalls()
        concurrent.run(lambda _: None, range(5))  # Those that answer are told of no more.
        concurrent.run(waiting_for_a_coordinator, range(3))
        concurrent.close()

    thread = threading.Thread(target=commits, name="commits-of-me")
    thread.start()
    try:
        wait_until(lambda: "3 x side by side:\n" in stack_of("commits-of-me"), "three that wait")
        own, _, helpers = stack_of("commits-of-me").partition("3 x side by side:\n")
    finally:
        end.set()
        thread.join()

    assert "in commits" in own
    assert "in waiting_for_a_coordinator" in helpers
    assert "in waiting_for_a_coordinator" not in own
    assert "side by side:" not in helpers


def test_who_looks_where_a_thread_is_keeps_nothing_alive_that_it_has() -> None:
    """A store that was being opened then could not be opened again before a garbage collection."""

    class Held:
        pass

    end, kept = threading.Event(), []

    def opens() -> None:
        held = Held()
        kept.append(weakref.ref(held))
        end.wait()

    thread = threading.Thread(target=opens, name="opens")
    gc.disable()
    try:
        thread.start()
        wait_until(lambda: "in opens" in stack_of("opens"), "the thread")
        end.set()
        thread.join()
        assert kept[0]() is None
    finally:
        end.set()
        gc.enable()
