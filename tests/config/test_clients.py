"""What librdkafka is given, and that it accepts it. No broker is contacted."""

from __future__ import annotations

import re
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from pystreams import ConfigError, StreamsConfig
from pystreams.config import KEY_DEFINITIONS, KeyDefinition, clients

REQUIRED = {"application.id": "orders", "bootstrap.servers": "127.0.0.1:1"}
QUIET = {"log_level": 0}


def config(values: dict[str, Any] | None = None, **keywords: object) -> StreamsConfig:
    return StreamsConfig.of(REQUIRED | (values or {}), **keywords)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_accepts_every_configuration(guarantee: str, protocol: str) -> None:
    made = config(processing_guarantee=guarantee, group_protocol=protocol)

    for given in (
        clients.consumer_config(made, client_id="c", group_instance_id="i"),
        clients.restore_consumer_config(made, client_id="c"),
    ):
        Consumer(given | QUIET).close()
    Producer(clients.producer_config(made, client_id="c") | QUIET)
    Producer(clients.producer_config(made, "orders-0_0") | QUIET)
    AdminClient(clients.admin_config(made) | QUIET)


def test_librdkafka_accepts_translated_names() -> None:
    made = config(
        {
            "consumer.fetch.max.wait.ms": 10,
            "consumer.receive.buffer.bytes": "65536",
            "consumer.auto.offset.reset": "none",
            "producer.max.request.size": 2_000_000,
            "producer.request.timeout.ms": 20_000,
            "producer.compression.type": "zstd",
            "admin.metadata.max.age.ms": 1000,
            "receive.buffer.bytes": 32_768,
        }
    )

    consumer = clients.consumer_config(made)
    producer = clients.producer_config(made)
    assert consumer["fetch.wait.max.ms"] == 10
    assert consumer["socket.receive.buffer.bytes"] == "65536"
    assert consumer["auto.offset.reset"] == "error"
    assert producer["message.max.bytes"] == 2_000_000
    assert producer["socket.timeout.ms"] == 20_000
    assert producer["socket.receive.buffer.bytes"] == 32_768
    assert clients.admin_config(made)["topic.metadata.refresh.interval.ms"] == 1000
    Consumer(consumer | QUIET).close()
    Producer(producer | QUIET)
    AdminClient(clients.admin_config(made) | QUIET)


def test_the_consumer_reads_from_the_beginning_and_never_commits_by_itself() -> None:
    consumer = clients.consumer_config(config())

    assert consumer["group.id"] == "orders"
    assert consumer["auto.offset.reset"] == "earliest"
    assert consumer["enable.auto.commit"] is False
    assert consumer["enable.auto.offset.store"] is False
    assert consumer["allow.auto.create.topics"] is False
    assert consumer["partition.assignment.strategy"] == "range"
    assert "group.remote.assignor" not in consumer


def test_the_consumer_protocol_assigns_by_range_on_the_broker() -> None:
    consumer = clients.consumer_config(config(group_protocol="consumer"))

    assert consumer["group.remote.assignor"] == "range"
    assert "partition.assignment.strategy" not in consumer


@pytest.mark.parametrize(
    ("guarantee", "isolation"),
    [
        ("at_least_once", "read_uncommitted"),
        ("exactly_once", "read_committed"),
        ("exactly_once_v2", "read_committed"),
    ],
)
def test_exactly_once_reads_what_is_committed(guarantee: str, isolation: str) -> None:
    made = config(processing_guarantee=guarantee)

    assert clients.consumer_config(made)["isolation.level"] == isolation
    assert clients.restore_consumer_config(made)["isolation.level"] == isolation


def test_at_least_once_may_read_committed_on_request() -> None:
    made = config({"consumer.isolation.level": "read_committed"})

    assert clients.consumer_config(made)["isolation.level"] == "read_committed"


