"""A process is killed and does not come back: what its transaction held keeps nobody waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams.testing.simulation import NO_FAULTS, SimulatedProcess
from pystreams.testing.simulation.clients import SimulatedClients
from tests.simulation.applications import Application, running_tasks

pytestmark = pytest.mark.simulation

PARTITIONS = 4
STEP_MS = 50
SESSION_MS = 3000
TRANSACTION_MS = 5000
LOOKED_MS = 6000
"""By then each has looked at the group once more, in which all have their tasks."""
KEYS = [f"k{number}" for number in range(20)]
ABORTS = "a member has died: what it left open is aborted"


class Scene:
    """An application of several processes that is fed with each step."""

    def __init__(self, root: Path, guarantee: str = "exactly_once_v2", **config: Any) -> None:
        self.application = Application(root, guarantee, partitions=PARTITIONS, **config)
        self.fed = 0

    def running(self, *names: str, config: Mapping[str, Any] | None = None) -> list[Any]:
        """Start processes and let them have their tasks."""
        processes = [self.application.process(name, config=config) for name in names]
        for process in processes:
            process.start()
        self.run(*processes, for_ms=LOOKED_MS)
        assert all(running_tasks(process) for process in processes)
        return processes

    def run(self, *processes: SimulatedProcess, for_ms: int) -> None:
        clock = self.application.clock
        end_ms = clock.monotonic_ms() + for_ms
        while clock.monotonic_ms() < end_ms:
            self.feed()
            for process in processes:
                process.step()
            clock.advance_ms(STEP_MS)

    def feed(self) -> None:
        self.application.feed(*KEYS)
        self.fed += len(KEYS)

    def kill_in_a_transaction(self, process: SimulatedProcess, known_as: str = "") -> str:
        """End a process when some of what it sends has arrived; return its transactional id."""
        name = known_as or f"app-{process.process_id}-1"
        self.application.faults.rates = replace(NO_FAULTS, background=1.0)
        while not self.is_open(name):
            self.run(process, for_ms=STEP_MS)
        self.application.faults.rates = NO_FAULTS
        process.crash()
        return name

    def is_open(self, name: str) -> bool:
        """Return whether a transaction is undecided."""
        self.application.broker.settle()  # Of one that is decided, markers may be to be written.
        return name in self.application.broker.transactions.open_ids()

    def until_ended(self, name: str, *processes: SimulatedProcess) -> float:
        """Run until a transactional id has nothing open; return how long that took (ms)."""
        clock = self.application.clock
        began_ms = clock.monotonic_ms()
        while self.is_open(name):
            assert clock.monotonic_ms() - began_ms < 3 * TRANSACTION_MS
            self.run(*processes, for_ms=STEP_MS)
        return clock.monotonic_ms() - began_ms


KNOWN_BY = pytest.mark.parametrize(
    "settings", [{}, {"incremental": True}], ids=["instance id", "client id"]
)


@KNOWN_BY
def test_who_has_the_tasks_of_a_dead_member_ends_what_it_left_open(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    """As a task waits for it, without half a second in which the member has to stay away."""
    scene = Scene(tmp_path, **settings)
    stays, dies = scene.running("p0", "p1")
    name = scene.kill_in_a_transaction(dies)
    with capture_logs() as lines:
        took_ms = scene.until_ended(name, stays)

    assert took_ms < SESSION_MS + 400 < TRANSACTION_MS
    assert [line["transactional_id"] for line in lines if line["event"] == ABORTS] == [name]
    scene.application.run_until_processed(stays)
    assert len(scene.application.outputs()) == scene.fed


def test_a_dead_member_is_known_by_a_group_instance_id_of_the_users_own(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    [stays] = scene.running("p0", config={"consumer.group.instance.id": "pod-0"})
    dies = scene.application.process("p1", config={"consumer.group.instance.id": "pod-1"})
    dies.start()
    scene.run(stays, dies, for_ms=LOOKED_MS)
    scene.kill_in_a_transaction(dies, "app-pod-1-1")

    assert scene.until_ended("app-pod-1-1", stays) < SESSION_MS + 1000
    scene.application.run_until_processed(stays)
    assert len(scene.application.outputs()) == scene.fed


def test_who_comes_with_the_instance_id_of_a_dead_one_ends_what_it_left_open(
    tmp_path: Path,
) -> None:
    """On another disk: a pod of the same name, whose volume is lost."""
    scene = Scene(tmp_path)
    named = {"consumer.group.instance.id": "pod-0"}
    [dies] = scene.running("p0", config=named)
    scene.kill_in_a_transaction(dies, "app-pod-0-1")
    comes = scene.application.process("p1", config=named)
    comes.start()

    assert not running_tasks(comes)
    assert not scene.is_open("app-pod-0-1")


def test_under_the_consumer_protocol_a_client_id_of_the_users_own_tells_nothing(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, incremental=True, client_id="orders")
    stays, dies = scene.running("p0", "p1")
    name = scene.kill_in_a_transaction(dies)
    with capture_logs() as lines:
        scene.until_ended(name, stays)
        scene.run(stays, for_ms=1000)

    assert ABORTS not in {line["event"] for line in lines}


def test_under_the_consumer_protocol_processes_of_one_instance_id_have_ids_of_their_own(
    tmp_path: Path,
) -> None:
    """The group does not see it there, and holds nobody apart by it."""
    scene = Scene(tmp_path, incremental=True)
    first, second = scene.running("p0", "p1", config={"consumer.group.instance.id": "pod"})
    with capture_logs() as lines:
        scene.run(first, second, for_ms=2000)

    assert "joining the group again" not in {line["event"] for line in lines}
    assert running_tasks(first)
    assert running_tasks(second)


def test_who_ends_it_has_a_topic_to_ask_about_as_its_client_connects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that has nothing to ask for finds the coordinator half a second later."""
    scene = Scene(tmp_path)
    stays, dies = scene.running("p0", "p1")
    name = scene.kill_in_a_transaction(dies)
    told: dict[str | None, list[str]] = {}
    make = SimulatedClients.producer

    def producer(self: SimulatedClients, client_id: str, own: str | None, *rest: Any) -> Any:
        told[own] = sorted(rest[0]) if rest else []
        return make(self, client_id, own, *rest)

    monkeypatch.setattr(SimulatedClients, "producer", producer)
    scene.until_ended(name, stays)
    assert told[name] == ["app-counts-changelog", "out"]


