"""Every key of Kafka Streams is known: held, refused with a reason, or without effect."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from pystreams.config import KEY_DEFINITIONS
from pystreams.config.client_overrides import override_problem, translated
from pystreams.config.known_keys import ALIASES, CLIENT_KEYS, UNSUPPORTED, WITHOUT_EFFECT

# The names that `StreamsConfig` of Kafka Streams 4.4 defines.
KAFKA_STREAMS_KEYS = [
    "acceptable.recovery.lag",
    "allow.os.group.write.access",
    "application.id",
    "application.server",
    "bootstrap.servers",
    "buffered.records.per.partition",
    "built.in.metrics.version",
    "cache.max.bytes.buffering",
    "client.id",
    "commit.interval.ms",
    "config.providers",
    "connections.max.idle.ms",
    "default.client.supplier",
    "default.deserialization.exception.handler",
    "default.dsl.store",
    "default.interactive.query.isolation.level",
    "default.key.serde",
    "default.list.key.serde.inner",
    "default.list.key.serde.type",
    "default.list.value.serde.inner",
    "default.list.value.serde.type",
    "default.production.exception.handler",
    "default.timestamp.extractor",
    "default.value.serde",
    "deserialization.exception.handler",
    "dsl.store.format",
    "dsl.store.suppliers.class",
    "enable.metrics.push",
    "enable.transactional.statestores",
    "ensure.explicit.internal.resource.naming",
    "errors.dead.letter.queue.topic.name",
    "group.protocol",
    "log.summary.interval.ms",
    "max.task.idle.ms",
    "max.warmup.replicas",
    "metadata.cluster.check.enable",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "num.standby.replicas",
    "num.stream.threads",
    "poll.ms",
    "probing.rebalance.interval.ms",
    "processing.exception.handler",
    "processing.exception.handler.global.enabled",
    "processing.guarantee",
    "processor.wrapper.class",
    "production.exception.handler",
    "rack.aware.assignment.non_overlap_cost",
    "rack.aware.assignment.strategy",
    "rack.aware.assignment.tags",
    "rack.aware.assignment.traffic_cost",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "repartition.purge.interval.ms",
    "replication.factor",
    "request.timeout.ms",
    "retry.backoff.ms",
    "rocksdb.config.setter",
    "security.protocol",
    "send.buffer.bytes",
    "state.cleanup.delay.ms",
    "state.cleanup.dir.max.age.ms",
    "state.dir",
    "statestore.cache.max.bytes",
    "statestore.uncommitted.max.bytes",
    "task.assignor.class",
    "task.timeout.ms",
    "topology.description.push.enabled",
    "topology.optimization",
    "upgrade.from",
    "window.size.ms",
    "windowed.inner.class.serde",
    "windowstore.changelog.additional.retention.ms",
]


def test_every_key_of_kafka_streams_is_in_exactly_one_place() -> None:
    held = {definition.name for definition in KEY_DEFINITIONS}
    places = [held, set(ALIASES), set(UNSUPPORTED), set(WITHOUT_EFFECT)]

    for key in KAFKA_STREAMS_KEYS:
        assert sum(key in place for place in places) == 1, key


def test_aliases_lead_to_keys() -> None:
    assert set(ALIASES.values()) <= {definition.name for definition in KEY_DEFINITIONS}


def test_accepted_values_are_in_the_form_they_are_compared_in() -> None:
    for unsupported in UNSUPPORTED.values():
        for accepted in unsupported.accepted:
            assert accepted == accepted.strip().lower()


def test_keys_that_are_suggested_are_taken() -> None:
    for prefix, names in CLIENT_KEYS.items():
        for name in names:
            assert override_problem(f"{prefix}{name}", "-1", exactly_once=False) is None, name


@pytest.mark.parametrize(("prefix", "client"), [("consumer.", Consumer), ("producer.", Producer)])
def test_keys_that_are_suggested_are_known_to_the_client(prefix: str, client: Any) -> None:
    given = {f"{prefix}{name}": "no such value" for name in CLIENT_KEYS[prefix]}
    told = []

    for name, value in translated(given, prefix).items():
        try:
            client({"group.id": "orders", name: value})
        except KafkaException as error:
            told.append(str(error))

    assert [text for text in told if "No such configuration property" in text] == []
