"""Kafka's partitions read by the workers that process them, without Spark in between.

A stage that reads nothing but topics of Kafka needs no shuffle: each task has partitions of its
own, and reads them as the live application would, with the same client and the same
configuration. Nothing is turned into rows on the way.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.sources.history import HistoryError
from pystreams.config import StreamsConfig
from pystreams.errors import OffsetOutOfRangeError, RetriableClientError
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import Clock, SystemClock
from pystreams.record import ConsumedMessage
from pystreams.runtime.ports import ChangelogBatch, RestoreConsumerPort

_RECORDS_AT_A_TIME = 1000
"""Few, so that most objects made of them are gone before the garbage collector looks."""
_POLL_S = 0.5
_PATIENCE_MIN_MS = 30_000
"""A first answer takes finding the brokers, connecting and logging in, whatever the timeout."""


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
            HistoryError: Records within the bounds are gone.
            RetriableClientError: The brokers gave nothing for `task.timeout.ms`, or 30 s if that is
                less.
            StreamsError: What the client's error means, such as no authorisation.
        """
        from pystreams.runtime.adapters.client_factory import ConfluentClients

        name = f"{self.config.application_id}-backfill-{partition}"
        consumer = ConfluentClients(self.config).history_consumer(name)
        try:
            yield from records_within(
                consumer, partition, bounds, self.config.task_timeout_ms, SystemClock()
            )
        except RetriableClientError as error:
            servers = self.config.bootstrap_servers
            raise RetriableClientError(f"{error}: see that the workers reach {servers}") from error
        finally:
            consumer.close()


def records_within(
    consumer: RestoreConsumerPort,
    partition: TopicPartition,
    bounds: PartitionBounds,
    patience_ms: int,
    clock: Clock,
) -> Generator[Sequence[ConsumedMessage]]:
    """Return the records of a partition within its bounds, some at a time.

    Args:
        consumer: Reads; is assigned the partition.
        patience_ms: How long the brokers may give nothing (ms). Only waiting for them counts, not
            what the caller does before it asks for more.
        clock: Tells how long.

    Raises:
        HistoryError: Records within the bounds are gone.
        RetriableClientError: The brokers gave nothing for so long.
        StreamsError: As the consumer's `poll`.
    """
    patience_ms = max(patience_ms, _PATIENCE_MIN_MS)
    consumer.assign({partition: bounds.first})
    position = bounds.first
    waits_from_ms = clock.monotonic_ms()
    while position < bounds.end:
        try:
            batches = consumer.poll(_RECORDS_AT_A_TIME, _POLL_S)
        except OffsetOutOfRangeError as error:
            raise _gone(partition, position, bounds) from error
        for batch in batches:
            position = _position_after(batch, position)
            if messages := _within(batch.messages, bounds.end):
                yield messages
        if batches:
            waits_from_ms = clock.monotonic_ms()
        elif clock.monotonic_ms() - waits_from_ms > patience_ms:
            raise RetriableClientError(
                f"{partition} gave nothing from offset {position} on for "
                f"{patience_ms / 1000:.0f} s, and is to be read up to {bounds.end}"
            )


def _gone(partition: TopicPartition, position: int, bounds: PartitionBounds) -> HistoryError:
    return HistoryError(
        f"{partition} does not hold offset {position} any more, and is to be read from "
        f"{bounds.first} to {bounds.end}: its retention, or somebody, has deleted records since "
        "the backfill was begun. Raise the topic's retention.ms, delete the staging directory (or "
        "choose another), and run the backfill again: it begins at the first offset there is then, "
        "or where --start says"
    )


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
    return [message for message in messages if (message.offset() or 0) < end]
