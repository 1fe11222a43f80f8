"""Server settings that make one Kafka node a good development broker.

Three aims, and what serves them:

- It is private: both listeners are on the loopback address.
- It is quick: small internal topics, no waits that spread load over a cluster, heartbeats twice a
  second, so that a rebalance of the consumer protocol takes a second instead of ten.
- It keeps everything: no retention by time, because the examples replay records of 2013 and a
  retention of a week would delete them as they arrive.

Topics are not created by being mentioned: a mistyped source topic must be an error, as it is on a
production cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

LOOPBACK = "127.0.0.1"

# A killed member is noticed after this time; Kafka's 45 s would stall each restart in a test.
_SESSION_TIMEOUT_MS = 6000

_FIXED_SETTINGS: dict[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # One node can't hold three replicas.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # 50 partitions each by default: their creation would be most of the first request's time.
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
    # After a crash the controller half refuses the broker half until its old session has expired.
    # That is left at 9 s: on a busy machine a shorter one ends while the broker lives, and Kafka
    # 4.3.1 leaves transactions open forever that it ends while their partitions have no leader.
    "broker.heartbeat.interval.ms": "500",
    # Nobody watches how far the metadata of a single node have come; to write a record of nothing
    # twice a second takes a third of what it does while nobody asks it for anything.
    "metadata.max.idle.interval.ms": "0",
    # Groups.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": str(_SESSION_TIMEOUT_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    # Transactions of a producer that died are aborted a second after their timeout, not ten.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Retention and compaction.
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "2000",
    # 128 MiB by default, a third of this heap; 32 MiB compact 1.3 million keys a pass.
    "log.cleaner.dedupe.buffer.size": str(32 * 1024 * 1024),
    "log.segment.delete.delay.ms": "1000",
    "num.network.threads": "2",
    "num.io.threads": "4",
}


def server_settings(
    *,
    log_dir: Path,
    client_port: int,
    controller_port: int,
    overrides: Mapping[str, str],
) -> dict[str, str]:
    """Return the settings of a broker that keeps its logs in `log_dir`.

    Args:
        log_dir: Kafka's own directory, below the data directory.
        controller_port: Where the node's controller half listens; only the node itself connects.
        overrides: Kafka settings that win over this module's.
    """
    listeners = f"PLAINTEXT://{LOOPBACK}:{client_port},CONTROLLER://{LOOPBACK}:{controller_port}"
    return {
        **_FIXED_SETTINGS,
        "log.dirs": str(log_dir),
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{client_port}",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        **overrides,
    }


def to_properties(settings: Mapping[str, str]) -> str:
    """Write settings as a Java properties file: Latin-1, backslash is its escape character."""
    lines = [f"{key}={_escape(value)}\n" for key, value in settings.items()]
    return "# Written by pystreams at each start; changes made here are lost.\n" + "".join(lines)


def _escape(value: str) -> str:
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    return "".join(chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}" for code in codes)
