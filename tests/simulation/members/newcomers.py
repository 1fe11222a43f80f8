"""A process that comes to an application whose changelogs hold more than it may restore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pystreams import TopicPartition
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.members.test_arriving import PARTITIONS, Scene

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


def run_while_others_live(scene: Scene, *processes: SimulatedProcess, for_ms: int) -> None:
    """Let processes go on, while the sessions of those that stand still do not end."""
    clock = scene.application.clock
    end_ms = clock.monotonic_ms() + for_ms
    while clock.monotonic_ms() < end_ms:
        scene.application.broker.group.touch_all()
        scene.run(*processes, for_ms=50)
