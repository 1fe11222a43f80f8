"""A process that comes follows what is to come to it before it joins its group."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pystreams import TopicPartition
from tests.simulation.applications import running_tasks, stored_counts
from tests.simulation.members.newcomers import (
    ENOUGH,
    JOINS,
    WARMS_UP,
    changelogs_held,
    held_up,
    members,
    run_threads,
    run_until_joined,
    run_while_others_live,
    scene_of,
    told,
)
from tests.simulation.members.test_arriving import KEYS, PARTITIONS, SESSION_MS, WAITS

pytestmark = pytest.mark.simulation


def test_a_task_that_moves_to_a_process_that_comes_has_little_left_to_restore(
    tmp_path: Path,
) -> None:
    scene = scene_of(tmp_path)
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    first.start()
    scene.run(first, for_ms=3000)
    assert changelogs_held(scene) > 4 * ENOUGH
    with capture_logs() as lines:
        comes.start()
        run_until_joined(scene, comes, first)
        scene.run(first, comes, for_ms=1000)

    taken_over = told(lines, "standby takes over")
    assert len(taken_over) == len(running_tasks(comes)) == PARTITIONS // 2
    assert all(line["remaining_records"] <= ENOUGH for line in taken_over)
    [began] = told(lines, WARMS_UP)[:1]
    assert began["tasks"] == sorted(running_tasks(comes))
    [joined] = told(lines, JOINS)
    assert joined["why"] == "warm"
    scene.application.run_until_processed(first, comes)
    assert len(scene.application.outputs()) == scene.fed


def test_with_little_to_restore_a_process_joins_without_a_warm_up(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, **{"acceptable.recovery.lag": "100000"})
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    first.start()
    scene.run(first, for_ms=3000)
    with capture_logs() as lines:
        comes.start()
        run_until_joined(scene, comes, first)

    assert not told(lines, WARMS_UP) + told(lines, "standby")


def test_a_process_that_was_put_out_of_its_group_warms_up_what_its_disk_has(
    tmp_path: Path,
) -> None:
    """Nothing else has the keys of the beginning, which its changelogs have lost."""
    scene = scene_of(tmp_path)
    stays, goes = scene.process("p0"), scene.process("p1")
    stays.start()
    goes.start()
    once = [f"once-{number}" for number in range(8)]
    scene.application.feed(*once)
    scene.run(stays, goes, for_ms=2000)
    goes.crash()
    scene.run(stays, for_ms=2 * SESSION_MS)
    for number in range(PARTITIONS):
        log = scene.application.broker.log(TopicPartition("app-counts-changelog", number))
        log.delete_before(20)
    with capture_logs() as lines:
        goes.start()
        run_until_joined(scene, goes, stays)
        scene.run(stays, goes, for_ms=1000)

    [began] = told(lines, WARMS_UP)[:1]
    assert began["tasks"] == sorted(running_tasks(goes)) != []
    assert all(line["remaining_records"] <= ENOUGH for line in told(lines, "standby takes over"))
    scene.application.feed(*once)
    scene.application.run_until_processed(stays, goes)
    assert {(key, 2) for key in once} <= set(scene.application.outputs())
    assert len(scene.application.outputs()) == scene.fed + 2 * len(once)


def test_a_process_that_is_still_a_member_takes_its_own_back_at_once(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    stays, goes = scene.process("p0"), scene.process("p1")
    stays.start()
    goes.start()
    scene.run(stays, goes, for_ms=3000)
    before = running_tasks(goes)
    goes.crash()
    scene.run(stays, for_ms=500)
    goes.start()
    with capture_logs() as lines:
        scene.run(stays, goes, for_ms=500)

    assert running_tasks(goes) == before
    assert not told(lines, WARMS_UP)


@pytest.mark.parametrize(("threads", "name"), [(2, "p1"), (3, "p1"), (4, "o1")])
def test_threads_of_a_process_join_together_when_all_of_them_are_warm(
    threads: int, name: str, tmp_path: Path
) -> None:
    """Of three, two have no task: they wait for the first. Four take all tasks there are."""
    scene = scene_of(tmp_path, **{"num.stream.threads": str(threads)})
    first, comes = scene.process("p0"), scene.process(name, newcomer=True)
    first.start()

    run = partial(run_threads, scene, threads)
    run(first, for_ms=4000)
    whole = {f"0_{number}" for number in range(PARTITIONS)}

    def shared_out() -> bool:
        here, there = set(running_tasks(comes)), set(running_tasks(first))
        return members(scene) == 2 * threads and here | there == whole and not here & there

    with capture_logs() as lines:
        comes.start()
        for _ in range(400):
            run(first, comes, for_ms=50)
            if shared_out():
                break

    assert {line["why"] for line in told(lines, JOINS)} == {"warm"}
    taken_over = {
        line["task"]: line["remaining_records"] for line in told(lines, "standby takes over")
    }
    assert taken_over.keys() == set(running_tasks(comes)) != set()
    assert max(taken_over.values()) <= ENOUGH


def test_a_cold_task_that_another_thread_of_the_process_takes_over_is_waited_for(
    tmp_path: Path,
) -> None:
    scene = scene_of(tmp_path, **{"num.stream.threads": "2"})
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    shifts = scene.application.process("o0", config={"acceptable.recovery.lag": "100000"})
    first.start()
    run = partial(run_threads, scene, 2)
    run(first, for_ms=4000)
    held_up(scene, is_held=True)
    with capture_logs() as lines:
        comes.start()
        run(first, comes, for_ms=1000)
        shifts.start()
        for _ in range(12):
            run(first, comes, for_ms=50)
            shifts.step()
        assert members(scene) == 3
        assert not told(lines, JOINS)
        held_up(scene, is_held=False)
        for _ in range(12):
            run(first, comes, for_ms=50)
            shifts.step()

    assert members(scene) == 5
    assert told(lines, JOINS)[0]["why"] == "warm"


def test_a_process_that_dies_as_it_warms_up_goes_on_where_it_was(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    first.start()
    scene.run(first, for_ms=3000)
    comes.start()
    scene.run(first, comes, for_ms=300)
    assert members(scene) == 1
    comes.crash()
    comes.start()
    run_until_joined(scene, comes, first)
    scene.run(first, comes, for_ms=1000)
    scene.application.run_until_processed(first, comes)

    assert len(scene.application.outputs()) == scene.fed
    comes.stop()
    first.stop()
    counts = dict.fromkeys(KEYS, scene.fed // len(KEYS))
    assert stored_counts(first) | stored_counts(comes) == counts


def test_who_comes_in_the_place_of_a_dead_process_is_warm_when_that_one_is_out(
    tmp_path: Path,
) -> None:
    scene = scene_of(tmp_path)
    stays, dies = scene.process("p0"), scene.process("p1")
    stays.start()
    dies.start()
    scene.run(stays, dies, for_ms=3000)
    dies.crash()
    comes = scene.process("p2", newcomer=True)
    comes.start()
    with capture_logs() as lines:
        scene.run(stays, comes, for_ms=SESSION_MS + 3000)

    assert len(running_tasks(comes)) == PARTITIONS // 2
    taken_over = told(lines, "standby takes over")
    assert len(taken_over) == PARTITIONS // 2
    assert all(line["remaining_records"] <= ENOUGH for line in taken_over)
    scene.application.run_until_processed(stays, comes)
    assert len(scene.application.outputs()) == scene.fed


def test_what_comes_with_a_silent_member_that_lives_is_warm_as_well(tmp_path: Path) -> None:
    """It is in the middle of a long record, and keeps its part: another share is right with it."""
    scene = scene_of(tmp_path)
    blocks, works = scene.process("p0"), scene.process("p2")
    blocks.start()
    works.start()
    scene.run(blocks, works, for_ms=3000)
    comes = scene.process("p1", newcomer=True)
    comes.start()
    with capture_logs() as lines:
        for _ in range(200):
            scene.application.broker.group.touch_all()
            scene.run(works, comes, for_ms=50)
            if members(scene) > 2:
                break
        assert told(lines, WAITS)
        scene.run(blocks, works, comes, for_ms=1500)

    taken_over = {
        line["task"]: line["remaining_records"] for line in told(lines, "standby takes over")
    }
    assert taken_over.keys() == set(running_tasks(comes)) == {"0_2"}
    assert max(taken_over.values()) <= ENOUGH


def test_a_process_that_comes_back_awaits_what_comes_with_a_silent_member_too(
    tmp_path: Path,
) -> None:
    """It does not wait for who may have died: that member may live, and join with it again."""
    scene = scene_of(tmp_path, **{"consumer.session.timeout.ms": "20000"})
    blocks, works = scene.process("p0"), scene.process("p2")
    blocks.start()
    works.start()
    scene.run(blocks, works, for_ms=3000)
    held_up(scene, is_held=True)
    comes = scene.process("p1")
    comes.start()
    run_on = partial(run_while_others_live, scene, works, comes)
    run_on(for_ms=12_000)
    held_up(scene, is_held=False)
    with_the_silent_one = TopicPartition("app-counts-changelog", 2)
    scene.application.broker.fetched_in_vain.add(with_the_silent_one)
    run_on(for_ms=3000)
    assert members(scene) == 2

    scene.application.broker.fetched_in_vain.clear()
    run_on(for_ms=1500)
    assert members(scene) == 3


def test_each_member_that_dies_in_a_warm_up_is_waited_for(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, **{"consumer.session.timeout.ms": "20000"})
    stays, dies, follows = (scene.process(name) for name in ("p0", "p1", "p3"))
    for process in (stays, dies, follows):
        process.start()
    scene.run(stays, dies, follows, for_ms=2000)
    dies.crash()
    no_end = scene.application.broker.ends_in_vain
    no_end |= {TopicPartition("app-counts-changelog", number) for number in range(PARTITIONS)}
    comes = scene.process("p2", newcomer=True)
    comes.start()
    with capture_logs() as lines:
        scene.run(stays, follows, comes, for_ms=2 * SESSION_MS)
        follows.crash()
        for step in range(200):
            scene.application.broker.group.touch_all()  # Its session is longer than that.
            if step == 150:
                no_end.clear()
            scene.run(stays, comes, for_ms=50)
        assert members(scene) == 2
        scene.run(stays, comes, for_ms=2 * SESSION_MS)

    first, second = (str(line["members"]) for line in told(lines, WAITS))
    assert "p1" in first
    assert "p3" in second
    assert "p1" not in second
    assert len(running_tasks(comes)) == PARTITIONS // 2


def test_a_member_that_dies_is_waited_for_though_it_was_silent_once_before(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, **{"consumer.session.timeout.ms": "40000"})
    stays, dies = scene.process("p0"), scene.process("p2")
    stays.start()
    dies.start()
    scene.run(stays, dies, for_ms=4000)
    held_up(scene, is_held=True)
    comes = scene.process("p1", newcomer=True)
    run = partial(run_while_others_live, scene)
    with capture_logs() as lines:
        comes.start()
        run(stays, dies, comes, for_ms=4000)
        run(stays, comes, for_ms=12_000)  # It is at one long record.
        run(stays, dies, comes, for_ms=15_000)
        dies.crash()
        run(stays, comes, for_ms=10_000)
        held_up(scene, is_held=False)
        run(stays, comes, for_ms=16_000)
        assert not told(lines, JOINS)
        scene.run(stays, comes, for_ms=45_000)

    assert [line["why"] for line in told(lines, JOINS)] == ["warm"]
    assert members(scene) == 2


def test_no_thread_joins_while_another_one_of_its_process_waits_for_a_dead_member(
    tmp_path: Path,
) -> None:
    """Two of its threads have nothing to warm up, and had looked before the member died."""
    settings = {"num.stream.threads": "3", "consumer.session.timeout.ms": "20000"}
    scene = scene_of(tmp_path, **settings)
    first, dies = scene.process("p0"), scene.process("p2")
    first.start()
    dies.start()

    run = partial(run_threads, scene, 3)
    run(first, dies, for_ms=4000)
    held_up(scene, is_held=True)
    comes = scene.process("p1", newcomer=True)
    with capture_logs() as lines:
        comes.start()
        run(first, dies, comes, for_ms=4000)
        dies.crash()
        for step in range(150):
            scene.application.broker.group.touch_all()  # Its session is longer than that.
            if step == 110:
                held_up(scene, is_held=False)
            run(first, comes, for_ms=50)
        assert told(lines, WAITS)
        assert members(scene) == 6
        run(first, comes, for_ms=25_000)

    assert members(scene) == 6
    assert {line["why"] for line in told(lines, JOINS)} == {"warm"}
    assert running_tasks(comes)


def test_what_was_warmed_up_and_did_not_come_is_let_go(tmp_path: Path) -> None:
    """Another process has joined in between, so that less comes than was warm."""
    scene = scene_of(tmp_path, **{"acceptable.recovery.lag": "0"})
    first, other = scene.process("p0"), scene.process("p3")
    comes = scene.process("p1", newcomer=True)
    first.start()
    scene.run(first, for_ms=3000)
    comes.start()
    scene.run(first, comes, for_ms=600)
    other.start()
    for _ in range(200):
        scene.run(first, comes, other, for_ms=50)
        if running_tasks(comes) and running_tasks(other):
            break
    scene.run(first, comes, other, for_ms=40_000, fed=False)

    [thread] = comes.threads
    assert len(running_tasks(comes)) == 1
    assert not thread.metadata().standby_tasks


def test_with_the_consumer_protocol_a_process_joins_at_once(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    scene.application = type(scene.application)(
        tmp_path / "incremental",
        "exactly_once",
        partitions=PARTITIONS,
        incremental=True,
        acceptable_recovery_lag=ENOUGH,
    )
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    first.start()
    scene.run(first, for_ms=3000)
    comes.start()
    comes.step()

    assert members(scene) == 2
