"""The keys that users pass on to the Kafka clients: what they mean, and which are refused.

Works on the overrides alone: keys with a client's prefix, and those that all clients share. The
dicts that librdkafka is given are made in `clients`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pystreams.config.guarantee import GroupProtocol
from pystreams.config.known_keys import PREFIXES, SHARED_KEYS, SHARED_PREFIXES

TRANSACTION_TIMEOUT_MS = 10_000
"""Default of `producer.transaction.timeout.ms`, as in Kafka Streams."""

_SILENCE_MS = 42_000
"""How long a member may be silent and surely stays one, in Kafka as here: its default session of
45 s is counted from the last heartbeat, and that was up to 3 s ago."""

_CONSUMER_PROTOCOL_SESSION_MS = 45_000
"""Default of the broker's `group.consumer.session.timeout.ms`."""
_CONSUMER_PROTOCOL_HEARTBEAT_MS = 5000
"""Default of the broker's `group.consumer.heartbeat.interval.ms`."""

_MAX_POLL_INTERVAL_MS = 300_000
"""Default of `consumer.max.poll.interval.ms`, as in Kafka."""

_HEARTBEAT_INTERVAL_MS = 500
"""Default of `consumer.heartbeat.interval.ms`."""
_KAFKA_HEARTBEAT_INTERVAL_MS = 3000

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


def override_problem(name: str, value: object, *, exactly_once: bool) -> str | None:
    """Say why a key for the clients may not be set so; None when it may.

    Args:
        name: The key with its prefix, or a shared one without.
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
    if prefix in {"restore.consumer.", "global.consumer."}:
        fixed |= _RESTORE_FIXED
    if kind == "producer.":
        fixed |= _PRODUCER_FIXED
    if exactly_once:
        fixed |= _EXACTLY_ONCE_FIXED.get(kind, {})
        if kind == "producer." and bare == "acks" and not acknowledged_by_all(value):
            fixed["acks"] = "exactly-once needs the acknowledgement of all replicas"
    return f"can't be overridden: {fixed[bare]}" if bare in fixed else None


def why_never(name: str) -> str | None:
    """Say why a key of the clients can't be set, whatever its prefix; None if that is not known."""
    return (_JAVA_ONLY | _CONSUMER_FIXED | _PRODUCER_FIXED).get(name)


def token_problem(overrides: Mapping[str, Any]) -> str | None:
    """Say why clients would wait for a token for ever; None when they would not."""
    mechanism = overrides.get("sasl.mechanism", overrides.get("sasl.mechanisms"))
    method = overrides.get("sasl.oauthbearer.method")
    if str(mechanism).upper() != "OAUTHBEARER" or str(method).lower() == "oidc":
        return None
    return (
        "needs sasl.oauthbearer.method = oidc, with sasl.oauthbearer.client.id, "
        "sasl.oauthbearer.client.secret and sasl.oauthbearer.token.endpoint.url: nothing else "
        "gets a token"
    )


def is_shared(name: str) -> bool:
    """Whether a key without a prefix is passed on to every client."""
    return name in SHARED_KEYS or name.startswith(SHARED_PREFIXES)


def transaction_timeout_ms(overrides: Mapping[str, Any]) -> int:
    """Return `transaction.timeout.ms` of the producers. The overrides have been checked."""
    return as_int(overrides.get("producer.transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))


def session_timeout_ms(
    overrides: Mapping[str, Any], protocol: GroupProtocol = GroupProtocol.CLASSIC
) -> int:
    """Return how long a member stays one without a heartbeat (ms).

    With `GroupProtocol.CONSUMER` the broker says it; what is returned is what it probably says.
    """
    consumer = main_consumer(overrides)
    if protocol is GroupProtocol.CONSUMER:
        return as_int(consumer.get("session.timeout.ms", _CONSUMER_PROTOCOL_SESSION_MS))
    interval_ms = as_int(consumer.get("heartbeat.interval.ms", _HEARTBEAT_INTERVAL_MS))
    default_ms = _SILENCE_MS + min(interval_ms, _KAFKA_HEARTBEAT_INTERVAL_MS)
    return as_int(consumer.get("session.timeout.ms", default_ms))


def heartbeat_interval_ms(overrides: Mapping[str, Any]) -> int:
    """Return how often a member sends a heartbeat (ms)."""
    default_ms = max(1, min(_HEARTBEAT_INTERVAL_MS, session_timeout_ms(overrides) // 3))
    return as_int(main_consumer(overrides).get("heartbeat.interval.ms", default_ms))


def delivery_within_session_ms(overrides: Mapping[str, Any], protocol: GroupProtocol) -> int:
    """Return how old a record may be when it is sent by whoever is still a member (ms).

    When a member stood still, its last heartbeat may be an interval back, and have taken another.
    """
    session_ms = session_timeout_ms(overrides, protocol)
    interval_ms = _CONSUMER_PROTOCOL_HEARTBEAT_MS
    if protocol is GroupProtocol.CLASSIC:
        interval_ms = heartbeat_interval_ms(overrides)
    return max(session_ms - 2 * interval_ms, session_ms // 3)


def max_poll_interval_ms(overrides: Mapping[str, Any]) -> int:
    """Return how long a member may process between two polls (ms)."""
    return as_int(main_consumer(overrides).get("max.poll.interval.ms", _MAX_POLL_INTERVAL_MS))


def group_instance_id(overrides: Mapping[str, Any]) -> str | None:
    """Return the user's `group.instance.id`, which is one for the whole process."""
    own = main_consumer(overrides).get("group.instance.id")
    return None if own is None else str(own)


def topic_config(overrides: Mapping[str, Any]) -> dict[str, str]:
    """Return the configuration of internal topics that the user set; values as text."""
    return {name: _as_text(value) for name, value in _prefixed(overrides, "topic.").items()}


def main_consumer(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's keys for the consumers that are in the group."""
    return translated(overrides, "consumer.", "main.consumer.")


def translated(overrides: Mapping[str, Any], *prefixes: str) -> dict[str, Any]:
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


def acknowledged_by_all(acks: object) -> bool:
    """Return whether a value of `acks` waits for all replicas."""
    return str(acks) in {"all", "-1"}


def as_int(value: object) -> int:
    """Return a checked number, which may be text."""
    return int(float(str(value)))


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
