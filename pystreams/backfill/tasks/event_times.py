"""The pass before the sort that finds event times in Python, where rows do not tell them.

That is with timestamp extractors of the user's own; and where a record that can't be read is
skipped, and must not keep those behind it waiting for its timestamp.

The extractor sees what it sees in a live run: the deserialized record and the highest timestamp of
its partition so far. It is called once here and once when the record is processed, so it must give
the same answer twice. A record that can't be read, or whose extractor raises, waits like the one
before it: the task itself meets it again, and says where and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from pystreams.backfill.plan.rows import HEADERS, headers_of
from pystreams.backfill.plan.turns import (
    has_turn,
    topics_between_tables,
    topics_in_turn,
    turn_in,
)
from pystreams.backfill.spark.pickling import unpack
from pystreams.backfill.tasks.worker import StageJob
from pystreams.record import MAX_TIME
from pystreams.runtime.core.failures.error_handlers import log_and_fail
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.serdes import filled, filled_value, seeing_deserializer
from pystreams.topology.contracts.extractors import (
    ConsumerRecord,
    TimestampExtractor,
    fail_on_invalid_timestamp,
    log_and_skip_on_invalid_timestamp,
    use_partition_time_on_invalid_timestamp,
)
from pystreams.topology.contracts.record_parts import checked_time
from pystreams.topology.graph.nodes import SourceNode
from pystreams.topology.plan.topology_plan import TopologyPlan

_BY_MESSAGE = (
    fail_on_invalid_timestamp,
    log_and_skip_on_invalid_timestamp,
    use_partition_time_on_invalid_timestamp,
)
"""Extractors that take the message's own timestamp where it has one: the highest so far is the
same without asking them."""


def needs_event_times(job: StageJob) -> bool:
    """Return whether records must be read to be put in order."""
    settings = job.settings().task
    if settings.deserialization_handler is not log_and_fail:
        return True
    default = settings.timestamp_extractor
    return any(
        (source.timestamp_extractor or default) not in _BY_MESSAGE
        for source in map(job.backfill.topology.source_of_topic, job.stage.topics)
        if source is not None
    )


def add_event_times(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the column `waits`, the highest event time so far in the partition.

    Args:
        payload: A packed `StageJob`.
        batches: History sorted by partition, topic and offset.
    """
    job: StageJob = unpack(payload)
    settings = job.settings().task
    in_turn = topics_in_turn(job.backfill.topology)
    between_tables = topics_between_tables(job.backfill.topology)
    reading: tuple[str, int] | None = None
    ask: Callable[..., int] | None = None
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns[:6]]
        waits: list[int | None] = []
        for row in zip(*columns, headers_of(batch.column(HEADERS)), strict=True):
            topic, partition = row[0], row[1]
            if topic is None:
                waits.append(None)
                continue
            if topic in between_tables:
                waits.append(turn_in(row[-1]))
                continue
            if (topic, partition) != reading:
                reading = (topic, partition)
                ask = _asking(job.backfill.topology, settings, topic, job.started_ms)
            assert ask is not None, "set with the first row of the partition"
            if topic in in_turn and has_turn(row[-1]):
                # A merge of several tasks' records has its turns in order.
                waits.append(max(turn_in(row[-1]), ask(*row[:-1], row[-1][:-1])))
            else:
                waits.append(ask(*row))
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(waits, pa.int64())], names=[*batch.schema.names, "waits"]
        )


def _asking(
    plan: TopologyPlan, settings: TaskSettings, topic: str, now_ms: int
) -> Callable[..., int]:
    """Return what asks the extractor of one partition for each record, in order.

    It is called with the record's columns, and returns the highest event time up to it (ms).
    """
    node = plan.source_of_topic(topic)
    assert isinstance(node, SourceNode), f"the stage reads {topic}"
    extract: TimestampExtractor = node.timestamp_extractor or settings.timestamp_extractor
    environment = settings.stores.environment
    defaults = environment.default_value_serde, environment.default_key_serde
    key_serde: Any = filled(node.key_serde, environment.default_key_serde)
    value_serde: Any = filled_value(node.value_serde, *defaults)
    read_key = seeing_deserializer(key_serde, topic)
    read_value = seeing_deserializer(value_serde, topic)
    highest = -1

    def highest_up_to(topic: str, partition: int, offset: int, timestamp: int, *rest: Any) -> int:
        nonlocal highest
        raw_key, raw_value, headers = rest
        try:
            headers = tuple(headers or ())
            key = None if raw_key is None else read_key(raw_key, headers)
            value = None if raw_value is None else read_value(raw_value, headers)
            record = ConsumerRecord(
                topic, partition, offset, key, value, timestamp, headers, now_ms
            )
            extracted = extract(record, highest)
            if type(extracted) is not int or extracted > MAX_TIME:
                extracted = checked_time("an event time", extracted)
        except Exception:  # noqa: BLE001 - told by the task, with all it knows
            return highest
        highest = max(highest, extracted)
        return highest

    return highest_up_to
