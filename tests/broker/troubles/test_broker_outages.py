"""A broker that is not there: at the start, for ever, and in the middle of the work."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams import BrokerNotAvailableError, StreamsConfig, TopicPartition
from pystreams.broker import DevelopmentBroker
from pystreams.broker.network import is_port_free
from pystreams.runtime.adapters.client_factory import ConfluentClients
from pystreams.runtime.cluster.new_topic import NewTopic as NewInternalTopic
from tests.broker.application import NOT_IN_TIME, Application, Running
from tests.broker.conftest import CreateTopic
from tests.broker.exactly_once.arena import PARTITIONS, SUBTOPOLOGY_OF_STORE, Arena, Waiting
from tests.broker.exactly_once.test_kill import (
    check_at_least_once,
    check_exactly_once,
    check_stores,
)
from tests.broker.programs import write_counts
from tests.broker.reading import (
    committed_offsets,
    create_topics,
    produce,
    read_all,
    values_by_key,
)
from tests.broker.troubles.request_proxy import PRODUCE, RequestProxy
from tests.broker.waiting import wait_until
from tests.ports import ports_in_a_row
from tests.runtime.adapters.application import answer_of
from tests.sharing import start_broker
from tests.variants import first_of

RECORDS_PER_S = 500
MORE = 1000
"""Records of an output that show that it is at work."""
TASKS = PARTITIONS * len(SUBTOPOLOGY_OF_STORE)
STANDSTILLS = 2
STANDSTILL_S = 4.0
"""Longer than the members' sessions."""

SETTINGS = {"broker.session.timeout.ms": "3000"}
"""A broker that was killed is refused until the session it had is over."""
TRANSACTION_TIMEOUT_MS = 120_000
"""No transaction ends by its time limit while its broker comes back, see `between_decisions`."""
STATUS_AT = 16
DECIDED = (2, 3)
"""Where `__transaction_state` says how a transaction stands: prepared to commit, or to abort."""


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[DevelopmentBroker]:
    """A broker that the test may stop and kill."""
    data_dir = tmp_path / "broker"
    (port,) = ports_in_a_row(1)  # Nobody else is given it while the broker is away.
    broker = start_broker(data_dir, port, SETTINGS)
    try:
        yield broker
    finally:
        running = DevelopmentBroker.attach(data_dir)
        if running is not None:
            running.stop()


def started_again(broker: DevelopmentBroker) -> DevelopmentBroker:
    """Start a broker that was stopped or killed, on the same port and data."""
    port = broker.state.client_port
    wait_until(lambda: is_port_free(port), "the end of the old broker's sockets")
    again = start_broker(broker.data_dir, port, SETTINGS)
    wait_until(again.is_ready, "the broker answers")
    return again


def wait_for_more_output(arena: Arena, running: Waiting) -> None:
    enough = arena.written() + MORE
    running.wait_until(lambda: arena.written() >= enough, "more output")


def stands_still(broker: DevelopmentBroker) -> None:
    """Let a broker stand still, as on a host that takes the processor away."""
    os.kill(broker.state.pid, signal.SIGSTOP)
    try:
        # The standstill itself, not a wait for anything.
        threading.Event().wait(STANDSTILL_S)
    finally:
        os.kill(broker.state.pid, signal.SIGCONT)


@contextlib.contextmanager
def between_decisions(running: Running, servers: str) -> Iterator[None]:
    """Stop an application where it is, with transactions open, but none about to be ended.

    A broker that comes back after a kill has partitions without a leader for a moment. Kafka 4.3.1
    takes them for deleted (`KRaftMetadataCache.getPartitionLeaderEndpoint` is empty then), and
    completes a transaction without its marker there: it stands open for ever, whoever its client.
    """

    def nothing_is_decided() -> bool:
        states: dict[bytes, int] = {}
        for message in read_all(servers, "__transaction_state"):
            value = message.value()
            states[message.key() or b""] = 0 if value is None else value[STATUS_AT]
        assert states, "an application without transactions"
        return not set(DECIDED) & set(states.values())

    os.kill(running.process.pid, signal.SIGSTOP)
    try:
        wait_until(nothing_is_decided, "the ends of decided transactions")
        yield
    finally:
        os.kill(running.process.pid, signal.SIGCONT)


def kill(broker: DevelopmentBroker) -> None:
    os.kill(broker.state.pid, signal.SIGKILL)
    wait_until(lambda: not broker.is_running(), "the broker's end")