@pytest.mark.parametrize(
    ("session_ms", "heartbeat_ms"), [(None, 500), (45_000, 500), (1500, 500), ("600", 200)]
)
def test_a_short_session_has_three_heartbeats(session_ms: object, heartbeat_ms: int) -> None:
    made = config({} if session_ms is None else {"consumer.session.timeout.ms": session_ms})

    assert clients.consumer_config(made)["heartbeat.interval.ms"] == heartbeat_ms


@pytest.mark.parametrize("heartbeat_ms", [None, 100, 3000, 10_000])
def test_by_default_a_member_is_never_put_out_for_a_silence_that_kafka_allows(
    heartbeat_ms: int | None,
) -> None:
    made = config({} if heartbeat_ms is None else {"consumer.heartbeat.interval.ms": heartbeat_ms})
    consumer = clients.consumer_config(made)

    silence_ms = consumer["session.timeout.ms"] - consumer["heartbeat.interval.ms"]
    assert silence_ms == 45_000 - max(heartbeat_ms or 0, 3000)


def test_a_session_is_as_long_as_it_is_set() -> None:
    made = config({"consumer.session.timeout.ms": 6000, "consumer.heartbeat.interval.ms": 2000})

    assert clients.consumer_config(made)["session.timeout.ms"] == 6000


def test_with_the_consumer_protocol_the_broker_says_how_long_a_session_is() -> None:
    made = config({"group.protocol": "consumer"})

    assert "session.timeout.ms" not in clients.consumer_config(made)


def test_heartbeats_are_as_frequent_as_they_are_set() -> None:
    made = config({"consumer.session.timeout.ms": 6000, "main.consumer.heartbeat.interval.ms": 900})

    assert clients.consumer_config(made)["heartbeat.interval.ms"] == 900


def test_a_member_is_static_only_when_it_is_given_an_id() -> None:
    made = config({"consumer.group.instance.id": "pod-7"})

    assert made.group_instance_id == "pod-7"
    assert "group.instance.id" not in clients.consumer_config(made)
    assert (
        clients.consumer_config(made, group_instance_id="pod-7-1")["group.instance.id"] == "pod-7-1"
    )


def test_the_restore_consumer_notices_missing_offsets_and_needs_no_right_to_another_group() -> None:
    restore = clients.restore_consumer_config(config({"consumer.group.instance.id": "a"}))

    assert restore["auto.offset.reset"] == "error"
    assert restore["group.id"] == "orders"
    assert "group.instance.id" not in restore
    assert "group.protocol" not in restore


def test_a_narrower_prefix_wins() -> None:
    made = config({"consumer.fetch.min.bytes": 1, "main.consumer.fetch.min.bytes": 2})

    assert clients.consumer_config(made)["fetch.min.bytes"] == 2
    assert clients.restore_consumer_config(made)["fetch.min.bytes"] == 1


def test_the_producer_partitions_like_java_and_never_reorders() -> None:
    producer = clients.producer_config(config())

    assert producer["partitioner"] == "murmur2_random"
    assert producer["enable.idempotence"] is True
    assert producer["linger.ms"] == 20
    assert "transactional.id" not in producer


def test_fewer_acknowledgements_give_idempotence_up_as_in_java() -> None:
    producer = clients.producer_config(config({"producer.acks": "1"}))

    assert producer["enable.idempotence"] is False
    Producer(producer | QUIET)


@pytest.mark.parametrize(
    "definition",
    [key for key in KEY_DEFINITIONS if key.client and key.kind.name == "int"],
    ids=lambda key: key.name,
)
@pytest.mark.parametrize("end", ["smallest", "largest"])
def test_librdkafka_accepts_the_whole_range_of_a_key(definition: KeyDefinition, end: str) -> None:
    bounds = re.findall(r"-?\d+", definition.kind.valid)
    made = config({definition.name: int(bounds[0] if end == "smallest" else bounds[-1])})

    Consumer(clients.consumer_config(made) | QUIET).close()
    Producer(clients.producer_config(made) | QUIET)


