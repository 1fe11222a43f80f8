"""The group's consumer: what it reads, from where, and what it never returns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from pystreams import FatalStreamsError, MissingSourceTopicError, TopicPartition
from pystreams.errors import IdentityTakenError, InputLossError, RetriableClientError
from pystreams.runtime.adapters.consuming.paused_partitions import HeldLimits, PausedPartitions
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.core.queues.waiting_bytes import OVERHEAD_BYTES
from tests.broker.flushing import flush
from tests.broker.troubles.request_proxy import FETCH, RequestProxy
from tests.runtime.adapters.application import (
    Application,
    Listener,
    answer_of,
    delete_before,
    numbered,
    numbers,
    read,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pystreams.broker import DevelopmentBroker
    from pystreams.runtime.adapters.consuming.confluent_consumer import ConfluentConsumer

POLL_S = 60.0


@pytest.fixture(params=["classic", "consumer"])
def application(
    request: pytest.FixtureRequest, make_application: Callable[[dict[str, Any]], Application]
) -> Application:
    return make_application({"group.protocol": request.param})


def test_reads_from_the_given_offsets(application: Application) -> None:
    topic = application.topic(partitions=3)
    for partition in range(3):
        application.fill(topic, 100, partition)
    consumer, listener = application.member(topic)
    assert listener.assigned == [TopicPartition(topic, number) for number in range(3)]

    consumer.start_at(dict(zip(listener.assigned, [0, 40, 99], strict=True)))
    found = read(consumer, 161)

    assert sorted(found) == sorted([*range(100), *range(40, 100), 99])


def test_partitions_start_one_by_one(application: Application) -> None:
    topic = application.topic(partitions=2)
    application.fill(topic, 10, 0)
    application.fill(topic, 10, 1)
    consumer, (first, second) = _assigned(application, topic)

    consumer.start_at({second: 5})
    assert read(consumer, 5) == [5, 6, 7, 8, 9]
    assert not consumer.poll(100, 0.2)
    consumer.start_at({first: 8})
    assert read(consumer, 2) == [8, 9]


def test_batches_hold_one_partition_each_in_the_order_of_offsets(application: Application) -> None:
    one, other = application.topic(partitions=2), application.topic(partitions=1)
    partitions = [TopicPartition(one, 0), TopicPartition(one, 1), TopicPartition(other, 0)]
    for partition in partitions:
        application.fill(partition.topic, 500, partition.partition)
    consumer, assigned = _assigned(application, one, other)
    consumer.start_at(dict.fromkeys(assigned, 0))

    found: dict[TopicPartition, list[int]] = {partition: [] for partition in partitions}

    def complete() -> bool:
        for partition, messages in consumer.poll(200, 0.1):
            assert {message.topic() for message in messages} == {partition.topic}
            assert {message.partition() for message in messages} == {partition.partition}
            found[partition] += numbers(messages)
        return sum(map(len, found.values())) >= 1500

    until(complete)
    assert all(values == list(range(500)) for values in found.values())


@pytest.mark.parametrize(("policy", "expected"), [("earliest", [0, 1, 2]), ("latest", [2])])
def test_without_a_position_the_reset_policy_decides(
    make_application: Callable[[dict[str, Any]], Application], policy: str, expected: list[int]
) -> None:
    application = make_application({"consumer.auto.offset.reset": policy})
    topic = application.topic()
    application.fill(topic, 2)
    consumer, (partition,) = _assigned(application, topic)
    consumer.start_at({partition: None})
    application.fill(topic, 1, start=2)
    assert read(consumer, len(expected)) == expected


def test_without_a_position_and_without_a_policy_it_stops_and_says_what_to_do(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    application = make_application({"consumer.auto.offset.reset": "none"})
    topic = application.topic()
    application.fill(topic, 2)
    consumer, (partition,) = _assigned(application, topic)
    with pytest.raises(FatalStreamsError, match="set it to earliest or latest"):
        consumer.start_at({partition: None})

    consumer.start_at({partition: 5000})
    with pytest.raises(FatalStreamsError, match=f"{topic}-0"):
        until(lambda: consumer.poll(10, 0.1))


class GoesBack(Consumer):
    """A client that is refused where it was assigned, and goes to the first offset past a seek."""

    gone_back = False

    def resume(self, partitions: list[KafkaPartition]) -> None:
        super().resume(partitions)
        self.gone_back = False

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        if not self.gone_back and (assigned := self.assignment()):
            self.gone_back = True
            for partition in assigned:
                first, _ = self.get_watermark_offsets(partition, timeout=10)
                self.seek(KafkaPartition(partition.topic, partition.partition, first))
        return super().consume(num_messages, timeout)


def test_records_do_not_come_again_where_the_client_goes_back_by_itself(
    application: Application,
) -> None:
    topic = _twenty_in_each_of_two(application)
    for partition in range(2):
        delete_before(application, TopicPartition(topic, partition), 10)
    consumer, listener = application.member(topic, make=GoesBack)

    consumer.start_at(dict(zip(listener.assigned, [15, 18], strict=True)))

    assert sorted(read(consumer, 7)) == [15, 16, 17, 18, 18, 19, 19]
    assert not consumer.poll(100, 0.5)
    application.fill(topic, 1, 0, start=20)
    assert read(consumer, 1) == [20]


class StartsMeanwhile(Consumer):
    """A client that has just begun to fetch a partition when it is first to be moved."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.started: set[int] = set()

    def seek(self, partition: KafkaPartition) -> None:
        if partition.partition not in self.started:
            self.started.add(partition.partition)
            raise KafkaException(KafkaError(KafkaError._OUTDATED))
        super().seek(partition)


