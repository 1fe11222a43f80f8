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
- `heartbeat.interval.ms` 500, not 3000, and at most a third of the session: members learn of a
  rebalance by their heartbeats, and each has given its partitions up until the last one knows.
- `session.timeout.ms` 42,500, not 45,000: heartbeats are so much closer. No member is put out that
  is silent for 42 s, as in Kafka, and each that has died is out half a second later, not up to 3.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from pystreams.config.buffer_shares import input_share, output_share
from pystreams.config.client_overrides import (
    acknowledged_by_all,
    as_int,
    delivery_within_session_ms,
    heartbeat_interval_ms,
    is_shared,
    main_consumer,
    session_timeout_ms,
    transaction_timeout_ms,
    translated,
)
from pystreams.config.guarantee import GroupProtocol
from pystreams.config.streams_config import StreamsConfig

_SOCKET_MARGIN_MS = 100
"""librdkafka wants `socket.timeout.ms` this far below `transaction.timeout.ms`."""

_RETRY_BACKOFF_MAX_MS = 1000
"""Default of librdkafka and Kafka."""

_FETCH_MAX_BYTES = 52_428_800
"""Default of librdkafka and Kafka."""

_QUEUED_RECORD_BYTES = 256
"""What librdkafka has beside the bytes of each record that waits: they are bounded, too."""
_QUEUED_RECORDS_MIN = 10_000
_QUEUED_RECORDS_MAX = 1_000_000


def consumer_config(
    config: StreamsConfig, *, client_id: str | None = None, group_instance_id: str | None = None
) -> dict[str, Any]:
    """Return librdkafka's configuration of a thread's main consumer.

    Args:
        client_id: How the client is called in the brokers' logs and metrics.
        group_instance_id: Makes the member static; unique among all threads of the group.
    """
    result = _shared(config, client_id) | _fetching(config)
    result["auto.offset.reset"] = "earliest"
    result |= main_consumer(config.overrides)
    result.pop("group.instance.id", None)
    if group_instance_id is not None:
        result["group.instance.id"] = group_instance_id
    result["group.id"] = config.application_id
    result["group.protocol"] = config.group_protocol.value
    if config.group_protocol is GroupProtocol.CONSUMER:
        result["group.remote.assignor"] = "range"
    else:
        result["partition.assignment.strategy"] = "range"
        result["heartbeat.interval.ms"] = heartbeat_interval_ms(config.overrides)
        result["session.timeout.ms"] = session_timeout_ms(config.overrides)
    return result | _reading_rules(config, result)


def restore_consumer_config(
    config: StreamsConfig, *, client_id: str | None = None
) -> dict[str, Any]:
    """Return librdkafka's configuration of a consumer that reads changelogs, by `assign`.

    It joins no group, but librdkafka wants a `group.id`, and asks for its coordinator: so it is the
    application's, which its user may read. An offset that is out of range is an error to notice,
    never a reason to jump.
    """
    own = translated(config.overrides, "consumer.", "restore.consumer.")
    return _without_group(config, client_id, own)


def global_consumer_config(
    config: StreamsConfig, *, client_id: str | None = None
) -> dict[str, Any]:
    """Return librdkafka's configuration of a consumer that reads global topics, by `assign`."""
    own = translated(config.overrides, "consumer.", "global.consumer.")
    return _without_group(config, client_id, own)


def history_consumer_config(
    config: StreamsConfig, *, client_id: str | None = None
) -> dict[str, Any]:
    """Return librdkafka's configuration of a consumer that reads source topics, by `assign`.

    It reads what is committed, whatever the guarantee: its bounds are ends of what is.
    """
    own = main_consumer(config.overrides)
    result = _without_group(config, client_id, own)
    return result | {"isolation.level": "read_committed"}


