"""A process that comes follows what is to come to it before it joins its group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import TopicPartition
from pystreams.errors import RetriableClientError
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.testing.simulation import SimulatedProcess
from pystreams.testing.simulation.admin import SimulatedAdmin
from tests.simulation.applications import running_tasks, stored_counts
from tests.simulation.members.test_arriving import KEYS, PARTITIONS, SESSION_MS, WAITS, Scene
from tests.simulation.members.test_group_watch import reading

pytestmark = pytest.mark.simulation

WARMS_UP, JOINS = "warming up before joining the group", "warm-up over: joining the group"
ENOUGH = 30
"""Records that a task may have to restore; a partition has more of them in a second."""


def scene_of(root: Path, **config: str) -> Scene:
    return Scene(root, **{"acceptable.recovery.lag": str(ENOUGH), **config})


def told(lines: list[Any], event: str) -> list[Any]:
    return [line for line in lines if line["event"] == event]


def changelogs_held(scene: Scene) -> int:
    broker = scene.application.broker
    ranges = [
        broker.offset_range(TopicPartition("app-counts-changelog", number))
        for number in range(PARTITIONS)
    ]
    return min(range_.end for range_ in ranges)


def held_up(scene: Scene, *, is_held: bool) -> None:
    """Let fetches of changelogs have no answers, or have them again."""
    for number in range(PARTITIONS):
        changelog = TopicPartition("app-counts-changelog", number)
        in_vain = scene.application.broker.fetched_in_vain
        (in_vain.add if is_held else in_vain.discard)(changelog)


def members(scene: Scene) -> int:
    return len(scene.application.broker.group.members())


def run_threads(scene: Scene, threads: int, *processes: SimulatedProcess, for_ms: int) -> None:
    """Let processes of several threads go on for some time, while their input grows."""
    for _ in range(for_ms // 50):
        for process in processes:
            for index in range(1, threads):
                process.step(index)
        scene.run(*processes, for_ms=50)


def run_until_joined(
    scene: Scene, comes: SimulatedProcess, *others: SimulatedProcess, most_ms: int = 20_000
) -> None:
    count = members(scene)
    for _ in range(most_ms // 50):
        scene.run(comes, *others, for_ms=50)
        if members(scene) > count:
            return
    raise AssertionError("it has not joined")


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


def test_what_stands_still_anyway_is_not_warmed_up_for(tmp_path: Path) -> None:
    """Nobody processes, as when all restore: to wait would be in vain."""
    scene = scene_of(tmp_path)
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    first.start()
    scene.run(first, for_ms=8000)
    held_up(scene, is_held=True)
    comes.start()
    group = scene.application.broker.group
    with capture_logs() as lines:
        for _ in range(200):
            group.touch_all()
            scene.run(comes, for_ms=50)
            if told(lines, JOINS):
                break

    assert [line["why"] for line in told(lines, JOINS)] == ["nobody processes what is to come"]


def test_a_process_whose_changelogs_are_not_read_joins_after_the_task_timeout(
    tmp_path: Path,
) -> None:
    scene = scene_of(tmp_path, **{"task.timeout.ms": "5000"})
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    first.start()
    scene.run(first, for_ms=3000)
    held_up(scene, is_held=True)
    with capture_logs() as lines:
        comes.start()
        run_until_joined(scene, comes, first)

    [joined] = told(lines, JOINS)
    assert joined["why"] == "a task comes no nearer to its end for task.timeout.ms"
    assert 5 <= joined["seconds"] <= 7


def test_a_task_that_comes_back_with_a_change_of_the_group_is_given_time_anew(
    tmp_path: Path,
) -> None:
    scene = scene_of(tmp_path, **{"task.timeout.ms": "4000"})
    first, comes = scene.process("p0"), scene.process("p1")
    takes = scene.application.process("p2", config={"acceptable.recovery.lag": "100000"})
    first.start()
    scene.run(first, for_ms=3000)
    held_up(scene, is_held=True)
    no_end = scene.application.broker.ends_in_vain
    no_end.add(TopicPartition("app-counts-changelog", 2))
    with capture_logs() as lines:
        comes.start()
        scene.run(first, comes, for_ms=1000)
        takes.start()
        scene.run(first, comes, takes, for_ms=2000)
        no_end.clear()  # From here on this task's time counts; the other one belongs to p2 now.
        scene.run(first, comes, takes, for_ms=2000)
        assert members(scene) == 2
        takes.stop(leave_group=True)
        scene.run(first, comes, for_ms=1000)
        assert members(scene) == 1
        held_up(scene, is_held=False)
        run_until_joined(scene, comes, first)

    assert [line["why"] for line in told(lines, JOINS)] == ["warm"]
    assert {task for line in told(lines, WARMS_UP) for task in line["tasks"]} == {"0_2", "0_3"}


def test_a_warm_up_in_vain_ends_once_when_no_member_has_to_be_waited_for(tmp_path: Path) -> None:
    scene = scene_of(
        tmp_path, **{"task.timeout.ms": "3000", "consumer.session.timeout.ms": "30000"}
    )
    works, blocks = scene.process("p0"), scene.process("p2")
    works.start()
    blocks.start()
    scene.run(works, blocks, for_ms=3000)
    held_up(scene, is_held=True)
    comes = scene.process("p1", newcomer=True)
    comes.start()
    with capture_logs() as lines:
        for _ in range(160):
            scene.application.broker.group.touch_all()
            scene.run(works, comes, for_ms=50)
        assert not told(lines, JOINS)
        scene.run(works, comes, for_ms=2 * SESSION_MS)

    assert [line["why"] for line in told(lines, JOINS)] == [
        "a task comes no nearer to its end for task.timeout.ms"
    ]


def test_what_changelogs_hold_is_taken_for_much_while_no_broker_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = scene_of(tmp_path)
    first, comes = scene.process("p0"), scene.process("p1")
    first.start()
    scene.run(first, for_ms=3000)
    ask, answered = SimulatedAdmin.offset_ranges, False

    def of_changelogs(
        self: SimulatedAdmin, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetRange]:
        if not answered and any(topic.endswith("-changelog") for topic, _ in partitions):
            raise RetriableClientError("no leader")
        return ask(self, partitions)

    monkeypatch.setattr(SimulatedAdmin, "offset_ranges", of_changelogs)
    with capture_logs() as lines:
        comes.start()
        scene.run(first, comes, for_ms=4000)
        assert members(scene) == 1
        answered = True
        run_until_joined(scene, comes, first)
        scene.run(first, comes, for_ms=1000)

    assert [line["why"] for line in told(lines, JOINS)] == ["warm"]
    taken_over = told(lines, "standby takes over")
    assert len(taken_over) == PARTITIONS // 2
    assert all(line["remaining_records"] <= ENOUGH for line in taken_over)


def test_a_warm_up_outlasts_brokers_that_do_not_answer(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    first.start()
    scene.run(first, for_ms=3000)
    held_up(scene, is_held=True)
    with capture_logs() as lines:
        comes.start()
        scene.run(first, comes, for_ms=500)
        for call in ("describe_group", "offset_ranges", "committed_offsets"):
            scene.application.faults.fail_next(call, RetriableClientError("no answer"))
        scene.run(first, comes, for_ms=3000)
        scene.application.broker.go_away(4000)
        scene.run(first, comes, for_ms=6000)
        assert members(scene) == 1
        held_up(scene, is_held=False)
        run_until_joined(scene, comes, first)
        scene.run(first, comes, for_ms=1000)

    assert [line["why"] for line in told(lines, JOINS)] == ["warm"]
    assert told(lines, "the group can't be looked at before joining it")


def test_an_outage_that_is_longer_than_the_task_timeout_ends_no_warm_up(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, **{"task.timeout.ms": "3000"})
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    first.start()
    scene.run(first, for_ms=3000)
    held_up(scene, is_held=True)
    with capture_logs() as lines:
        comes.start()
        scene.run(first, comes, for_ms=500)
        scene.application.broker.go_away(8000)
        scene.run(comes, for_ms=7500)
        assert members(scene) <= 1
        held_up(scene, is_held=False)
        scene.run(first, comes, for_ms=5000)

    assert [line["why"] for line in told(lines, JOINS)] == ["warm"]


def test_a_thread_without_tasks_that_can_not_look_spoils_no_warm_up_of_its_process(
    tmp_path: Path,
) -> None:
    scene = scene_of(tmp_path, **{"num.stream.threads": "3"})
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    first.start()

    run = partial(run_threads, scene, 3)
    run(first, for_ms=4000)
    held_up(scene, is_held=True)
    with capture_logs() as lines:
        comes.start()
        run(first, comes, for_ms=4000)
        for _ in range(6):
            scene.application.faults.fail_next("describe_group", RetriableClientError("no answer"))
        run(first, comes, for_ms=3000)
        assert members(scene) == 3
        held_up(scene, is_held=False)
        run(first, comes, for_ms=6000)

    assert members(scene) == 6
    assert {line["why"] for line in told(lines, JOINS)} == {"warm"}


def test_a_warm_up_ends_though_an_input_can_not_be_asked_for_where_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = scene_of(tmp_path)
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    first.start()
    scene.run(first, for_ms=3000)
    ask = SimulatedAdmin.offset_ranges

    def of_changelogs(
        self: SimulatedAdmin, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetRange]:
        if comes.running and any(topic == "in" for topic, _ in partitions):
            raise RetriableClientError("no leader")
        return ask(self, partitions)

    monkeypatch.setattr(SimulatedAdmin, "offset_ranges", of_changelogs)
    comes.newcomer = False
    with capture_logs() as lines:
        comes.start()
        run_until_joined(scene, comes, first)

    assert [line["why"] for line in told(lines, JOINS)] == ["warm"]


def test_a_warm_up_ends_when_another_topology_takes_the_group_over(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    scene.application.broker.create_topic("other", PARTITIONS)
    other = scene.application.process("p9", topology=reading("other", "others"))
    first.start()
    scene.run(first, for_ms=3000)
    held_up(scene, is_held=True)
    with capture_logs() as lines:
        comes.start()
        scene.run(first, comes, for_ms=500)
        first.stop(leave_group=True)
        other.start()
        for _ in range(100):
            scene.run(comes, other, for_ms=50)
            if told(lines, "standing by: another topology runs"):
                break

    assert [line["why"] for line in told(lines, JOINS)] == ["another topology is in the group"]
    assert told(lines, "standing by: another topology runs")


def test_a_process_that_warms_up_ends_too_when_the_application_is_shut_down(
    tmp_path: Path,
) -> None:
    scene = scene_of(tmp_path)
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    first.start()
    scene.run(first, for_ms=3000)
    held_up(scene, is_held=True)
    comes.start()
    scene.run(first, comes, for_ms=1000)
    request = first.shut_down_application()
    is_over = False
    with capture_logs() as lines:
        for _ in range(400):
            if comes.running:
                comes.step()
            if not is_over and request.step():
                request.close()
                is_over = True

    assert is_over
    assert not comes.running
    assert "SHUTDOWN_APPLICATION" in str(comes.told_to_end)
    assert members(scene) == 0
    assert not told(lines, JOINS) + told(lines, "partitions assigned")


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
