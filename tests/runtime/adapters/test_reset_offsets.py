"""Where a partition begins of which the group has no offset."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from pystreams import FatalStreamsError, TopicPartition
from pystreams.errors import RetriableClientError
from pystreams.runtime.adapters.consuming.reset_offsets import ResetOffsets
from tests.broker.request_proxy import RequestProxy

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker
    from tests.runtime.adapters.application import Application


def test_partition_whose_leader_the_client_does_not_know_is_asked_for_again(
    broker: DevelopmentBroker, make_application: Callable[[dict[str, Any]], Application]
) -> None:
    """The client calls it unknown, as one that there is not."""
    application = make_application({})
    topic = application.topic(partitions=2)
    application.fill(topic, 5, 0)
    proxy = RequestProxy(broker.bootstrap_servers)
    proxy.names_brokers = False
    client = Consumer({"bootstrap.servers": proxy.bootstrap_servers, "group.id": "asks"})
    try:
        beginning = ResetOffsets(client, "asks", "earliest")

        with pytest.raises(RetriableClientError, match="knows no leader"):
            beginning.of(TopicPartition(topic, 0))
        with pytest.raises(FatalStreamsError, match="with the partitions it had"):
            beginning.of(TopicPartition(topic, 2))

        proxy.names_brokers = True
        client.list_topics()
        assert beginning.of(TopicPartition(topic, 0)) == 0
        assert ResetOffsets(client, "asks", "latest").of(TopicPartition(topic, 0)) == 5
    finally:
        client.close()
        proxy.close()
