"""Kafka Streams' keys that are no key of `StreamsConfig`: aliases, unsupported, without effect.

A Java application's configuration should either work here or be refused with the reason, never be
half understood. Each key of Kafka Streams 4.4 is in exactly one place: a field of `StreamsConfig`,
or one of the tables below; a test compares them with Kafka's list.
"""

from __future__ import annotations

from dataclasses import dataclass

ALIASES = {
    "cache.max.bytes.buffering": "statestore.cache.max.bytes",
    "default.interactive.query.isolation.level": "default.state.isolation.level",
    "default.deserialization.exception.handler": "deserialization.exception.handler",
    "default.production.exception.handler": "production.exception.handler",
    "consumer.max.poll.records": "max.poll.records",
    "main.consumer.max.poll.records": "max.poll.records",
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": "outer.join.emit.interval.ms",
    "__emit.interval.ms.kstreams.windowed.aggregation__": "window.emit.interval.ms",
}
"""Other names of keys: Kafka's older and later ones -> ours."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A key that Kafka Streams has and pystreams has not.

    Attributes:
        accepted: Values, in lower case, that mean what pystreams does anyway.
        reason: Why others are refused, and what to do.
    """

    accepted: tuple[str, ...]
    reason: str


_WARMUP = (
    "a process that comes warms up all that comes to it, and joins the group then: set "
    "acceptable.recovery.lag for when that is"
)
_TAGS = "standbys are placed by the group's range assignment, not by tags"
_RACKS = "rack-aware assignment is not supported: tasks follow the group's range assignment"
_METRICS = "metrics reporters are Java classes: set metrics.prometheus.port, or read metrics()"
_WINDOWS = "declare the serde and the window's size on the operation instead"
_LIST_SERDE = "list serdes are not supported: declare a serde on the operation"

UNSUPPORTED = {
    "max.warmup.replicas": Unsupported(("2",), _WARMUP),
    "probing.rebalance.interval.ms": Unsupported(("600000",), _WARMUP),
    "task.assignor.class": Unsupported((), "the assignment of tasks can't be replaced"),
    "rack.aware.assignment.strategy": Unsupported(("none",), _RACKS),
    "rack.aware.assignment.non_overlap_cost": Unsupported((), _RACKS),
    "rack.aware.assignment.traffic_cost": Unsupported((), _RACKS),
    "rack.aware.assignment.tags": Unsupported(("",), _RACKS),
    "allow.os.group.write.access": Unsupported(("false",), "not supported: set the umask instead"),
    "enable.transactional.statestores": Unsupported(
        ("true",),
        "stores are transactional unless one is told otherwise: Materialized(transactional=False), "
        "or with_transactional_disabled() on its builder; to let queries see uncommitted writes, "
        "set default.state.isolation.level to READ_UNCOMMITTED",
    ),
    "default.dsl.store": Unsupported(
        ("rocksdb",), "choose the engine on the operation, through Materialized"
    ),
    "dsl.store.suppliers.class": Unsupported(
        ("org.apache.kafka.streams.state.builtindslstoresuppliers$rocksdbdslstoresuppliers",),
        "choose the engine on the operation, through Materialized",
    ),
    "dsl.store.format": Unsupported(("default",), "headers are not kept in stores yet"),
    "processor.wrapper.class": Unsupported(
        (), "give StreamsBuilder or Topology a processor_wrapper"
    ),
    "upgrade.from": Unsupported((), "there is no older version to upgrade from"),
    "default.client.supplier": Unsupported((), "the Kafka clients can't be replaced"),
    "config.providers": Unsupported(("",), "pass secrets through the environment instead"),
    "metric.reporters": Unsupported(("",), _METRICS),
    "default.list.key.serde.inner": Unsupported((), _LIST_SERDE),
    "default.list.key.serde.type": Unsupported((), _LIST_SERDE),
    "default.list.value.serde.inner": Unsupported((), _LIST_SERDE),
    "default.list.value.serde.type": Unsupported((), _LIST_SERDE),
    "windowed.inner.class.serde": Unsupported((), _WINDOWS),
    "window.size.ms": Unsupported((), _WINDOWS),
}
"""Keys refused with their reason, unless set to a value that changes nothing."""

WITHOUT_EFFECT = {
    "auto.include.jmx.reporter": "there is no JMX",
    "built.in.metrics.version": "metrics are not Java's",
    "metadata.cluster.check.enable": "the Kafka client does not check the cluster's id",
    "topology.description.push.enabled": "descriptions are not sent to the broker",
}
"""Keys accepted with any value and ignored: they change neither results nor safety."""

PREFIXES = {
    "consumer.": "all consumers",
    "main.consumer.": "the consumer of the input",
    "restore.consumer.": "the consumer that restores stores from changelogs",
    "global.consumer.": "the consumer that fills global stores and tables",
    "producer.": "all producers",
    "admin.": "the client that looks after internal topics",
    "topic.": "the internal topics themselves",
}
"""Prefixes of keys that are passed on, and to whom."""

CLIENT_KEYS = {
    "consumer.": (
        "auto.offset.reset",
        "check.crcs",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.instance.id",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "session.timeout.ms",
    ),
    "producer.": (
        "acks",
        "batch.size",
        "compression.level",
        "compression.type",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "retries",
        "transaction.timeout.ms",
    ),
    "topic.": (
        "max.message.bytes",
        "min.insync.replicas",
        "retention.ms",
        "segment.bytes",
        "segment.ms",
    ),
}
"""What users set most behind a prefix: what is meant where a key is unknown. The clients, and the
brokers, take many more."""

MEANT = {
    written: f"{prefix}{name}"
    for prefix, names in CLIENT_KEYS.items()
    for name in names
    for written in (name, f"{prefix}{name}")
}
"""These with and without their prefix -> with it."""

UNSUPPORTED_PREFIXES = {
    "client.tag.": _TAGS,
}

SHARED_PREFIXES = ("sasl.", "ssl.")
SHARED_KEYS = frozenset(
    {
        "broker.address.family",
        "client.dns.lookup",
        "client.rack",
        "debug",
        "enable.ssl.certificate.verification",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.nagle.disable",
    }
)
"""Keys of librdkafka that every client gets when they are set without a prefix."""
