"""SIGTERM and Ctrl-C commit and end; a second signal stops at once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams import KafkaStreams, State, StreamsBuilder, serdes
from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.programs import write_counts
from tests.broker.reading import (
    committed_offsets,
    group_members,
    produce,
    read_all,
    reader_of,
    topics_of,
    values_by_key,
)
from tests.broker.troubles.request_proxy import (
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    RequestProxy,
)
from tests.broker.waiting import wait_until
from tests.broker.writing import Writer
from tests.signals import signal_until_ended
from tests.variants import first_of, swept

RECORDS = 1000
# The user's code: says by a file that it was called, and comes back in an hour.
STUCK = "(open({marker!r}, 'w').close(), __import__('time').sleep(3600))"

both_signals = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])


def topics_with_input(servers: str, create_topic: CreateTopic) -> tuple[str, str]:
    source, output = create_topic(), create_topic()
    produce(servers, source, [(b"k", bytes(8))] * RECORDS)
    return source, output


@pytest.mark.parametrize(
    ("guarantee", "number"),
    [
        ("at_least_once", signal.SIGTERM),
        ("exactly_once_v2", signal.SIGINT),
        *swept(
            ("at_least_once", signal.SIGINT),
            ("exactly_once", signal.SIGTERM),
            ("exactly_once", signal.SIGINT),
            ("exactly_once_v2", signal.SIGTERM),
        ),
    ],
)
def test_a_signal_commits_and_ends(
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
    number: signal.Signals,
) -> None:
    servers = broker.bootstrap_servers
    source, output = topics_with_input(servers, create_topic)
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": guarantee,
        "commit.interval.ms": 600_000,
        "producer.transaction.timeout.ms": 660_000,
        "statestore.cache.max.bytes": 0,
    }
    file = write_counts(tmp_path, source, output)
    with Application(unique_name, tmp_path, file, settings) as application:
        running = application.start()
        running.wait_until(
            lambda: len(read_all(servers, output, committed=False)) == RECORDS,
            "all records processed",
        )
        assert committed_offsets(admin, unique_name) == {}
        running.process.send_signal(number)
        assert running.ended() == 0, running.tail()

    assert committed_offsets(admin, unique_name) == {(source, 0): RECORDS}
    assert values_by_key(read_all(servers, output)) == {b"k": list(range(1, RECORDS + 1))}


@pytest.mark.parametrize(
    ("protocol", "runs", "options", "left"),
    [
        ("classic", 1, (), 0),
        ("classic", 2, (), 1),
        ("classic", 1, ("--stay-in-group",), 1),
        ("classic", 2, ("--leave-group",), 0),
        ("consumer", 2, (), 0),
    ],
)
def test_a_stopped_application_waits_for_its_restart_in_a_classic_group_if_its_identity_survives(
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    protocol: str,
    runs: int,
    options: tuple[str, ...],
    left: int,
) -> None:
    """The classic protocol is the default. What the second run finds on the disk has survived."""
    servers = broker.bootstrap_servers
    file = write_counts(tmp_path, create_topic(), create_topic())
    settings = {"bootstrap.servers": servers}
    if protocol != "classic":
        settings["group.protocol"] = protocol
    with Application(unique_name, tmp_path, file, settings) as application:
        for _ in range(runs):
            running = application.start(*options)
            running.wait_for("task running")
            running.stop()

    assert group_members(admin, unique_name) == left


@both_signals
def test_a_second_signal_ends_an_application_that_is_stuck(
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    """The user's code sleeps for an hour; what it holds up is not committed."""
    servers = broker.bootstrap_servers
    source, output = topics_with_input(servers, create_topic)
    marker = tmp_path / "stuck"
    file = write_counts(tmp_path, source, output, STUCK.format(marker=str(marker)))
    with Application(unique_name, tmp_path, file, {"bootstrap.servers": servers}) as application:
        running = application.start()
        running.wait_until(marker.exists, "the user's code being called")
        running.process.send_signal(number)
        running.wait_for("stopping: commits and closes; a second signal stops at once")
        assert running.alive()
        signal_until_ended(running.process, number)
        assert running.ended() == 128 + number

    assert committed_offsets(admin, unique_name) == {}


