"""Standby tasks: what a process keeps warm for others, and takes over without a restore."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    StateStoreCorruptedError,
    StateStoreError,
    StoreEngine,
    StreamsBuilder,
    TaskId,
    TimeWindows,
    TopicPartition,
    Topology,
    serdes,
)
from pystreams.errors import TaskLockedError
from pystreams.runtime.maintenance.group_status import group_status
from pystreams.testing.simulation import InlineExecutor, SimulatedDisk, SimulatedProcess
from pystreams.testing.simulation.clients import SimulatedClients
from pystreams.testing.simulation.consumers import SimulatedRestoreConsumer
from pystreams.testing.simulation.partition_log import PartitionLog
from tests.simulation.applications import Application, running_tasks, stored_counts
from tests.simulation.members.keeping_warm import (
    LOOK_MS,
    PATIENCE,
    application,
    caught_up,
    keys,
    restored,
    settle,
    standbys,
    step,
    wait,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pystreams.runtime.ports import ChangelogBatch

pytestmark = pytest.mark.simulation

ALL = ["at_least_once", "exactly_once", "exactly_once_v2"]


def two_processes(app: Application) -> tuple[SimulatedProcess, SimulatedProcess]:
    """Start two processes of an application."""
    first, second = app.process("p0"), app.process("p1")
    first.start()
    second.start()
    return first, second


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("guarantee", ALL)
def test_two_processes_keep_each_others_tasks_warm(
    guarantee: str, incremental: bool, tmp_path: Path
) -> None:
    app = application(tmp_path, guarantee, incremental=incremental)
    first, second = two_processes(app)
    app.feed(*keys(60))
    settle(app, first, second)
    app.feed(*keys(60))
    settle(app, first, second)
    caught_up(app, first, second)

    assert standbys(first) == running_tasks(second) == ["0_2", "0_3"]
    assert standbys(second) == running_tasks(first) == ["0_0", "0_1"]
    assert stored_counts(first) == stored_counts(second) == dict.fromkeys(keys(60), 2)


def test_without_the_key_nothing_is_kept_warm(tmp_path: Path) -> None:
    app = application(tmp_path, num_standby_replicas=0)
    first, second = two_processes(app)
    app.feed(*keys(20))
    settle(app, first, second)

    assert standbys(first) == standbys(second) == []


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("guarantee", ALL)
def test_who_takes_over_what_it_kept_warm_restores_only_the_rest(
    guarantee: str, incremental: bool, tmp_path: Path
) -> None:
    app = application(tmp_path, guarantee, incremental=incremental)
    first, second = two_processes(app)
    app.feed(*keys(60))
    settle(app, first, second)
    caught_up(app, first, second)
    warm = second.restored_records()
    app.feed("late")
    for _ in range(10):
        app.clock.advance_ms(50)
        step(first)
    app.broker.settle()
    owners = running_tasks(first)
    first.crash()
    app.feed(*keys(60))
    for _ in range(PATIENCE):
        app.clock.advance_ms(20)
        step(second)
        if len(running_tasks(second)) == 4:
            break
    settle(app, second)

    assert warm > 0
    assert len(owners) == 2
    assert second.restored_records() - warm <= 1, "the record that came last"
    assert standbys(second) == []
    assert stored_counts(second) == {**dict.fromkeys(keys(60), 2), "late": 1}


def check_disk(app: Application, process: SimulatedProcess) -> None:
    """Each store holds what is committed to its changelog, up to the offset that it says."""
    app.broker.settle()
    for task_id, name, files in process.disk.stores():
        changelog = TopicPartition(f"app-{name}-changelog", task_id.partition)
        packed = files.metadata.get(str(changelog).encode())
        end = 0 if packed is None else int.from_bytes(packed, "big") + 1
        # A stored count begins with its timestamp, of which a changelog record has a field.
        held = {key: value[8:] for key, value in files.data.items()}
        assert held == app.broker.log(changelog).compacted(end), f"{task_id} at {end}"


def check_outputs(app: Application, expected: int) -> None:
    """Each key was counted 1, 2, ..., n."""
    counts = defaultdict(list)
    for key, count in app.outputs():
        counts[key].append(count)
    assert counts
    assert all(found == list(range(1, expected + 1)) for found in counts.values()), counts


class _Uncommitted(SimulatedRestoreConsumer):
    """A mutant: reads what is not decided, and what was aborted."""

    def poll(self, max_records: int, timeout_s: float) -> list[ChangelogBatch]:
        with pytest.MonkeyPatch.context() as planted:
            planted.setattr(PartitionLog, "stable_end", property(lambda log: log.high_watermark))
            planted.setattr(PartitionLog, "_readable", lambda _, entry: entry.record is not None)
            return super().poll(max_records, timeout_s)


class _UncommittedClients(SimulatedClients):
    def restore_consumer(self, client_id: str) -> SimulatedRestoreConsumer:
        made = _Uncommitted(self._broker, self._lifeline, client_id)
        self.restore_consumers.append(made)
        return made


@pytest.mark.parametrize("mutant", [False, True])
def test_a_standby_never_holds_what_is_not_committed(mutant: bool, tmp_path: Path) -> None:
    """The check finds a standby that reads uncommitted records."""
    app = application(tmp_path)
    first, second = app.process("p0"), app.process("p1")
    if mutant:
        second._make_clients = _UncommittedClients
    first.start()
    second.start()
    app.feed(*keys(20))
    settle(app, first, second)
    caught_up(app, first, second)
    log = app.broker.log(TopicPartition("app-counts-changelog", 0))
    log.append([(b"open", b"x" * 8 + b"\0" * 8, 0, ())], transaction=999)
    step(first, second, times=20)
    if mutant:
        with pytest.raises(AssertionError, match="0_0"):
            check_disk(app, second)
        return
    check_disk(app, second)
    log.write_marker(999, committed=False)
    step(first, second, times=20)
    check_disk(app, second)
    assert "0_0" in standbys(second)


@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
def test_a_crash_at_any_step_of_a_takeover_loses_and_repeats_nothing(
    guarantee: str, tmp_path: Path
) -> None:
    crashes = 0
    for at in range(0, 64, 3):
        app = application(tmp_path / str(at), guarantee, partitions=2)
        app.faults.random.seed(at)
        first, second = two_processes(app)
        app.feed(*keys(12))
        settle(app, first, second)
        app.feed(*keys(12))
        step(first, second, times=1 + at % 4)
        first.crash()
        wait(app, second, ms=2500)
        second.crash_in(at)
        for _ in range(PATIENCE):
            app.clock.advance_ms(20)
            if not second.running:
                check_disk(app, second)
                second.start()
            step(second)
            if len(running_tasks(second)) == 2 and app.broker.transactions.open_ids() == []:
                break
        second.crash_in(None)
        app.run_until_processed(second)
        crashes += second.crashes
        second.stop()
        app.broker.settle()
        check_disk(app, second)
        check_outputs(app, 2)
    assert crashes > 5


def test_a_crash_at_any_step_of_a_standby_leaves_each_store_with_what_its_offset_says(
    tmp_path: Path,
) -> None:
    crashes = 0
    for at in range(0, 100, 5):
        app = application(tmp_path / str(at), partitions=2)
        app.faults.random.seed(at)
        first, second = two_processes(app)
        app.feed(*keys(12))
        app.run_until_processed(first, second)
        second.crash_in(at)
        for _ in range(20):
            app.clock.advance_ms(LOOK_MS / 20)
            step(first, *([second] if second.running else []))
        crashes += second.crashes
        check_disk(app, second)
        second.crash_in(None)
        if not second.running:
            second.start()
        settle(app, first, second)
        caught_up(app, first, second)
        check_disk(app, second)
        assert standbys(second) == running_tasks(first) == ["0_0"]
    assert crashes > 10


def in_memory() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = stream.group_by_key().count(name="counts", store_type=StoreEngine.IN_MEMORY)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def test_a_store_in_memory_is_kept_warm_too(tmp_path: Path) -> None:
    app = application(tmp_path)
    first, second = app.process("p0", in_memory()), app.process("p1", in_memory())
    first.start()
    second.start()
    app.feed(*keys(60))
    settle(app, first, second)
    caught_up(app, first, second)
    warm = second.restored_records()
    first.crash()
    wait(app, second, ms=4000)
    app.feed(*keys(60))
    app.run_until_processed(second)

    assert warm > 0
    assert second.restored_records() == warm
    check_outputs(app, 2)


def test_threads_of_a_process_share_its_standbys_out(tmp_path: Path) -> None:
    app = application(tmp_path, num_stream_threads=2)
    first, second = two_processes(app)
    app.feed(*keys(60))
    settle(app, first, second)

    for process, other in ((first, second), (second, first)):
        shares = [set(thread._manager.standbys.kept) for thread in process.threads]
        assert sorted(standbys(process)) == sorted(running_tasks(other))
        assert len(running_tasks(other)) == 2
        assert not shares[0] & shares[1]


def test_of_three_processes_each_keeps_what_it_would_be_given(tmp_path: Path) -> None:
    app = application(tmp_path, partitions=6)
    processes = [app.process(f"p{number}") for number in range(3)]
    for process in processes:
        process.start()
    app.feed(*keys(60))
    settle(app, *processes)
    caught_up(app, *processes)
    kept = [set(standbys(process)) for process in processes]
    owned = [set(running_tasks(process)) for process in processes]
    before = [restored(process) for process in processes]
    processes[0].crash()
    for _ in range(30):
        app.clock.advance_ms(200)
        step(*processes[1:])
    app.run_until_processed(*processes[1:])

    for number in (1, 2):
        gained = set(running_tasks(processes[number])) - owned[number]
        assert gained <= kept[number]
        assert restored(processes[number]) == before[number]


def test_a_task_gets_its_directory_from_a_standby_that_holds_it(tmp_path: Path) -> None:
    """Processes may share a state directory: then one keeps warm what another may be given."""
    app = application(tmp_path, partitions=3)
    disk = SimulatedDisk(tmp_path / "shared", app.faults)
    first, second, third = (
        app.process("p0"),
        app.process("p1", disk=disk),
        app.process("p2", disk=disk),
    )
    first.start()
    second.start()
    app.feed(*keys(30))
    settle(app, first, second)
    assert standbys(second) == running_tasks(first) == ["0_0", "0_1"]
    third.start()
    for _ in range(40):
        app.clock.advance_ms(100)
        step(first, second, third)
    app.feed(*keys(30))
    app.run_until_processed(first, second, third)

    assert [running_tasks(process) for process in (first, second, third)] == [
        ["0_0"],
        ["0_1"],
        ["0_2"],
    ]
    check_outputs(app, 2)


@pytest.mark.parametrize("found", [False, True])
def test_a_standby_drops_what_it_has_made_itself_and_never_a_copy_it_has_found(
    found: bool, tmp_path: Path
) -> None:
    """When the changelog has lost what would come next: a task may be the last copy's owner."""
    app = application(tmp_path, partitions=2, changelog_loss_policy="restore")
    first, second = two_processes(app)
    app.feed(*keys(20))
    settle(app, first, second)
    caught_up(app, first, second)
    if found:
        second.stop()
        second.start()
        settle(app, first, second)
    held = stored_counts(second)
    assert standbys(second) == ["0_0"]
    app.feed(*keys(20))
    for _ in range(10):
        app.clock.advance_ms(50)
        step(first)
    app.broker.settle()
    log = app.broker.log(TopicPartition("app-counts-changelog", 0))
    log.delete_before(log.high_watermark)
    settle(app, first, second)
    left = {key for key, count in stored_counts(second).items() if key in held}

    assert standbys(second) == ([] if found else ["0_0"])
    assert (left == held.keys()) is found
    assert running_tasks(second) == ["0_1"]