def test_a_partition_the_client_starts_while_it_is_moved_is_moved_all_the_same(
    application: Application,
) -> None:
    topic = _twenty_in_each_of_two(application)
    consumer, listener = application.member(topic, make=StartsMeanwhile)

    consumer.start_at(dict(zip(listener.assigned, [15, 18], strict=True)))

    assert sorted(read(consumer, 7)) == [15, 16, 17, 18, 18, 19, 19]


class Unready(Consumer):
    """A client whose fetchers of some partitions are still starting: these can't be moved yet."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.unready: set[int] = set()

    def seek(self, partition: KafkaPartition) -> None:
        if partition.partition in self.unready:
            raise KafkaException(KafkaError(KafkaError._STATE))
        super().seek(partition)


@pytest.fixture
def unready_clients() -> list[Unready]:
    return []


@pytest.fixture
def make_unready(unready_clients: list[Unready]) -> Callable[[dict[str, Any]], Unready]:
    def make(config: dict[str, Any]) -> Unready:
        unready_clients.append(Unready(config))
        return unready_clients[-1]

    return make


def test_a_partition_that_can_not_be_moved_yet_waits_for_a_later_poll(
    application: Application,
    make_unready: Callable[[dict[str, Any]], Unready],
    unready_clients: list[Unready],
) -> None:
    topic = _twenty_in_each_of_two(application)
    consumer, listener = application.member(topic, make=make_unready)
    [client], (waits, other) = unready_clients, listener.assigned
    client.unready = {waits.partition}

    consumer.start_at({waits: 15, other: 18})
    assert read(consumer, 2) == [18, 19]
    assert not consumer.poll(100, 0.2)
    assert not consumer.read_to_end([waits])
    client.unready = set()

    assert read(consumer, 5) == [15, 16, 17, 18, 19]
    until(lambda: consumer.poll(100, 0.1) or consumer.read_to_end([waits, other]))


def test_a_partition_that_is_read_and_can_not_be_moved_yet_is_read_no_further(
    application: Application,
    make_unready: Callable[[dict[str, Any]], Unready],
    unready_clients: list[Unready],
) -> None:
    """That is how a task is rolled back: the client has more of it at hand."""
    topic = application.topic()
    application.fill(topic, 2000)
    consumer, (partition,) = _assigned(application, topic, make=make_unready)
    consumer.start_at({partition: 1000})
    assert read(consumer, 10, at_once=10) == list(range(1000, 1010))
    unready_clients[0].unready = {0}

    consumer.start_at({partition: 3})
    assert not consumer.poll(100, 0.2)
    consumer.start_at({partition: 5})
    assert not consumer.poll(100, 0.2)
    unready_clients[0].unready = set()

    assert read(consumer, 1, at_once=1) == [5]


def test_a_partition_that_can_not_go_on_yet_goes_on_where_it_was_stopped(
    application: Application,
    make_unready: Callable[[dict[str, Any]], Unready],
    unready_clients: list[Unready],
) -> None:
    topic = application.topic()
    application.fill(topic, 1000)
    limits = PausedPartitions(HeldLimits(records=100))
    consumer, (partition,) = _assigned(application, topic, paused=limits, make=make_unready)
    consumer.start_at({partition: 0})
    seen = read(consumer, 10, at_once=10)
    consumer.pause([partition])
    until(lambda: consumer.poll(60, 0.05) or limits.held_records(partition) >= 100)
    held = limits.held_records(partition)
    unready_clients[0].unready = {0}

    consumer.resume([partition])
    seen += read(consumer, held, at_once=77)
    assert not consumer.poll(100, 0.2)
    consumer.pause([partition])
    consumer.resume([partition])
    assert not consumer.poll(100, 0.2)
    unready_clients[0].unready = set()

    assert seen + read(consumer, 1000 - len(seen)) == list(range(1000))


class Traced(Consumer):
    """A client that notes from where partitions may be fetched."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.at: dict[int, int] = {}
        self.resumed_at: list[int] = []

    def seek(self, partition: KafkaPartition) -> None:
        super().seek(partition)
        self.at[partition.partition] = partition.offset

    def resume(self, partitions: list[KafkaPartition]) -> None:
        self.resumed_at += [self.at[partition.partition] for partition in partitions]
        super().resume(partitions)


