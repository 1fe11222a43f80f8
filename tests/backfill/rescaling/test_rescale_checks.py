"""An application whose state may not be moved is refused; on a simulated broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pystreams import ConfigError, StreamsBuilder, StreamsConfig, TopicPartition, Topology, serdes
from pystreams.backfill import RescaleSettings
from pystreams.backfill.broker_waiting import Waiting
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.publishing.publication import PartitionHistory
from pystreams.backfill.rescaling.move_plan import RescaleRefusedError
from pystreams.backfill.rescaling.rescale_state import PlannedMove, planned_move
from pystreams.backfill.staging.directory import StagingDirectory
from pystreams.kernel.partitioner import partition_of
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, encode_partition_time
from pystreams.runtime.cluster.publishing_mark import PublishingMark
from pystreams.testing.simulation import (
    Faults,
    InlineExecutor,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
)

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
OLD, NEW = 2, 4
CHANGELOGS = {"old-keys-changelog": OLD, "old-groups-changelog": OLD}
REPARTITION = "old-group-repartition"


def counting() -> Topology:
    builder = StreamsBuilder()
    source = builder.stream("in", **TEXT)
    source.group_by_key().count(name="keys")
    source.group_by(lambda _, value: value, name="group", **TEXT).count(name="groups")
    return builder.build()


def grouping() -> Topology:
    """The sub-topology that reads the user's topic has no store."""
    builder = StreamsBuilder()
    source = builder.stream("in", **TEXT)
    source.group_by(lambda _, value: value, name="group", **TEXT).count(name="groups")
    return builder.build()


def counting_beside_a_table() -> Topology:
    """What is counted moves; the table is restored from its topic, which nothing is moved for."""
    builder = StreamsBuilder()
    builder.stream("in", **TEXT).group_by_key().count(name="keys")
    builder.table("rows", **TEXT, name="rows")
    return builder.build({"topology.optimization": "reuse.ktable.source.topics"})


@dataclass
class Stopped:
    """An application that was stopped, and its topic raised from two partitions to four."""

    broker: SimulatedBroker
    directory: Path
    chosen: dict[str, Any] = field(default_factory=dict)

    def planned(self, topology: Topology, *, is_rehearsal: bool = False) -> PlannedMove:
        lifeline = Lifeline("rescale", self.broker.faults)
        settings = RescaleSettings("new", self.directory / "staged", **self.chosen)
        config = StreamsConfig.of({"application.id": "old", "bootstrap.servers": "none:9092"})

        def pause(seconds: float) -> None:
            self.broker.clock.advance_ms(seconds * 1000)

        return planned_move(
            topology,
            config,
            settings,
            SimulatedClients(self.broker, lifeline),
            is_rehearsal=is_rehearsal,
            waiting=Waiting(pause, InlineExecutor),
        )

    def write(self, topic: str, partition: int, key: bytes | None) -> int:
        return self.broker.append(topic, partition, [(key, b"v", 1000, ())]) or 0

    def commit(self, topic: str, partition: int, offset: int, time: int = 1000) -> None:
        committed = CommittedOffset(offset, encode_partition_time(time))
        self.broker.group.commit({TopicPartition(topic, partition): committed})


@pytest.fixture
def stopped(tmp_path: Path) -> Stopped:
    broker = SimulatedBroker(ManualClock(), Faults(0))
    broker.create_topic("in", NEW)
    for topic, count in {**CHANGELOGS, REPARTITION: OLD}.items():
        broker.create_topic(topic, count)
    made = Stopped(broker, tmp_path)
    for number in range(OLD):
        made.write("in", number, b"k")
        made.commit("in", number, 1)
        made.write(REPARTITION, number, b"g")
        made.commit(REPARTITION, number, 1, time=500)
    return made


def key_of(partition: int, *, elsewhere: bool) -> bytes:
    """A key that the old number puts there; the new number does so, too, or not."""
    return next(
        key
        for key in (f"k{number}".encode() for number in range(100))
        if partition_of(key, OLD) == partition
        and (partition_of(key, NEW) != partition) == elsewhere
    )


