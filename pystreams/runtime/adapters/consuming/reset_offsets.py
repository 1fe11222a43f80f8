"""Where a partition is read whose next offset is not known, or not there: `auto.offset.reset`."""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore.

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from pystreams.errors import FatalStreamsError, InputLossError, RetriableClientError
from pystreams.ids import TopicPartition
from pystreams.runtime.adapters.connection.confluent_errors import error_of, translate
from pystreams.runtime.adapters.connection.kafka_partitions import theirs, watermarks

_ANSWER_TIMEOUT_S = 10.0
_EARLIEST = frozenset({"beginning", "earliest", "smallest"})
LATEST = frozenset({"end", "largest", "latest"})


class ResetOffsets:
    """Asks for the beginning or the end of partitions.

    Args:
        policy: `auto.offset.reset`.
    """

    def __init__(self, client: Any, group: str, policy: str) -> None:
        self._client = client
        self._group = group
        self._policy = policy

    def of(self, partition: TopicPartition) -> int:
        """Return the offset to begin at.

        Raises:
            RetriableClientError: No answer in time, or nobody leads the partition just now.
            FatalStreamsError: There is no such partition, or the policy is to stop.
        """
        if self._policy not in _EARLIEST | LATEST:
            raise FatalStreamsError(
                f"{partition} has no committed offset in group {self._group!r} and "
                f"auto.offset.reset={self._policy!r}: set it to earliest or latest, "
                "or commit an offset"
            )
        return self._chosen(*self._watermarks(partition))

    def instead_of(self, partition: TopicPartition, offset: int) -> int:
        """Return where to go on: at the offset itself, or where records begin behind it.

        Raises:
            InputLossError: The partition ends before it. A broker that leads it since just now may
                say so for a moment.
            RetriableClientError: As `of`.
            FatalStreamsError: As `of`.
        """
        first, last = self._watermarks(partition)
        # Behind the last stable record there may be those of an open transaction.
        _, fetched = self._client.get_watermark_offsets(theirs(partition), cached=True)
        end = max(last, fetched)
        if offset > end:
            raise InputLossError(partition, self._group, offset, end)
        return offset if first <= offset else self._chosen(first, last)

    def _chosen(self, first: int, last: int) -> int:
        return first if self._policy in _EARLIEST else last

    def _watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        """Return the first offset that is there, and the one behind the last."""
        try:
            found = watermarks(self._client, partition, _ANSWER_TIMEOUT_S)
        except KafkaException as raised:
            error = error_of(raised)
            if error.code() == KafkaError._UNKNOWN_PARTITION and self._is_there(partition):
                message = f"offsets of {partition}: the client knows no leader of it"
                raise RetriableClientError(message) from raised
            raise translate(error, f"offsets of {partition}") from raised
        if found is None:
            raise RetriableClientError(f"offsets of {partition}: no answer in time")
        return found

    def _is_there(self, partition: TopicPartition) -> bool:
        """Whether the broker has a partition that the client calls unknown.

        It does so also where no leader is known: just after a connection was lost, or while there
        is none. Source: librdkafka's `rd_kafka_topic_partition_list_query_leaders`.
        """
        try:
            topics = self._client.list_topics(partition.topic, timeout=_ANSWER_TIMEOUT_S).topics
        except KafkaException as raised:
            raise translate(error_of(raised), f"partitions of {partition.topic!r}") from raised
        return partition.partition in topics[partition.topic].partitions