def test_a_partition_is_fetched_from_nowhere_else_before_its_start(
    application: Application,
) -> None:
    topic = _twenty_in_each_of_two(application)
    clients: list[Traced] = []

    def make(config: dict[str, Any]) -> Traced:
        clients.append(Traced(config))
        return clients[-1]

    consumer, listener = application.member(topic, make=make)

    consumer.start_at(dict(zip(listener.assigned, [15, 18], strict=True)))

    assert clients[0].resumed_at == [15, 18]
    assert sorted(read(consumer, 7)) == [15, 16, 17, 18, 18, 19, 19]


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_what_is_deleted_is_passed(
    make_application: Callable[[dict[str, Any]], Application], policy: str
) -> None:
    application = make_application({"consumer.auto.offset.reset": policy})
    topic = application.topic()
    application.fill(topic, 10)
    delete_before(application, TopicPartition(topic, 0), 6)
    consumer, (partition,) = _assigned(application, topic)

    consumer.start_at({partition: 2})
    before = read(consumer, 4)
    application.fill(topic, 1, start=10)

    assert before + read(consumer, 1) == [6, 7, 8, 9, 10]


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_partition_that_ends_before_what_was_read_of_it_is_not_read_again(
    make_application: Callable[[dict[str, Any]], Application], policy: str
) -> None:
    application = make_application({"consumer.auto.offset.reset": policy})
    topic = application.topic()
    application.fill(topic, 10)
    consumer, (partition,) = _assigned(application, topic)
    consumer.start_at({partition: 5000})

    told: list[str] = []

    def stops() -> bool:
        try:
            assert not consumer.poll(100, 0.1)
        except InputLossError as error:
            told.append(str(error))
        return bool(told)

    until(stops, "an error")

    assert told[0].startswith(f"{partition} ends at offset 10, and group ")
    assert f"--topic {topic}:0 --reset-offsets --to-offset 10 --execute" in told[0]


def test_started_anew_elsewhere_nothing_of_the_old_position_is_returned(
    application: Application,
) -> None:
    topic = application.topic()
    application.fill(topic, 2000)
    consumer, (partition,) = _assigned(application, topic)
    consumer.start_at({partition: 1000})
    assert read(consumer, 10, at_once=10) == list(range(1000, 1010))
    for position in (0, 500, 1, 1999, 0):
        consumer.start_at({partition: position})
        assert read(consumer, 1, at_once=1) == [position]


def test_a_paused_partition_goes_on_where_it_was(application: Application) -> None:
    topic = application.topic(partitions=2)
    application.fill(topic, 300, 0)
    application.fill(topic, 300, 1, start=1000)
    consumer, (paused, other) = _assigned(application, topic)
    consumer.start_at({paused: 0, other: 0})
    found = read(consumer, 100, at_once=50)
    seen = [number for number in found if number < 1000]

    consumer.pause([paused])
    rest = read(consumer, 300 - (len(found) - len(seen)))
    assert all(number >= 1000 for number in rest)
    consumer.resume([paused])
    assert seen + read(consumer, 300 - len(seen)) == list(range(300))


