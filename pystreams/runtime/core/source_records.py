"""A source topic's records as its task reads them, for a store that is restored from there.

A changelog holds what a store was given. A source topic holds what the application was: records
that the deserialization handler skips, keys and values that the store's serdes write otherwise,
times that an extractor finds. So what is restored goes the way that it went when it was processed.
Where the way can't be known again, the record's own time stands in: for the wall clock of then, and
for the partition's time where the restore begins in the middle.

Differs from Kafka, which restores the topic's bytes as they are (KAFKA-8037).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pystreams.errors import NOT_OF_ONE_RECORD, TopologyError
from pystreams.exception_texts import named_exception
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.record import ConsumedMessage, Headers, StaticMessage, offset_of
from pystreams.runtime.core.failures.error_context import ErrorContext
from pystreams.runtime.core.failures.error_handlers import ErrorResponse
from pystreams.runtime.core.queues.record_queue import RecordQueue
from pystreams.runtime.core.source_queue import deserializers_of
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.state.managed_store import StoreSource
from pystreams.serdes import Serde
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.contracts.extractors import ConsumerRecord, fail_on_invalid_timestamp
from pystreams.topology.graph.nodes import SourceNode
from pystreams.topology.graph.subtopologies import Subtopology
from pystreams.topology.plan.topology_plan import TopologyPlan

_log = get_logger("pystreams.restore")

Serialize = Callable[[object], bytes]


class SourceRecords:
    """What one store is restored from."""

    def __init__(
        self,
        task_id: TaskId,
        partition: TopicPartition,
        node: SourceNode,
        builder: StoreBuilder,
        settings: TaskSettings,
    ) -> None:
        self._task_id, self._store, topic = task_id, builder.name, partition.topic
        environment = settings.stores.environment
        keys = node.key_serde or _known(environment.default_key_serde, "key", node)
        values = node.value_serde or _known(environment.default_value_serde, "value", node)
        self._serialize: tuple[Serialize, Serialize] | None = None
        if builder.store_kind.holds_tables:
            kept_keys = builder.spec.key_serde or environment.default_key_serde or keys
            kept_values = builder.spec.value_serde or environment.default_value_serde or values
            self._serialize = (kept_keys.serializer(topic), kept_values.serializer(topic))
        extractor = node.timestamp_extractor or settings.timestamp_extractor
        self._queue = RecordQueue(
            task_id=task_id,
            partition=partition,
            node=node.name,
            step=_nowhere,
            deserializers=deserializers_of(keys, values, topic),
            extractor=extractor if extractor is fail_on_invalid_timestamp else self._time_of,
            handler=self._skip,
        )
        self._extractor = extractor
        self._knows_time = False

    def read(self, messages: Sequence[ConsumedMessage]) -> list[ConsumedMessage]:
        """Return what the store would be given of a batch, the last with the batch's last offset.

        What does not fit the store's serdes was refused when it was processed, and is skipped.
        Of a store that holds no table, whose processor knows what its records mean, keys and
        values are the topic's bytes.
        """
        queue, serialize, first_offset = self._queue, self._serialize, offset_of(messages[0])
        if queue.next_offset is None or first_offset < queue.next_offset:
            queue.partition_time, self._knows_time = -1, first_offset == 0
        queue.add(messages)
        found: list[ConsumedMessage] = []
        topic, partition = queue.partition
        last_offset = offset_of(messages[-1])
        for key, value, timestamp, headers, message in queue.take(len(queue)):
            if key is None:
                continue
            raw_key, raw_value = message.key(), message.value()
            if serialize is not None:
                try:
                    raw_key = serialize[0](key)
                    raw_value = None if value is None else serialize[1](value)
                except NOT_OF_ONE_RECORD:
                    raise
                except Exception as error:  # noqa: BLE001 - the user's serde may raise anything
                    self._tell("record that does not fit is not restored", message.offset(), error)
                    continue
            found.append(
                StaticMessage(topic, partition, last_offset, raw_key, raw_value, timestamp, headers)
            )
        return found

    def _time_of(self, record: ConsumerRecord, partition_time: int) -> int:
        """Ask the extractor, telling it the record's own time where another was told then."""
        own_time = record.timestamp if record.timestamp >= 0 else max(partition_time, 0)
        record.now_ms = own_time
        if partition_time < 0 and not self._knows_time:
            partition_time = own_time
        return self._extractor(record, partition_time)

    def _skip(self, context: ErrorContext, error: Exception) -> ErrorResponse:
        """Skip what could not be read when it was processed, which the handler was asked about."""
        self._tell("record that can't be read is not restored", context.offset, error)
        return ErrorResponse.CONTINUE

    def _tell(self, what: str, offset: int | None, error: Exception) -> None:
        topic, partition = self._queue.partition
        _log.warning(
            what,
            task=self._task_id.logged,
            store=self._store,
            topic=topic,
            partition=partition,
            offset=offset,
            why=named_exception(error),
        )


def sources_of_stores(
    plan: TopologyPlan,
    subtopology: Subtopology,
    task_id: TaskId,
    partitions: Collection[TopicPartition],
    settings: TaskSettings,
) -> dict[str, StoreSource]:
    """Return the topics that stores of a task are filled from, as they are.

    Args:
        subtopology: The task's part of the topology.
        partitions: What it reads; a topic with fewer partitions than others has none for it.
    """
    found: dict[str, StoreSource] = {}
    changelogs = plan.source_changelogs(subtopology)
    for store, topic in (plan.table_topics(subtopology) | changelogs).items():
        partition = TopicPartition(topic, task_id.partition)
        node = plan.source_of_topic(topic)
        if node is None or partition not in partitions:
            continue
        if store in changelogs:
            builder = plan.topology.stores[store]
            other = TopicPartition(plan.changelog_topic(store), task_id.partition)
            reads = SourceRecords(task_id, partition, node, builder, settings).read
            found[store] = StoreSource(other, reads)
        else:
            found[store] = StoreSource(partition, None)
    return found


def _known(serde: Serde[object] | None, part: str, node: SourceNode) -> Serde[object]:
    if serde is None:
        raise TopologyError(
            f"source {node.name!r} has no {part} serde: give it one, or set default.{part}.serde"
        )
    return serde


def _nowhere(key: object, value: object, timestamp: int, headers: Headers) -> None:
    """Stand in for the steps below the source: what is restored goes no further."""
