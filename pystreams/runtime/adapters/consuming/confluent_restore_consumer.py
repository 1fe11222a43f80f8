"""The consumer of changelogs, on librdkafka: in no group, and it notices the end of a partition.

A backfill reads its history with it too.

librdkafka tells the end as a message with an error (`enable.partition.eof`), whose offset is the
next one to read; under read_committed that is the end of what is stable, past the markers of
transactions, which no message shows. It takes another fetch to see the end, and that one finds
nothing to return: so fetches wait 20 ms for data, not 500.
"""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from pystreams.errors import OffsetOutOfRangeError, RetriableClientError
from pystreams.ids import TopicPartition
from pystreams.runtime.adapters.connection.confluent import Consumer, Message, consume_available
from pystreams.runtime.adapters.connection.confluent_errors import OUT_OF_RANGE, translate
from pystreams.runtime.adapters.connection.connections import BrokerOutage, make_client
from pystreams.runtime.adapters.connection.kafka_partitions import theirs
from pystreams.runtime.adapters.consuming.partition_splitter import PartitionSplitter
from pystreams.runtime.ports import ChangelogBatch, PartitionBatch

_FETCH_WAIT_MS = 20

_error_in = Message.error


class ConfluentRestoreConsumer:
    """Implements `RestoreConsumerPort`.

    Args:
        reads: What it reads, for messages.
    """

    def __init__(
        self, config: Mapping[str, Any], outage: BrokerOutage, reads: str = "changelog"
    ) -> None:
        self._doing = f"reading {reads}"
        own = {"fetch.wait.max.ms": _FETCH_WAIT_MS} | dict(config) | {"enable.partition.eof": True}
        self._client = make_client(Consumer, own, outage)
        self._refused = outage.refused(own)
        self._splitter = PartitionSplitter()
        self._assigned: set[TopicPartition] = set()
        self._closed = False

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions; new ones from the given offset, kept ones go on."""
        gone = self._assigned - positions.keys()
        new = positions.keys() - self._assigned
        if gone:
            self._client.incremental_unassign([theirs(partition) for partition in gone])
        if new:
            self._client.incremental_assign(
                [theirs(partition, positions[partition]) for partition in new]
            )
        self._assigned = set(positions)
        self._splitter.assign(self._assigned)

    def poll(self, max_records: int, timeout_s: float) -> list[ChangelogBatch]:
        """Return what has arrived, waiting up to the timeout for the first message."""
        messages = consume_available(self._client, max_records, timeout_s, self._doing)
        if not messages:
            self._refused.check()
            return []
        self._refused.accept()
        ends: dict[TopicPartition, int] = {}
        if any(map(_error_in, messages)):
            messages = self._without_errors(messages, ends)
        return self._batches(messages, ends)

    def close(self) -> None:
        """Release the client."""
        if not self._closed:
            self._closed = True
            self._client.close()

    def _batches(
        self, messages: list[Message], ends: dict[TopicPartition, int]
    ) -> list[ChangelogBatch]:
        # What was fetched for a partition that is not read any more must not be given to another.
        known = [message for message in messages if self._splitter.find(message) is not None]
        split: list[PartitionBatch] = self._splitter.split(known) if known else []
        batches = [
            ChangelogBatch(partition, batch, ends.pop(partition, None))
            for partition, batch in split
        ]
        return batches + [ChangelogBatch(partition, [], end) for partition, end in ends.items()]

    def _without_errors(
        self, messages: list[Message], ends: dict[TopicPartition, int]
    ) -> list[Message]:
        good = []
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
                continue
            if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                continue  # The client asks for a coordinator, sooner or later; none is needed.
            partition = self._splitter.find(message)
            if error.code() == KafkaError._PARTITION_EOF:
                end = message.offset()
                if partition is not None and end is not None:
                    ends[partition] = end
                continue
            doing = f"{self._doing} {partition or ''}".rstrip()
            if error.code() in OUT_OF_RANGE and partition is not None:
                raise OffsetOutOfRangeError(f"{doing}: {error.str()} ({error.name()})", partition)
            translated = translate(error, doing)
            if not isinstance(translated, RetriableClientError):
                raise translated
        return good