def test_application_that_has_caught_up_is_moved(stopped: Stopped) -> None:
    found = stopped.planned(counting()).begins

    assert [found[TopicPartition("in", number)] for number in range(NEW)] == [
        PartitionHistory(1, 1, 1000),
        PartitionHistory(1, 1, 1000),
        PartitionHistory(0, 0, 1000),
        PartitionHistory(0, 0, 1000),
    ]
    assert found[TopicPartition("new-group-repartition", 3)] == PartitionHistory(0, 0, 500)


def test_record_that_waits_in_its_old_place_is_refused(stopped: Stopped) -> None:
    stopped.write("in", 1, key_of(1, elsewhere=True))

    with pytest.raises(RescaleRefusedError, match=r"in-1 has records.*until its lag is 0"):
        stopped.planned(counting())


@pytest.mark.parametrize("key", [key_of(1, elsewhere=False), None])
def test_record_that_waits_where_it_belongs_may_wait(stopped: Stopped, key: bytes | None) -> None:
    stopped.write("in", 1, key)
    stopped.write("in", 3, b"whatever")

    found = stopped.planned(counting()).begins

    assert found[TopicPartition("in", 1)].next_offset == 1


def test_sub_topology_without_stores_may_have_a_lag(stopped: Stopped) -> None:
    stopped.write("in", 1, key_of(1, elsewhere=True))

    assert stopped.planned(grouping()).begins[TopicPartition("in", 1)].next_offset == 1


@pytest.mark.parametrize("topology", [counting, grouping])
def test_repartition_topic_must_be_empty(stopped: Stopped, topology: Any) -> None:
    stopped.write(REPARTITION, 0, key_of(0, elsewhere=False))

    with pytest.raises(RescaleRefusedError, match=f"{REPARTITION}-0 has records"):
        stopped.planned(topology())


def test_marker_behind_the_last_record_is_no_lag(stopped: Stopped) -> None:
    epoch = stopped.broker.transactions.init("producer")
    stopped.broker.append("in", 0, [(b"k", b"v", 1000, ())], ("producer", epoch))
    stopped.broker.transactions.end("producer", epoch, commit=True)
    stopped.broker.settle()
    stopped.commit("in", 0, 2)

    assert stopped.broker.offset_range(TopicPartition("in", 0)).end == 3
    assert stopped.planned(counting()).begins[TopicPartition("in", 0)].next_offset == 2


@pytest.mark.parametrize(
    ("topic", "told"),
    [
        ("in", "in-0 ends in an open transaction at offset 1.*let its producer finish"),
        ("old-keys-changelog", "old-keys-changelog-0 ends in an open transaction.*was killed"),
    ],
)
def test_open_transaction_is_refused(stopped: Stopped, topic: str, told: str) -> None:
    epoch = stopped.broker.transactions.init("producer")
    stopped.broker.append(topic, 0, [(b"k", b"v", 1000, ())], ("producer", epoch))

    with pytest.raises(RescaleRefusedError, match=told):
        stopped.planned(counting())


def read_rows(stopped: Stopped, *, partitions: int, elsewhere: bool) -> None:
    """A table of two rows, the application having read so many of its topic's four partitions."""
    stopped.broker.create_topic("rows", NEW)
    for number in range(OLD):
        stopped.write("rows", number, key_of(number, elsewhere=elsewhere))
    for number in range(partitions):
        stopped.commit("rows", number, 1 if number < OLD else 0)


def test_table_restored_from_a_topic_that_got_partitions_is_refused_beside_what_moves(
    stopped: Stopped,
) -> None:
    read_rows(stopped, partitions=OLD, elsewhere=True)

    told = "'rows' is restored from topic 'rows', and the key at offset 0 of rows-.*Copy the topic"
    with pytest.raises(RescaleRefusedError, match=told):
        stopped.planned(counting_beside_a_table())


@pytest.mark.parametrize(
    ("partitions", "elsewhere"),
    [
        pytest.param(OLD, False, id="its rows lie where they belong"),
        pytest.param(NEW, True, id="all its partitions have been read, by whomever written"),
    ],
)
def test_table_restored_from_its_topic_stays_as_it_is_beside_what_moves(
    partitions: int, elsewhere: bool, stopped: Stopped
) -> None:
    read_rows(stopped, partitions=partitions, elsewhere=elsewhere)

    plan = stopped.planned(counting_beside_a_table()).plan

    assert [(part.old_tasks, part.new_tasks) for part in plan.subtopologies] == [
        (OLD, NEW),
        (NEW, NEW),
    ]


