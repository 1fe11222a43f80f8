"""A task moves from one owner to another, who must go on exactly where the first has stopped."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    StreamsBuilder,
    TaskId,
    serdes,
)
from pystreams.errors import RetriableClientError, TaskMigratedError
from pystreams.testing.simulation import NO_FAULTS
from tests.simulation.applications import (
    CHANGELOG,
    PATIENCE,
    Application,
    running_tasks,
    stored_counts,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pystreams import Topology
    from pystreams.runtime.loop.stream_thread import StreamThread
    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

EOS = ["exactly_once", "exactly_once_v2"]


def step_until_running(process: SimulatedProcess, tasks: int) -> None:
    for _ in range(400):
        process.step()
        if len(running_tasks(process)) == tasks:
            return
    raise AssertionError(f"only {running_tasks(process)} run")


@pytest.mark.parametrize("guarantee", EOS)
def test_partitions_lost_with_an_open_transaction_leave_nothing_of_it_behind(
    guarantee: str, tmp_path: Path
) -> None:
    """The member times out, learns of it at its poll, and is given the partition again."""
    app = Application(tmp_path, guarantee)
    process = app.process(config={"commit.interval.ms": 9000})
    process.start()
    step_until_running(process, 1)
    app.feed("a", "a")
    process.step()
    app.clock.advance_ms(4000)
    app.broker.tick()
    step_until_running(process, 1)
    app.feed("a")
    process.step()
    process.stop()
    app.broker.settle()

    assert app.outputs() == [("a", 1), ("a", 2), ("a", 3)]
    assert stored_counts(process) == {"a": 3}


@pytest.mark.parametrize("incremental", [False, True])
def test_a_member_that_was_put_out_is_not_settled_until_it_is_assigned_again(
    incremental: bool, tmp_path: Path
) -> None:
    """It has no tasks, but may be given them back: its state must not count as moved away."""
    app = Application(tmp_path, incremental=incremental)
    process = app.process()
    process.start()
    step_until_running(process, 1)
    [thread] = process.threads
    settled = [thread.settled]
    app.clock.advance_ms(4000)
    app.broker.tick()
    process.step()
    assert not running_tasks(process)
    settled.append(thread.settled)
    step_until_running(process, 1)
    settled.append(thread.settled)

    assert settled == [True, False, True]


def goes_deaf(thread: StreamThread) -> None:
    consumer: Any = thread._consumer
    consumer.grow_deaf()


@pytest.mark.parametrize("guarantee", ["at_least_once", *EOS])
def test_a_member_whose_client_never_hears_of_its_group_again_goes_on_with_another_client(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process()
    process.start()
    step_until_running(process, 1)
    app.feed("a", "a")
    app.run_until_processed(process)
    [thread] = process.threads
    goes_deaf(thread)
    app.clock.advance_ms(4000)
    app.broker.tick()
    process.step()
    assert not running_tasks(process)
    app.feed("a")
    app.clock.advance_ms(59_000)
    process.step()
    assert not running_tasks(process)
    app.clock.advance_ms(1000)
    app.run_until_processed(process)

    assert app.outputs() == [("a", 1), ("a", 2), ("a", 3)]
    assert stored_counts(process) == {"a": 3}


def test_a_member_that_joins_again_is_not_settled_while_it_closes_what_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stores still belong to it for readers, and its state must not count as moved away."""
    app = Application(tmp_path, "exactly_once_v2", incremental=True)
    process = app.process()
    process.start()
    step_until_running(process, 1)
    [thread] = process.threads
    close_all = thread._producers.close
    settled = []

    def close() -> None:
        settled.append(thread.settled)
        close_all()

    monkeypatch.setattr(thread._producers, "close", close)
    thread._rejoin(TaskMigratedError("fenced"))

    assert settled == [False]


