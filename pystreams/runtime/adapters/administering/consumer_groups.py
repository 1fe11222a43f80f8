"""Consumer groups through librdkafka's admin client: who is in one, and what is changed of it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
)
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from pystreams.ids import TopicPartition
from pystreams.runtime.adapters.connection.confluent_errors import error_of, translate
from pystreams.runtime.adapters.connection.kafka_partitions import (
    offsets_to_commit,
    ours,
)
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.cluster.group_description import GroupDescription, GroupMember

_ANSWER_TIMEOUT_S = 30.0

_SETTLED = frozenset({ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD})


def described(group: str, asked: Future[ConsumerGroupDescription]) -> Future[GroupDescription]:
    """Return the answer to come as a description of ours, its errors translated.

    Args:
        group: The group that was asked for.
        asked: The client's answer to come.
    """
    answer: Future[GroupDescription] = Future()
    asked.add_done_callback(partial(_pass_on, group, answer))
    return answer


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
        answer.set_exception(translate(error_of(raised), f"members of group {group!r}"))


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
    client: AdminClient, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> None:
    """Commit offsets for a group that nobody is in; see `AdminPort.alter_offsets`."""
    if not offsets:
        return
    wanted = ConsumerGroupTopicPartitions(group, offsets_to_commit(offsets))
    answer = client.alter_consumer_group_offsets([wanted], request_timeout=_ANSWER_TIMEOUT_S)
    try:
        committed = answer[group].result().topic_partitions or []
    except KafkaException as raised:
        raise translate(error_of(raised), f"setting offsets of group {group!r}") from raised
    for found in committed:
        if found.error is not None:
            doing = f"setting the offset of {ours(found)} of group {group!r}"
            raise translate(found.error, doing)


def delete_group(client: AdminClient, group: str) -> None:
    """Delete a group that nobody is in, with all its offsets; see `AdminPort.delete_group`."""
    answer = client.delete_consumer_groups([group], request_timeout=_ANSWER_TIMEOUT_S)
    try:
        answer[group].result()
    except KafkaException as raised:
        error = error_of(raised)
        if error.code() != KafkaError.GROUP_ID_NOT_FOUND:
            raise translate(error, f"deleting group {group!r}") from raised
