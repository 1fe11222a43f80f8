"""Which applications have a backfill to do before they run; on a simulated broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import MissingSourceTopicError, StreamsBuilder, TopicPartition, Topology
from pystreams.backfill.broker_waiting import Waiting
from pystreams.backfill.first_backfill import BackfillNeed, Lookout
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.staging.directory import StagingDirectory
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, encode_partition_time
from pystreams.runtime.cluster.publishing_mark import PublishingMark, encode_published
from pystreams.testing.simulation import (
    Faults,
    InlineExecutor,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
)
from pystreams.topology.options.operation_options import OffsetReset
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.sources.covered import TEXT

IN_0, IN_1 = TopicPartition("in", 0), TopicPartition("in", 1)


def counting(offset_reset: OffsetReset | None = None) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", offset_reset=offset_reset, **TEXT)
    late = builder.stream("late", offset_reset="latest", **TEXT)
    grouped = stream.merge(late).group_by(lambda _, value: value, name="by-value", **TEXT)
    grouped.count(name="counts")
    return builder.build()


@pytest.fixture
def broker() -> SimulatedBroker:
    """Five records in `in`, three in `late`, which is read from its end."""
    made = SimulatedBroker(ManualClock(), Faults(0))
    made.create_topic("in", 2)
    made.create_topic("late", 1)
    for number in (0, 0, 0, 1, 1):
        made.append("in", number, [(b"k", b"v", 1, ())])
    made.append("late", 0, [(b"k", b"v", 1, ())] * 3)
    return made


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    return tmp_path / "app-backfill"


def begin(staging: Path) -> None:
    """Leave the directory of a backfill that was begun."""
    plan = TopologyPlan(counting(), "app")
    StagingDirectory(staging).begin(BackfillIdentity.of(plan, {}, {}, {}), 0)


def need(
    broker: SimulatedBroker,
    staging: Path,
    *,
    above: int = 4,
    topology: Topology | None = None,
    offset_reset: str = "earliest",
) -> BackfillNeed:
    admin = SimulatedClients(broker, Lifeline("lookout", broker.faults)).admin()
    plan = TopologyPlan(topology or counting(), "app")
    waiting = Waiting(lambda _: None, InlineExecutor)
    return Lookout(plan, admin, offset_reset, waiting).look(above, staging)


def test_new_group_with_more_records_than_a_live_start_reads_has_a_backfill_to_do(
    broker: SimulatedBroker, staging: Path
) -> None:
    found = need(broker, staging)

    assert (found.is_needed, found.lag_records, found.with_outputs) == (True, 5, True)
    # What begins at its end live begins there in the backfill, too.
    assert found.starts == {TopicPartition("late", 0): 3}


def test_new_group_with_fewer_records_starts_live(broker: SimulatedBroker, staging: Path) -> None:
    found = need(broker, staging, above=5)

    assert (found.is_needed, found.lag_records) == (False, 5)


def test_records_before_the_first_offset_and_repartition_topics_are_no_lag(
    broker: SimulatedBroker, staging: Path
) -> None:
    broker.create_topic("app-by-value-repartition", 2)
    broker.append("app-by-value-repartition", 0, [(b"k", b"v", 1, ())] * 50)
    admin = SimulatedClients(broker, Lifeline("purge", broker.faults)).admin()
    admin.delete_records({IN_0: 2})

    assert need(broker, staging).lag_records == 3


@pytest.mark.parametrize(("own", "configured"), [("latest", "earliest"), (None, "latest")])
def test_application_that_begins_at_the_end_has_nothing_before_it(
    broker: SimulatedBroker, staging: Path, own: OffsetReset | None, configured: str
) -> None:
    found = need(broker, staging, topology=counting(own), offset_reset=configured)

    assert (found.is_needed, found.lag_records) == (False, 0)


def test_backfill_that_was_begun_keeps_its_bounds(broker: SimulatedBroker, staging: Path) -> None:
    begin(staging)
    found = need(broker, staging)

    assert (found.is_needed, dict(found.starts)) == (True, {})


@pytest.mark.parametrize("with_outputs", [False, True])
def test_group_that_is_published_in_part_is_finished_as_it_was_begun(
    broker: SimulatedBroker, staging: Path, with_outputs: bool
) -> None:
    mark = PublishingMark("backfill1", 7, with_outputs).encode()
    broker.group.offsets |= {IN_0: CommittedOffset(0, mark), IN_1: CommittedOffset(0, mark)}
    begin(staging)

    found = need(broker, staging, above=1_000_000)
    assert (found.is_needed, found.with_outputs) == (True, with_outputs)


def test_group_that_is_published_from_elsewhere_is_refused_before_anything_is_done(
    broker: SimulatedBroker, staging: Path
) -> None:
    mark = PublishingMark("backfill1", 7, with_outputs=True).encode()
    broker.group.offsets[IN_0] = CommittedOffset(0, mark)

    with pytest.raises(PublishingRefusedError, match=r"its results are not in .*app-backfill"):
        need(broker, staging)


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (encode_published(5, "backfill1"), "a backfill has handed the group over"),
        (encode_partition_time(5), "the group has committed offsets"),
    ],
)
def test_group_with_offsets_goes_on_there(
    broker: SimulatedBroker, staging: Path, metadata: str, why: str
) -> None:
    broker.group.offsets[IN_0] = CommittedOffset(3, metadata)

    assert need(broker, staging) == BackfillNeed(False, why)


def test_offsets_of_topics_that_are_not_read_any_more_do_not_count(
    broker: SimulatedBroker, staging: Path
) -> None:
    broker.group.offsets[TopicPartition("old", 0)] = CommittedOffset(3, "")

    assert need(broker, staging).is_needed


def test_missing_topic_is_named(broker: SimulatedBroker, staging: Path) -> None:
    broker.delete_topic("in")

    with pytest.raises(MissingSourceTopicError, match="'in' does not exist"):
        need(broker, staging)