def producer_config(
    config: StreamsConfig,
    transactional_id: str | None = None,
    *,
    client_id: str | None = None,
    sharing: int = 1,
) -> dict[str, Any]:
    """Return librdkafka's configuration of a producer; transactional when given an id.

    Args:
        client_id: How the client is called in the brokers' logs and metrics.
        sharing: How many producers share `output.buffer.max.bytes`.
    """
    result = _shared(config, client_id) | {
        "acks": "all",
        "batch.size": 1 << 20,
        "delivery.timeout.ms": 120_000,
        "enable.idempotence": True,
        "linger.ms": 20,
        "message.max.bytes": 1 << 20,
    }
    own = translated(config.overrides, "producer.")
    largest_record_bytes = as_int(own.get("message.max.bytes", result["message.max.bytes"]))
    result |= _queueing(output_share(config.output_buffer_max_bytes, sharing, largest_record_bytes))
    if not acknowledged_by_all(own.get("acks", "all")):
        # As in Java: who asks for fewer acknowledgements gives idempotence up.
        result["enable.idempotence"] = False
    result |= own
    if "message.timeout.ms" in result:  # librdkafka has two names for it.
        result["delivery.timeout.ms"] = result.pop("message.timeout.ms")
    result["partitioner"] = "murmur2_random"
    if transactional_id is None:
        result.pop("transaction.timeout.ms", None)
        if not config.processing_guarantee.exactly_once:
            result["delivery.timeout.ms"] = _within_session(config, result)
        return result
    timeout_ms = transaction_timeout_ms(config.overrides)
    result["transactional.id"] = transactional_id
    result["transaction.timeout.ms"] = timeout_ms
    result["enable.idempotence"] = True
    if "metadata.recovery.strategy" not in own:
        # When no broker answers, librdkafka 2.16 drops those it knows and starts over, and then
        # waits forever for a group coordinator that it has dropped: the commit never ends.
        result["metadata.recovery.strategy"] = "none"
    # librdkafka refuses to start when these would outlive the transaction.
    result["delivery.timeout.ms"] = min(as_int(result["delivery.timeout.ms"]), timeout_ms)
    socket_timeout_ms = min(as_int(result["socket.timeout.ms"]), timeout_ms - _SOCKET_MARGIN_MS)
    result["socket.timeout.ms"] = socket_timeout_ms
    return result


def is_idempotent(config: StreamsConfig) -> bool:
    """Return whether no producer writes a record twice, as it asks again for an acknowledgement."""
    return str(producer_config(config)["enable.idempotence"]).lower() in {"true", "t", "1"}


def admin_config(config: StreamsConfig, *, client_id: str | None = None) -> dict[str, Any]:
    """Return librdkafka's configuration of the admin client."""
    return _shared(config, client_id) | translated(config.overrides, "admin.")


def _within_session(config: StreamsConfig, producer: Mapping[str, Any]) -> int:
    """Return `delivery.timeout.ms` of a producer without transactions.

    In a process that stood still for longer than its session, the client throws away first what is
    older, and then sends: others may have logged newer records meanwhile.
    """
    limit_ms = delivery_within_session_ms(config.overrides, config.group_protocol)
    wanted_ms = as_int(producer["delivery.timeout.ms"]) or limit_ms  # To librdkafka 0 is no limit.
    # librdkafka refuses to start when records would not leave in time.
    return max(min(wanted_ms, limit_ms), int(float(producer["linger.ms"])) + 1)


def _without_group(
    config: StreamsConfig, client_id: str | None, own: dict[str, Any]
) -> dict[str, Any]:
    result = _shared(config, client_id) | _fetching(config) | own
    for name in ("group.instance.id", "max.poll.interval.ms"):
        result.pop(name, None)
    result["auto.offset.reset"] = "error"
    result["group.id"] = config.application_id
    return result | _reading_rules(config, result)


def reached_with(config: Mapping[str, Any]) -> str:
    """Return the options with which commands of ours reach the brokers of a client.

    Args:
        config: The client's; what it logs in with is left to a file.
    """
    options = f"-c {shlex.quote('bootstrap.servers=' + str(config['bootstrap.servers']))}"
    is_plain = str(config.get("security.protocol", "plaintext")).lower() == "plaintext"
    return options if is_plain else f"{options} --config FILE"


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


def _queueing(share_bytes: int) -> dict[str, Any]:
    """Return how much waits in a producer."""
    return {
        "queue.buffering.max.kbytes": share_bytes // 1024,
        "queue.buffering.max.messages": min(
            max(share_bytes // _QUEUED_RECORD_BYTES, _QUEUED_RECORDS_MIN), _QUEUED_RECORDS_MAX
        ),
    }


def _fetching(config: StreamsConfig) -> dict[str, Any]:
    """Return how all consumers fetch: far ahead, within a bound of memory."""
    client_bytes = input_share(
        config.input_buffer_max_bytes, config.num_stream_threads
    ).client_bytes
    return {
        "fetch.max.bytes": min(client_bytes, _FETCH_MAX_BYTES),
        "fetch.queue.backoff.ms": 100,
        "isolation.level": "read_committed" if config.exactly_once else "read_uncommitted",
        "queued.max.messages.kbytes": client_bytes // 1024,
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
