"""What a group has committed, asked by a consumer that does not join it.

librdkafka's admin client can ask as well, and for all partitions at once. But while a group has no
coordinator, as a cluster's first one for a moment and any group while its coordinator moves, it
(2.16) either ends the process with a segmentation fault (confluent-kafka-javascript issue 374), or
waits for its time-out though the coordinator has long been there. A consumer does neither.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from pystreams.ids import TopicPartition
from pystreams.runtime.adapters.connection.confluent import Consumer
from pystreams.runtime.adapters.connection.confluent_errors import (
    CLIENT_EXCEPTIONS,
    TRANSIENT,
    error_of,
    translate,
)
from pystreams.runtime.adapters.connection.connections import BrokerOutage, make_client
from pystreams.runtime.adapters.connection.kafka_partitions import committed_offset, ours
from pystreams.runtime.cluster.committed_offsets import CommittedOffset

_FIRST_WAIT_S = 1.0
_PAUSE_S = 0.05
_ANY = KafkaPartition("__consumer_offsets", 0)


def committed(
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
        timeout_s: For the answer (s).

    Raises:
        RetriableClientError: No answer in time.
        FatalStreamsError: A broker refuses.
    """
    wanted = [
        KafkaPartition(topic, number) for topic, count in counts.items() for number in range(count)
    ]
    found = _asked(group, wanted, config, outage, timeout_s) if wanted else []
    for at in found:
        if at.error is not None:
            raise translate(at.error, f"offset of {ours(at)} of group {group!r}")
    return {ours(at): committed_offset(at) for at in found if at.offset >= 0}


def await_coordinator(
    group: str, config: Mapping[str, Any], outage: BrokerOutage, timeout_s: float
) -> None:
    """Wait until a group's coordinator answers; arguments and errors are as above."""
    _asked(group, [_ANY], config, outage, timeout_s)


def _asked(
    group: str,
    wanted: Sequence[KafkaPartition],
    config: Mapping[str, Any],
    outage: BrokerOutage,
    timeout_s: float,
) -> list[KafkaPartition]:
    own = {
        **config,
        "group.id": group,
        "enable.auto.commit": False,
        # Of a transaction that is not over, the answer is what was committed before.
        "isolation.level": "read_uncommitted",
    }
    client = make_client(Consumer, own, outage)
    try:
        return _answer(client, list(wanted), timeout_s)
    except CLIENT_EXCEPTIONS as raised:
        raise translate(error_of(raised), f"offsets of group {group!r}") from raised
    finally:
        client.close()


def _answer(client: Consumer, wanted: list[KafkaPartition], timeout_s: float) -> list[Any]:
    """Ask until there is an answer, or what refuses it: that is only heard in between."""
    deadline_s = time.monotonic() + timeout_s
    waits_s = _FIRST_WAIT_S
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            return client.committed(wanted, timeout=max(min(waits_s, left_s), _PAUSE_S))
        except KafkaException as raised:
            if error_of(raised).code() not in TRANSIENT or left_s <= 0:
                raise
        said = client.poll(0)
        refused = None if said is None else said.error()
        if refused is not None and refused.code() not in TRANSIENT:
            raise KafkaException(refused)
        waits_s *= 2
        time.sleep(_PAUSE_S)
