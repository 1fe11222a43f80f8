"""What ends the warm-up of a process that comes, and what does not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pystreams import TopicPartition
from pystreams.errors import RetriableClientError
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.testing.simulation.admin import SimulatedAdmin
from tests.simulation.applications import running_tasks
from tests.simulation.members.newcomers import (
    ENOUGH,
    JOINS,
    WARMS_UP,
    held_up,
    members,
    run_threads,
    run_until_joined,
    scene_of,
    told,
)
from tests.simulation.members.test_arriving import PARTITIONS, SESSION_MS
from tests.simulation.members.test_group_watch import reading

pytestmark = pytest.mark.simulation


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


def test_a_process_with_little_to_restore_joins_though_its_group_can_not_be_looked_at_any_more(
    tmp_path: Path,
) -> None:
    scene = scene_of(tmp_path, **{"acceptable.recovery.lag": "100000"})
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    first.start()
    scene.run(first, for_ms=1500)
    faults, no_answer = scene.application.faults, RetriableClientError("no answer")
    faults.fail_next("describe_group", no_answer, after=1)
    for _ in range(40):
        faults.fail_next("describe_group", no_answer)
    comes.start()
    run_until_joined(scene, comes, first, most_ms=10_000)

    assert faults.forget_scripted("describe_group")
    scene.run(first, comes, for_ms=1000)
    assert running_tasks(comes)


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


def test_a_thread_that_can_not_do_its_first_looks_spoils_no_warm_up_of_its_process(
    tmp_path: Path,
) -> None:
    scene = scene_of(tmp_path, **{"num.stream.threads": "3"})
    first, comes = scene.process("p0"), scene.process("p1", newcomer=True)
    first.start()
    run = partial(run_threads, scene, 3)
    run(first, for_ms=4000)
    held_up(scene, is_held=True)
    faults = scene.application.faults
    no_answer = RetriableClientError("no answer")
    faults.fail_next("describe_group", no_answer, after=2)
    with capture_logs() as lines:
        comes.start()
        for _ in range(100):
            faults.fail_next("describe_group", no_answer)
            comes.step(2)
            faults.forget_scripted("describe_group")
            comes.step(1)
            run(first, for_ms=50)
            comes.step()
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