def test_timeouts_of_a_transactional_producer_fit_into_the_transaction() -> None:
    made = config(processing_guarantee="exactly_once")
    producer = clients.producer_config(made, "orders-0_1")

    assert producer["transactional.id"] == "orders-0_1"
    assert producer["transaction.timeout.ms"] == 10_000
    assert producer["delivery.timeout.ms"] == 10_000
    assert producer["socket.timeout.ms"] == 9_900


@pytest.mark.parametrize(
    ("overrides", "protocol", "delivery_ms"),
    [
        ({}, "classic", 41_500),
        ({"consumer.session.timeout.ms": "6000"}, "classic", 5000),
        (
            {"consumer.session.timeout.ms": 6000, "consumer.heartbeat.interval.ms": 2500},
            "classic",
            2000,
        ),
        ({}, "consumer", 35_000),
        ({"producer.delivery.timeout.ms": 600_000}, "classic", 41_500),
        ({"producer.delivery.timeout.ms": 0}, "classic", 41_500),
        ({"producer.delivery.timeout.ms": 3000}, "classic", 3000),
        ({"producer.message.timeout.ms": 600_000}, "classic", 41_500),
        ({"producer.linger.ms": "50000.5"}, "classic", 50_001),
    ],
)
def test_without_transactions_no_record_is_sent_past_the_session(
    overrides: dict[str, object], protocol: str, delivery_ms: int
) -> None:
    producer = clients.producer_config(config({"group.protocol": protocol, **overrides}))

    assert producer["delivery.timeout.ms"] == delivery_ms
    Producer(producer | QUIET)


def test_security_goes_to_every_client() -> None:
    made = config(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "u",
            "sasl.password": "p",
        }
    )

    for given in (
        clients.consumer_config(made),
        clients.restore_consumer_config(made),
        clients.producer_config(made),
        clients.admin_config(made),
    ):
        assert given["security.protocol"] == "SASL_SSL"
        assert given["sasl.password"] == "p"


def test_topic_settings_become_text() -> None:
    made = config({"topic.segment.bytes": 1_000_000, "topic.preallocate": True})

    assert made.topic_config() == {"segment.bytes": "1000000", "preallocate": "true"}


@pytest.mark.parametrize(
    "key",
    [
        "consumer.enable.auto.commit",
        "main.consumer.group.id",
        "consumer.group.protocol",
        "consumer.allow.auto.create.topics",
        "consumer.partition.assignment.strategy",
        "restore.consumer.auto.offset.reset",
        "producer.transactional.id",
        "producer.partitioner",
        "producer.bootstrap.servers",
    ],
)
def test_what_correctness_needs_can_not_be_overridden(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} can't be overridden"):
        config({key: "x"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("consumer.isolation.level", "read_uncommitted"),
        ("producer.acks", 1),
        ("producer.enable.idempotence", "false"),
        ("producer.max.in.flight.requests.per.connection", 1),
    ],
)
def test_exactly_once_needs_more(key: str, value: object) -> None:
    config({key: value})

    with pytest.raises(ConfigError, match="can't be overridden"):
        config({key: value}, processing_guarantee="exactly_once")


@pytest.mark.parametrize(
    ("key", "cure"),
    [
        ("producer.buffer.memory", "queue.buffering.max.kbytes"),
        ("consumer.value.deserializer", "default.value.serde"),
        ("ssl.truststore.location", "ssl.ca.location"),
        ("sasl.jaas.config", "sasl.username"),
    ],
)
def test_keys_of_the_java_clients_are_refused_with_the_cure(key: str, cure: str) -> None:
    with pytest.raises(ConfigError, match=cure):
        config({key: "x"})


def test_numbers_of_the_clients_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"producer\.linger\.ms = '5s' is not a number"):
        config({"producer.linger.ms": "5s"})


def test_a_mechanism_of_tokens_is_refused_that_nothing_would_get_one_for() -> None:
    token = {"sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_SSL"}

    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.method = oidc"):
        config(token)

    made = config({**token, "sasl.oauthbearer.method": "oidc"})
    assert made.overrides["sasl.mechanism"] == "OAUTHBEARER"
