"""What the Kafka clients are given: plain dicts with librdkafka's names.

librdkafka takes most of the Java clients' names; the others are translated here. Order, weakest
first: what pystreams wants, the keys all clients share, the user's prefixed keys, and last what
correctness needs, which users may not override (`override_problem` refuses it at the start).

Defaults that differ from Kafka Streams':

- `linger.ms` 20, not 100: a full batch goes at once and a flush does not wait, so the time only
  matters when there are few records, and then it is latency.
- `batch.size` 1 MiB, not 16 KiB, and long queues in both directions: a Python process has one
  core, so the client's threads must never wait for it, and requests should be few and large. The
  runtime makes batches smaller where topics take less.
- `fetch.queue.backoff.ms` 100, not librdkafka's 1000: a full queue is empty sooner than that.
- `heartbeat.interval.ms` is a third of a session that was made shorter than 9 s: at 3 s, a session
  of 3 s ends between two heartbeats, and the members put each other out for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pystreams.config.guarantee import GroupProtocol
from pystreams.config.known_keys import PREFIXES, SHARED_KEYS, SHARED_PREFIXES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pystreams.config.streams_config import StreamsConfig

TRANSACTION_TIMEOUT_MS = 10_000
"""Default of `producer.transaction.timeout.ms`, as in Kafka Streams."""

_SESSION_TIMEOUT_MS = 45_000
"""Default of `consumer.session.timeout.ms`, as in Kafka."""

_MAX_POLL_INTERVAL_MS = 300_000
"""Default of `consumer.max.poll.interval.ms`, as in Kafka."""

_HEARTBEAT_INTERVAL_MS = 3000
"""Default of `consumer.heartbeat.interval.ms`, as in Kafka."""

_SOCKET_MARGIN_MS = 100
"""librdkafka wants `socket.timeout.ms` this far below `transaction.timeout.ms`."""

_RETRY_BACKOFF_MAX_MS = 1000
"""Default of librdkafka and Kafka."""

_LIBRDKAFKA_NAMES = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
"""Names of the Java clients -> librdkafka's, where they differ."""

_JAVA_ONLY = {
    "buffer.memory": "use queue.buffering.max.kbytes (in KiB)",
    "default.api.timeout.ms": "use request.timeout.ms or task.timeout.ms",
    "exclude.internal.topics": "internal topics are never matched by a pattern",
    "interceptor.classes": "Java classes can't be used",
    "key.deserializer": "set default.key.serde, or a serde on the operation",
    "key.serializer": "set default.key.serde, or a serde on the operation",
    "max.block.ms": "the runtime decides how long to wait: see task.timeout.ms",
    "metric.reporters": "Java classes can't be used",
    "partitioner.class": "give the sink a partitioner instead",
    "sasl.client.callback.handler.class": "Java classes can't be used",
    "sasl.jaas.config": "use sasl.username and sasl.password",
    "sasl.login.callback.handler.class": "Java classes can't be used",
    "ssl.truststore.location": "use ssl.ca.location with the certificate in PEM form",
    "ssl.truststore.password": "use ssl.ca.location with the certificate in PEM form",
    "ssl.truststore.type": "use ssl.ca.location with the certificate in PEM form",
    "value.deserializer": "set default.value.serde, or a serde on the operation",
    "value.serializer": "set default.value.serde, or a serde on the operation",
}

_NUMBERS = (".ms", ".bytes", ".kbytes", ".messages")
"""Endings of the names of librdkafka whose values are numbers."""

_EVERYWHERE = {
    "bootstrap.servers": "set it without the prefix",
    "security.protocol": "set it without the prefix",
    "client.id": "set it without the prefix",
}
_CONSUMER_FIXED = {
    "allow.auto.create.topics": "source topics must exist",
    "enable.auto.commit": "the runtime commits offsets together with state and output",
    "enable.auto.offset.store": "the runtime commits offsets together with state and output",
    "enable.partition.eof": "the runtime finds the end of a partition by its offsets",
    "group.id": "it is the application.id",
    "group.protocol": "set group.protocol without the prefix",
    "group.remote.assignor": "tasks need partitions assigned by range",
    "partition.assignment.strategy": "tasks need partitions assigned by range",
}
_RESTORE_FIXED = {
    "auto.offset.reset": "a changelog without the wanted offset is noticed, never skipped",
    "group.instance.id": "it is in no group",
}
_PRODUCER_FIXED = {
    "partitioner": "joins and tables need Kafka's murmur2; give a sink its own partitioner",
    "transactional.id": "it is made of the application.id and the task or thread",
}
_EXACTLY_ONCE_FIXED = {
    "consumer.": {"isolation.level": "exactly-once reads what is committed"},
    "producer.": {
        "enable.idempotence": "exactly-once needs it",
        "max.in.flight.requests.per.connection": "exactly-once needs librdkafka's order",
    },
}