def counting_in_windows() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    windows = TimeWindows.of_size_with_no_grace(1000)
    stream.group_by_key().windowed_by(windows).count(name="counts")
    return builder.build()


def test_a_standby_keeps_windows_it_has_found_whose_changelog_was_made_again_and_cut_off(
    tmp_path: Path,
) -> None:
    """What it lacks has not expired: the topic is another, and its copy may be the last one."""
    app = application(tmp_path, partitions=2, changelog_loss_policy="restore")
    first, second = (app.process(name, counting_in_windows()) for name in ("p0", "p1"))
    for process in (first, second):
        process.start()
    app.feed(*keys(20))
    settle(app, first, second)
    caught_up(app, first, second)
    assert standbys(second) == running_tasks(first) == ["0_0"]
    for process in (second, first):
        process.stop()
    app.broker.delete_topic("app-counts-changelog")
    first.start()
    for _ in range(5):
        app.feed(*keys(20))
        app.run_until_processed(first)
    app.broker.settle()
    log = app.broker.log(TopicPartition("app-counts-changelog", 0))
    log.delete_before(log.high_watermark - 1)
    second.start()
    with capture_logs() as logs:
        settle(app, first, second)

    assert running_tasks(first) == ["0_0"]
    assert standbys(second) == []
    told = {line["event"] for line in logs if line.get("task") == "0_0"}
    assert not any("rebuilt" in event or "begins anew" in event for event in told)


