"""What a thread makes of the rest of its group: stale shares, other topologies, dead members."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from pystreams import FatalStreamsError, MetricName, StreamsBuilder, TopicPartition, serdes
from pystreams.errors import RetriableClientError
from pystreams.metrics.definitions import THREAD_GROUP
from pystreams.runtime.cluster.streams_metadata import directory_of, host_of
from pystreams.testing.simulation import SimulatedDisk
from tests.simulation.applications import Application, running_tasks

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams import Topology
    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

each_protocol = pytest.mark.parametrize("incremental", [False, True])
PATIENCE = 600


def counted(
    store: str | None = "counts", *, mapped: bool = False, others: tuple[str, ...] = ()
) -> Topology:
    """Counts records by a new key, so that they go through a repartition topic."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    for topic in others:
        stream = stream.merge(
            builder.stream(topic, key_serde=serdes.STRING, value_serde=serdes.STRING)
        )
    if mapped:
        stream = stream.map_values(str.upper)
    grouped = stream.group_by(
        lambda key, _: key, key_serde=serdes.STRING, value_serde=serdes.STRING
    )
    counts = grouped.count() if store is None else grouped.count(name=store)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def reading(topic: str, store: str) -> Topology:
    """Counts another topic: its task ids are those of any other topology."""
    builder = StreamsBuilder()
    stream = builder.stream(topic, key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = stream.group_by_key().count(name=store)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def step_until(
    condition: Callable[[], bool], *processes: SimulatedProcess, what: str, steps: int = PATIENCE
) -> None:
    for _ in range(steps):
        if condition():
            return
        for process in processes:
            for index in range(len(process.threads)):
                process.step(index)
    raise AssertionError(what)


def has_tasks(process: SimulatedProcess, *tasks: str) -> Callable[[], bool]:
    return lambda: running_tasks(process) == list(tasks)


def warnings(logs: list[Any], message: str) -> list[Any]:
    return [line for line in logs if line["event"] == message]


EDITS = {
    "its store renamed": (counted(), counted("totals"), ["0_0", "1_0"]),
    "a source added": (counted(), counted(others=("more",)), ["0_0", "1_0"]),
    "an operator inserted": (counted(None), counted(None, mapped=True), ["0_0", "1_0"]),
}


@each_protocol
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_an_edited_topology_that_is_restarted_at_once_reads_all_its_topics(
    end: str, edit: str, *, incremental: bool, tmp_path: Path
) -> None:
    before, after, tasks = EDITS[edit]
    app = Application(tmp_path, incremental=incremental)
    app.broker.create_topic("more", 1)
    old = app.process(topology=before)
    for _ in range(2):  # In its second life the identity has proved to survive.
        old.start()
        step_until(has_tasks(old, "0_0", "1_0"), old, what="both tasks of the old topology")
        if end == "stopped":
            old.stop()
        else:
            old.crash()
    new = app.process(topology=after)
    app.feed("a", "b", "a")
    until_now = len(app.faults.trace)
    new.start()
    step_until(has_tasks(new, *tasks), new, what="all tasks of the new topology")
    step_until(lambda: len(app.outputs()) == 3, new, what="all records counted")

    assert app.outputs() == [("a", 1), ("b", 1), ("a", 2)]
    reads = [line for line in app.faults.trace[until_now:] if " start_at " in line]
    left = set(old.plan.repartition_topics()) - set(new.plan.repartition_topics())
    assert reads
    assert not any(topic in line for line in reads for topic in left)


@each_protocol
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_process_that_comes_back_at_another_address_is_told_of_at_that_one(
    end: str, *, incremental: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path, partitions=2, incremental=incremental)

    def told() -> dict[str, str]:
        clients = [member.client_id for member in app.broker.group.describe().members]
        return {name.partition("-consumer")[0]: str(host_of(name)) for name in clients}

    def process(name: str, address: str) -> SimulatedProcess:
        return app.process(name, config={"application.server": address})

    one, other = process("p0", "host:1"), process("p1", "host:2")
    for _ in range(2):  # In its second life an identity has proved to survive.
        one.start()
        other.start()
        app.feed("a", "b")
        app.run_until_processed(one, other)
        if end == "stopped":
            one.stop()
            other.stop()
        else:
            one.crash()
            other.crash()
    # Who finds which identity in a directory that is shared is a matter of who comes first.
    one, other = process("p0", "host:2"), process("p1", "host:1")
    one.start()
    other.start()
    app.feed("a", "b")
    app.run_until_processed(one, other)
    now = {one.threads[0].name: "host:2", other.threads[0].name: "host:1"}
    step_until(lambda: told() == now, one, other, what="the addresses of now in the group")
    app.feed("a", "b")
    app.run_until_processed(one, other)

    assert told() == now
    assert sorted(app.outputs()) == sorted((key, n) for key in "ab" for n in range(1, 5))


@each_protocol
def test_a_process_that_comes_back_in_another_directory_is_told_of_in_that_one(
    *, incremental: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path, partitions=2, incremental=incremental)

    def told() -> list[str]:
        return [directory_of(member.client_id) for member in app.broker.group.describe().members]

    before = app.process()
    for _ in range(2):  # In its second life the identity has proved to survive.
        before.start()
        app.feed("a")
        app.run_until_processed(before)
        before.crash()
    now = app.process(disk=SimulatedDisk(tmp_path / "moved", app.faults))
    now.start()
    step_until(lambda: told() == ["moved"], now, what="the directory of now in the group")
    app.feed("a")
    app.run_until_processed(now)

    assert told() == ["moved"]
    assert app.outputs()[-1] == ("a", 3)


@each_protocol
def test_a_newcomer_with_another_topology_stands_by_until_the_other_has_gone(
    *, incremental: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path, partitions=2, incremental=incremental)
    app.broker.create_topic("other", 2)
    old = app.process("old", topology=counted())
    new = app.process("new", topology=reading("other", "others"))
    old.start()
    step_until(has_tasks(old, "0_0", "0_1", "1_0", "1_1"), old, what="all old tasks")
    new.start()
    with capture_logs() as logs:
        told = "standing by: another topology runs"
        step_until(lambda: bool(warnings(logs, told)), old, new, what=told)
    [line] = warnings(logs, told)
    assert "app-old-StreamThread-1-consumer" in line["members"][0]
    assert "reads app-counts-repartition, in" in line["members"][0]
    if not incremental:  # There nobody else is told when a member takes topics of its own.
        assert warnings(logs, "another topology is in the group")
    assert not new.threads[0].settled

    app.feed("a", "b", "c")
    step_until(lambda: len(app.outputs()) == 3, old, new, what="counts of the old one")
    assert running_tasks(new) == []
    old.stop()
    step_until(has_tasks(new, "0_0", "0_1"), new, what="all new tasks")
    app.broker.produce("other", b"z", b"x", app.clock.now_ms())
    step_until(lambda: ("z", 1) in app.outputs(), new, what="a count of the new one")


@each_protocol
def test_a_newcomer_that_has_stood_by_for_the_task_timeout_ends_and_names_the_other(
    *, incremental: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path, incremental=incremental)
    app.broker.create_topic("other", 1)
    old = app.process("old")
    new = app.process(
        "new", topology=reading("other", "others"), config={"task.timeout.ms": 20_000}
    )
    old.start()
    step_until(has_tasks(old, "0_0"), old, what="the old task")
    new.start()
    with pytest.raises(FatalStreamsError) as raised:
        step_until(lambda: False, old, new, what="an error", steps=5000)

    assert "another topology runs under application.id 'app'" in str(raised.value)
    assert "app-old-StreamThread-1-consumer@dir-old on simulated (reads in)" in str(raised.value)
    app.feed("a")
    step_until(lambda: app.outputs() == [("a", 1)], old, what="the old one still counts")


@each_protocol
def test_of_two_topologies_that_start_together_one_works(
    *, incremental: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path, incremental=incremental)
    app.broker.create_topic("other", 1)
    processes = [
        app.process("one", topology=reading("in", "counts")),
        app.process("two", topology=reading("other", "others")),
    ]
    for process in processes:
        process.start()

    step_until(
        lambda: sorted(map(running_tasks, processes)) == [[], ["0_0"]],
        *processes,
        what="one of them works",
    )


def test_a_member_that_lacks_a_source_of_a_shared_task_is_another_topology(
    tmp_path: Path,
) -> None:
    """A rolling change that adds a source to a sub-topology: its tasks would be read in part."""
    app = Application(tmp_path, partitions=2)
    app.broker.create_topic("more", 2)
    old = app.process("old", topology=counted())
    new = app.process("new", topology=counted(others=("more",)))
    old.start()
    step_until(has_tasks(old, "0_0", "0_1", "1_0", "1_1"), old, what="all old tasks")
    new.start()
    with capture_logs() as logs:
        told = "standing by: another topology runs"
        step_until(lambda: bool(warnings(logs, told)), old, new, what=told)
    step_until(has_tasks(old, "0_0", "0_1", "1_0", "1_1"), old, new, what="the old tasks again")
    old.stop()
    step_until(has_tasks(new, "0_0", "0_1", "1_0", "1_1"), new, what="all new tasks")


def two_sources() -> Topology:
    """What `reading("in", "counts")` is, behind a sub-topology that takes its task ids."""
    builder = StreamsBuilder()
    for topic, store in (("more", "others"), ("in", "counts")):
        stream = builder.stream(topic, key_serde=serdes.STRING, value_serde=serdes.STRING)
        counts = stream.group_by_key().count(name=store)
        counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


@each_protocol
def test_of_two_topologies_that_fence_each_other_the_one_that_sees_the_other_stands_by(
    *, incremental: bool, tmp_path: Path
) -> None:
    """The newcomer reads all topics of the other one, and can't tell that it is another."""
    app = Application(tmp_path, partitions=2, incremental=incremental)
    app.broker.create_topic("more", 2)
    old = app.process("old", topology=reading("in", "counts"))
    new = app.process("new", topology=two_sources())
    old.start()
    step_until(has_tasks(old, "0_0", "0_1"), old, what="both old tasks")
    new.start()
    with capture_logs() as logs:
        told = "standing by: another topology runs"
        for _ in range(PATIENCE):
            app.feed("a", "b", "c", "d")
            for key in (b"a", b"b", b"c", b"d"):
                app.broker.produce("more", key, b"x", app.clock.now_ms())
            old.step()
            new.step()
    assert [line["thread"] for line in warnings(logs, told)] == ["app-old-StreamThread-1"]
    assert len(warnings(logs, "joining the group again")) <= 3
    assert running_tasks(old) == []
    assert running_tasks(new) == ["0_0", "0_1", "1_0", "1_1"]


def test_members_of_one_topology_share_it_without_a_word(tmp_path: Path) -> None:
    app = Application(tmp_path, partitions=4)
    first, second = app.process("a", topology=counted()), app.process("b", topology=counted())
    first.start()
    with capture_logs() as logs:
        step_until(lambda: len(running_tasks(first)) == 8, first, what="all tasks at the first")
        second.start()
        step_until(lambda: len(running_tasks(second)) == 4, first, second, what="half of them")
        for _ in range(1000):
            first.step()
            second.step()

    assert [line for line in logs if line["log_level"] == "warning"] == []
    assert first.threads[0].statistics().unread_partitions == 0


def test_partitions_that_come_to_be_without_an_owner_are_noticed_and_shared_out_anew(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, partitions=2)
    process = app.process()
    process.start()
    step_until(has_tasks(process, "0_0", "0_1"), process, what="both tasks")
    [share] = app.broker.group._target.values()
    share.remove(TopicPartition("in", 1))
    with capture_logs() as logs:
        told = "partitions that nobody reads: leaving the group and joining it again"
        step_until(lambda: bool(warnings(logs, told)), process, what=told, steps=5000)
    assert warnings(logs, told)[0]["partitions"] == {"in": [1]}

    step_until(lambda: len(*app.broker.group._target.values()) == 2, process, what="a whole share")
    step_until(has_tasks(process, "0_0", "0_1"), process, what="both tasks")


@each_protocol
def test_partitions_that_stay_without_a_reader_are_told_and_shown(
    *, incremental: bool, tmp_path: Path
) -> None:
    """Topics of one sub-topology differ in partitions: assignment by range parts its tasks."""
    app = Application(tmp_path, partitions=4, num_stream_threads=2, incremental=incremental)
    app.broker.create_topic("more", 2)
    process = app.process(topology=counted(others=("more",)))
    process.start()
    with capture_logs() as logs:
        told = "partitions are read by nobody"
        step_until(lambda: bool(warnings(logs, told)), process, what=told)
    assert warnings(logs, told)[0]["partitions"] in ({"in": [1]}, {"more": [1]})
    assert not any(line["event"].startswith("standing by") for line in logs)
    step_until(
        lambda: all(thread.statistics().unread_partitions == 1 for thread in process.threads),
        process,
        what="what is unread in the statistics",
    )
    for thread in process.threads:
        gauge = MetricName("unread-partitions", THREAD_GROUP, (("thread-id", thread.name),))
        assert thread.metrics()[gauge] == 1


def test_tasks_start_although_the_group_can_not_be_described(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process()
    with capture_logs() as logs:
        process.start()
        app.faults.fail_next("describe_group", RetriableClientError("no answer"))
        step_until(has_tasks(process, "0_0"), process, what="its task")

    [line] = warnings(logs, "the group can't be looked at")
    assert line["why"] == "no answer"


@each_protocol
def test_a_process_that_waits_for_a_dead_member_says_so_within_three_seconds(
    *, incremental: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path, incremental=incremental)
    dead, moved = app.process("dead"), app.process("moved")
    dead.start()
    step_until(has_tasks(dead, "0_0"), dead, what="the task at the first")
    dead.crash()
    moved.start()
    started_ms = app.clock.monotonic_ms()
    with capture_logs() as logs:
        told = "waiting for other members of the group"
        step_until(lambda: bool(warnings(logs, told)), moved, what=told)
    [line] = warnings(logs, told)

    assert app.clock.monotonic_ms() - started_ms < 3000
    assert line["members"] == ["app-dead-StreamThread-1-consumer@dir-dead on simulated (reads in)"]
    assert line["at_most_s"] == (45 if incremental else 43)
    [thread] = moved.threads
    assert line["members"][0] in thread.metadata().waits_for
    step_until(has_tasks(moved, "0_0"), moved, what="the task at the second")
    assert thread.metadata().waits_for == ""


@pytest.mark.parametrize(("lives", "hands_over"), [(1, True), (2, False)])
def test_a_stop_hands_over_at_once_unless_the_identity_was_there_before_the_run(
    lives: int, *, hands_over: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path)
    process = app.process()
    for _ in range(lives - 1):
        process.start()
        step_until(has_tasks(process, "0_0"), process, what="its task")
        process.crash()
    process.start()
    step_until(has_tasks(process, "0_0"), process, what="its task")
    process.stop()

    assert (app.broker.group.members() == []) is hands_over