def consumer_config(
    config: StreamsConfig, client_id: str | None, instance_id: str | None
) -> dict[str, Any]:
    """Return the configuration of a main consumer."""
    result = _shared(config, client_id) | _fetching(config)
    result["auto.offset.reset"] = "earliest"
    result |= _main_consumer(config.overrides)
    result.pop("group.instance.id", None)
    if instance_id is not None:
        result["group.instance.id"] = instance_id
    result["group.id"] = config.application_id
    result["group.protocol"] = config.group_protocol.value
    if config.group_protocol is GroupProtocol.CONSUMER:
        result["group.remote.assignor"] = "range"
    else:
        result["partition.assignment.strategy"] = "range"
        result["heartbeat.interval.ms"] = heartbeat_interval_ms(config.overrides)
    return result | _reading_rules(config, result)


def restore_consumer_config(config: StreamsConfig, client_id: str | None) -> dict[str, Any]:
    """Return the configuration of a consumer of changelogs.

    It joins no group, but librdkafka wants a `group.id`; nothing is ever committed under it. An
    offset that is out of range is an error to notice, never a reason to jump.
    """
    own = _translated(config.overrides, "consumer.", "restore.consumer.")
    return _without_group(config, client_id, own, "restore")


def history_consumer_config(config: StreamsConfig, client_id: str | None) -> dict[str, Any]:
    """Return the configuration of a consumer of source topics that is in no group.

    It reads what is committed, whatever the guarantee: its bounds are ends of what is.
    """
    own = _main_consumer(config.overrides)
    result = _without_group(config, client_id, own, "history")
    return result | {"isolation.level": "read_committed"}


def _without_group(
    config: StreamsConfig, client_id: str | None, own: dict[str, Any], purpose: str
) -> dict[str, Any]:
    result = _shared(config, client_id) | _fetching(config) | own
    for name in ("group.instance.id", "max.poll.interval.ms"):
        result.pop(name, None)
    result["auto.offset.reset"] = "error"
    result["group.id"] = f"{config.application_id}-{purpose}"
    return result | _reading_rules(config, result)


def producer_config(
    config: StreamsConfig, transactional_id: str | None, client_id: str | None
) -> dict[str, Any]:
    """Return the configuration of a producer."""
    result = _shared(config, client_id) | {
        "acks": "all",
        "batch.size": 1 << 20,
        "delivery.timeout.ms": 120_000,
        "enable.idempotence": True,
        "linger.ms": 20,
        "message.max.bytes": 1 << 20,
        "queue.buffering.max.messages": 1_000_000,
    }
    own = _translated(config.overrides, "producer.")
    if not _acknowledged_by_all(own.get("acks", "all")):
        # As in Java: who asks for fewer acknowledgements gives idempotence up.
        result["enable.idempotence"] = False
    result |= own
    result["partitioner"] = "murmur2_random"
    if transactional_id is None:
        result.pop("transaction.timeout.ms", None)
        return result
    timeout_ms = transaction_timeout_ms(config.overrides)
    result["transactional.id"] = transactional_id
    result["transaction.timeout.ms"] = timeout_ms
    result["enable.idempotence"] = True
    if "metadata.recovery.strategy" not in own:
        # When no broker answers, librdkafka 2.16 drops those it knows and begins anew, and then
        # waits for ever for a group coordinator it has dropped: the commit never ends.
        result["metadata.recovery.strategy"] = "none"
    # librdkafka refuses to start when these would outlive the transaction.
    result["delivery.timeout.ms"] = min(_as_int(result["delivery.timeout.ms"]), timeout_ms)
    socket_timeout_ms = min(_as_int(result["socket.timeout.ms"]), timeout_ms - _SOCKET_MARGIN_MS)
    result["socket.timeout.ms"] = socket_timeout_ms
    return result


def admin_config(config: StreamsConfig, client_id: str | None) -> dict[str, Any]:
    """Return the configuration of the admin client."""
    return _shared(config, client_id) | _translated(config.overrides, "admin.")


def topic_config(overrides: Mapping[str, Any]) -> dict[str, str]:
    """Return the configuration of internal topics that the user set; values as text."""
    return {name: _as_text(value) for name, value in _prefixed(overrides, "topic.").items()}