def test_an_application_without_input_ends_at_once(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    file = write_counts(tmp_path, create_topic(), create_topic())
    settings = {"bootstrap.servers": servers, "processing.guarantee": "exactly_once"}
    with Application(unique_name, tmp_path, file, settings) as application:
        running = application.start()
        running.wait_for("task running")
        running.stop()
        with reader_of(servers) as consumer:
            topics = topics_of(consumer)
    assert f"{unique_name}-counts-changelog" in topics


@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
def test_a_task_whose_producer_has_no_epoch_yet_does_not_hold_a_stop(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    proxy = RequestProxy(broker.bootstrap_servers)
    builder = StreamsBuilder()
    stream = builder.stream(
        create_topic(partitions=3), key_serde=serdes.BYTES, value_serde=serdes.BYTES
    )
    stream.group_by_key().count(name="counts")
    config = {
        "application.id": unique_name,
        "bootstrap.servers": proxy.bootstrap_servers,
        "state.dir": str(tmp_path),
        "processing.guarantee": guarantee,
    }
    streams = KafkaStreams(builder.build(), config)
    proxy.keep_next(INIT_PRODUCER_ID, 1000, cuts=False)
    streams.start()
    wait_until(lambda: proxy.kept or streams.error, "a request for an epoch")

    stopped = streams.close(40)

    proxy.close()
    assert stopped
    assert streams.error is None


def test_commits_whose_group_coordinator_is_not_found_do_not_hold_a_stop(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    """As behind a coordinator that was killed: the client asks for another one, in vain."""
    proxy = RequestProxy(broker.bootstrap_servers)
    builder = StreamsBuilder()
    source = create_topic(partitions=3)
    stream = builder.stream(source, key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.group_by_key().count(name="counts")
    config = {
        "application.id": unique_name,
        "bootstrap.servers": proxy.bootstrap_servers,
        "state.dir": str(tmp_path),
        "processing.guarantee": "exactly_once",
    }
    streams = KafkaStreams(builder.build(), config)
    streams.start()
    wait_until(lambda: streams.state is State.RUNNING, "the tasks")
    proxy.keep_next(FIND_COORDINATOR, 1000, cuts=False)
    writer = Writer(broker.bootstrap_servers)
    for partition in range(3):
        writer.write(source, "value", "key", partition, 0)
    writer.flush()
    wait_until(lambda: any(b"-producer" in kept.request for kept in list(proxy.kept)), "a commit")

    stopped = streams.close(60)

    proxy.close()
    assert stopped
    assert streams.error is None


@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "exactly_once"))
def test_a_stop_behind_brokers_that_fell_silent_is_in_time_and_loses_nothing(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    """Neither what was sent is acknowledged, nor is its transaction committed or aborted."""
    servers = broker.bootstrap_servers
    proxy = RequestProxy(servers)
    source, output = topics_with_input(servers, create_topic)
    settings = {
        "bootstrap.servers": proxy.bootstrap_servers,
        "processing.guarantee": guarantee,
        "commit.interval.ms": 9000,
        "statestore.cache.max.bytes": 0,
    }
    file = write_counts(tmp_path, source, output)
    with Application(unique_name, tmp_path, file, settings) as application:
        running = application.start()
        running.wait_until(
            lambda: len(read_all(servers, output, committed=False)) >= RECORDS,
            "all records processed",
        )
        for api in (PRODUCE, END_TXN, TXN_OFFSET_COMMIT):
            proxy.keep_next(api, 10_000, cuts=False)
        produce(servers, source, [(b"k", bytes(8))])
        wait_until(lambda: proxy.kept, "a request without an answer")
        running.stop()
        assert "has not stopped" not in running.tail()
        for api in (PRODUCE, END_TXN, TXN_OFFSET_COMMIT):
            proxy.keep_next(api, 0)
        again = application.start()
        again.wait_until(
            lambda: len(read_all(servers, output)) == RECORDS + 1, "all records committed"
        )
        again.stop()
    proxy.close()

    counted = values_by_key(read_all(servers, output))
    assert counted == {b"k": list(range(1, RECORDS + 2))}


def test_a_stop_before_any_broker_answers_is_a_clean_one(unique_name: str, tmp_path: Path) -> None:
    file = write_counts(tmp_path, "in", "out")
    settings = {"bootstrap.servers": "127.0.0.1:1"}
    with Application(unique_name, tmp_path, file, settings) as application:
        running = application.start()
        running.wait_for("no broker answers yet, trying on")
        running.stop()


@pytest.mark.parametrize("kept", first_of("standbys", "tasks"))
def test_a_stop_does_not_wait_for_what_changelogs_hold_while_no_broker_tells(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    kept: str,
) -> None:
    """Each question has half a minute for its answer, and the stop less."""
    proxy = RequestProxy(broker.bootstrap_servers)
    source, output = create_topic(partitions=4), create_topic(partitions=4)
    settings = {"bootstrap.servers": proxy.bootstrap_servers, "num.standby.replicas": 1}
    file = write_counts(tmp_path, source, output)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        Application(unique_name, tmp_path / "one", file, settings) as one,
        Application(unique_name, tmp_path / "two", file, settings) as two,
    ):
        if kept == "tasks":
            proxy.keep_next(LIST_OFFSETS, 1000, cuts=False)
        running = [application.start() for application in (one, two)]
        if kept == "standbys":
            for process in running:
                process.wait_for("all tasks run")
            proxy.keep_next(LIST_OFFSETS, 1000, cuts=False)
            for process in running:
                process.wait_for("standby")
        wait_until(lambda: proxy.kept, "a question for offsets")
        for process in running:
            process.stop()
    proxy.close()
