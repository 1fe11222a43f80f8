"""What lies in topics and groups, read to the end by clients that have nothing of ours."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TypeVar

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.broker.waiting import DEADLINE_S, wait_until
from tests.broker.writing import writer_of

_CONSUME_S = 0.05
_ASK_S = 5.0
_END_OF_TRANSACTION_S = 1.0
_DELETED_S = 5.0
_PASSING = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._NOENT,  # Partitions have no leaders.
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
"""Of a broker that has just started or stood still, or whose topic has just been made."""
_NO_FAILURE = _PASSING | {KafkaError._PARTITION_EOF}

_PUT_OUT = frozenset({KafkaError.INVALID_REPLICATION_FACTOR, *_PASSING})
"""What a controller says to a new topic while it has put the one broker out, which stood still."""

T = TypeVar("T")

Record = tuple[bytes, bytes | None]
"""Key and value."""


def long(value: bytes | None) -> int:
    """Return what a serialized long says."""
    assert value is not None
    assert len(value) == 8
    return int.from_bytes(value, "big", signed=True)


_kept: dict[str, dict[bool, list[Consumer]]] = {}
"""Brokers that outlive the tests -> readers in nobody's use, of what is committed (True) or all."""


@contextlib.contextmanager
def readers_kept(servers: str) -> Iterator[None]:
    """Keep readers for a broker until the block ends.

    To look at a topic with one costs the broker a quarter of what the connections of a new one do.
    """
    _kept[servers] = {True: [], False: []}
    try:
        yield
    finally:
        forget_readers()
        del _kept[servers]


def forget_readers() -> None:
    """Close the readers that are kept and in nobody's use."""
    for readers in _kept.values():
        for unused in readers.values():
            while unused:
                unused.pop().close()


@contextlib.contextmanager
def reader_of(servers: str, *, committed: bool = True) -> Iterator[Consumer]:
    """A consumer that is in no group, has no partitions yet, and notices the end of them."""
    unused = _kept.get(servers, {}).get(committed)
    consumer = unused.pop() if unused else _new_reader(servers, committed=committed)
    with contextlib.ExitStack() as closing:
        closing.callback(consumer.close)
        yield consumer
        if unused is not None:
            consumer.unassign()
            unused.append(consumer)
            closing.pop_all()


def _new_reader(servers: str, *, committed: bool) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 50,
            "log_level": 4,  # That a topic is deleted is no news here.
        }
    )


def answer_of(ask: Callable[[], T], passing: Collection[int] = ()) -> T:
    """Return what a broker answers, which may have to start first, or be asked again.

    Args:
        ask: May be called again after its answer was lost: what it asks for is done already then.
        passing: Codes that pass by themselves here, beside those that always do.
    """
    answers: list[T] = []

    def answered() -> bool:
        with suppressed({*_PASSING, *passing}):
            answers.append(ask())
        return bool(answers)

    wait_until(answered, "an answer of the broker")
    return answers[0]


@contextlib.contextmanager
def suppressed(codes: Collection[int]) -> Iterator[None]:
    """Leave the block where a broker, or the client, answers with one of these codes."""
    try:
        yield
    except KafkaException as exception:
        if exception.args[0].code() not in codes:
            raise


def topics_of(client: Consumer | AdminClient) -> dict[str, int]:
    """Return how many partitions each topic has that the brokers show."""
    topics = answer_of(lambda: client.list_topics(timeout=_ASK_S).topics)
    return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}


def partitions_of(client: Consumer | AdminClient, topic: str) -> list[int]:
    def partitions() -> list[int]:
        found = client.list_topics(topic, timeout=_ASK_S).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        return sorted(found.partitions)

    return answer_of(partitions)


class LastNumbers:
    """Follows topics whose values are longs: the last number of each key so far.

    Args:
        consumer: Reads them.
    """

    def __init__(self, consumer: Consumer, topics: Sequence[str]) -> None:
        self._consumer = consumer
        self._last: dict[str, dict[bytes, int]] = {topic: {} for topic in topics}
        consumer.assign(
            [
                TopicPartition(topic, partition, 0)
                for topic in topics
                for partition in partitions_of(consumer, topic)
            ]
        )

    def read(self) -> dict[str, dict[bytes, int]]:
        """Take what has come; return for each topic the last number a key."""
        for message in arrived(self._consumer):
            error = message.error()
            if error is None:
                self._last[message.topic() or ""][message.key() or b""] = long(message.value())
            else:
                assert error.code() in _NO_FAILURE, error
        return self._last


def arrived(consumer: Consumer) -> list[Message]:
    """Return what has come; wait a moment for the first, as `consume` does for all of them."""
    first = consumer.consume(1, _CONSUME_S)
    return first and first + consumer.consume(10_000, 0)


def read_all(servers: str, topic: str, *, committed: bool = True) -> list[Message]:
    """Return all records of a topic up to its present end, partition by partition."""
    return read_topics(servers, [topic], committed=committed)[topic]