@pytest.mark.parametrize("guarantee", ["at_least_once", *EOS])
def test_a_member_that_gave_up_its_partitions_and_hears_nothing_more_goes_on_with_another_client(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee, partitions=2)
    deaf, other = app.process("p0"), app.process("p1")
    deaf.start()
    step_until_running(deaf, 2)
    [thread] = deaf.threads
    other.start()
    other.step()
    goes_deaf(thread)
    deaf.step()
    assert not running_tasks(deaf)
    app.clock.advance_ms(315_000)
    app.feed("a", "b", "c", "d")
    app.run_until_processed(deaf, other)

    assert len(running_tasks(deaf)) == len(running_tasks(other)) == 1
    assert sorted(app.outputs()) == [("a", 1), ("b", 1), ("c", 1), ("d", 1)]


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("guarantee", EOS)
def test_a_zombie_that_awakes_commits_nothing(
    guarantee: str, incremental: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee, incremental=incremental)
    zombie, heir = app.process("p0"), app.process("p1")
    zombie.start()
    step_until_running(zombie, 1)
    app.feed("a")
    app.faults.fail_next("commit_transaction", RetriableClientError("not yet"))
    zombie.step()
    app.clock.advance_ms(4000)
    app.broker.tick()
    heir.start()
    step_until_running(heir, 1)
    app.feed("a")
    app.run_until_processed(heir)
    for _ in range(20):
        zombie.step()
    app.run_until_processed(heir, zombie)

    assert app.outputs() == [("a", 1), ("a", 2)]


@pytest.mark.parametrize("guarantee", EOS)
@pytest.mark.parametrize("seed", range(6))
def test_a_commit_that_is_decided_but_not_yet_visible_is_waited_for(
    guarantee: str, seed: int, tmp_path: Path
) -> None:
    """The first owner dies right after the decision; markers come late, in any order."""
    app = Application(tmp_path, guarantee)
    app.faults.random.seed(seed)
    app.faults.rates = replace(NO_FAULTS, background=0)
    first, second = app.process("p0"), app.process("p1")
    first.start()
    step_until_running(first, 1)
    app.feed("a", "a")
    first.crash_at("committed")
    for _ in range(5):
        if first.running:
            first.step()
    assert first.crashes == 1
    app.clock.advance_ms(4000)
    app.broker.tick()  # Who sees the first one in the group would end what it has left.
    second.start()
    for _ in range(20):
        second.step()
    if guarantee == "exactly_once_v2":
        assert not running_tasks(second), "offsets are pending"
    for _ in range(3):
        app.broker.transactions.write_a_marker()
        for _ in range(10):
            second.step()
    app.faults.rates = NO_FAULTS
    app.feed("a")
    app.run_until_processed(second)

    assert app.outputs() == [("a", 1), ("a", 2), ("a", 3)]


class Ticker(Processor[str, str, str, str]):
    """Forwards a record every 100 ms of wall-clock time."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        def tick(time: int) -> None:
            context.forward(Record("tick", str(time), time))

        context.schedule(100, PunctuationType.WALL_CLOCK_TIME, tick)

    def process(self, record: Record[str, str]) -> None:
        """Take input without a word."""


@pytest.mark.parametrize("guarantee", EOS)
def test_a_zombie_that_only_punctuates_commits_nothing_either(
    guarantee: str, tmp_path: Path
) -> None:
    """Its transactions carry offsets, which fence it, even if it has read nothing."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    ticks = stream.process(Ticker)
    ticks.to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
    topology = builder.build()
    app = Application(tmp_path, guarantee)
    zombie, heir = app.process("p0", topology), app.process("p1", topology)
    zombie.start()
    app.feed("a")
    while app.committed() is None:
        zombie.step()
        app.broker.settle()
    zombie.stop()
    zombie.start()
    step_until_running(zombie, 1)
    app.clock.advance_ms(4000)
    heir.start()
    heir.step()
    step_until_running(heir, 1)
    app.broker.settle()
    before = len(app.broker.committed_records("out"))
    app.clock.advance_ms(150)
    [thread] = zombie.threads
    with suppress(TaskMigratedError):  # The producer of a task is fenced as well, on its way.
        thread._processing.punctuate(app.clock.now_ms())
        assert not thread._commit(), "the group refuses the offsets"
    app.broker.settle()

    assert len(app.broker.committed_records("out")) == before


