"""Transactions: all of it or nothing, and what every failure becomes."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from pystreams import ProductionError, TopicPartition
from pystreams.errors import RetriableClientError, TaskMigratedError
from pystreams.record import OutputBuffer
from pystreams.runtime.adapters.connection.confluent import init_transactions
from pystreams.runtime.adapters.producing.commit_outcomes import CommitLimits, send_offsets
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from tests.broker.flushing import flush
from tests.broker.troubles.request_proxy import (
    END_TXN,
    FIND_COORDINATOR,
    PRODUCE,
    RequestProxy,
)
from tests.broker.waiting import DEADLINE_S
from tests.runtime.adapters.application import (
    Application,
    MakeApplication,
    answer_of,
    numbered,
    stable,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pystreams.runtime.adapters.producing.confluent_producer import ConfluentProducer


@pytest.fixture
def application(exactly_once: Application) -> Application:
    return exactly_once


def test_records_and_offsets_commit_together(application: Application) -> None:
    source, sink = application.topic(), application.topic()
    consumer, listener = application.member(source)
    (partition,) = listener.assigned
    producer = application.transactional()
    for start in (0, 10):
        output = numbered(sink, 10, start=start)
        producer.begin_transaction()
        producer.send(output)
        flush(producer)
        assert output.last_offset == (9 if start == 0 else 20), "a marker lies between"
        assert stable(application, sink) == list(range(start))
        producer.commit_transaction(
            {partition: CommittedOffset(start + 10, "time")}, consumer.group_metadata()
        )
        _until_stable(application, sink, list(range(start + 10)))
    assert answer_of(lambda: consumer.committed([partition])) == {
        partition: CommittedOffset(20, "time")
    }


def test_a_client_goes_with_its_producer_though_an_error_of_it_is_kept() -> None:
    """Without a broker a thread makes a producer each minute: each has threads and sockets."""

    def clients() -> int:
        return sum(isinstance(found, Producer) for found in gc.get_objects())

    before = clients()
    producer = Application("127.0.0.1:1", {}).producer("task")
    with pytest.raises(RetriableClientError) as kept:
        producer.init_transactions()
    producer.close()

    assert clients() == before
    assert "initialising transactions" in str(kept.value)


@pytest.mark.parametrize("unanswered", [False, True])
def test_a_coordinator_is_asked_for_when_there_is_a_connection(unanswered: bool) -> None:
    """Where it has none yet, librdkafka asks half a second later.

    The first answer may end the connection it came over.
    """
    calls: list[object] = []

    class Client:
        def list_topics(self, topic: str, timeout_s: float) -> None:
            calls.append(topic)
            if unanswered:
                raise KafkaException(KafkaError(KafkaError._TRANSPORT))

        def init_transactions(self, timeout_s: float) -> None:
            calls.append(timeout_s)

    client: Any = Client()
    init_transactions(client, ["out", "other"], 1.0)
    init_transactions(client, [], 2.0)

    assert calls == [*["out"] * (1 if unanswered else 2), 1.0, 2.0]


def test_an_aborted_transaction_leaves_nothing_and_the_next_one_works(
    application: Application,
) -> None:
    topic = application.topic()
    producer = application.transactional()
    output = numbered(topic, 5)
    producer.begin_transaction()
    producer.send(output)
    producer.abort_transaction()
    assert output.last_offset is None

    producer.begin_transaction()
    producer.send(numbered(topic, 5, start=100))
    flush(producer)
    producer.commit_transaction({}, None)
    _until_stable(application, topic, list(range(100, 105)))


class Silent:
    """A client whose group coordinator gives no answer."""

    def send_offsets_to_transaction(self, *_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_offsets_that_no_coordinator_takes_cost_the_producer(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client asks one that is gone; with the next client all begins anew."""
    producer = application.transactional()
    producer.begin_transaction()
    monkeypatch.setattr(producer, "_client", Silent())
    monkeypatch.setattr(producer, "_transaction_timeout_s", 0.2)
    offsets = {TopicPartition("any", 0): CommittedOffset(1, "")}

    with pytest.raises(TaskMigratedError, match=r"sending offsets.*gave up after \d+ s"):
        producer.commit_transaction(offsets, None)

    monkeypatch.undo()


def test_a_client_that_does_not_return_from_sending_offsets_costs_the_producer() -> None:
    """A group coordinator that has left the cluster is waited for without any time limit."""
    never = threading.Event()

    def send(*_: object) -> None:
        never.wait(30)

    with pytest.raises(TaskMigratedError, match=r"sending offsets.*gave up after \d+ s"):
        send_offsets(
            send,
            {TopicPartition("any", 0): CommittedOffset(1, "")},
            None,
            lambda error: RetriableClientError(f"sending offsets: {error}"),
            CommitLimits(0.2, DEADLINE_S),
        )

    never.set()


