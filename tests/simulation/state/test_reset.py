"""An application that is reset begins anew, whatever happens on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from pystreams import FatalStreamsError, TaskId, TopicPartition
from pystreams.runtime.cluster.committed_offsets import (
    CommittedOffset,
    encode_entries,
    encode_partition_time,
)
from pystreams.runtime.cluster.topology_note import noted_topologies
from pystreams.runtime.maintenance.application_reset import (
    ApplicationReset,
    NewOffsets,
    ResetRefusedError,
)
from pystreams.runtime.maintenance.earlier_topology import FINGERPRINT_FILE
from pystreams.testing.simulation import SimulatedCrash, SimulatedProcess
from pystreams.testing.simulation.admin import SimulatedAdmin
from pystreams.testing.simulation.faults import Lifeline
from tests.simulation.applications import CHANGELOG, Application, stored_counts

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulation


class Scene:
    """An application that has counted `a` twice, and `b` once, and what resets it."""

    def __init__(self, root: Path) -> None:
        self.app = Application(root / "disks")
        self.process = self.app.process()
        self.process.start()
        self.app.feed("a", "a", "b")
        self.app.run_until_processed(self.process)
        self.told: list[str] = []
        self.state_dir = root / "state"
        self.task_directory = self.state_dir / "app" / "0_0"
        self.task_directory.mkdir(parents=True)

    def stop(self) -> None:
        self.process.stop()
        self.app.broker.settle()

    def resetting(self, *, with_plan: bool = True) -> tuple[ApplicationReset, Lifeline]:
        lifeline = Lifeline("reset", self.app.faults)
        admin = SimulatedAdmin(self.app.broker, lifeline)
        plan = self.process.plan if with_plan else None
        return ApplicationReset("app", plan, admin, self.state_dir), lifeline

    def reset(
        self,
        *,
        with_plan: bool = True,
        with_orphans: bool = False,
        new_offsets: NewOffsets | None = None,
    ) -> None:
        done, _ = self.resetting(with_plan=with_plan)
        done.execute(
            done.look(), with_orphans=with_orphans, new_offsets=new_offsets, told=self.told.append
        )

    def topics(self) -> set[str]:
        return set(self.app.broker.partition_counts())

    def counts_anew(self) -> dict[str, int]:
        """Start it on a machine without state; return what it has counted then."""
        anew = self.app.process("p1")
        anew.start()
        self.app.run_until_processed(anew)
        anew.stop()
        self.app.broker.settle()
        return stored_counts(anew)

    def why_it_does_not_start(self) -> str:
        started = self.app.process("p2")
        try:
            run(started)
        except FatalStreamsError as error:
            return str(error)
        raise AssertionError("it has started")


def run(process: SimulatedProcess) -> None:
    process.start()
    for _ in range(100):
        process.step()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_look_tells_what_there_is_and_changes_nothing(scene: Scene) -> None:
    scene.stop()
    scene.app.broker.create_topic("app-b-counts-changelog", 1)
    offsets, topics = dict(scene.app.broker.group.offsets), scene.topics()
    found = scene.resetting()[0].look()

    assert found.members == []
    assert found.sources == [TopicPartition("in", 0)]
    assert found.internal_topics == [CHANGELOG.topic]
    assert found.orphans == ["app-b-counts-changelog"]
    assert found.tasks == [TaskId(0, 0)]
    assert (scene.app.broker.group.offsets, scene.topics()) == (offsets, topics)
    assert scene.task_directory.exists()


def test_after_a_reset_everything_is_counted_once(scene: Scene) -> None:
    scene.stop()
    scene.reset()

    assert CHANGELOG.topic not in scene.topics()
    assert scene.app.broker.group.offsets == {}
    assert not scene.task_directory.exists()
    with capture_logs() as logs:
        assert scene.counts_anew() == {"a": 2, "b": 1}
    assert not [line for line in logs if line["log_level"] == "warning"]


def test_a_reset_forgets_the_topology_that_made_the_state(scene: Scene) -> None:
    kept = scene.state_dir / "app" / FINGERPRINT_FILE
    kept.write_text("{}")
    scene.stop()

    scene.reset()

    assert not kept.exists()


def test_a_topic_that_was_created_again_is_read_after_a_reset(scene: Scene) -> None:
    scene.stop()
    scene.app.broker.delete_topic("in")
    scene.app.broker.create_topic("in", 1)
    scene.app.feed("a")
    assert "deleted and created again" in scene.why_it_does_not_start()
    scene.reset()

    assert scene.counts_anew() == {"a": 1}


def test_members_are_named_and_nothing_is_changed(scene: Scene) -> None:
    with pytest.raises(ResetRefusedError, match=r"has members \(app-p0-.*static member stays"):
        scene.reset()

    assert CHANGELOG.topic in scene.topics()
    assert scene.task_directory.exists()
    assert scene.app.committed() == 3


def test_topics_that_only_look_like_its_own_are_deleted_on_request(scene: Scene) -> None:
    scene.stop()
    for topic in ("app-b-counts-changelog", "app-old-repartition", "app-users-own", "appl-x"):
        scene.app.broker.create_topic(topic, 1)
    scene.reset()
    assert {"app-b-counts-changelog", "app-old-repartition"} <= scene.topics()
    scene.reset(with_orphans=True)

    assert scene.topics() == {"in", "out", "app-users-own", "appl-x"}


def test_without_a_topology_its_topics_must_go_on_request_or_all_stays(scene: Scene) -> None:
    scene.stop()
    with pytest.raises(ResetRefusedError, match="app-counts-changelog"):
        scene.reset(with_plan=False)
    assert scene.app.committed() == 3
    scene.reset(with_plan=False, with_orphans=True)

    assert scene.counts_anew() == {"a": 2, "b": 1}


def test_offsets_are_set_where_it_is_to_begin(scene: Scene) -> None:
    scene.stop()
    scene.reset(new_offsets=lambda _, partitions: dict.fromkeys(partitions, 1))

    assert scene.app.committed() == 1
    assert scene.counts_anew() == {"a": 1, "b": 1}


def test_where_offsets_are_set_no_other_one_tells_of_the_topology_before(scene: Scene) -> None:
    scene.stop()
    dropped, gone = TopicPartition("dropped", 0), TopicPartition("gone", 0)
    scene.app.broker.create_topic("dropped", 1)
    noted = encode_partition_time(5, encode_entries(["pystreams-topology 3-former 1 0 0"]))
    scene.app.broker.group.commit(dict.fromkeys((dropped, gone), CommittedOffset(7, noted)))
    assert noted_topologies(scene.app.broker.group.offsets)[0].partitions == 2

    scene.reset(new_offsets=lambda _, partitions: dict.fromkeys(partitions, 1))

    offsets = scene.app.broker.group.offsets
    assert offsets[dropped] == CommittedOffset(7, "")
    assert noted_topologies({at: offset for at, offset in offsets.items() if at != gone}) == []


def test_what_can_not_be_deleted_is_told_and_keeps_the_application_from_starting(
    scene: Scene,
) -> None:
    scene.stop()
    scene.app.faults.fail_next("delete_topics", FatalStreamsError("not authorized"))
    with pytest.raises(FatalStreamsError, match="'app-counts-changelog' was not deleted: not auth"):
        scene.reset()

    assert not scene.task_directory.exists()
    assert "a reset of this application has begun" in scene.why_it_does_not_start()
    scene.reset()
    assert scene.counts_anew() == {"a": 2, "b": 1}


def test_a_reset_that_dies_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    died = 0
    for calls in range(20):
        scene = Scene(tmp_path / str(calls))
        scene.stop()
        done, lifeline = scene.resetting()
        found = done.look()
        lifeline.crash_in(calls)
        try:
            done.execute(found, with_orphans=False, new_offsets=None, told=scene.told.append)
        except SimulatedCrash:
            died += 1
            if CHANGELOG.topic not in scene.topics() and scene.app.broker.group.offsets:
                assert "a reset of this application has begun" in scene.why_it_does_not_start()
            scene.reset()
        assert scene.counts_anew() == {"a": 2, "b": 1}
    assert 2 < died < 20


def test_a_reset_of_what_is_reset_changes_nothing(scene: Scene) -> None:
    scene.stop()
    scene.reset()
    scene.reset()

    assert scene.counts_anew() == {"a": 2, "b": 1}
