"""What a group has committed, asked by a consumer that does not join it.

librdkafka's admin client can ask as well, and for all partitions at once. But it (2.16) ends the
process with a segmentation fault where a broker answers that it is not the group's coordinator, as
at the first group of a cluster and when a coordinator moves: confluent-kafka-javascript issue 374.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from pystreams.ids import TopicPartition
from pystreams.runtime.adapters.connection.confluent import Consumer
from pystreams.runtime.adapters.connection.confluent_errors import TRANSIENT, error_of, translate
from pystreams.runtime.adapters.connection.connections import BrokerOutage, make_client
from pystreams.runtime.adapters.connection.kafka_partitions import committed_offset, ours
from pystreams.runtime.cluster.committed_offsets import CommittedOffset

_PAUSE_S = 0.05


def committed_offsets(
    group: str,
    counts: Mapping[str, int],
    config: Mapping[str, Any],
    outage: BrokerOutage,
    timeout_s: float,
) -> dict[TopicPartition, CommittedOffset]:
    """Return what a group has committed, transactions that are not over left out.

    Args:
        group: The group; it may never have been.
        counts: How many partitions each topic has that there is. Kafka deletes a topic's offsets
            together with it: there are no others.
        config: librdkafka's configuration of an admin client.
        outage: Told when brokers can't be reached.
        timeout_s: For the answer (s).

    Raises:
        RetriableClientError: No answer in time.
        FatalStreamsError: A broker refuses.
    """
    wanted = [
        KafkaPartition(topic, number) for topic, count in counts.items() for number in range(count)
    ]
    if not wanted:
        return {}
    own = {
        **config,
        "group.id": group,
        "enable.auto.commit": False,
        # Of a transaction that is not over, the answer is what was committed before.
        "isolation.level": "read_uncommitted",
    }
    client = make_client(Consumer, own, outage)
    try:
        found = _answer(lambda left_s: client.committed(wanted, timeout=left_s), timeout_s)
    except KafkaException as raised:
        raise translate(error_of(raised), f"offsets of group {group!r}") from raised
    finally:
        client.close()
    return {ours(at): committed_offset(at) for at in found if at.offset >= 0}


def _answer(ask: Callable[[float], list[KafkaPartition]], timeout_s: float) -> list[KafkaPartition]:
    """Ask until there is an answer, as long as there is time; one that passes may come at once."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            found = ask(max(left_s, _PAUSE_S))
        except KafkaException as raised:
            if error_of(raised).code() not in TRANSIENT or left_s <= _PAUSE_S:
                raise
        else:
            refused = [at.error for at in found if at.error is not None]
            if not refused:
                return found
            passes = all(error.code() in TRANSIENT for error in refused)
            if not passes or left_s <= _PAUSE_S:
                raise KafkaException(refused[0])
        time.sleep(_PAUSE_S)
