"""What other stream processors were bitten by; which, and where: `tests/PEERS.md`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pystreams import JoinWindows, StreamsBuilder, TopicPartition, Topology, serdes
from pystreams.testing.simulation import SimulatedProcess
from pystreams.testing.simulation.faults import NO_FAULTS
from tests.simulation.applications import (
    Application,
    counting,
    running_tasks,
    stored_counts,
)
from tests.simulation.members.keeping_warm import application, caught_up, keys, settle, step, wait

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulation

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
PATIENCE = 600
BOTH_GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])


def joined() -> Topology:
    builder = StreamsBuilder()
    left, right = builder.stream("in", **TEXT), builder.stream("other", **TEXT)
    windows = JoinWindows.of_time_difference_with_no_grace(1000)
    left.join(right, lambda one, two: one + two, windows).to("out", **TEXT)
    return builder.build()


def restores(process: SimulatedProcess) -> bool:
    """Return whether a process is in the middle of restoring."""
    [thread] = process.threads
    return thread._restorer.active and process.restored_records() > 0


def until(app: Application, true: Callable[[], bool], *processes: SimulatedProcess) -> None:
    """Let processes go on, in time, until something is true."""
    for _ in range(PATIENCE):
        if true():
            return
        step(*processes)
        app.clock.advance_ms(50)
    raise AssertionError("\n".join(app.faults.trace[-40:]))


@BOTH_GUARANTEES
@pytest.mark.parametrize("caught_up_input", ["in", "other"])
def test_a_join_goes_on_after_a_restart_though_one_input_is_read_to_its_end(
    tmp_path: Path, guarantee: str, caught_up_input: str
) -> None:
    app = Application(tmp_path, guarantee)
    app.broker.create_topic("other", 1)
    process = app.process(topology=joined())
    process.start()
    app.broker.produce("in", b"k", b"a", 0)
    app.broker.produce("other", b"k", b"b", 0)
    until(app, lambda: len(app.broker.committed_records("out")) == 1, process)
    process.stop()
    rest = "other" if caught_up_input == "in" else "in"
    for _ in range(50):
        app.broker.produce(rest, b"k", b"c", 500)

    process.start()
    until(app, lambda: len(app.broker.committed_records("out")) == 51, process)

    process.stop()


@BOTH_GUARANTEES
def test_an_input_that_lost_what_was_to_be_read_next_is_read_from_what_it_has(
    tmp_path: Path, guarantee: str
) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process()
    process.start()
    app.feed("a", "a", "a")
    app.run_until_processed(process)
    process.stop()
    app.feed("a", "b", "a", "b")
    app.broker.log(TopicPartition("in", 0)).delete_before(5)

    process.start()
    app.run_until_processed(process)

    assert stored_counts(process) == {"a": 4, "b": 1}
    assert process.restored_records() == 0
    process.stop()


@pytest.mark.parametrize("incremental", [False, True])
@BOTH_GUARANTEES
def test_members_that_come_while_others_restore_end_nobody_and_all_is_counted(
    tmp_path: Path, guarantee: str, incremental: bool
) -> None:
    partitions = 4
    app = Application(
        tmp_path, guarantee, partitions=partitions, incremental=incremental, max_poll_records=3
    )
    first = app.process("first")
    first.start()
    for _ in range(5):
        app.feed(*keys(40))
        app.run_until_processed(first)
    first.crash()
    app.broker.settle()
    app.faults.rates = replace(NO_FAULTS, short_poll=1.0)  # Restores take many polls.
    processes = [app.process(f"new-{number}") for number in range(3)]
    for number, process in enumerate(processes):
        process.start()
        running = processes[: number + 1]
        until(app, partial(restores, process), *running)
        app.feed(*keys(40))
    app.run_until_processed(*processes)

    assert all(process.running for process in processes)
    assert sum(len(running_tasks(process)) for process in processes) == partitions
    last = dict(app.outputs())
    assert last == dict.fromkeys(keys(40), 8)
    for process in processes:
        process.stop()


@pytest.mark.parametrize("incremental", [False, True])
def test_a_paused_partition_that_goes_and_comes_back_is_read_to_its_end(
    tmp_path: Path, incremental: bool
) -> None:
    app = Application(
        tmp_path,
        partitions=2,
        incremental=incremental,
        max_poll_records=10,
        buffered_records_per_partition=20,
        max_task_idle_ms=3_600_000,
    )
    app.broker.create_topic("other", 2)
    first, second = app.process("p0", joined()), app.process("p1", joined())
    first.start()
    for partition in range(2):
        app.broker.append("other", partition, [(b"k", b"b", 0, ())], None)
        app.broker.append("in", partition, [(b"k", b"a", 0, ())] * 200, None)
    [thread] = first.threads
    until(app, lambda: len(thread._input._paused) > 0, first)

    second.start()
    until(app, lambda: len(running_tasks(first)) == 1 == len(running_tasks(second)), first, second)
    second.stop()
    until(app, lambda: len(running_tasks(first)) == 2, first)
    for partition in range(2):
        app.broker.append("other", partition, [(b"k", b"b", 5000, ())], None)
        app.broker.append("in", partition, [(b"k", b"a", 5000, ())], None)

    until(app, lambda: len(app.broker.committed_records("out")) >= 400, first)
    first.stop()


@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
def test_a_standby_of_a_table_with_a_cache_takes_over_with_nothing_lost(
    tmp_path: Path, guarantee: str
) -> None:
    app = application(tmp_path, guarantee, statestore_cache_max_bytes=1_000_000)
    topology = counting(caching=True)
    first, second = app.process("p0", topology), app.process("p1", topology)
    first.start()
    second.start()
    for _ in range(3):
        app.feed(*keys(60))
        settle(app, first, second)
    caught_up(app, first, second)
    app.feed(*keys(60))
    step(second)  # What it has of them in its cache dies with it.

    second.crash()
    settle(app, first)

    assert dict(app.outputs()) == dict.fromkeys(keys(60), 4)
    assert stored_counts(first) == dict.fromkeys(keys(60), 4)
    first.stop()


@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("disks", ["one disk", "a disk each"])
@pytest.mark.parametrize("slow", ["commit_transaction", "unlock"])
def test_a_member_put_out_while_it_gives_up_partitions_costs_one_rebalance_and_no_count(
    tmp_path: Path, slow: str, disks: str, incremental: bool, guarantee: str
) -> None:
    """The others wait for what it holds on their disk, and it for nobody: all go on at once."""
    app = Application(
        tmp_path, guarantee, partitions=4, incremental=incremental, commit_interval_ms=2000
    )
    first = app.process("p0")
    second = app.process("p1", disk=first.disk if disks == "one disk" else None)
    first.start()
    app.feed(*keys(40))
    until(app, lambda: len(running_tasks(first)) == 4, first)
    step(first)
    seen: list[int] = []

    def meanwhile() -> None:
        """Outlast the time in which a member is to poll; the other one is given everything."""
        app.feed(*keys(40))
        wait(app, second, ms=5000)
        seen.append(app.broker.group.generation)

    first.stand_still(slow, meanwhile)
    second.start()
    until(app, lambda: bool(seen), first, second)
    app.feed(*keys(40))
    app.run_until_processed(first, second)

    trace = app.faults.trace
    at = next(number for number, line in enumerate(trace) if "stands still" in line)
    assert any("app-p0" in line and "revoked" in line for line in trace[:at])
    assert sum("broker member" in line for line in trace) == 1
    assert app.broker.group.generation <= seen[0] + 2
    assert len(running_tasks(first)) == len(running_tasks(second)) == 2
    counts = [(key, count) for key in keys(40) for count in (1, 2, 3)]
    assert sorted(app.outputs()) == sorted(counts)
    for process in (first, second):
        process.stop()
