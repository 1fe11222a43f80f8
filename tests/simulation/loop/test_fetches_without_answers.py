"""Fetches that have no answers, while all other requests have: what waits is told all the same."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pystreams import StreamsBuilder, TopicPartition, Topology, serdes
from pystreams.errors import RetriableClientError
from pystreams.runtime.application.troubles import Trouble, TroubleKind
from pystreams.runtime.application.watchdog import Watchdog
from tests.simulation.applications import CHANGELOG, Application, tasks_of
from tests.simulation.members.keeping_warm import settle, standbys, step
from tests.variants import first_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pystreams.runtime.loop.stream_thread import StreamThread
    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

STEP_MS = 500
OTHER = TopicPartition("other", 0)
GUARANTEES = first_of("exactly_once_v2", "at_least_once", "exactly_once")


def fetch_in_vain(thread: StreamThread) -> None:
    consumer: Any = thread._consumer
    consumer.fetch_in_vain()


def run_for(app: Application, process: SimulatedProcess, seconds: int) -> None:
    for _ in range(seconds * 1000 // STEP_MS):
        app.clock.advance_ms(STEP_MS)
        process.step()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_records_that_wait_are_lag_and_their_task_makes_no_progress(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee, partitions=2)
    process = app.process()
    app.feed("a", "b")
    process.start()
    app.run_until_processed(process)
    [thread] = process.threads
    fetch_in_vain(thread)
    app.feed("a", "a", "a")
    watchdog = Watchdog(app.clock, threading.Event())

    run_for(app, process, 31)
    watchdog.look([thread.metadata()])
    assert thread.statistics().lag_records == 3
    assert not watchdog.troubles

    run_for(app, process, 61)
    watchdog.look([thread.metadata()])
    [trouble] = watchdog.troubles
    assert trouble.kind is TroubleKind.STALLED_TASK
    assert "3 records wait" in trouble.text
    assert "does not answer fetches" in trouble.text


def test_they_are_lag_from_the_start_where_no_fetch_was_ever_answered(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process()
    app.feed("a", "b")
    process.start()
    fetch_in_vain(process.threads[0])
    while not tasks_of(process):
        process.step()

    run_for(app, process, 31)
    assert process.threads[0].statistics().lag_records == 2


def test_question_without_an_answer_is_asked_again(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process()
    app.feed("a")
    process.start()
    app.run_until_processed(process)
    app.faults.fail_next("told_ends", RetriableClientError("no answer in time"))
    run_for(app, process, 31)
    app.feed("a")
    app.run_until_processed(process)
    fetch_in_vain(process.threads[0])
    app.feed("a")

    run_for(app, process, 31)
    assert process.threads[0].statistics().lag_records == 1


def joined() -> Topology:
    """Return a task with two inputs, of which none waits for the other."""
    builder = StreamsBuilder()
    both = builder.stream(["in", "other"], key_serde=serdes.STRING, value_serde=serdes.STRING)
    both.to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
    return builder.build()


def keep_silent(app: Application, partition: TopicPartition, *, ends_too: bool) -> None:
    app.broker.fetched_in_vain.add(partition)
    if ends_too:
        app.broker.ends_in_vain.add(partition)


def troubles(
    app: Application, process: SimulatedProcess, seconds: int, between: Callable[[], None]
) -> list[Trouble]:
    """Run for some seconds beside a watchdog that looks every ten; return what it finds at last."""
    watchdog = Watchdog(app.clock, threading.Event())
    for _ in range(0, seconds, 10):
        between()
        run_for(app, process, 10)
        seen = [thread.metadata() for thread in process.threads]
        if process.global_state is not None:
            seen.append(process.global_state.thread.metadata())
        watchdog.look(seen)
    return list(watchdog.troubles)


@pytest.mark.parametrize("ends_too", [False, True])
def test_a_partition_that_is_silent_is_told_while_the_other_of_its_task_goes_on(
    ends_too: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path, max_task_idle_ms=-1)
    app.broker.create_topic("other", 1)
    process = app.process(topology=joined())
    app.feed("a")
    process.start()
    app.run_until_processed(process)
    keep_silent(app, OTHER, ends_too=ends_too)
    app.broker.produce("other", b"a", b"x", app.clock.now_ms())

    [trouble] = troubles(app, process, 120, lambda: app.feed("a"))
    assert trouble.kind is TroubleKind.STALLED_PARTITION
    assert "nothing comes of other-0" in trouble.text

    app.broker.fetched_in_vain.clear()
    app.broker.ends_in_vain.clear()
    assert troubles(app, process, 120, lambda: app.feed("a")) == []


def test_changelog_of_which_nothing_comes_is_told(tmp_path: Path) -> None:
    app = Application(tmp_path)
    first = app.process()
    app.feed("a", "b")
    first.start()
    app.run_until_processed(first)
    first.stop()
    app.broker.settle()
    app.broker.fetched_in_vain.add(CHANGELOG)
    process = app.process("p1")
    process.start()

    [trouble] = troubles(app, process, 80, lambda: None)
    assert trouble.kind is TroubleKind.STALLED_RESTORE
    assert "nothing comes of app-counts-changelog-0 at offset 0" in trouble.text


def test_partition_of_which_nothing_comes_is_told_while_another_task_restores(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, partitions=2)
    first = app.process()
    app.feed(*"abcdef")
    first.start()
    app.run_until_processed(first)
    first.stop()
    app.broker.settle()
    app.broker.fetched_in_vain |= {TopicPartition("app-counts-changelog", 1)}
    process = app.process("p1")
    process.start()
    while not tasks_of(process):
        process.step()
    keep_silent(app, TopicPartition("in", 0), ends_too=False)
    app.feed(*"abcdef")

    found = troubles(app, process, 200, lambda: None)
    assert {(trouble.kind, trouble.of) for trouble in found} == {
        (TroubleKind.STALLED_RESTORE, "0_1"),
        (TroubleKind.STALLED_TASK, "0_0"),
    }


@pytest.mark.parametrize("ends_too", [False, True])
def test_standby_whose_changelog_is_silent_is_told(ends_too: bool, tmp_path: Path) -> None:
    app = Application(tmp_path, num_standby_replicas=1)
    owner, keeper = app.process("p0"), app.process("p1")
    owner.start()
    app.feed("a")
    app.run_until_processed(owner)
    keeper.start()
    settle(app, owner, keeper)
    if not standbys(keeper):
        owner, keeper = keeper, owner
    keep_silent(app, CHANGELOG, ends_too=ends_too)

    def goes_on() -> None:
        app.feed("a")
        for _ in range(20):
            app.clock.advance_ms(STEP_MS / 20)
            step(owner, keeper)

    watchdog = Watchdog(app.clock, threading.Event())
    for _ in range(300):
        goes_on()
        watchdog.look([thread.metadata() for thread in keeper.threads])
    [trouble] = watchdog.troubles
    assert trouble.kind is TroubleKind.STALLED_STANDBY
    assert "nothing comes of app-counts-changelog-0" in trouble.text


@pytest.mark.parametrize("ends_too", [False, True])
def test_global_topic_that_is_silent_is_told(ends_too: bool, tmp_path: Path) -> None:
    app = Application(tmp_path)
    app.broker.create_topic("people", 1)
    builder = StreamsBuilder()
    strings: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
    people = builder.global_table("people", **strings)
    orders = builder.stream("in", **strings)
    orders.join(people, lambda key, _: key, lambda value, _: value).to("out", **strings)
    process = app.process(topology=builder.build())
    process.start()
    people_0 = TopicPartition("people", 0)
    assert process.global_state is not None
    thread = process.global_state.thread
    keep_silent(app, people_0, ends_too=ends_too)
    app.broker.produce("people", b"a", b"x", app.clock.now_ms())

    [trouble] = troubles(app, process, 120, thread.run_once)
    assert trouble.kind is TroubleKind.STALLED_GLOBAL
    assert "nothing comes of people-0 at offset 0" in trouble.text


def test_partition_is_not_told_while_the_client_hands_on_others_without_end(
    tmp_path: Path,
) -> None:
    """Its records may be fetched, and come behind theirs; whether they are nobody says."""
    app = Application(tmp_path, max_task_idle_ms=-1, max_poll_records=2)
    app.broker.create_topic("other", 1)
    process = app.process(topology=joined())
    app.feed("a")
    process.start()
    app.run_until_processed(process)
    keep_silent(app, OTHER, ends_too=False)
    app.broker.produce("other", b"a", b"x", app.clock.now_ms())

    assert troubles(app, process, 200, lambda: app.feed(*["a"] * 60)) == []