def test_application_waits_for_a_broker_that_comes_up_after_it(
    own_broker: DevelopmentBroker, tmp_path: Path
) -> None:
    servers = own_broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    create_topics(admin, [NewTopic("in", 1), NewTopic("out", 1)])
    produce(servers, "in", [(b"k", bytes(8))] * 10)
    own_broker.stop()
    file = write_counts(tmp_path, "in", "out")
    settings = {"bootstrap.servers": servers, "statestore.cache.max.bytes": 0}

    with Application("late-broker", tmp_path, file, settings) as application:
        running = application.start()
        running.wait_for("no broker answers yet, trying on", bootstrap_servers=servers)
        started_again(own_broker)
        running.wait_until(lambda: len(read_all(servers, "out")) == 10, "all counted")
        running.stop()

    assert values_by_key(read_all(servers, "out")) == {b"k": list(range(1, 11))}


def test_application_without_a_broker_ends_with_a_code_and_a_cure(tmp_path: Path) -> None:
    file = write_counts(tmp_path, "in", "out")
    settings = {"bootstrap.servers": "127.0.0.1:1"}
    with Application("no-broker", tmp_path, file, settings) as application:
        running = application.start()
        assert running.ended() == 3, running.tail()

    [told] = running.lines("no broker answers yet, trying on")
    assert told["bootstrap_servers"] == "127.0.0.1:1"
    error = running.lines("stopped by an error")[0]
    assert error["kind"] == "BrokerNotAvailableError"
    assert "127.0.0.1:1" in error["error"]
    assert "start the broker, or correct bootstrap.servers" in error["error"]
    assert not any("Traceback" in str(line) for line in running.lines())


def test_application_with_an_unknown_source_topic_ends_with_its_name(
    broker: DevelopmentBroker, unique_name: str, tmp_path: Path
) -> None:
    file = write_counts(tmp_path, f"{unique_name}-never-made", "out")
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with Application(unique_name, tmp_path, file, settings) as application:
        running = application.start()
        assert running.ended() == 1, running.tail()

    error = running.lines("stopped by an error")[0]
    assert error["kind"] == "MissingSourceTopicError"
    assert f"'{unique_name}-never-made'" in error["error"]
    assert "create it" in error["error"]


@pytest.mark.sweep
def test_offsets_are_known_again_after_the_broker_was_killed_and_came_back(
    own_broker: DevelopmentBroker,
) -> None:
    """The client still knows the leader of before, and is refused until it asks anew."""
    servers = own_broker.bootstrap_servers
    partition = TopicPartition("in", 0)
    config = StreamsConfig.of({"application.id": "asks", "bootstrap.servers": servers})
    admin = ConfluentClients(config).admin()
    answer_of(lambda: admin.create_topics([NewInternalTopic("in", 1, {})]))
    produce(servers, "in", [(b"k", b"v")] * 3)
    assert answer_of(lambda: admin.offset_ranges([partition]))[partition].end == 3
    kill(own_broker)
    started_again(own_broker)

    assert answer_of(lambda: admin.offset_ranges([partition]))[partition].end == 3