def read_topics(
    servers: str, topics: Collection[str], *, committed: bool = True
) -> dict[str, list[Message]]:
    """Return the same of several topics, with one client.

    What has been committed is there: its end is waited for, which the coordinator writes behind its
    answer. A transaction that goes on for longer is one that is open.
    """
    with reader_of(servers, committed=committed) as consumer:
        open_ends = {
            (topic, partition) for topic in topics for partition in partitions_of(consumer, topic)
        }
        consumer.assign([TopicPartition(*partition, 0) for partition in open_ends])
        found: dict[str, list[Message]] = {topic: [] for topic in topics}
        in_transactions: set[tuple[str, int]] = set()
        until_s = time.monotonic() + _END_OF_TRANSACTION_S

        def ended() -> bool:
            while open_ends and (come := arrived(consumer)):
                for message in come:
                    error, partition = message.error(), _partition_of(message)
                    if error is None:
                        found[partition[0]].append(message)
                        continue
                    assert error.code() in _NO_FAILURE, error
                    if error.code() != KafkaError._PARTITION_EOF:
                        continue
                    ends = consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
                    if ends[1] > (message.offset() or 0):
                        in_transactions.add(partition)
                    else:
                        open_ends.discard(partition)
            if time.monotonic() >= until_s:
                open_ends.difference_update(in_transactions)
            return not open_ends

        wait_until(ended, f"the ends of {', '.join(topics)}", told=lambda: f"{open_ends}")
    for messages in found.values():
        messages.sort(key=lambda message: message.partition() or 0)
    return found


def _partition_of(message: Message) -> tuple[str, int]:
    return message.topic() or "", message.partition() or 0


def values_by_key(messages: Sequence[Message]) -> dict[bytes, list[int]]:
    """Return the numbers of each key, in order."""
    found: dict[bytes, list[int]] = {}
    for message in messages:
        found.setdefault(message.key() or b"", []).append(long(message.value()))
    return found


def high_watermarks(consumer: Consumer, topic: str) -> dict[int, int]:
    """Return the ends of a topic's partitions, uncommitted records included."""
    found = {}
    for partition in partitions_of(consumer, topic):
        asked = TopicPartition(topic, partition)
        ends = answer_of(lambda: consumer.get_watermark_offsets(asked, timeout=_ASK_S))  # noqa: B023
        found[partition] = ends[1]
    return found


def beginning_of(consumer: Consumer, partition: TopicPartition) -> int:
    return answer_of(lambda: consumer.get_watermark_offsets(partition, timeout=_ASK_S))[0]


def committed_offsets(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    """Return the offsets a group has committed.

    A consumer asks: librdkafka 2.16's admin client dies when a broker is not the coordinator.
    """
    cluster = answer_of(lambda: admin.list_topics(timeout=_ASK_S))
    brokers = (f"{broker.host}:{broker.port}" for broker in cluster.brokers.values())
    wanted = [
        TopicPartition(name, partition)
        for name, topic in cluster.topics.items()
        for partition in topic.partitions
    ]
    consumer = Consumer({"bootstrap.servers": ",".join(brokers), "group.id": group})
    try:
        found = answer_of(lambda: consumer.committed(wanted, timeout=_ASK_S))
    finally:
        consumer.close()
    return {(at.topic, at.partition): at.offset for at in found if at.offset >= 0}


def group_members(admin: AdminClient, group: str) -> int:
    """Return how many members a group has."""
    return len(
        answer_of(lambda: admin.describe_consumer_groups([group])[group].result(DEADLINE_S).members)
    )


def create_topics(admin: AdminClient, topics: Sequence[NewTopic]) -> None:
    """Create topics, as soon as there is a broker for them, and wait until it shows them."""
    left = {topic.topic: topic for topic in topics}

    def created() -> bool:
        for name, answer in admin.create_topics(list(left.values())).items():
            # "Exists", where its answer was lost: to us, or to the broker that asked a controller.
            with suppressed(_PUT_OUT):
                with suppressed({KafkaError.TOPIC_ALREADY_EXISTS}):
                    answer.result(DEADLINE_S)
                del left[name]
        return not left

    wait_until(created, "the topics")
    for topic in topics:
        wait_until(
            partial(_is_shown, admin, topic),
            f"{topic.topic} is another test's",
            deadline_s=_DELETED_S,
        )


def _is_shown(admin: AdminClient, topic: NewTopic) -> bool:
    """Return whether that is the topic: one of its name that was deleted may be shown still."""
    return topic.num_partitions in {len(partitions_of(admin, topic.topic)), -1}


def raise_partitions(admin: AdminClient, topic: str, partitions: int) -> None:
    """Give a topic more partitions, and wait until it has them."""
    wanted = [NewPartitions(topic, partitions)]

    def raised() -> bool:
        # Refused, where an answer was lost: it has them already.
        with suppressed({*_PASSING, KafkaError.INVALID_PARTITIONS}):
            admin.create_partitions(wanted)[topic].result(DEADLINE_S)
        return len(partitions_of(admin, topic)) == partitions

    wait_until(raised, "the new partitions")


def delete_topics(admin: AdminClient, prefix: str) -> None:
    """Delete the topics whose names begin so: a broker with few topics is a quick one."""
    delete_named(admin, *(name for name in topics_of(admin) if name.startswith(prefix)))


def delete_named(admin: AdminClient, *topics: str) -> None:
    """Delete topics, or find that they are gone."""
    left = set(topics)

    def deleted() -> bool:
        for name, answer in admin.delete_topics(sorted(left)).items() if left else ():
            with suppressed(_PASSING):
                with suppressed({KafkaError.UNKNOWN_TOPIC_OR_PART}):
                    answer.result(DEADLINE_S)
                left.discard(name)
        return not left

    wait_until(deleted, "the topics' end")


def produce(
    servers: str,
    topic: str,
    records: Sequence[Record],
    *,
    partition_of: Callable[[int], int] | None = None,
    timestamps_ms: Sequence[int] | None = None,
) -> None:
    """Write records, each once and in order; at the present time if no other is given."""
    writer = writer_of(servers, topic)
    for index, (key, value) in enumerate(records):
        partition = -1 if partition_of is None else partition_of(index)
        timestamp_ms = 0 if timestamps_ms is None else timestamps_ms[index]
        writer.write(topic, value, key, partition, timestamp_ms)
        if index % 10_000 == 0:
            writer.hear()
    writer.flush()
