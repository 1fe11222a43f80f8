"""Consumer groups through librdkafka's admin client: who is in one, and what is changed of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
)
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from pystreams.errors import RetriableClientError
from pystreams.ids import TopicPartition
from pystreams.runtime.adapters.administering.coordinator_client import (
    NEVER_S,
    CoordinatorClient,
    answer_of,
)
from pystreams.runtime.adapters.connection.confluent_errors import error_of, translate
from pystreams.runtime.adapters.connection.kafka_partitions import (
    offsets_to_commit,
    ours,
)
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.cluster.group_description import GroupDescription, GroupMember

_PAUSE_S = 0.05
_SETTLED = frozenset({ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD})


def described(
    coordinators: CoordinatorClient, group: str, timeout_s: float
) -> Future[GroupDescription]:
    """Ask who is in a group, without waiting; see `AdminPort.describe_group`."""

    def describe(client: AdminClient) -> Future[ConsumerGroupDescription]:
        return client.describe_consumer_groups([group], request_timeout=NEVER_S)[group]

    answer: Future[GroupDescription] = Future()
    asked = coordinators.ask(describe, _members_of(group), timeout_s)
    asked.add_done_callback(partial(_pass_on, group, answer))
    return answer


def members(
    coordinators: CoordinatorClient, group: str, look_s: float, timeout_s: float
) -> list[str]:
    """Return the client ids of a group's members, sorted, from as many looks as it takes."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            found = described(coordinators, group, look_s).result()
        except RetriableClientError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_PAUSE_S)
        else:
            return sorted(member.client_id for member in found.members)


def _members_of(group: str) -> str:
    return f"members of group {group!r}"


def _pass_on(
    group: str, answer: Future[GroupDescription], asked: Future[ConsumerGroupDescription]
) -> None:
    raised = asked.exception()
    if raised is None:
        answer.set_result(_ours(asked.result()))
    elif not isinstance(raised, KafkaException):
        answer.set_exception(raised)
    elif error_of(raised).code() == KafkaError.GROUP_ID_NOT_FOUND:
        answer.set_result(GroupDescription(settled=True, members=()))
    else:
        answer.set_exception(translate(error_of(raised), _members_of(group)))


def _ours(found: ConsumerGroupDescription) -> GroupDescription:
    members = tuple(
        GroupMember(
            str(member.member_id),
            str(member.client_id),
            str(member.host).removeprefix("/"),
            frozenset(map(ours, member.assignment.topic_partitions)),
            member.group_instance_id or None,
        )
        for member in found.members
    )
    return GroupDescription(found.state in _SETTLED, members)


def alter_offsets(
    make: Callable[[], AdminClient],
    group: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    timeout_s: float,
) -> None:
    """Commit offsets for a group that nobody is in; see `AdminPort.alter_offsets`."""
    if not offsets:
        return
    wanted = [ConsumerGroupTopicPartitions(group, offsets_to_commit(offsets))]

    def alter(client: AdminClient) -> Future[ConsumerGroupTopicPartitions]:
        return client.alter_consumer_group_offsets(wanted, request_timeout=NEVER_S)[group]

    about = f"setting offsets of group {group!r}"
    try:
        committed = answer_of(make, alter, about, timeout_s).topic_partitions or []
    except KafkaException as raised:
        raise translate(error_of(raised), about) from raised
    for found in committed:
        if found.error is not None:
            doing = f"setting the offset of {ours(found)} of group {group!r}"
            raise translate(found.error, doing)


def delete_group(make: Callable[[], AdminClient], group: str, timeout_s: float) -> None:
    """Delete a group that nobody is in, with all its offsets; see `AdminPort.delete_group`."""

    def delete(client: AdminClient) -> Future[None]:
        return client.delete_consumer_groups([group], request_timeout=NEVER_S)[group]

    about = f"deleting group {group!r}"
    try:
        answer_of(make, delete, about, timeout_s)
    except KafkaException as raised:
        error = error_of(raised)
        if error.code() != KafkaError.GROUP_ID_NOT_FOUND:
            raise translate(error, about) from raised
