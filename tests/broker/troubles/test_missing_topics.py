"""Topics that are not there, at the start or any more: how an application ends, and the cure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.programs import write_counts
from tests.broker.reading import create_topics, delete_named, produce, read_all
from tests.variants import first_of

ONE_RECORD = [(b"key", bytes(8))]
MADE_ANEW = "internal topics were missing and are made anew: what they held, if anything, is lost"

GROUPING = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
source = builder.stream("{source}", key_serde=serdes.STRING, value_serde=serdes.BYTES)
grouped = source.group_by(lambda key, value: key, name="again")
grouped.count(name="counts").to_stream().to("{output}", value_serde=serdes.LONG)
config = {{"default.key.serde": "string", "default.value.serde": "bytes"}}
"""
REPARTITIONING = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
source = builder.stream("{source}", key_serde=serdes.BYTES, value_serde=serdes.BYTES)
source.repartition(name="again").to("{output}")
"""


def test_an_output_topic_that_is_missing_ends_the_start_and_creating_it_helps(
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> None:
    source, output = create_topic("in"), f"{unique_name}-out"
    topology = write_counts(tmp_path, source, output)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "commit.interval.ms": 100}
    with Application(unique_name, tmp_path, topology, settings) as application:
        with application.running() as running:
            assert running.ended() == 1
        (error,) = running.lines("stopped by an error")
        assert f"output topic '{output}' does not exist" in error["error"]
        assert not running.lines("partitions assigned")

        create_topics(admin, [NewTopic(output, 1)])
        produce(broker.bootstrap_servers, source, ONE_RECORD)
        with application.running() as running:
            running.wait_until(lambda: read_all(broker.bootstrap_servers, output), "output")
            running.stop()


@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "at_least_once"))
def test_a_deleted_changelog_ends_the_application_and_a_start_offers_to_log_the_store_anew(
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    servers, source, output = broker.bootstrap_servers, create_topic("in"), create_topic("out")
    topology = write_counts(tmp_path, source, output)
    settings = {
        "bootstrap.servers": servers,
        "commit.interval.ms": 100,
        "processing.guarantee": guarantee,
        # How long a client believes that a topic which is gone is only not known yet.
        "producer.topic.metadata.propagation.max.ms": 5000,
    }
    with Application(unique_name, tmp_path, topology, settings) as application:
        with application.running() as running:
            produce(servers, source, ONE_RECORD)
            running.wait_until(lambda: len(read_all(servers, output)) == 1, "output")
            changelog = f"{unique_name}-counts-changelog"
            delete_named(admin, changelog)
            produce(servers, source, ONE_RECORD)
            assert running.ended() == 1
        (error,) = running.lines("stopped by an error")
        assert changelog in error["error"]
        assert "a changelog was deleted: start again" in error["error"]

        with application.running() as running:
            assert running.ended() == 1
        (error,) = running.lines("stopped by an error")
        assert "pystreams recover" in error["error"]
        with application.running(changelog_loss_policy="keep") as running:
            produce(servers, source, ONE_RECORD)
            running.wait_until(lambda: last_count(servers, output) == 3, "count")
            running.stop()
        with application.running() as running:
            produce(servers, source, ONE_RECORD)
            running.wait_until(lambda: last_count(servers, output) == 4, "count")
            running.stop()


@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "at_least_once"))
@pytest.mark.parametrize("kind", ["changelog", "repartition"])
def test_an_internal_topic_made_anew_by_hand_under_a_running_application_is_told_with_what_helps(
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    kind: str,
    guarantee: str,
) -> None:
    """With as many partitions nothing else says so; with others the next start does."""
    servers, source, output = broker.bootstrap_servers, create_topic("in"), create_topic("out")
    topology = tmp_path / "grouping.py"
    topology.write_text(GROUPING.format(source=source, output=output))
    settings = {
        "bootstrap.servers": servers,
        "commit.interval.ms": 100,
        "metadata.max.age.ms": 1000,
        "processing.guarantee": guarantee,
    }
    name = {"changelog": "counts-changelog", "repartition": "again-repartition"}[kind]
    internal = f"{unique_name}-{name}"
    with Application(unique_name, tmp_path, topology, settings) as application:
        with application.running() as running:
            produce(servers, source, ONE_RECORD)
            running.wait_until(lambda: len(read_all(servers, output)) == 1, "output")
            delete_named(admin, internal)
            create_topics(admin, [NewTopic(internal, 1)])
            assert running.ended() == 1
        (error,) = running.lines("stopped by an error")
        assert internal in error["error"]
        # Of a repartition topic whoever reads it may be the first to notice, by its offsets.
        assert "was deleted and created again" in error["error"]

        delete_named(admin, internal)
        create_topics(admin, [NewTopic(internal, 3)])
        with application.running() as running:
            assert running.ended() == 2
        (error,) = running.lines("stopped by an error")
        assert "has 3 partitions and needs 1" in error["error"]
        assert "delete it, and start again" in error["error"]
        delete_named(admin, internal)
        with application.running() as running:
            assert running.ended() == 1
        (error,) = running.lines("stopped by an error")
        assert "pystreams reset" in error["error"] or "pystreams recover" in error["error"]


def last_count(servers: str, topic: str) -> int:
    return int.from_bytes(read_all(servers, topic)[-1].value() or b"", "big")


def test_a_repartition_topic_deleted_while_the_application_is_down_is_told_when_it_is_made_anew(
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> None:
    servers, source, output = broker.bootstrap_servers, create_topic("in"), create_topic("out")
    topology = tmp_path / "again.py"
    topology.write_text(REPARTITIONING.format(source=source, output=output))
    settings = {"bootstrap.servers": servers, "commit.interval.ms": 100}
    repartition = f"{unique_name}-again-repartition"
    with Application(unique_name, tmp_path, topology, settings) as application:
        with application.running() as first:
            produce(servers, source, ONE_RECORD)
            first.wait_until(lambda: read_all(servers, output), "output")
            first.stop()
        delete_named(admin, repartition)
        with application.running() as second:
            produce(servers, source, ONE_RECORD)
            second.wait_until(lambda: len(read_all(servers, output)) == 2, "output")
            second.stop()
    assert [line["topics"] for line in first.lines("internal topics created")] == [[repartition]]
    assert not first.lines(MADE_ANEW)
    (told,) = second.lines(MADE_ANEW)
    assert (told["level"], told["topics"]) == ("warning", [repartition])
    assert "pystreams reset" in told["cure"]
    assert not second.lines("internal topics created")


def test_a_repartition_topic_deleted_under_a_running_application_with_state_is_cured_as_it_says(
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> None:
    servers, source, output = broker.bootstrap_servers, create_topic("in"), create_topic("out")
    topology = tmp_path / "again.py"
    topology.write_text(GROUPING.format(source=source, output=output))
    settings = {
        "bootstrap.servers": servers,
        "commit.interval.ms": 100,
        "processing.guarantee": "exactly_once",
        "producer.topic.metadata.propagation.max.ms": 5000,
    }
    repartition = f"{unique_name}-again-repartition"
    with Application(unique_name, tmp_path, topology, settings) as application:
        with application.running() as running:
            produce(servers, source, ONE_RECORD)
            running.wait_until(lambda: len(read_all(servers, output)) == 1, "output")
            delete_named(admin, repartition)
            produce(servers, source, ONE_RECORD)
            assert running.ended() == 1
        (error,) = running.lines("stopped by an error")
        assert "a repartition topic was deleted: start again. Where a state store" in error["error"]

        with application.running() as running:
            assert running.ended() == 1
        (error,) = running.lines("stopped by an error")
        accepted = re.search(rf"accepted\.source\.topic\.ids=({repartition}:\S+)", error["error"])
        assert accepted, error
        with application.running(accepted_source_topic_ids=accepted[1]) as running:
            running.wait_until(lambda: last_count(servers, output) == 2, "count")
            running.stop()
        with application.running() as running:
            produce(servers, source, ONE_RECORD)
            running.wait_until(lambda: last_count(servers, output) == 3, "count")
            running.stop()