def test_an_open_transaction_of_a_dead_owner_is_waited_for_until_it_times_out(
    tmp_path: Path,
) -> None:
    """With a producer a thread nobody else can abort it."""
    app = Application(tmp_path, "exactly_once_v2")
    first, second = app.process("p0"), app.process("p1")
    first.start()
    step_until_running(first, 1)
    app.feed("a")
    app.run_until_processed(first)
    app.feed("a")
    first.crash_at("flush")
    for _ in range(5):
        if first.running:
            first.step()
    app.clock.advance_ms(3500)
    second.start()
    step_until_running(second, 1)
    app.run_until_processed(second)

    assert app.outputs() == [("a", 1), ("a", 2)]


def test_a_task_owns_a_producer_whose_successor_aborts_what_it_left_open(tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once")
    first, second = app.process("p0"), app.process("p1")
    first.start()
    step_until_running(first, 1)
    app.feed("a")
    first.crash_at("offsets added")
    while first.running:
        first.step()
    assert app.broker.transactions.open_ids() == ["app-0_0"]
    started_ms = app.clock.monotonic_ms()
    app.clock.advance_ms(3500)
    second.start()
    step_until_running(second, 1)

    assert app.clock.monotonic_ms() - started_ms < 5000, "no timeout was waited for"
    app.run_until_processed(second)
    assert app.outputs() == [("a", 1)]


def test_tasks_that_stay_begin_before_those_that_come(tmp_path: Path) -> None:
    """To open the stores of the others takes the time of the thread, which does nothing else."""
    app = Application(tmp_path, "exactly_once_v2", partitions=4)
    dies, stays = app.process("p0"), app.process("p1")
    dies.start()
    stays.start()
    for _ in range(100):
        dies.step()
        stays.step()
    assert running_tasks(stays) == ["0_2", "0_3"]
    dies.crash()
    with capture_logs() as lines:
        step_until_running(stays, 4)

    begun = [line["task"] for line in lines if line["event"] == "task running"]
    assert begun == ["0_2", "0_3", "0_0", "0_1"]


def test_a_task_that_is_taken_over_commits_its_first_records_before_the_interval_is_over(
    tmp_path: Path,
) -> None:
    application = Application(tmp_path, partitions=2, commit_interval_ms=8_000)
    both = [application.process(name) for name in ("p0", "p1")]
    for process in both:
        process.start()
    application.feed(*"abcd")
    _step(application, *both)
    assert len(running_tasks(both[0])) == len(running_tasks(both[1])) == 1
    assert not application.outputs()  # They have begun just now: nobody has waited for them.
    both[1].stop(leave_group=True)
    stopped_ms = application.clock.monotonic_ms()

    application.feed(*"abcd")
    _step(application, both[0])
    assert len(running_tasks(both[0])) == 2
    assert application.clock.monotonic_ms() - stopped_ms < 8_000
    assert Counter(count for _, count in application.outputs()) == {1: 4, 2: 4}

    application.feed(*"abcd")
    _step(application, both[0])
    assert len(application.outputs()) == 8


def test_a_task_whose_directory_is_locked_waits_and_holds_nobody_up(tmp_path: Path) -> None:
    app = Application(tmp_path, partitions=2)
    process = app.process()
    process.disk.lock(TaskId(0, 0), "somebody else")
    process.start()
    app.feed("a", "b", "c", "d", "e")
    for _ in range(30):
        process.step()
    assert running_tasks(process) == ["0_1"]
    assert app.committed(1) is not None

    process.disk.unlock(TaskId(0, 0), "somebody else")
    step_until_running(process, 2)
    app.run_until_processed(process)
    assert sorted(app.outputs()) == [(key, 1) for key in "abcde"]


@pytest.mark.parametrize("call", ["init_transactions", "committed", "start_at", "offset_ranges"])
def test_a_start_that_gets_no_answer_is_tried_again(call: str, tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process()
    for _ in range(3):
        app.faults.fail_next(call, RetriableClientError("no answer"))
    process.start()
    app.feed("a")
    app.run_until_processed(process)

    assert app.outputs() == [("a", 1)]


@pytest.mark.parametrize("guarantee", ["at_least_once", *EOS])
@pytest.mark.parametrize("incremental", [False, True])
def test_partitions_given_up_in_order_are_committed_first(
    guarantee: str, incremental: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee, partitions=2, incremental=incremental)
    config = {"commit.interval.ms": 9000}
    first, second = app.process("p0", config=config), app.process("p1", config=config)
    first.start()
    step_until_running(first, 2)
    app.feed("a", "b", "c", "d", "e", "f")
    first.step()
    second.start()
    for _ in range(30):
        first.step()
        second.step()

    assert len(running_tasks(first)) == len(running_tasks(second)) == 1
    app.feed("a", "b", "c", "d", "e", "f")
    for _ in range(5):
        first.step()
        second.step()
    first.stop()
    second.stop()
    app.broker.settle()
    found = app.outputs()
    assert sorted(found) == sorted([(key, 1) for key in "abcdef"] + [(key, 2) for key in "abcdef"])


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("where", ["between poll and run", "in a run"])
def test_a_process_that_was_stopped_past_its_session_logs_nothing_behind_the_new_owner(
    where: str, incremental: bool, tmp_path: Path
) -> None:
    """At least once no producer is fenced: old counts would be the last ones in the changelog."""
    app = Application(tmp_path, "at_least_once", incremental=incremental)
    pauses: list[SimulatedProcess] = []

    def pause(value: str) -> str:
        while pauses:
            take_over(app, pauses.pop())
        return value

    stopped, other = (
        app.process(name, pausing(pause, where), {"consumer.session.timeout.ms": 3000})
        for name in ("p0", "p1")
    )
    stopped.start()
    step_until_running(stopped, 1)
    app.feed("a")
    app.run_until_processed(stopped)
    app.feed("a")
    pauses.append(other)
    for _ in range(PATIENCE):
        stopped.step()

    assert not pauses
    counts = [
        int.from_bytes(logged.message_value or b"", "big")
        for logged in app.broker.log(CHANGELOG).committed_records()
    ]
    assert counts == [1, 2, 3, 4], "and no 2 behind them"


def test_a_thread_that_works_for_longer_than_a_session_goes_on_as_a_member(tmp_path: Path) -> None:
    """Its client tells the group all the time that it lives."""
    app = Application(tmp_path, "at_least_once")

    def work(value: str) -> str:
        app.clock.advance_ms(4000)
        for member in app.broker.group._members.values():
            app.broker.group.touch(member)
        return value

    process = app.process(
        topology=pausing(work, "in a run"), config={"consumer.session.timeout.ms": 3000}
    )
    process.start()
    step_until_running(process, 1)
    app.feed("a", "a", "a")
    app.run_until_processed(process)

    process.stop()
    assert stored_counts(process) == {"a": 3}
    assert sum("CRASH" in line or " subscribe" in line for line in app.faults.trace) == 1


def take_over(app: Application, other: SimulatedProcess) -> None:
    """Let the member's session end, and another process count on."""
    app.clock.advance_ms(4000)
    app.broker.tick()
    other.start()
    step_until_running(other, 1)
    app.feed("a", "a")
    app.run_until_processed(other)


def pausing(pause: Callable[[str], str], where: str) -> Topology:
    """Counts; what may pause is called when a record has come, or when it is processed."""
    builder = StreamsBuilder()

    def read(value: bytes) -> str:
        return pause(value.decode()) if where == "between poll and run" else value.decode()

    text: Any = serdes.serde_of(str.encode, read)
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=text)
    if where == "in a run":
        stream = stream.map_values(pause)
    stream.group_by_key(key_serde=serdes.STRING, value_serde=serdes.STRING).count(name="counts")
    return builder.build()


def _step(application: Application, *processes: SimulatedProcess) -> None:
    for _ in range(30):
        for process in processes:
            process.step()