def transaction_timeout_ms(overrides: Mapping[str, Any]) -> int:
    """Return `transaction.timeout.ms` of the producers. The overrides have been checked."""
    return _as_int(overrides.get("producer.transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))


def session_timeout_ms(overrides: Mapping[str, Any]) -> int:
    """Return how long a member stays one without a heartbeat (ms)."""
    return _as_int(_main_consumer(overrides).get("session.timeout.ms", _SESSION_TIMEOUT_MS))


def heartbeat_interval_ms(overrides: Mapping[str, Any]) -> int:
    """Return how often a member sends a heartbeat (ms)."""
    default_ms = max(1, min(_HEARTBEAT_INTERVAL_MS, session_timeout_ms(overrides) // 3))
    return _as_int(_main_consumer(overrides).get("heartbeat.interval.ms", default_ms))


def max_poll_interval_ms(overrides: Mapping[str, Any]) -> int:
    """Return how long a member may process between two polls (ms)."""
    return _as_int(_main_consumer(overrides).get("max.poll.interval.ms", _MAX_POLL_INTERVAL_MS))


def group_instance_id(overrides: Mapping[str, Any]) -> str | None:
    """Return the user's `group.instance.id`, which is one for the whole process."""
    own = _main_consumer(overrides).get("group.instance.id")
    return None if own is None else str(own)


def override_problem(name: str, value: object, *, exactly_once: bool) -> str | None:
    """Say why a key for the clients may not be set so; None when it may.

    Args:
        name: The key with its prefix, or a shared one without.
        value: What it is set to.
        exactly_once: Whether the processing guarantee is one of the exactly-once ones.
    """
    prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")
    bare = name.removeprefix(prefix)
    if bare.endswith(_NUMBERS) and not _is_number(value):
        return f"= {value!r} is not a number"
    if prefix == "topic.":
        return None
    if bare in _JAVA_ONLY:
        return f"is not known to the Kafka client: {_JAVA_ONLY[bare]}"
    kind = "consumer." if prefix.endswith("consumer.") else prefix
    fixed = dict(_EVERYWHERE) if prefix else {}
    if kind == "consumer.":
        fixed |= _CONSUMER_FIXED
    if prefix == "restore.consumer.":
        fixed |= _RESTORE_FIXED
    if kind == "producer.":
        fixed |= _PRODUCER_FIXED
    if exactly_once:
        fixed |= _EXACTLY_ONCE_FIXED.get(kind, {})
        if kind == "producer." and bare == "acks" and not _acknowledged_by_all(value):
            fixed["acks"] = "exactly-once needs the acknowledgement of all replicas"
    return f"can't be overridden: {fixed[bare]}" if bare in fixed else None


def _shared(config: StreamsConfig, client_id: str | None) -> dict[str, Any]:
    """Return what every client gets."""
    result: dict[str, Any] = {
        "bootstrap.servers": config.bootstrap_servers,
        "connections.max.idle.ms": config.connections_max_idle_ms,
        "enable.metrics.push": config.enable_metrics_push,
        "metadata.recovery.rebootstrap.trigger.ms": config.metadata_recovery_rebootstrap_trigger_ms,
        "metadata.recovery.strategy": config.metadata_recovery_strategy,
        # librdkafka refuses a longest wait below the first one; Java takes the first one then.
        "reconnect.backoff.max.ms": max(
            config.reconnect_backoff_max_ms, config.reconnect_backoff_ms
        ),
        "reconnect.backoff.ms": config.reconnect_backoff_ms,
        "retry.backoff.max.ms": max(_RETRY_BACKOFF_MAX_MS, config.retry_backoff_ms),
        "retry.backoff.ms": config.retry_backoff_ms,
        "security.protocol": config.security_protocol,
        "socket.timeout.ms": config.request_timeout_ms,
        "topic.metadata.refresh.interval.ms": config.metadata_max_age_ms,
    }
    if client_id:
        result["client.id"] = client_id
    if config.receive_buffer_bytes > 0:
        result["socket.receive.buffer.bytes"] = config.receive_buffer_bytes
    if config.send_buffer_bytes > 0:
        result["socket.send.buffer.bytes"] = config.send_buffer_bytes
    shared = {name: value for name, value in config.overrides.items() if is_shared(name)}
    return result | shared


def is_shared(name: str) -> bool:
    """Whether a key without a prefix is passed on to every client."""
    return name in SHARED_KEYS or name.startswith(SHARED_PREFIXES)


def _fetching(config: StreamsConfig) -> dict[str, Any]:
    """Return how all consumers fetch: far ahead, within a bound of memory."""
    return {
        "fetch.queue.backoff.ms": 100,
        "isolation.level": "read_committed" if config.exactly_once else "read_uncommitted",
        "queued.max.messages.kbytes": 65_536,
        "queued.min.messages": 200_000,
    }


def _reading_rules(config: StreamsConfig, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what correctness needs of all consumers."""
    isolation = "read_committed" if config.exactly_once else chosen["isolation.level"]
    return {
        "allow.auto.create.topics": False,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": isolation,
    }


def _main_consumer(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return _translated(overrides, "consumer.", "main.consumer.")


def _translated(overrides: Mapping[str, Any], *prefixes: str) -> dict[str, Any]:
    """Return the user's keys with these prefixes, later ones stronger, by librdkafka's names."""
    result: dict[str, Any] = {}
    for prefix in prefixes:
        for name, value in _prefixed(overrides, prefix).items():
            # Java's word for "raise an error" has another name in librdkafka.
            is_none = name == "auto.offset.reset" and value == "none"
            result[_LIBRDKAFKA_NAMES.get(name, name)] = "error" if is_none else value
    return result


def _prefixed(overrides: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): value
        for name, value in overrides.items()
        if name.startswith(prefix)
    }


def _acknowledged_by_all(acks: object) -> bool:
    return str(acks) in {"all", "-1"}


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def _as_int(value: object) -> int:
    return int(float(str(value)))


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
