"""A process that is new to its group: it does not stop the others for a member that has died."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pystreams.errors import RetriableClientError
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import Application, running_tasks

pytestmark = pytest.mark.simulation

PARTITIONS = 4
STEP_MS = 50
SESSION_MS = 3000
KEYS = [f"k{number}" for number in range(20)]
WAITS = "members seem to have died: joining the group when they are out"


class Scene:
    """An application that is fed with each step, and how long each partition was not committed."""

    def __init__(self, root: Path, **config: str) -> None:
        settings = {"consumer.session.timeout.ms": str(SESSION_MS), **config}
        self.application = Application(root, "exactly_once", partitions=PARTITIONS)
        self._settings = settings
        self._committed: dict[int, tuple[int | None, float]] = {}
        self.longest_ms = dict.fromkeys(range(PARTITIONS), 0.0)
        self.fed = 0

    def process(self, name: str, *, newcomer: bool = False) -> SimulatedProcess:
        return self.application.process(name, config=self._settings, newcomer=newcomer)

    def run(self, *processes: SimulatedProcess, for_ms: int, fed: bool = True) -> None:
        """Let processes go on for some time, while their input grows, or does not."""
        clock = self.application.clock
        end_ms = clock.monotonic_ms() + for_ms
        while clock.monotonic_ms() < end_ms:
            if fed:
                self.application.feed(*KEYS)
                self.fed += len(KEYS)
            for process in processes:
                process.step()
            clock.advance_ms(STEP_MS)
            self._look(clock.monotonic_ms())

    def forget(self) -> None:
        """Measure from now on."""
        self._committed.clear()
        self.longest_ms = dict.fromkeys(range(PARTITIONS), 0.0)

    def _look(self, now_ms: float) -> None:
        for number in range(PARTITIONS):
            committed = self.application.committed(number)
            before, since_ms = self._committed.get(number, (None, now_ms))
            if committed != before:
                self._committed[number] = committed, now_ms
            self.longest_ms[number] = max(self.longest_ms[number], now_ms - since_ms)


def partitions_of(process: SimulatedProcess) -> set[int]:
    return {int(task.partition("_")[2]) for task in running_tasks(process)}


def test_who_starts_in_the_place_of_a_killed_process_does_not_stop_the_others(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    stays, dies = scene.process("p0"), scene.process("p1")
    stays.start()
    dies.start()
    scene.run(stays, dies, for_ms=2000)
    staying = partitions_of(stays)
    assert staying | partitions_of(dies) == set(range(PARTITIONS))
    dies.crash()
    scene.forget()
    comes = scene.process("p2", newcomer=True)
    comes.start()
    [thread], told_of_waits = comes.threads, set[str]()
    with capture_logs() as lines:
        for _ in range(2 * SESSION_MS // STEP_MS):
            scene.run(stays, comes, for_ms=STEP_MS)
            told_of_waits.add(thread.metadata().waits_for)

    [waits] = filter(None, told_of_waits)
    assert waits.startswith("members seem to have died: it joins the group when they are out")
    assert "p1" in waits
    assert thread.metadata().waits_for == ""
    assert all(scene.longest_ms[number] < SESSION_MS / 3 for number in staying)
    assert max(scene.longest_ms.values()) < SESSION_MS + 1500
    [told] = [line for line in lines if line["event"] == WAITS]
    assert "p1" in str(told["members"])
    assert partitions_of(comes)
    scene.application.run_until_processed(stays, comes)
    assert len(scene.application.outputs()) == scene.fed


def test_the_first_process_of_a_group_joins_at_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    first = scene.process("p0", newcomer=True)
    first.start()
    first.step()

    assert len(scene.application.broker.group.members()) == 1


def test_among_members_that_all_commit_a_newcomer_joins_as_soon_as_it_has_seen_them(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    first = scene.process("p0")
    first.start()
    scene.run(first, for_ms=1000)
    second = scene.process("p1", newcomer=True)
    second.start()
    scene.run(first, second, for_ms=1500)

    assert partitions_of(second)


def test_where_nothing_is_to_be_seen_a_newcomer_joins_after_a_moment(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    first = scene.process("p0")
    first.start()
    scene.run(first, for_ms=500, fed=False)
    second = scene.process("p1", newcomer=True)
    second.start()
    with capture_logs() as lines:
        scene.run(first, second, for_ms=4000, fed=False)

    assert partitions_of(second)
    assert WAITS not in {line["event"] for line in lines}


def test_a_newcomer_waits_for_a_silent_member_no_longer_than_a_session(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    works, blocks = scene.process("p0"), scene.process("p1")
    works.start()
    blocks.start()
    scene.run(works, blocks, for_ms=1500)
    group = scene.application.broker.group
    comes = scene.process("p2", newcomer=True)
    comes.start()
    for _ in range((SESSION_MS + 3000) // STEP_MS):
        group.touch_all()  # It lives, but does not poll: a function takes long.
        scene.run(works, comes, for_ms=STEP_MS)

    assert len(group.members()) == 3


def test_a_dead_member_is_waited_for_though_the_living_one_is_silent_for_a_moment(
    tmp_path: Path,
) -> None:
    """It is at one long record: a rebalance would stop it for the dead one's session."""
    scene = Scene(tmp_path, **{"consumer.session.timeout.ms": "20000"})
    lives, dies = scene.process("p0"), scene.process("p1")
    lives.start()
    dies.start()
    scene.run(lives, dies, for_ms=2000)
    dies.crash()
    comes = scene.process("p2", newcomer=True)
    comes.start()
    group = scene.application.broker.group

    def run_on(*processes: SimulatedProcess, for_ms: int) -> None:
        for _ in range(for_ms // STEP_MS):
            group.touch_all()  # Its session is longer than that.
            scene.run(*processes, for_ms=STEP_MS)

    with capture_logs() as lines:
        run_on(lives, comes, for_ms=4000)
        assert WAITS in {line["event"] for line in lines}
        run_on(comes, for_ms=2500)
        run_on(lives, comes, for_ms=2000)
    assert len(group.members()) == 2

    scene.run(lives, comes, for_ms=2 * SESSION_MS)
    assert partitions_of(comes)


def test_members_that_commit_seldom_hold_a_newcomer_up_for_one_session_in_all(
    tmp_path: Path,
) -> None:
    """Each record takes them long, so that one or another is silent at each look."""
    session_ms = 8000
    scene = Scene(tmp_path, **{"consumer.session.timeout.ms": str(session_ms)})
    quick, *slow = (scene.process(name) for name in ("p0", "p1", "p3"))
    for process in (quick, *slow):
        process.start()
    scene.run(quick, *slow, for_ms=2000)
    group = scene.application.broker.group
    comes = scene.process("p2", newcomer=True)
    comes.start()
    with capture_logs() as lines:
        for step in range((session_ms + 6000) // STEP_MS):
            group.touch_all()
            for number, process in enumerate(slow):
                if (step - 45 * number) % 90 < 6:
                    process.step()
            scene.run(quick, comes, for_ms=STEP_MS)

    assert WAITS in {line["event"] for line in lines}
    assert len(group.members()) == 4


def test_a_process_that_finds_its_identity_takes_its_place_at_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    one, other = scene.process("p0"), scene.process("p1", newcomer=True)
    one.start()
    other.start()
    scene.run(one, other, for_ms=3000)
    before = partitions_of(other)
    other.crash()
    other.start()
    scene.run(one, other, for_ms=500)

    assert partitions_of(other) == before != set()


def test_a_newcomer_that_can_not_look_joins_after_some_tries(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    first = scene.process("p0")
    first.start()
    scene.run(first, for_ms=500)
    no_answer = RetriableClientError("describe_group: no answer in time (simulated)")
    for _ in range(100):
        scene.application.faults.fail_next("describe_group", no_answer)
    second = scene.process("p1", newcomer=True)
    second.start()
    scene.run(first, second, for_ms=1500)
    assert len(scene.application.broker.group.members()) == 1
    scene.run(first, second, for_ms=1500)

    assert len(scene.application.broker.group.members()) == 2
