"""Consumer groups through librdkafka's admin client: who is in one, and what it has committed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
)
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from pystreams.errors import RetriableClientError
from pystreams.ids import TopicPartition
from pystreams.runtime.adapters.connection.confluent_errors import error_of, translate
from pystreams.runtime.adapters.connection.kafka_partitions import (
    committed_offset,
    offsets_to_commit,
    ours,
)
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.cluster.group_description import GroupDescription, GroupMember

_ANSWER_TIMEOUT_S = 30.0

_SETTLED = frozenset({ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD})


_REQUEST_TIMEOUT_S = 3_600.0
"""librdkafka 2.16 ends the process where a request to a coordinator has timed out while that could
not be reached, and then it can be: it lets go of the request twice. So requests don't time out, and
who asked gives up alone."""


class _Look(Future[GroupDescription]):
    """A description of a group that comes in time, or is an error from then on.

    Args:
        group: The group that is asked for.
        answer_s: How long it may take (s).
    """

    def __init__(self, group: str, answer_s: float) -> None:
        super().__init__()
        self._group = group
        self._answer_s = answer_s
        self._until_s = time.monotonic() + answer_s

    def done(self) -> bool:
        """Return whether there is a description or an error."""
        if not super().done() and time.monotonic() >= self._until_s:
            self._give_up()
        return super().done()

    def result(self, timeout: float | None = None) -> GroupDescription:
        """Wait and return the description; no longer than it may take.

        Raises:
            RetriableClientError: It has not come in time, or could not be made.
            TimeoutError: It has not come in the time that was given.
        """
        left_s = max(0.0, self._until_s - time.monotonic())
        if timeout is not None and timeout < left_s:
            return super().result(timeout)
        try:
            return super().result(left_s)
        except TimeoutError:
            self._give_up()
            return super().result(0)

    def pass_on(self, asked: Future[ConsumerGroupDescription]) -> None:
        """Take what the client answers, unless it was given up."""
        with contextlib.suppress(InvalidStateError):
            _pass_on(self._group, self, asked)

    def _give_up(self) -> None:
        message = f"members of group {self._group!r}: no answer within {self._answer_s:.0f} s"
        with contextlib.suppress(InvalidStateError):
            self.set_exception(RetriableClientError(message))


def described(client: AdminClient, group: str, answer_s: float) -> Future[GroupDescription]:
    """Ask who is in a group, without waiting; errors are translated.

    Args:
        client: Asks.
        group: The group.
        answer_s: How long the answer may take (s); the error after that is a retriable one.
    """
    look = _Look(group, answer_s)
    asked = client.describe_consumer_groups([group], request_timeout=_REQUEST_TIMEOUT_S)
    asked[group].add_done_callback(look.pass_on)
    return look


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


def committed_offsets(client: AdminClient, group: str) -> dict[TopicPartition, CommittedOffset]:
    """Return what a group has committed; see `AdminPort.committed_offsets`."""
    answer = client.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)],
        require_stable=False,
        request_timeout=_ANSWER_TIMEOUT_S,
    )
    try:
        partitions = answer[group].result().topic_partitions or []
    except KafkaException as raised:
        error = error_of(raised)
        if error.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return {}
        raise translate(error, f"offsets of group {group!r}") from raised
    return {ours(found): committed_offset(found) for found in partitions if found.offset >= 0}


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
