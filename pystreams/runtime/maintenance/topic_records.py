"""Reads topics as they are, outside of any group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pystreams.ids import TopicPartition
from pystreams.record import ConsumedMessage
from pystreams.runtime.ports import RestoreConsumerPort

_POLL_RECORDS = 1000
_POLL_TIMEOUT_S = 0.5


def records_of(
    consumer: RestoreConsumerPort,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int] | None,
) -> Iterator[ConsumedMessage]:
    """Give the records of partitions, as they come.

    Args:
        consumer: Reads them; its owner closes it.
        starts: Where each partition is read from.
        ends: Up to which offset (exclusive); None follows them for ever.

    Raises:
        StreamsError: As the consumer does.
    """
    # A partition's last records may be markers of transactions: its end is told by the client.
    unfinished = {at for at in starts if ends is None or starts[at] < ends[at]}
    consumer.assign({at: starts[at] for at in unfinished})
    while unfinished or ends is None:
        for batch in consumer.poll(_POLL_RECORDS, _POLL_TIMEOUT_S):
            end = None if ends is None else ends[batch.partition]
            for message in batch.messages:
                offset = message.offset() or 0
                if end is not None and offset >= end:
                    unfinished.discard(batch.partition)
                    break
                yield message
                if end is not None and offset + 1 >= end:
                    unfinished.discard(batch.partition)
            if batch.end_reached_at is not None:
                unfinished.discard(batch.partition)
