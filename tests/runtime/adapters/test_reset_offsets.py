"""Where a partition begins of which the group has no offset."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer

from pystreams import FatalStreamsError, TopicPartition
from pystreams.errors import RetriableClientError
from pystreams.runtime.adapters.consuming.reset_offsets import ResetOffsets
from tests.broker.troubles.request_proxy import RequestProxy
from tests.runtime.adapters.application import answer_of, until

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
    asking = {"bootstrap.servers": proxy.bootstrap_servers, "group.id": "asks"}
    made: list[Consumer] = []

    def told(partition: int, text: str) -> bool:
        """Ask with a new client: one that knows no broker any more has no answer at all."""
        made.append(Consumer(asking))
        try:
            ResetOffsets(made[-1], "asks", "earliest").of(TopicPartition(topic, partition))
        except (FatalStreamsError, RetriableClientError) as error:
            return text in str(error)
        return False

    try:
        proxy.names_brokers = False
        until(lambda: told(0, "knows no leader"), "no leader")
        until(lambda: told(2, "with the partitions it had"), "no partition")

        proxy.names_brokers = True
        made.append(Consumer(asking))
        for policy, offset in (("earliest", 0), ("latest", 5)):
            wanted = ResetOffsets(made[-1], "asks", policy)
            assert answer_of(lambda: wanted.of(TopicPartition(topic, 0))) == offset  # noqa: B023
    finally:
        for client in made:
            client.close()
        proxy.close()


def test_watermarks_that_were_not_answered_are_no_offsets() -> None:
    """The client has no error for them either, where a broker dies under the question."""
    unanswered: Any = SimpleNamespace(
        get_watermark_offsets=lambda *_, **__: (OFFSET_INVALID, OFFSET_INVALID)
    )
    offsets = ResetOffsets(unanswered, "asks", "earliest")

    with pytest.raises(RetriableClientError, match="offsets of in-0: no answer"):
        offsets.of(TopicPartition("in", 0))
