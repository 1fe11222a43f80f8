"""A source topic that is deleted and created again under the state that was made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from pystreams import FatalStreamsError, MissingSourceTopicError, StreamsBuilder, serdes
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, encode_partition_time
from pystreams.runtime.topics.input_topics import InputTopics
from pystreams.testing.simulation.admin import SimulatedAdmin
from pystreams.testing.simulation.faults import Lifeline
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.simulation.applications import (
    Application,
    counting,
    running_tasks,
    stored_counts,
    tasks_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams import Topology
    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

STEPS = 200


def counting_values() -> Topology:
    """Two sub-topologies: what is counted comes through a repartition topic."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    grouped = stream.group_by(
        lambda key, _: key, key_serde=serdes.STRING, value_serde=serdes.STRING, name="again"
    )
    grouped.count(name="counts", caching=False)
    return builder.build()


def passing_on() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
    return builder.build()


def topic_id(app: Application) -> str:
    return app.broker.topic_ids()["in"]


def create_again(app: Application, *, keeping_offsets: bool = False) -> None:
    """Delete the topic `in` and create it anew; the brokers delete the group's offsets of it.

    Args:
        app: The application.
        keeping_offsets: The group's coordinator has not heard of it yet.
    """
    offsets = app.broker.group.offsets
    app.broker.delete_topic("in")
    app.broker.create_topic("in", 1)
    if keeping_offsets:
        app.broker.group.commit(offsets)


def run(app: Application, process: SimulatedProcess, *keys: str) -> None:
    """Let a process read records, and stop it."""
    app.feed(*keys)
    process.start()
    settle(process)
    process.stop()
    app.broker.settle()


def settle(process: SimulatedProcess) -> None:
    """Let a process do all it can do, repartition topics included."""
    for _ in range(STEPS):
        process.step()


def refusal(process: SimulatedProcess) -> str:
    """Return why a process does not start."""
    try:
        process.start()
        settle(process)
    except FatalStreamsError as error:
        return str(error)
    raise AssertionError("it has started")


