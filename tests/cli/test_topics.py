"""`pystreams topics`, against a real broker, and the topics that `pystreams run --dev` creates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient, ConfigResource

from pystreams import StreamsBuilder, StreamsConfig
from pystreams.cli.application.development_broker import create_missing_topics
from pystreams.cli.commands.records.topics import topics
from tests import names
from tests.broker.reading import answer_of, topics_of
from tests.broker.waiting import DEADLINE_S
from tests.broker.writing import writer_of

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker


class Cluster:
    """A broker, and what is asked of it."""

    def __init__(self, broker: DevelopmentBroker) -> None:
        self.servers = broker.bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": self.servers})

    def invoke(self, *arguments: str) -> Result:
        words = [*arguments, "-c", f"bootstrap.servers={self.servers}"]
        return CliRunner().invoke(topics, words)

    def partitions(self, name: str) -> int:
        return topics_of(self.admin)[name]

    def setting(self, name: str, key: str) -> str:
        resource = ConfigResource("topic", name)
        described = answer_of(
            lambda: self.admin.describe_configs([resource])[resource].result(DEADLINE_S)
        )
        return str(described[key].value)


@pytest.fixture
def cluster(broker: DevelopmentBroker) -> Cluster:
    return Cluster(broker)


@pytest.fixture
def name() -> str:
    return names.unique_name("topics")


def test_topics_are_created_with_what_was_asked_for(cluster: Cluster, name: str) -> None:
    more = ("--topic-config", "cleanup.policy=compact", "--replication-factor", "1")
    answer = cluster.invoke("create", f"{name}-a", f"{name}-b", "--partitions", "3", *more)

    assert answer.exit_code == 0, answer.output
    assert answer.stdout.splitlines() == [
        f"Created topic {name}-a (partitions: 3)",
        f"Created topic {name}-b (partitions: 3)",
    ]
    assert cluster.partitions(f"{name}-a") == 3
    assert cluster.setting(f"{name}-b", "cleanup.policy") == "compact"


def test_without_a_number_the_broker_says_how_many_partitions(cluster: Cluster, name: str) -> None:
    answer = cluster.invoke("create", name)

    assert answer.exit_code == 0, answer.output
    assert f"Created topic {name} (partitions: {cluster.partitions(name)})" in answer.stdout


def test_a_topic_that_exists_is_told_and_nothing_is_created(cluster: Cluster, name: str) -> None:
    cluster.invoke("create", name, "--partitions", "2")
    answer = cluster.invoke("create", f"{name}-new", name, "--partitions", "3")

    assert answer.exit_code == 1
    assert f"there is a topic {name!r} (partitions: 2) already" in answer.stderr
    assert f"{name}-new" not in topics_of(cluster.admin)


def test_what_a_broker_refuses_is_told_with_the_cure(cluster: Cluster, name: str) -> None:
    answer = cluster.invoke("create", name, "--replication-factor", "3")

    assert answer.exit_code == 1
    assert f"creating topic {name!r}" in answer.stderr
    assert "set replication.factor (now 3)" in answer.stderr


def test_topics_are_listed_with_their_partitions(cluster: Cluster, name: str) -> None:
    cluster.invoke("create", name, "--partitions", "2")
    answer = cluster.invoke("list")

    assert answer.exit_code == 0, answer.output
    assert [name, "2"] in [line.split() for line in answer.stdout.splitlines()]
    assert "__consumer_offsets" not in answer.stdout


def test_topics_are_listed_for_programs(cluster: Cluster, name: str) -> None:
    cluster.invoke("create", name, "--partitions", "2")

    listed = json.loads(cluster.invoke("list", "--json").stdout)

    assert listed[name] == {"partitions": 2}
    assert not [topic for topic in listed if topic.startswith("__")]


def test_a_topic_with_two_numbers_of_replicas_is_wrong_usage() -> None:
    nowhere = ["-c", "bootstrap.servers=127.0.0.1:1"]
    words = ["create", "orders", "--replication-factor", "2", "-c", "replication.factor=3"]
    answer = CliRunner().invoke(topics, [*words, *nowhere])

    assert answer.exit_code == 2
    assert "--replication-factor 2 and -c replication.factor=3 contradict" in answer.stderr


@pytest.mark.sweep  # As of every command that asks: `pystreams reset` is the example.
def test_without_a_broker_the_exit_code_says_so() -> None:
    words = ["list", "-c", "bootstrap.servers=127.0.0.1:1", "-c", "request.timeout.ms=1500"]

    assert CliRunner().invoke(topics, words).exit_code == 3


def test_dev_creates_what_is_missing_like_what_is_there(cluster: Cluster, name: str) -> None:
    cluster.invoke("create", f"{name}-in", "--partitions", "2")
    builder = StreamsBuilder()
    stream = builder.stream([f"{name}-in", f"{name}-more"])
    stream.repartition(name="again").to(f"{name}-out")
    builder.stream(pattern=f"{name}-pattern-.*").foreach(print)
    config = StreamsConfig.of(application_id=name, bootstrap_servers=cluster.servers)
    create_missing_topics(builder.build(), config, partitions=None, processes=8)

    found = topics_of(cluster.admin)
    counts = {topic: count for topic, count in found.items() if topic.startswith(name)}
    assert counts == {f"{name}-in": 2, f"{name}-more": 2, f"{name}-out": 2}
    create_missing_topics(builder.build(), config, partitions=None, processes=8)


def test_a_topic_is_described_with_what_it_holds_and_its_settings(
    cluster: Cluster, name: str
) -> None:
    cluster.invoke("create", name, "--partitions", "2", "--topic-config", "retention.ms=5000")
    writer = writer_of(cluster.servers, name)
    for _ in range(3):
        writer.write(name, b"x", partition=1)
    writer.flush()
    answer = cluster.invoke("describe", name)
    told = json.loads(cluster.invoke("describe", name, "--json").stdout)

    assert answer.exit_code == 0, answer.output
    lines = answer.stdout.splitlines()
    assert lines[0] == f"{name}: 2 partitions, 3 offsets"
    assert "  retention.ms = 5000" in lines
    assert lines[-1].split() == ["1", "0", "3"]
    assert [held["end"] for held in told[name]["partitions"]] == [0, 3]
    assert told[name]["settings"]["cleanup.policy"] == "delete"


def test_topics_are_deleted_when_that_is_said_twice(cluster: Cluster, name: str) -> None:
    cluster.invoke("create", name, "--partitions", "2")
    shown = cluster.invoke("delete", name)
    assert (shown.exit_code, cluster.partitions(name)) == (0, 2)
    assert f"Would delete topic {name} (partitions: 2)" in shown.stdout
    done = cluster.invoke("delete", name, "--execute")

    assert (done.exit_code, done.stdout) == (0, f"Deleted topic {name}\n")
    assert cluster.invoke("describe", name).exit_code == 1
    gone = cluster.invoke("delete", name, "--execute")
    assert gone.exit_code == 1
    assert f"there is no topic {name!r}" in gone.stderr


@pytest.mark.parametrize("execute", [(), ("--execute",)])
@pytest.mark.parametrize(
    "own",
    ["__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"],
)
def test_kafka_s_own_topics_are_not_deleted(
    cluster: Cluster, name: str, own: str, execute: tuple[str, ...]
) -> None:
    cluster.invoke("create", name)
    answer = cluster.invoke("delete", name, own, *execute)

    assert answer.exit_code == 2
    assert f"{own} is Kafka's own" in answer.stderr
    assert answer.stdout == ""
    assert cluster.partitions(name)