class LateAnswers(InlineExecutor):
    """Runs what is submitted once it is told to: a broker that answers nothing until then."""

    def __init__(self) -> None:
        self._late: list[tuple[Future[Any], Callable[[], Future[Any]]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._late.append((future, partial(super().submit, fn, *args, **kwargs)))
        return future

    def come(self) -> None:
        """Answer what was asked."""
        late, self._late = self._late, []
        for future, answer in late:
            future.set_result(answer().result())


def test_a_standby_whose_changelog_no_broker_tells_of_holds_up_no_task(tmp_path: Path) -> None:
    """The thread would stand still for as long as the client waits for an answer."""
    app, answers = application(tmp_path, "at_least_once"), LateAnswers()
    first, second = app.process("p0"), app.process("p1")
    second.make_waiting_pool = lambda: answers
    first.start()
    second.start()
    app.feed(*keys(60))
    settle(app, first, second)

    check_outputs(app, 1)
    assert standbys(second) == running_tasks(first) == ["0_0", "0_1"]
    assert second.restored_records() == 0
    answers.come()
    settle(app, first, second)
    caught_up(app, first, second)
    assert second.restored_records() > 0
    check_disk(app, second)


def with_a_standby_behind(
    tmp_path: Path,
) -> tuple[Application, SimulatedProcess, SimulatedProcess]:
    """Return an application, the process that has committed, and the one that has yet to follow."""
    app = application(tmp_path, partitions=2)
    first, second = two_processes(app)
    app.feed(*keys(20))
    settle(app, first, second)
    caught_up(app, first, second)
    app.feed(*keys(20))
    for _ in range(10):
        app.clock.advance_ms(50)
        step(first)
    return app, first, second


def test_a_standby_that_is_damaged_is_rebuilt(tmp_path: Path) -> None:
    app, first, second = with_a_standby_behind(tmp_path)
    app.faults.fail_next("write", StateStoreCorruptedError("counts", "a checksum is wrong"))
    step(second)
    settle(app, first, second)
    caught_up(app, first, second)

    assert standbys(second) == ["0_0"]
    assert stored_counts(second) == dict.fromkeys(keys(20), 2)


def test_a_standby_that_fails_ends_no_thread(tmp_path: Path) -> None:
    app, first, second = with_a_standby_behind(tmp_path)
    app.faults.fail_next("write", StateStoreError("counts", "the disk is full"))
    for _ in range(10):
        step(second)
        if not standbys(second):
            break
    assert standbys(second) == []
    settle(app, first, second)
    caught_up(app, first, second)

    assert standbys(second) == ["0_0"], "it is tried again"
    check_disk(app, second)


def status_of(app: Application, asked: SimulatedProcess, replicas: int = 1) -> list[list[str]]:
    """Return what `pystreams status` tells that members keep warm, in order of their names."""
    admin, restorer = asked.clients.admin(), asked.clients.restore_consumer
    told = group_status(
        "app", admin, lambda: restorer("status"), app.clock.now_ms(), asked.plan, replicas
    )
    return [list(map(str, told.standbys[member.member_id])) for member in told.members]


def test_status_tells_what_members_keep_warm(tmp_path: Path) -> None:
    app = application(tmp_path)
    first, second = two_processes(app)
    app.feed(*keys(8))
    settle(app, first, second)

    assert status_of(app, first) == [standbys(first), standbys(second)]
    assert status_of(app, first) == [["0_2", "0_3"], ["0_0", "0_1"]]
    assert status_of(app, first, replicas=0) == [[], []]


def test_of_processes_that_share_a_directory_none_keeps_what_is_there(tmp_path: Path) -> None:
    app = application(tmp_path, partitions=6)
    disk = SimulatedDisk(tmp_path / "shared", app.faults)
    first, second = app.process("p0", disk=disk), app.process("p1", disk=disk)
    elsewhere = app.process("p2")
    for process in (first, second):
        process.start()
    app.feed(*keys(30))
    settle(app, first, second)
    alone = status_of(app, first)

    elsewhere.start()
    settle(app, first, second, elsewhere)
    app.feed(*keys(30))
    settle(app, first, second, elsewhere)

    assert alone == [[], []]
    told, kept = status_of(app, first), [standbys(each) for each in (first, second, elsewhere)]
    assert told == kept
    assert sorted(kept[0] + kept[1]) == running_tasks(elsewhere) == ["0_4", "0_5"]
    assert kept[2]
    assert set(kept[2]) <= {"0_0", "0_1", "0_2", "0_3"}


def test_a_changelog_that_is_created_again_is_noticed(tmp_path: Path) -> None:
    app = application(tmp_path, partitions=2)
    first, second = two_processes(app)
    app.feed(*keys(20))
    settle(app, first, second)
    wait(app, first, second, ms=2 * LOOK_MS)
    assert standbys(second) == ["0_0"]
    app.broker.delete_topic("app-counts-changelog")
    app.broker.create_topic("app-counts-changelog", 2)
    log = app.broker.log(TopicPartition("app-counts-changelog", 0))
    log.append([(b"other", b"\0" * 7 + b"\7", 0, ())] * 40)
    wait(app, first, second, ms=2 * LOOK_MS)
    held = [files.data for task_id, _, files in second.disk.stores() if str(task_id) == "0_0"]

    assert standbys(second) == ["0_0"]
    assert [list(data) for data in held] == [[b"other"]]


def test_what_the_thread_runs_itself_is_not_kept_warm_though_the_group_seems_to_say_so(
    tmp_path: Path,
) -> None:
    """What the broker says of a group may be of a moment ago."""
    app = application(tmp_path, partitions=2)
    first, second = two_processes(app)
    app.feed(*keys(20))
    settle(app, first, second)
    group = app.broker.group.describe()
    here, there = sorted(group.members, key=lambda member: member.client_id)
    swapped = replace(
        group,
        members=(
            replace(here, partitions=there.partitions),
            replace(there, partitions=here.partitions),
        ),
    )
    running = running_tasks(first)
    first.threads[0]._manager.standbys.place(swapped, here.member_id)
    step(first, times=10)
    app.feed(*keys(20))
    app.run_until_processed(first, second)

    with pytest.raises(TaskLockedError):
        first.disk.lock(TaskId(0, 0), "somebody else")
    assert not set(standbys(first)) & set(running)
    assert running_tasks(first) == running
    check_outputs(app, 2)


def test_the_loop_rests_again_when_what_it_read_for_others_is_its_own(tmp_path: Path) -> None:
    """While a standby has more to read the loop does not wait for input."""
    app = application(tmp_path)
    first, second = two_processes(app)
    app.feed(*keys(20))
    settle(app, first, second)
    caught_up(app, first, second)
    kept = second.threads[0]._manager.standbys
    app.feed(*keys(20))
    wait(app, first, ms=500)
    app.broker.settle()
    for _ in range(20):
        step(second)
        if kept.catching_up:
            break
    assert kept.catching_up
    first.stop()
    step(second, times=40)

    assert len(running_tasks(second)) == 4
    assert not kept.catching_up
