"""Kafka's partitions read by the workers that process them, without Spark in between.

A stage that reads nothing but topics of Kafka needs no shuffle: each task has partitions of its
own, and reads them as the live application would, with the same client and the same
configuration. Nothing is turned into rows on the way.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from pystreams.backfill.history import PartitionBounds
from pystreams.config import StreamsConfig
from pystreams.errors import RetriableClientError
from pystreams.ids import TopicPartition
from pystreams.record import ConsumedMessage
from pystreams.runtime.ports import ChangelogBatch

_RECORDS_AT_A_TIME = 1000
"""Few, so that most objects made of them are gone before the garbage collector looks."""
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class KafkaPartitionReader:
    """Reads committed records, a client for each partition. Implements `history.PartitionReader`.

    Attributes:
        config: The application's configuration, with which workers reach the brokers.
    """

    config: StreamsConfig

    def read(
        self, partition: TopicPartition, bounds: PartitionBounds
    ) -> Generator[Sequence[ConsumedMessage]]:
        """Return the records of a partition within its bounds; see `history.PartitionReader`.

        Raises:
            RetriableClientError: Nothing came for `task.timeout.ms`.
            StreamsError: What the client's error means: records that are gone, no authorisation.
        """
        from pystreams.runtime.adapters.factory import ConfluentClients

        name = f"{self.config.application_id}-backfill-{partition}"
        consumer = ConfluentClients(self.config).history_consumer(name)
        patience_s = self.config.task_timeout_ms / 1000
        try:
            consumer.assign({partition: bounds.first})
            position = bounds.first
            heard_s = time.monotonic()
            while position < bounds.end:
                for batch in consumer.poll(_RECORDS_AT_A_TIME, _POLL_S):
                    heard_s = time.monotonic()
                    position = _position_after(batch, position)
                    if messages := _within(batch.messages, bounds.end):
                        yield messages
                if time.monotonic() - heard_s > patience_s:
                    raise RetriableClientError(
                        f"{partition} gave nothing from offset {position} on for "
                        f"{patience_s:.0f} s, and is to be read up to {bounds.end}: see that the "
                        f"workers reach {self.config.bootstrap_servers}"
                    )
        finally:
            consumer.close()


def _position_after(batch: ChangelogBatch, position: int) -> int:
    """Return the offset up to which everything has come, records or not."""
    if batch.messages:
        last = batch.messages[-1].offset()
        assert last is not None, "consumed records have an offset"
        position = last + 1
    return position if batch.end_reached_at is None else max(position, batch.end_reached_at)


def _within(messages: Sequence[ConsumedMessage], end: int) -> Sequence[ConsumedMessage]:
    """Return the records below an offset; they are in order."""
    last = messages[-1].offset() if messages else None
    if last is None or last < end:
        return messages
    return [one for one in messages if (one.offset() or 0) < end]
