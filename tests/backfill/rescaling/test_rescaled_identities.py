"""What `distinct` has handed on is known in other partition counts, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pystreams import StreamsBuilder, TopicPartition, Topology, serdes
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.plan.store_changelogs import StoreChangelog
from pystreams.backfill.publishing.publication import PartitionHistory
from pystreams.backfill.rescaling.move_plan import MovedSubtopology, MovedTopic
from pystreams.backfill.rescaling.moved_rows import moved_rows
from pystreams.kernel.partitioner import partition_of
from pystreams.record import ProducedRecord
from pystreams.testing import TopologyTestDriver
from tests.backfill.logged_stores import frame
from tests.stores.support import Message

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
CONFIG = {"application.id": "app", "statestore.cache.max.bytes": 0}
STORE = "once-store"
Records = Sequence[tuple[str, str, int]]

RECORDS = [(f"k{number}", f"order {number % 5}", 1_000 + number) for number in range(40)]

by_value = pytest.mark.parametrize(
    "by", [lambda _, value: value, None], ids=["by a value", "by the key"]
)


def once(by: Callable[..., Any] | None) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", **TEXT)
    stream.distinct(within_ms=3_600_000, by=by, name="once").to("out", **TEXT)
    return builder.build()


def of_task(records: Records, number: int, count: int) -> Records:
    """The records whose keys lie in one partition of so many."""
    return [record for record in records if partition_of(record[0].encode(), count) == number]


def handed_on(driver: TopologyTestDriver, records: Records) -> int:
    for key, value, timestamp in records:
        driver.pipe_raw("in", key.encode(), value.encode(), timestamp, ())
    return len(list(driver.produced_raw("out")))


def moved(
    spark: Any, topology: Topology, old: Sequence[Sequence[ProducedRecord]], new: int
) -> list[list[ProducedRecord]]:
    """What a rescale makes of the changelogs of old tasks: those of the new ones."""
    spec = topology.stores[STORE].spec
    changelog = StoreChangelog(spec, f"app-{STORE}-changelog", 0, len(old))
    topic = MovedTopic("in", "in", len(old), new)
    part = MovedSubtopology(0, [topic], [changelog], len(old), new, True)
    begins = {TopicPartition("in", number): PartitionHistory(0, 0) for number in range(new)}
    messages = {
        number: [
            Message(key, value, offset, timestamp)
            for offset, (key, value, timestamp, _) in enumerate(records)
        ]
        for number, records in enumerate(old)
    }
    found: list[list[ProducedRecord]] = [[] for _ in range(new)]
    for row in moved_rows(spark, frame(spark, STORE, messages), part, begins).collect():
        if row.kind == int(ResultKind.STATE):
            found[row.task].append((bytes(row.key), bytes(row.value), row.timestamp, ()))
    return found


@by_value
@pytest.mark.parametrize(("old", "new"), [(1, 4), (2, 3)])
def test_repeats_are_dropped_after_a_rescale(
    old: int, new: int, by: Callable[..., Any] | None, spark: Any
) -> None:
    changelogs = []
    for number in range(old):
        with TopologyTestDriver(once(by), CONFIG) as driver:
            own = of_task(RECORDS, number, old)
            assert handed_on(driver, own) == len(own)
            changelogs.append(list(driver.get_state_store(STORE).changelog_records()))

    state = moved(spark, once(by), changelogs, new)

    for number, records in enumerate(state):
        own = of_task(RECORDS, number, new)
        assert len(records) == len(own)
        with TopologyTestDriver(once(by), CONFIG) as driver:
            driver.restore_stores({STORE: records})
            assert handed_on(driver, own) == 0
