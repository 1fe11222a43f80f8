"""What is asked for again when its answer was lost, though it was done: by tests, and by us."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams import StreamsConfig
from pystreams.broker import DevelopmentBroker
from pystreams.ids import TopicPartition
from pystreams.runtime.adapters.administering.confluent_admin import ConfluentAdmin
from pystreams.runtime.adapters.client_factory import ConfluentClients
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.cluster.new_topic import NewTopic as NewInternalTopic
from tests.broker.reading import create_topics, delete_named, delete_topics, topics_of
from tests.broker.troubles.request_proxy import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    METADATA,
    OFFSET_FETCH,
    RequestProxy,
)
from tests.broker.waiting import wait_until
from tests.runtime.adapters.application import answer_of


@pytest.fixture
def proxy(broker: DevelopmentBroker) -> Iterator[RequestProxy]:
    between = RequestProxy(broker.bootstrap_servers)
    yield between
    between.close()


@pytest.fixture
def client(proxy: RequestProxy) -> AdminClient:
    return AdminClient({"bootstrap.servers": proxy.bootstrap_servers})


@pytest.fixture
def our_admin(proxy: RequestProxy, unique_name: str) -> ConfluentAdmin:
    settings = {"application.id": unique_name, "bootstrap.servers": proxy.bootstrap_servers}
    return ConfluentClients(StreamsConfig.of(settings)).admin()


def test_topics_of_a_test_are_created_and_deleted_though_no_answer_comes(
    client: AdminClient, proxy: RequestProxy, unique_name: str
) -> None:
    proxy.lose_answers(CREATE_TOPICS)
    create_topics(client, [NewTopic(unique_name, 2), NewTopic(f"{unique_name}-other", 1)])
    proxy.lose_answers(METADATA)
    shown = topics_of(client)
    proxy.lose_answers(DELETE_TOPICS)
    delete_topics(client, f"{unique_name}-")
    delete_named(client, unique_name)

    assert proxy.lost_answers == 3
    assert (shown[unique_name], shown[f"{unique_name}-other"]) == (2, 1)
    wait_until(
        lambda: not [name for name in topics_of(client) if name.startswith(unique_name)],
        "no topic shown any more",
    )


def test_the_topic_of_another_test_is_not_taken_for_one_s_own(
    client: AdminClient, unique_name: str
) -> None:
    create_topics(client, [NewTopic(unique_name, 2)])

    with pytest.raises(AssertionError, match="another test's"):
        create_topics(client, [NewTopic(unique_name, 3)])


def test_our_topics_are_created_and_deleted_though_no_answer_comes(
    our_admin: ConfluentAdmin, proxy: RequestProxy, unique_name: str
) -> None:
    proxy.lose_answers(CREATE_TOPICS)
    our_admin.create_topics([NewInternalTopic(unique_name, 2, {})])
    counts = our_admin.partition_counts()
    proxy.lose_answers(DELETE_TOPICS)
    failures = our_admin.delete_topics([unique_name])

    assert proxy.lost_answers == 2
    assert counts[unique_name] == 2
    assert failures == {}


def test_offsets_are_asked_again_where_a_broker_is_not_the_coordinator(
    our_admin: ConfluentAdmin, client: AdminClient, proxy: RequestProxy, unique_name: str
) -> None:
    """Librdkafka's admin client would end the process with a segmentation fault."""
    create_topics(client, [NewTopic(unique_name, 2)])
    group = unique_name
    offsets = {TopicPartition(unique_name, 1): CommittedOffset(7, "noted")}
    answer_of(lambda: our_admin.group_members(group))  # Its coordinator is there from now on.
    answer_of(lambda: our_admin.alter_offsets(group, offsets))
    proxy.answer_next(OFFSET_FETCH, *[not_coordinator(group)] * 2)

    assert answer_of(lambda: our_admin.committed_offsets(group)) == offsets
    assert proxy.own_answers == 2


def not_coordinator(group: str) -> bytes:
    """Return the body of an answer to OffsetFetch, version 8 or 9: one group, no topics."""
    name = group.encode()
    throttled = bytes(4)
    found = bytes([1 + 1, len(name) + 1]) + name + bytes([0 + 1])
    return throttled + found + struct.pack(">h", KafkaError.NOT_COORDINATOR) + bytes(2)