def test_rehearsal_tells_of_a_table_whose_topic_is_to_get_partitions(stopped: Stopped) -> None:
    stopped.broker.create_topic("rows", OLD)
    for number in range(OLD):
        stopped.write("rows", number, key_of(number, elsewhere=True))
        stopped.commit("rows", number, 1)
    stopped.chosen["num_partitions"] = {"rows": NEW}

    with pytest.raises(RescaleRefusedError, match="'rows' is restored from topic 'rows'"):
        stopped.planned(counting_beside_a_table(), is_rehearsal=True)


def test_running_application_is_refused(stopped: Stopped) -> None:
    stopped.broker.group.join("app-1", ["in"])

    with pytest.raises(RescaleRefusedError, match=r"'old' has members \(app-1-1\).*Stop it"):
        stopped.planned(counting())


def test_application_that_has_never_run_is_refused(stopped: Stopped) -> None:
    stopped.broker.group.offsets.clear()

    with pytest.raises(RescaleRefusedError, match="'old' has no committed offsets"):
        stopped.planned(counting())


def test_group_that_is_being_published_is_refused(stopped: Stopped) -> None:
    mark = PublishingMark("abc", 0, with_outputs=False).encode()
    stopped.broker.group.commit({TopicPartition("in", 0): CommittedOffset(0, mark)})

    with pytest.raises(RescaleRefusedError, match=r"being published by a backfill.*finish that"):
        stopped.planned(counting())


def test_topic_created_again_is_noticed_and_read_from_its_beginning_if_said_so(
    stopped: Stopped,
) -> None:
    stopped.commit("in", 0, 50)
    with pytest.raises(RescaleRefusedError, match=r"in-0 ends at offset 1.*created again"):
        stopped.planned(counting())

    stopped.chosen["created_again"] = frozenset({"in"})

    found = stopped.planned(counting()).begins
    assert [found[TopicPartition("in", number)].next_offset for number in range(NEW)] == [0] * NEW


def test_wrong_number_of_partitions_is_refused_and_rehearsed(stopped: Stopped) -> None:
    stopped.chosen["num_partitions"] = {"in": 6}

    with pytest.raises(RescaleRefusedError, match="'in' has 4 partitions, and is to have 6"):
        stopped.planned(counting())
    rehearsed = stopped.planned(counting(), is_rehearsal=True)

    assert [part.new_tasks for part in rehearsed.plan.subtopologies] == [6, 6]


def test_rehearsal_tells_what_would_wait_in_the_wrong_place(stopped: Stopped) -> None:
    stopped.broker.delete_topic("in")
    stopped.broker.create_topic("in", OLD)
    for number in range(OLD):
        stopped.write("in", number, b"k")
    stopped.write("in", 1, key_of(1, elsewhere=True))
    stopped.chosen["num_partitions"] = {"in": NEW}

    with pytest.raises(RescaleRefusedError, match="in-1 has records"):
        stopped.planned(counting(), is_rehearsal=True)


def test_unknown_topic_is_named(stopped: Stopped) -> None:
    stopped.chosen["num_partitions"] = {"inn": 4}

    with pytest.raises(RescaleRefusedError, match="no topic 'inn'"):
        stopped.planned(counting())


def test_move_to_itself_is_refused(stopped: Stopped) -> None:
    config = StreamsConfig.of({"application.id": "new", "bootstrap.servers": "none:9092"})
    lifeline = Lifeline("rescale", stopped.broker.faults)
    settings = RescaleSettings("new", stopped.directory)

    with pytest.raises(ConfigError, match="from 'new' to itself"):
        planned_move(counting(), config, settings, SimulatedClients(stopped.broker, lifeline))


def test_what_came_after_the_beginning_is_not_looked_at_again(stopped: Stopped) -> None:
    """It was written after the topic got its partitions, whatever its producer's partitioner."""
    plan = stopped.planned(counting()).plan
    directory = StagingDirectory(stopped.directory / "staged")
    directory.begin(BackfillIdentity.of(plan.new, {}, {}, {}), 0)
    stopped.write("in", 1, key_of(1, elsewhere=True))

    assert stopped.planned(counting()).begins[TopicPartition("in", 1)].next_offset == 1