def going_on(app: Application, process: SimulatedProcess, topology: Topology) -> SimulatedProcess:
    accepted = app.process(
        "p0", topology, {"accepted.source.topic.ids": f"other:x, in:{topic_id(app)}"}
    )
    accepted.disk = process.disk
    return accepted


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once", "exactly_once_v2"])
def test_state_behind_a_repartition_topic_is_defended_by_the_ids_that_survive(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process("p0", counting_values())
    run(app, process, "a", "a", "b")
    former = topic_id(app)
    create_again(app)

    told = refusal(process)

    assert "'in' was deleted and created again" in told
    assert f"id {former}, and now there is {topic_id(app)}" in told
    assert "store 'counts'" in told
    assert "pystreams reset" in told
    assert f"accepted.source.topic.ids=in:{topic_id(app)}" in told


def test_the_refusal_lasts_and_also_meets_a_process_without_a_disk(tmp_path: Path) -> None:
    app = Application(tmp_path)
    run(app, app.process("p0", counting_values()), "a")
    create_again(app)
    elsewhere = app.process("p1", counting_values())

    assert refusal(elsewhere) == refusal(elsewhere)
    assert stored_counts(elsewhere) == {}


def test_who_goes_on_adds_what_the_new_topic_holds_and_is_not_asked_again(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process("p0", counting_values())
    run(app, process, "a", "a", "b")
    create_again(app)
    run(app, going_on(app, process, counting_values()), "a")

    assert stored_counts(process) == {"a": 3, "b": 1}
    run(app, process, "a")
    assert stored_counts(process) == {"a": 4, "b": 1}


def test_an_id_that_was_accepted_is_not_accepted_for_the_next_topic(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process("p0", counting_values())
    run(app, process, "a")
    create_again(app)
    accepted = going_on(app, process, counting_values())
    run(app, accepted, "a")
    create_again(app)

    assert "deleted and created again" in refusal(accepted)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once", "exactly_once_v2"])
def test_a_store_without_the_offsets_of_its_own_input_is_defended_by_its_position(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process()
    run(app, process, "a", "a", "b")
    create_again(app)

    told = refusal(process)

    assert "task 0_0: the group has no committed offset of in-0 any more" in told
    assert "store 'counts' holds what was read of it up to offset 2" in told
    assert f"accepted.source.topic.ids=in:{topic_id(app)}" in told


def test_offsets_that_have_expired_are_told_the_same_way(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process("p0", counting_values())
    run(app, process, "a")
    app.broker.group.offsets.clear()

    assert "or the offsets have expired" in refusal(process)


def test_going_on_from_a_store_reads_the_new_topic_from_its_start(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process()
    run(app, process, "a", "a", "b")
    create_again(app)
    run(app, going_on(app, process, process.plan.topology), "a")
    run(app, process, "b")

    assert stored_counts(process) == {"a": 3, "b": 2}


def test_offsets_that_brokers_have_kept_do_not_count_in_the_new_topic(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process()
    run(app, process, "a", "a", "b")
    create_again(app, keeping_offsets=True)
    assert "deleted and created again" in refusal(process)

    app.feed("a", "a", "a", "a")
    run(app, going_on(app, process, process.plan.topology), "a")

    assert stored_counts(process) == {"a": 7, "b": 1}


def test_at_least_once_state_from_changelogs_alone_is_told_and_not_refused(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "at_least_once")
    run(app, app.process(), "a")
    create_again(app)
    with capture_logs() as logs:
        run(app, app.process("p1"), "a")

    told = [line for line in logs if line["event"].startswith("state without committed offsets")]
    assert [(line["task"], line["stores"]) for line in told] == [("0_0", ["counts"])]


@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
def test_under_exactly_once_state_from_changelogs_alone_is_refused_with_the_choices(
    tmp_path: Path, guarantee: str
) -> None:
    app = Application(tmp_path, guarantee)
    run(app, app.process(), "a")
    create_again(app)
    app.feed("a")

    said = refusal(app.process("p1"))

    assert "no committed offset of in-0 any more" in said
    assert f"accepted.source.topic.ids=in:{topic_id(app)}" in said
    process = app.process("p2", config={"accepted.source.topic.ids": f"in:{topic_id(app)}"})
    run(app, process, "a")
    assert stored_counts(process) == {"a": 3}


def test_state_without_offsets_is_in_no_doubt_where_there_is_nothing_to_read_again(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "exactly_once")
    run(app, app.process(), "a")
    create_again(app)
    process = app.process("p1")

    process.start()
    settle(process)

    assert len(running_tasks(process)) == 1


def test_an_application_without_state_reads_the_new_topic_and_says_so(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process("p0", passing_on())
    run(app, process, "a", "a")
    create_again(app, keeping_offsets=True)
    with capture_logs() as logs:
        run(app, process, "b")

    assert app.broker.committed_records("out")[-1].message_key == b"b"
    assert any(line["event"].startswith("source topic was deleted") for line in logs)


def test_offsets_of_before_ids_were_noted_are_taken_as_they_are(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process()
    run(app, process, "a", "a")
    for partition, offset in app.broker.group.offsets.items():
        older = CommittedOffset(offset.next_offset, encode_partition_time(5))
        app.broker.group.offsets[partition] = older
    run(app, process, "a")

    assert stored_counts(process) == {"a": 3}


def test_brokers_that_give_all_topics_one_id_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Application(tmp_path)
    monkeypatch.setattr(app.broker, "topic_ids", lambda: dict.fromkeys(("in", "out"), "A" * 22))
    process = app.process("p0", counting_values())
    run(app, process, "a")
    monkeypatch.undo()
    run(app, process, "a")

    assert stored_counts(process) == {"a": 2}


def test_a_topic_that_an_edit_adds_is_nobodys_former_one(tmp_path: Path) -> None:
    app = Application(tmp_path)
    run(app, app.process("p0", counting_values()), "a")
    app.broker.create_topic("more", 1)
    builder = StreamsBuilder()
    stream = builder.stream(["in", "more"], key_serde=serdes.STRING, value_serde=serdes.STRING)
    grouped = stream.group_by(
        lambda key, _: key, key_serde=serdes.STRING, value_serde=serdes.STRING, name="again"
    )
    grouped.count(name="counts", caching=False)
    edited = app.process("p0", builder.build())
    edited.start()
    settle(edited)

    assert running_tasks(edited) == ["0_0", "1_0"]
    edited.stop()


def watched(app: Application, topology: Topology) -> tuple[InputTopics, dict[str, int]]:
    """Return what watches over the topics of an application that has just started."""
    admin = SimulatedAdmin(app.broker, Lifeline("watch", app.faults))
    input_topics = InputTopics(TopologyPlan(topology, "app"), admin, "", exactly_once=False)
    counts = app.broker.partition_counts()
    input_topics.prepare(counts)
    return input_topics, counts


def test_a_topic_created_again_while_the_application_runs_is_noticed(tmp_path: Path) -> None:
    app = Application(tmp_path)
    input_topics, counts = watched(app, passing_on())
    input_topics.watch(counts)
    former = topic_id(app)
    create_again(app)

    with pytest.raises(FatalStreamsError, match=f"its id was {former} and is {topic_id(app)}"):
        input_topics.watch(counts)


@pytest.mark.parametrize(
    ("topology", "topic", "task_id", "cure"),
    [
        (counting(), "in", "0_0", "pystreams topics create in"),
        (counting_values(), "app-again-repartition", "1_0", "repartition topic was deleted: start"),
    ],
    ids=["of the user's", "of ours"],
)
def test_a_topic_that_is_gone_is_told_without_an_id_to_accept(
    topology: Topology, topic: str, task_id: str, cure: str, tmp_path: Path
) -> None:
    app = Application(tmp_path)
    process = app.process("p0", topology)
    app.feed("a")
    process.start()
    settle(process)
    input_topics, _ = watched(app, topology)
    task = tasks_of(process)[task_id]
    app.broker.delete_topic(topic)

    with pytest.raises(MissingSourceTopicError, match=cure):
        input_topics.check_offsets(task, {}, dict)


def test_a_topic_that_a_pattern_matches_later_is_noted_from_then_on(tmp_path: Path) -> None:
    app = Application(tmp_path)
    builder = StreamsBuilder()
    builder.stream(pattern="in.*").foreach(print)
    input_topics, _ = watched(app, builder.build())
    app.broker.create_topic("in-later", 1)
    input_topics.watch(app.broker.partition_counts())
    app.broker.delete_topic("in-later")
    app.broker.create_topic("in-later", 1)

    with pytest.raises(FatalStreamsError, match="'in-later' was deleted and created again"):
        input_topics.watch(app.broker.partition_counts())