@KNOWN_BY
def test_of_several_the_one_that_has_none_of_its_tasks_leaves_it_alone(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    scene = Scene(tmp_path, **settings)
    stays, other, dies = scene.running("p0", "p1", "p2")
    name = scene.kill_in_a_transaction(dies)
    with capture_logs() as lines:
        scene.until_ended(name, stays, other)
        scene.run(stays, other, for_ms=2000)

    [told] = [line for line in lines if line["event"] == ABORTS]
    assert told["thread"] == "app-p1-StreamThread-1"


@KNOWN_BY
def test_a_member_that_leaves_in_order_and_comes_back_is_not_fenced(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    scene = Scene(tmp_path, **settings)
    stays, goes = scene.running("p0", "p1")
    with capture_logs() as lines:
        goes.stop(leave_group=True)
        scene.run(stays, for_ms=200)
        goes.start()
        scene.run(stays, goes, for_ms=3000)

    assert not {ABORTS, "joining the group again"} & {line["event"] for line in lines}
    assert running_tasks(goes)


def test_who_did_not_answer_a_rebalance_is_not_waited_for_behind_it(tmp_path: Path) -> None:
    """A process that comes begins it; all wait in it until the dead one's session is over."""
    scene = Scene(tmp_path)
    stays, dies = scene.running("p0", "p1")
    name = scene.kill_in_a_transaction(dies)
    comes = scene.application.process("p2")
    comes.start()
    with capture_logs() as lines:
        scene.until_ended(name, stays, comes)

    events = [line["event"] for line in lines]
    shared_out, ended = events.index("partitions assigned"), events.index(ABORTS)
    assert ended > shared_out
    assert "task running" not in events[:ended]


@KNOWN_BY
def test_a_member_that_stood_still_and_lives_is_fenced_and_goes_on(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    scene = Scene(tmp_path, **settings)
    stays, sleeps = scene.running("p0", "p1")
    with capture_logs() as lines:
        scene.run(stays, for_ms=SESSION_MS + 2000)
        assert len(running_tasks(stays)) == PARTITIONS
        scene.run(stays, sleeps, for_ms=2000)

    assert ABORTS in {line["event"] for line in lines}
    assert running_tasks(sleeps)
    scene.application.run_until_processed(stays, sleeps)
    assert len(scene.application.outputs()) == scene.fed


def test_a_newcomer_that_saw_the_dead_member_ends_it_where_no_other_is_left(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    [dies] = scene.running("p0")
    name = scene.kill_in_a_transaction(dies)
    comes = scene.application.process("p1", newcomer=True)
    comes.start()

    assert scene.until_ended(name, comes) < SESSION_MS + 1000


def test_where_each_task_has_a_transactional_id_nothing_is_left_to_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "exactly_once")
    stays, dies = scene.running("p0", "p1")
    dies.crash()
    with capture_logs() as lines:
        scene.run(stays, for_ms=SESSION_MS + 2000)

    assert len(running_tasks(stays)) == PARTITIONS
    assert ABORTS not in {line["event"] for line in lines}


def test_a_process_that_comes_back_ends_what_it_left_open_before_it_has_tasks(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    [dies] = scene.running("p0")
    name = scene.kill_in_a_transaction(dies)
    dies.start()

    assert not running_tasks(dies)
    assert not scene.is_open(name)