def test_offsets_are_known_again_after_a_broker_answered_that_there_are_no_brokers(
    broker: DevelopmentBroker, unique_name: str
) -> None:
    """What its controller has put out says so of itself; a client then knows no broker at all."""
    proxy = RequestProxy(broker.bootstrap_servers)
    partition = TopicPartition(unique_name, 0)
    # Under this strategy happens each time what is otherwise a race in the client.
    settings = {"application.id": "asks", "admin.metadata.recovery.strategy": "none"}
    config = StreamsConfig.of({**settings, "bootstrap.servers": proxy.bootstrap_servers})
    admin = ConfluentClients(config).admin()
    answer_of(lambda: admin.create_topics([NewInternalTopic(unique_name, 1, {})]))
    produce(broker.bootstrap_servers, unique_name, [(b"k", b"v")] * 3)
    proxy.names_brokers = False
    with contextlib.suppress(BrokerNotAvailableError):
        admin.partition_counts()
    assert proxy.nameless
    proxy.names_brokers = True
    found = answer_of(lambda: admin.offset_ranges([partition]))
    proxy.close()

    assert found[partition].end == 3


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("guarantee", "outages"),
    first_of(("exactly_once_v2", 1), ("exactly_once_v2", 3), ("exactly_once", 3)),
)
def test_broker_is_killed_and_comes_back_and_every_record_counts_exactly_once(
    own_broker: DevelopmentBroker, tmp_path: Path, guarantee: str, outages: int
) -> None:
    """The application stays up: it aborts or finishes what was open and goes on by itself."""
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap_servers})
    arena = Arena.make(own_broker, admin, "outage", tmp_path)
    broker = own_broker
    settings = {
        "statestore_cache_max_bytes": 0,
        "producer_transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
    }
    with arena.application(guarantee, **settings) as application:
        running = application.start()
        with arena.feed(RECORDS_PER_S) as feed:
            for _ in range(outages):
                wait_for_more_output(arena, running)
                with between_decisions(running, arena.servers):
                    kill(broker)
                broker = started_again(broker)
            wait_for_more_output(arena, running)
        arena.wait_for_outputs(feed.rounds, running)
        running.wait_until(lambda: len(running.running_tasks()) == TASKS, "all tasks")
        running.stop()

    check_exactly_once(arena.outputs(), feed.rounds)
    check_stores(arena)


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_broker_is_killed_and_comes_back_and_at_least_once_loses_nothing(
    own_broker: DevelopmentBroker, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap_servers})
    arena = Arena.make(own_broker, admin, "outage", tmp_path)
    with arena.application("at_least_once", statestore_cache_max_bytes=0) as application:
        running = application.start()
        with arena.feed(RECORDS_PER_S) as feed:
            running.wait_until(lambda: arena.written() >= MORE, "output")
            kill(own_broker)
            started_again(own_broker)
            wait_for_more_output(arena, running)
        arena.wait_for_outputs(feed.rounds, running)
        running.wait_until(lambda: len(running.running_tasks()) == TASKS, "all tasks")
        running.stop()

    check_at_least_once(arena.outputs(), feed.rounds)
    check_stores(arena)


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_members_find_together_again_after_a_broker_stood_still_and_was_put_out_of_its_cluster(
    own_broker: DevelopmentBroker, tmp_path: Path
) -> None:
    """Late requests of a member fence its newer ones; each time it joins again.

    At-least-once: of the transactions, see `between_decisions`.
    """
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap_servers})
    arena = Arena.make(own_broker, admin, "still", tmp_path)
    settings = {"statestore_cache_max_bytes": 0, "consumer_session_timeout_ms": 3000}
    with arena.application("at_least_once", **settings) as application:
        running = application.start("--processes", "2")
        with arena.feed(RECORDS_PER_S) as feed:
            for _ in range(STANDSTILLS):
                wait_for_more_output(arena, running)
                stands_still(own_broker)
        arena.wait_for_outputs(feed.rounds, running)
        running.wait_for_tasks(TASKS)
        running.stop()
        application.wait_until_all_gone()

    check_at_least_once(arena.outputs(), feed.rounds)
    check_stores(arena)


def test_brokers_that_take_no_record_for_longer_than_a_session_cost_at_least_once_none(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    """No handler is asked: the records are read again, and processed as often as it takes."""
    proxy = RequestProxy(broker.bootstrap_servers)
    source, output = create_topic(), create_topic()
    file = write_counts(tmp_path, source, output)
    settings = {
        "bootstrap.servers": proxy.bootstrap_servers,
        "processing.guarantee": "at_least_once",
        "production.exception.handler": "continue",
        "commit.interval.ms": 200,
        "consumer.session.timeout.ms": 6000,
        "statestore.cache.max.bytes": 0,
    }
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    with Application(unique_name, tmp_path, file, settings) as application:
        running = application.start()
        running.wait_for("task running")
        proxy.keep_next(PRODUCE, 1_000_000)
        produce(broker.bootstrap_servers, source, [(b"k", bytes(8))] * 10)
        running.wait_for("commit failed, going on from the last commit", count=2)
        proxy.keep_next(PRODUCE, 0)
        running.wait_until(
            lambda: committed_offsets(admin, unique_name).get((source, 0)) == 10, "a commit"
        )
        running.stop()
    proxy.close()

    assert not running.lines("joining the group again")
    counts = values_by_key(read_all(broker.bootstrap_servers, output))[b"k"]
    assert counts[-1] >= 10


def test_first_signal_ends_an_application_whose_broker_no_longer_answers(
    own_broker: DevelopmentBroker, tmp_path: Path
) -> None:
    """At-least-once: what was not committed is processed again after the next start."""
    servers = own_broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    create_topics(admin, [NewTopic("in", 1), NewTopic("out", 1)])
    produce(servers, "in", [(b"k", bytes(8))] * 100_000)
    file = write_counts(tmp_path, "in", "out", "(__import__('time').sleep(0.001), value)[1]")
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": "at_least_once",
        "commit.interval.ms": 100,
        "statestore.cache.max.bytes": 0,
    }
    with Application("deaf-broker", tmp_path, file, settings) as application:
        running = application.start()
        running.wait_until(lambda: len(read_all(servers, "out")) > 0, "output")
        os.kill(own_broker.state.pid, signal.SIGSTOP)
        try:
            running.wait_for("commit will be tried again")
            running.process.send_signal(signal.SIGTERM)
            assert running.ended() == 0, running.tail()
        finally:
            os.kill(own_broker.state.pid, signal.SIGCONT)

    assert running.lines("the last commit failed: a start goes on from one before")
    assert not running.lines(NOT_IN_TIME)