def test_a_partition_that_holds_back_too_much_is_not_fetched_any_more(
    application: Application,
) -> None:
    topic = application.topic()
    application.fill(topic, 1000)
    consumer, (partition,) = _assigned(
        application, topic, paused=PausedPartitions(HeldLimits(records=100))
    )
    consumer.start_at({partition: 0})
    seen = read(consumer, 10, at_once=10)

    consumer.pause([partition])
    until(lambda: consumer.poll(60, 0.05) or consumer._stopped)
    held = consumer._paused.held_records(partition)
    assert 100 <= held < 160
    assert not consumer.poll(1000, 0.2)
    assert consumer._paused.held_records(partition) == held
    assert consumer.known_lag(partition) == 1000 - len(seen)

    consumer.resume([partition])
    assert seen + read(consumer, 990, at_once=77) == list(range(1000))


def test_partitions_that_hold_back_too_many_bytes_are_not_fetched_any_more(
    application: Application,
) -> None:
    topic = application.topic()
    application.fill(topic, 1000)
    limits = HeldLimits(bytes=50 * OVERHEAD_BYTES)
    consumer, (partition,) = _assigned(application, topic, paused=PausedPartitions(limits))
    consumer.start_at({partition: 0})
    seen = read(consumer, 10, at_once=10)

    consumer.pause([partition])
    until(lambda: consumer.poll(60, 0.05) or consumer._stopped)

    assert limits.bytes < consumer._paused.held_bytes() < 3 * limits.bytes
    consumer.resume([partition])
    assert seen + read(consumer, 990, at_once=77) == list(range(1000))
    assert not consumer._paused.held_bytes()


def test_start_at_ends_a_pause(application: Application) -> None:
    """That is how a task is rolled back: paused at once, started again when it is restored."""
    topic = application.topic()
    application.fill(topic, 100)
    consumer, (partition,) = _assigned(application, topic)
    consumer.start_at({partition: 0})
    read(consumer, 10, at_once=10)
    consumer.pause([partition])
    assert not consumer.poll(20, 0.2)
    consumer.start_at({partition: 3})
    assert read(consumer, 97) == list(range(3, 100))


def test_positions_may_be_set_within_the_callback(application: Application) -> None:
    topic = application.topic(partitions=2)
    application.fill(topic, 50, 0)
    application.fill(topic, 50, 1)
    consumer, listener = application.consumer(), Listener()
    listener.on_assigned = lambda partitions: consumer.start_at(dict.fromkeys(partitions, 25))
    consumer.subscribe([topic], [], listener)
    assert sorted(read(consumer, 50)) == sorted([*range(25, 50), *range(25, 50)])


def test_a_poll_ends_behind_a_rebalance_though_nothing_has_come(application: Application) -> None:
    topic = application.topic()
    consumer, listener = application.consumer(), Listener()
    consumer.subscribe([topic], [], listener)
    with ThreadPoolExecutor() as pool:
        polled = pool.submit(consumer.poll, 10, POLL_S)
        assert polled.result(timeout=POLL_S / 2) == []
    assert listener.assigned == [TopicPartition(topic, 0)]


def test_what_the_listener_raises_reaches_the_caller_of_poll(application: Application) -> None:
    topic = application.topic()
    application.fill(topic, 5)
    consumer, listener = application.consumer(), Listener()

    def refuse(partitions: list[TopicPartition]) -> None:
        raise FatalStreamsError(f"not {partitions[0]}")

    listener.on_assigned = refuse
    consumer.subscribe([topic], [], listener)
    with pytest.raises(FatalStreamsError, match=f"not {topic}-0"):
        until(lambda: consumer.poll(10, 0.1))
    consumer.start_at({TopicPartition(topic, 0): 0})
    assert read(consumer, 5) == [0, 1, 2, 3, 4]