def test_a_group_coordinator_that_is_not_found_costs_the_producer_and_the_next_one_commits(
    proxy: RequestProxy, proxied: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a coordinator that was killed: its client asks for another one in vain."""
    source, sink = proxied.topic(), proxied.topic()
    consumer, listener = proxied.member(source)
    (partition,) = listener.assigned

    def commit(producer: ConfluentProducer, number: int) -> None:
        producer.begin_transaction()
        producer.send(numbered(sink, 1, start=number))
        flush(producer)
        producer.commit_transaction(
            {partition: CommittedOffset(number, "")}, consumer.group_metadata()
        )

    first = proxied.transactional()
    monkeypatch.setattr(first, "_transaction_timeout_s", 2.0)
    proxy.keep_next(FIND_COORDINATOR, 1000, cuts=False)
    with pytest.raises(TaskMigratedError, match=r"sending offsets.*gave up after \d+ s"):
        commit(first, 1)
    first.close()
    proxy.keep_next(FIND_COORDINATOR, 0)
    commit(proxied.transactional(), 2)

    _until_stable(proxied, sink, [2])
    assert answer_of(lambda: consumer.committed([partition])) == {partition: CommittedOffset(2, "")}


@pytest.fixture
def proxied(proxy: RequestProxy, make_application: MakeApplication) -> Application:
    """An exactly-once application whose requests the proxy may keep."""
    settings = {"bootstrap.servers": proxy.bootstrap_servers}
    return make_application(settings | {"processing.guarantee": "exactly_once"})


def test_an_abort_without_an_answer_goes_on_when_it_is_called_again(
    proxy: RequestProxy, proxied: Application
) -> None:
    """In between an order to stop is heard."""
    topic, producer = proxied.topic(), proxied.transactional()
    producer.begin_transaction()
    producer.send(numbered(topic, 5))
    flush(producer)
    proxy.keep_next(END_TXN, 1000)
    for _ in range(3):
        with pytest.raises(RetriableClientError, match="aborting"):
            producer.abort_transaction(0.2)
    proxy.keep_next(END_TXN, 0)
    answer_of(lambda: producer.abort_transaction(1.0))
    producer.begin_transaction()
    producer.send(numbered(topic, 1, start=7))
    flush(producer)
    producer.commit_transaction({}, None)

    _until_stable(proxied, topic, [7])


@pytest.mark.parametrize("answered", [True, False])
def test_a_producer_that_is_closed_tells_whether_its_transaction_is_left_open(
    answered: bool, proxy: RequestProxy, proxied: Application
) -> None:
    topic, producer = proxied.topic(), proxied.transactional()
    producer.begin_transaction()
    producer.send(numbered(topic, 5))
    flush(producer)
    proxy.keep_next(END_TXN, 0 if answered else 1000)

    assert producer.close(DEADLINE_S if answered else 0.5) is answered
    proxy.keep_next(END_TXN, 0)


def test_a_producer_that_is_fenced_leaves_nothing_open(application: Application) -> None:
    topic = application.topic()
    older = application.transactional()
    older.begin_transaction()
    older.send(numbered(topic, 5))
    flush(older)
    application.transactional()

    assert older.close(DEADLINE_S)


def test_a_flush_is_given_up_where_its_owner_is_to_stop(
    proxy: RequestProxy, proxied: Application
) -> None:
    asked = count()
    topic, producer = proxied.topic(), proxied.transactional()
    producer.gives_up = lambda _: next(asked) >= 0
    producer.begin_transaction()
    proxy.keep_next(PRODUCE, 1000, cuts=False)
    producer.send(numbered(topic, 1))

    with pytest.raises(RetriableClientError, match="1 records are not acknowledged yet"):
        producer.flush()

    assert next(asked) == 1


def test_what_makes_progress_is_not_given_up_though_its_owner_is_to_stop(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    application = make_application({"producer.queue.buffering.max.messages": 100})
    topic, producer = application.topic(), application.transactional()
    producer.gives_up = lambda silent_s: silent_s >= 3
    producer.begin_transaction()
    producer.send(numbered(topic, 20_000))
    producer.flush()
    producer.commit_transaction({}, None)

    _until_stable(application, topic, list(range(20_000)))


def test_a_newer_producer_fences_the_older_one(application: Application) -> None:
    topic = application.topic()
    older = application.transactional()
    older.begin_transaction()
    older.send(numbered(topic, 5))
    flush(older)
    newer = application.transactional()
    with pytest.raises(TaskMigratedError, match=rf"{application.name}-task.*fenced"):
        older.commit_transaction({}, None)
    with pytest.raises(TaskMigratedError, match="fenced"):
        older.send(numbered(topic, 5))
    older.close()
    newer.begin_transaction()
    newer.send(numbered(topic, 1, start=7))
    flush(newer)
    newer.commit_transaction({}, None)
    _until_stable(application, topic, [7])


def test_a_fenced_producer_notices_before_its_commit(application: Application) -> None:
    topic = application.topic()
    older = application.transactional()
    application.transactional()
    older.begin_transaction()

    def commit() -> None:
        older.send(numbered(topic, 1))
        flush(older)
        older.commit_transaction({}, None)

    with pytest.raises(TaskMigratedError, match="fenced"):
        commit()


def test_a_member_that_has_left_can_not_commit_and_its_producer_goes_on(
    application: Application,
) -> None:
    source, sink = application.topic(), application.topic()
    consumer, listener = application.member(source)
    (partition,) = listener.assigned
    metadata = consumer.group_metadata()
    consumer.close()
    producer = application.transactional()
    producer.begin_transaction()
    producer.send(numbered(sink, 1))
    flush(producer)
    with pytest.raises(TaskMigratedError, match="UNKNOWN_MEMBER_ID"):
        producer.commit_transaction({partition: CommittedOffset(1, "")}, metadata)
    producer.abort_transaction()
    producer.begin_transaction()
    producer.commit_transaction({}, None)
    assert stable(application, sink) == []


def test_a_record_that_is_too_large_ends_the_transaction_before_it_is_sent(
    application: Application,
) -> None:
    """Nothing but an error: rolled back and processed again, it would be refused again."""
    topic = application.topic(max_message_bytes="1000")
    producer = application.transactional(topics=[topic])
    producer.begin_transaction()
    output = OutputBuffer(topic)
    output.records.append((b"key", b"x" * 5000, 1, ()))
    with pytest.raises(ProductionError, match=f"{topic}.*too large.*max.request.size"):
        producer.send(output)
    producer.abort_transaction()


def test_a_sink_that_does_not_exist_is_named(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    application = make_application(
        {"processing.guarantee": "exactly_once", "producer.delivery.timeout.ms": 1000}
    )
    producer = application.transactional()
    producer.begin_transaction()
    producer.send(numbered(f"{application.name}-nowhere", 1, partition=None))
    flush(producer)
    with pytest.raises(ProductionError, match=f"{application.name}-nowhere.*create the topic"):
        producer.commit_transaction({}, None)


def test_a_sink_that_does_not_exist_is_named_where_the_transaction_has_ended_meanwhile(
    application: Application,
) -> None:
    """Its record is waited for as long as the transaction may last: the broker may be first."""
    source, sink, producer = application.topic(), application.topic(), application.transactional()
    consumer, listener = application.member(source)
    (partition,) = listener.assigned
    producer.begin_transaction()
    producer.send(numbered(sink, 1))
    flush(producer)
    missing = f"{application.name}-nowhere"
    producer.send(numbered(missing, 1, partition=None))
    application.transactional()  # Ends it as the broker does, by a newer epoch.

    with pytest.raises(ProductionError, match=f"topic '{missing}' does not exist: create the"):
        producer.commit_transaction({partition: CommittedOffset(1, "")}, consumer.group_metadata())
    producer.close()


def test_closing_aborts_an_open_transaction(application: Application) -> None:
    """Readers of what is committed need not wait for the transaction's timeout."""
    topic = application.topic()
    producer = application.transactional()
    producer.begin_transaction()
    producer.send(numbered(topic, 5))
    flush(producer)
    producer.close()
    partition = TopicPartition(topic, 0)

    def settled() -> bool:
        held = application.admin.offset_ranges([partition])[partition]
        return held.end == held.high_watermark

    until(settled)
    assert stable(application, topic) == []


def test_a_restart_aborts_what_a_crash_left_open(application: Application) -> None:
    topic = application.topic()
    crashed = application.transactional()
    crashed.begin_transaction()
    crashed.send(numbered(topic, 5))
    flush(crashed)
    restarted = application.transactional()
    restarted.begin_transaction()
    restarted.send(numbered(topic, 1, start=9))
    flush(restarted)
    restarted.commit_transaction({}, None)
    _until_stable(application, topic, [9])


def test_many_producers_commit_side_by_side(application: Application) -> None:
    """Each in one thread at a time, not always the same one."""
    topic = application.topic(partitions=6)
    producers = [application.transactional(f"task-{number}") for number in range(6)]
    outputs = [OutputBuffer(topic, number, is_changelog=True) for number in range(6)]

    def commit(producer: ConfluentProducer, output: OutputBuffer) -> int | None:
        producer.begin_transaction()
        producer.send(output)
        flush(producer)
        producer.commit_transaction({}, None)
        return output.last_offset

    with ThreadPoolExecutor(4) as pool:
        for round_number in range(20):
            for output in outputs:
                output.records.extend((b"key", b"1", 1, ()) for _ in range(10))
            offsets = list(pool.map(commit, producers, outputs))
            assert offsets == [round_number * 11 + 9] * 6


def _until_stable(application: Application, topic: str, expected: list[int]) -> None:
    """Wait until readers of committed records find these: a commit returns before its markers."""
    until(lambda: stable(application, topic) == expected, f"{expected} in {topic}")
