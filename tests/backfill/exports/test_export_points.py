"""What an export may say of the input that its stores cover; on a simulated broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pystreams import (
    Processor,
    Stores,
    StreamsBuilder,
    TaskId,
    TopicPartition,
    Topology,
    TopologyError,
    serdes,
)
from pystreams.backfill.exports.export_points import ExportPoints, take_points
from pystreams.backfill.plan.store_changelogs import (
    MissingChangelogError,
    changelogs_of,
    stores_without_changelog,
)
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.testing.simulation import (
    Faults,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
)
from pystreams.topology.plan.topology_plan import TopologyPlan

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
IN, LOG = TopicPartition("in", 0), TopicPartition("app-keys-changelog", 0)


def counting() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", **TEXT).group_by_key().count(name="keys")
    return builder.build()


class Nothing(Processor[str, str, str, str]):
    """Uses its stores for nothing."""

    def process(self, record: Any) -> None:
        """Drop it."""


def with_local_store() -> Topology:
    topology = Topology()
    topology.add_source("source", "in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    topology.add_processor("nothing", Nothing, "source")
    supplier = Stores.persistent_key_value_store("local")
    builder = Stores.key_value_store_builder(supplier, serdes.STRING, serdes.STRING)
    topology.add_state_store(builder.with_logging_disabled(), "nothing")
    return topology


@dataclass
class Scene:
    """A broker with an application's topics."""

    broker: SimulatedBroker

    def points(self, *, exactly_once: bool = True, moved: Sequence[int] = ()) -> ExportPoints:
        """Take points; committed offsets move meanwhile if some are given."""
        plan = TopologyPlan(counting(), "app")
        clients = SimulatedClients(self.broker, Lifeline("export", self.broker.faults))
        admin, consumer = clients.admin(), clients.consumer("export", "")
        counts = self.broker.partition_counts()
        offset_ranges = admin.offset_ranges

        def moving(partitions: Sequence[TopicPartition]) -> Any:
            for offset in moved:
                self.commit(offset)
            return offset_ranges(partitions)

        admin.offset_ranges = moving  # type: ignore[method-assign]
        changelogs = changelogs_of(plan, counts)
        return take_points(plan, changelogs, counts, admin, consumer, exactly_once=exactly_once)

    def commit(self, offset: int) -> None:
        self.broker.group.commit({IN: CommittedOffset(offset, "")})

    def open_transaction(self) -> int:
        epoch = self.broker.transactions.init("task")
        self.broker.append(*LOG, [(b"k", b"v", 0, ())], ("task", epoch))
        return epoch


@pytest.fixture
def scene() -> Scene:
    broker = SimulatedBroker(ManualClock(), Faults(0))
    broker.create_topic("in", 2)
    broker.create_topic("app-keys-changelog", 2)
    made = Scene(broker)
    broker.append(*LOG, [(b"k", b"v", 0, ()), (b"k", b"v", 0, ())])
    made.commit(7)
    return made


def test_task_at_rest_is_exact(scene: Scene) -> None:
    points = scene.points()

    assert points.ends == {LOG: 2, TopicPartition(LOG.topic, 1): 0}
    assert [task.task_id for task in points.tasks] == [TaskId(0, 0), TaskId(0, 1)]
    assert [task.exact for task in points.tasks] == [True, True]
    assert [task.source_offsets for task in points.tasks] == [{IN: 7}, {}]


def test_open_transaction_is_left_out_and_makes_its_task_inexact(scene: Scene) -> None:
    scene.open_transaction()

    points = scene.points()

    assert points.ends[LOG] == 2
    assert [task.exact for task in points.tasks] == [False, True]


def test_commit_meanwhile_makes_its_task_inexact(scene: Scene) -> None:
    points = scene.points(moved=[8])

    assert [task.exact for task in points.tasks] == [False, True]
    assert points.tasks[0].source_offsets == {IN: 7}


def test_without_exactly_once_nothing_is_exact(scene: Scene) -> None:
    assert not any(task.exact for task in scene.points(exactly_once=False).tasks)


def test_unknown_store_is_named_with_those_there_are() -> None:
    with pytest.raises(TopologyError, match=r"no store 'key' \(it has: keys\)"):
        changelogs_of(TopologyPlan(counting(), "app"), {}, ["key"])


def test_store_that_was_never_logged_is_missing_its_topic() -> None:
    with pytest.raises(MissingChangelogError, match="no topic 'app-keys-changelog'"):
        changelogs_of(TopologyPlan(counting(), "app"), {"in": 1})


def test_store_without_changelog_is_refused_by_name_and_passed_over_without() -> None:
    plan = TopologyPlan(with_local_store(), "app")

    with pytest.raises(TopologyError, match="'local' has no changelog"):
        changelogs_of(plan, {"in": 1}, ["local"])
    assert changelogs_of(plan, {"in": 1}) == []
    assert stores_without_changelog(plan) == ["local"]


def test_store_that_is_restored_from_its_topic_is_refused_by_name_and_passed_over_without() -> None:
    builder = StreamsBuilder()
    builder.table("in", name="rows", key_serde=serdes.STRING, value_serde=serdes.STRING)
    topology = builder.build({"topology.optimization": "reuse.ktable.source.topics"})
    plan = TopologyPlan(topology, "app")

    with pytest.raises(TopologyError, match=r"'rows' has no changelog of its own.*read that topic"):
        changelogs_of(plan, {"in": 1}, ["rows"])
    assert changelogs_of(plan, {"in": 1}) == []