def test_partitions_move_to_a_new_member_without_loss_or_repeat(application: Application) -> None:
    """The first member commits what it has processed when it is told to give partitions up."""
    topic = application.topic(partitions=2)
    for partition in range(2):
        application.fill(topic, 3000, partition, start=partition * 10_000)
    processed: dict[TopicPartition, int] = {}
    seen: list[int] = []

    def take(consumer: ConfluentConsumer, listener: Listener, at_once: int) -> None:
        for partition, messages in consumer.poll(at_once, 0.02):
            assert partition in listener.assigned, "a record of a partition given up"
            seen.extend(numbers(messages))
            processed[partition] = (messages[-1].offset() or 0) + 1

    def give_up(consumer: ConfluentConsumer) -> Callable[[list[TopicPartition]], None]:
        return lambda partitions: answer_of(
            lambda: consumer.commit(
                {
                    partition: CommittedOffset(processed[partition], "")
                    for partition in partitions
                    if partition in processed
                }
            )
        )

    def start(consumer: ConfluentConsumer) -> Callable[[list[TopicPartition]], None]:
        def begin(partitions: list[TopicPartition]) -> None:
            held = answer_of(lambda: consumer.committed(partitions))
            consumer.start_at(
                {
                    partition: held[partition].next_offset if partition in held else 0
                    for partition in partitions
                }
            )

        return begin

    members = []
    for _ in range(2):
        consumer, listener = application.consumer(), Listener()
        listener.on_assigned, listener.on_revoked = start(consumer), give_up(consumer)
        consumer.subscribe([topic], [], listener)
        members.append((consumer, listener))

    def shared() -> bool:
        for consumer, listener in members:
            take(consumer, listener, at_once=7)
        return all(len(listener.assigned) == 1 for _, listener in members)

    until(shared, "one partition for each member")

    def complete() -> bool:
        for consumer, listener in members:
            take(consumer, listener, at_once=500)
        return len(seen) >= 6000

    until(complete)
    assert sorted(seen) == sorted([*range(3000), *range(10_000, 13_000)])


def test_patterns_match_whole_names(application: Application) -> None:
    matched, other = application.topic(), application.topic()
    consumer, listener = application.consumer(), Listener()
    patterns = [f"{matched[:-3]}.*{matched[-1]}", other[:-1], f"{application.name}-nothing.*"]
    consumer.subscribe([], patterns, listener)
    until(lambda: consumer.poll(1, 0.1) or listener.assigned)
    assert listener.assigned == [TopicPartition(matched, 0)]


def test_offsets_of_a_topic_that_a_pattern_found_are_let_go_with_it(
    application: Application,
) -> None:
    topics = [application.topic(), application.topic()]
    consumer, listener = application.consumer(), Listener()
    consumer.subscribe([], topics, listener)
    until(lambda: consumer.poll(1, 0.1) or len(listener.assigned) == len(topics))
    gone, left = (TopicPartition(topic, 0) for topic in topics)
    assert application.admin.delete_topics([gone.topic]) == {}

    consumer.commit({gone: CommittedOffset(1, "")})
    consumer.commit({gone: CommittedOffset(2, ""), left: CommittedOffset(3, "")})

    assert answer_of(lambda: consumer.committed([left])) == {left: CommittedOffset(3, "")}


