"""Where an application's instances answer, and which state each of them has.

At the end of the consumer's client id the group is told, each behind an `@`, in which state
directory the process is, the digest of the topology (`deploy.results_digest`) and
`application.server`:

    orders-0b2e-StreamThread-1-consumer@dir-1c0ffee2@0.1.0-9f86d081@host.example:8080

so that whoever may describe the group knows who shares a directory, and where to ask, without a
service of its own. Kafka Streams tells the last in its assignor's subscription, which the consumer
protocol of KIP-848 has not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pystreams.ids import TopicPartition

_MARK = "@"
_DIRECTORY = "dir-"


class HostInfo(NamedTuple):
    """Where an instance answers: its `application.server`."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return `host:port`, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def build_from_endpoint(cls, endpoint: str) -> HostInfo | None:
        """Return what `host:port` says; None if that is empty, or no such pair."""
        host, _, port = endpoint.rpartition(":")
        if not host or not port.isdecimal():
            return None
        return cls(host.removeprefix("[").removesuffix("]"), int(port))


def client_id_with(
    client_id: str, application_server: str, digest: str = "", directory_id: str = ""
) -> str:
    """Return the client id that tells the group where its instance answers, and what it runs.

    Args:
        application_server: Where; empty if it does not say. Then the digest stays unsaid.
        digest: Of its topology, or empty.
        directory_id: Of its state directory, or empty.
    """
    told = (digest, application_server) if application_server else ()
    directory = directory_id and f"{_DIRECTORY}{directory_id}"
    return _MARK.join((client_id, *filter(None, (directory, *told))))


def digest_of(client_id: str) -> str:
    """Return the digest of the topology that the instance of a client id runs; empty if unsaid."""
    _, *told = client_id.split(_MARK)
    if told and told[0].startswith(_DIRECTORY):
        del told[0]
    return told[-2] if len(told) > 1 else ""


def directory_of(client_id: str) -> str:
    """Return the id of the state directory of a client id's process; empty if unsaid."""
    _, *told = client_id.split(_MARK)
    said = bool(told) and told[0].startswith(_DIRECTORY)
    return told[0].removeprefix(_DIRECTORY) if said else ""


def host_of(client_id: str) -> HostInfo | None:
    """Return where the instance of a client id answers; None if it does not say."""
    return HostInfo.build_from_endpoint(client_id.rpartition(_MARK)[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMetadata:
    """One instance of the application, and what it has.

    Attributes:
        state_store_names: The stores of its tasks.
        topic_partitions: What its tasks read.
        standby_state_store_names: Empty: standby tasks are not asked.
        standby_topic_partitions: Empty, too.
    """

    host_info: HostInfo
    state_store_names: frozenset[str]
    topic_partitions: frozenset[TopicPartition]
    standby_state_store_names: frozenset[str] = frozenset()
    standby_topic_partitions: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class KeyQueryMetadata:
    """Who has a key.

    Attributes:
        active_host: Where the instance answers that processes it; None if nobody has it right now,
            or who has it does not say where it answers.
        standby_hosts: Empty: standby tasks are not asked.
        partition: The key's partition of the store; -1 for a global store, which is everywhere.
    """

    active_host: HostInfo | None
    standby_hosts: frozenset[HostInfo]
    partition: int


@dataclass(frozen=True, slots=True)
class LagInfo:
    """How far one partition of a store is behind its changelog.

    Attributes:
        current_offset_position: The next offset of the changelog to apply.
        end_offset_position: The changelog's end.
    """

    current_offset_position: int
    end_offset_position: int
    offset_lag: int = field(init=False)

    def __post_init__(self) -> None:
        """Work out the lag."""
        lag = max(0, self.end_offset_position - self.current_offset_position)
        object.__setattr__(self, "offset_lag", lag)
