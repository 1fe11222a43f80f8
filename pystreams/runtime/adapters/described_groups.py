"""What librdkafka's admin client tells of a consumer group, as the runtime's own values."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import ConsumerGroupDescription

from pystreams.runtime.adapters.confluent_errors import error_of, translate
from pystreams.runtime.adapters.kafka_partitions import ours
from pystreams.runtime.core.group_description import GroupDescription, GroupMember

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
        )
        for member in found.members
    )
    return GroupDescription(found.state in _SETTLED, members)