def test_a_missing_topic_is_named(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    application = make_application({})
    consumer = application.consumer()
    consumer.subscribe([f"{application.name}-nowhere"], [], Listener())
    with pytest.raises(MissingSourceTopicError, match=f"{application.name}-nowhere"):
        until(lambda: consumer.poll(1, 0.2))


def test_lag_is_known_without_a_request(application: Application) -> None:
    topic = application.topic(partitions=2)
    application.fill(topic, 100, 0)
    consumer, (full, empty) = _assigned(application, topic)
    assert consumer.known_lag(full) is None
    consumer.start_at({full: 0, empty: 0})
    assert read(consumer, 10, at_once=10) == list(range(10))
    assert consumer.known_lag(full) == 90
    until(lambda: consumer.poll(100, 0.1) is None or consumer.known_lag(empty) is not None)
    assert consumer.known_lag(empty) == 0


def test_ends_that_brokers_tell_are_lag_where_fetches_have_no_answers(
    broker: DevelopmentBroker, make_application: Callable[[dict[str, Any]], Application]
) -> None:
    proxy = RequestProxy(broker.bootstrap_servers)
    application = make_application({"bootstrap.servers": proxy.bootstrap_servers})
    topic = application.topic(partitions=2)
    application.fill(topic, 60, 0)
    consumer, (full, other) = _assigned(application, topic)
    proxy.keep_next(FETCH, 1_000_000, cuts=False)
    consumer.start_at({full: 60, other: 0})
    application.fill(topic, 40, 0)
    try:
        assert not consumer.poll(100, 0.5)
        assert not consumer.known_lag(full)

        consumer.note_ends({full: 100, other: 0})
        assert [consumer.known_lag(at) for at in (full, other)] == [40, 0]
    finally:
        proxy.close()


def test_markers_of_transactions_are_not_lag(exactly_once: Application) -> None:
    topic = exactly_once.topic()
    producer = exactly_once.transactional()
    producer.begin_transaction()
    producer.send(numbered(topic, 10))
    flush(producer)
    producer.commit_transaction({}, None)
    consumer, (partition,) = _assigned(exactly_once, topic)
    consumer.start_at({partition: 0})
    assert read(consumer, 10) == list(range(10))
    until(lambda: consumer.poll(10, 0.05) or consumer.known_lag(partition) == 0, "no lag")


def test_a_static_member_that_is_back_gets_its_partitions_at_once(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    application = make_application({"consumer.session.timeout.ms": 30_000})
    topic = application.topic()
    first, _ = application.member(topic, instance="one")
    metadata = first.group_metadata()
    second, listener = application.member(topic, instance="one")
    assert listener.assigned == [TopicPartition(topic, 0)]
    assert second.group_metadata() is not metadata


@pytest.fixture
def ousted(
    make_application: Callable[[dict[str, Any]], Application],
) -> tuple[ConfluentConsumer, TopicPartition]:
    """A member whose identity another has taken, and the partition it had."""
    application = make_application({"consumer.heartbeat.interval.ms": 100})
    topic = application.topic()
    member, _ = application.member(topic, instance="one")
    application.member(topic, instance="one")
    return member, TopicPartition(topic, 0)


def test_a_member_whose_identity_another_has_taken_says_what_to_do(
    ousted: tuple[ConfluentConsumer, TopicPartition],
) -> None:
    member, _ = ousted
    with pytest.raises(IdentityTakenError, match=r"stop one of them.*copy.*empty one"):
        until(lambda: member.poll(1, 0.1))


def test_a_member_whose_identity_another_has_taken_is_closed_though_it_is_to_leave(
    ousted: tuple[ConfluentConsumer, TopicPartition],
) -> None:
    member, _ = ousted
    with pytest.raises(IdentityTakenError):
        until(lambda: member.poll(1, 0.1))

    member.close(leave=True)


def test_a_commit_of_a_fenced_member_leaves_it_to_the_next_poll_to_say_why(
    ousted: tuple[ConfluentConsumer, TopicPartition],
) -> None:
    member, partition = ousted

    def client_has_failed() -> bool:
        try:
            member.commit({partition: CommittedOffset(0, "")})
        except IdentityTakenError:
            return False  # The broker says so; the client has not noticed yet.
        except RetriableClientError as error:
            return "polling tells why" in str(error)
        return False

    until(client_has_failed, "the client's failure")
    with pytest.raises(IdentityTakenError, match="stop one of them"):
        until(lambda: member.poll(1, 0.1))


class Doubtful(Consumer):
    """A client that hears that a topic is missing, and has little patience."""

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return [Message(topic="doubted", partition=0, error=error)]

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return super().list_topics(timeout=0.1)


def test_a_topic_in_doubt_is_taken_for_granted_while_no_broker_answers(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    application = make_application({"bootstrap.servers": "127.0.0.1:1"})
    consumer = application.consumer(make=Doubtful)
    assert consumer.poll(1, 0.0) == []


def test_closing_tells_the_listener_and_is_done_once(application: Application) -> None:
    topic = application.topic()
    consumer, listener = application.member(topic)
    consumer.close()
    consumer.close()
    assert listener.events[1:] == [("revoked", [TopicPartition(topic, 0)])]


def _twenty_in_each_of_two(application: Application) -> str:
    """Return a topic of two partitions, each of which has the numbers 0 to 19."""
    topic = application.topic(partitions=2)
    for partition in range(2):
        application.fill(topic, 20, partition)
    return topic


def _assigned(
    application: Application, *topics: str, **options: Any
) -> tuple[ConfluentConsumer, list[TopicPartition]]:
    consumer, listener = application.member(*topics, **options)
    return consumer, listener.assigned
