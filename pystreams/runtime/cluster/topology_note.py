"""Which topology a group runs, noted with the offsets it commits.

State lies on disks, which may be gone or on other hosts; a group's offsets outlive its members. So
each of them tells the digest of the topology that has committed it (`deploy.fingerprint`), when
that process was started, and whose partition it is. A partition that has had no records since a
deploy still tells the topology before: the one that was started last counts. What the digest is of
stands beside some of them (`noted_fingerprint`).

Format: an entry of processor metadata (`committed_offsets`), of which Kafka Streams has no use:

    pystreams-topology <digest> <time of the start in ms> <sub-topology> <standbys of its tasks>

    pystreams-topology 2-9f86d081884c7d65 1700000000000 0 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Self

from pystreams.deploy.fingerprint import Fingerprint
from pystreams.ids import TopicPartition
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, entries_of
from pystreams.runtime.cluster.noted_fingerprint import (
    FingerprintNote,
    FoundFingerprint,
    found_fingerprint,
)
from pystreams.topology.plan.topology_plan import TopologyPlan

_WORD = "pystreams-topology"
_LONGEST_NUMBER = 20


@dataclass(frozen=True, slots=True)
class TopologyNote:
    """What a process notes of its topology.

    Attributes:
        digest: What tells it from others.
        standby_replicas: Its `num.standby.replicas`.
        fingerprint: What the digest is of, which one task of each sub-topology notes; None to note
            nothing of it.
        known: The digest of the topology that the state directory knew before; "" for none.
    """

    digest: str
    started_ms: int
    standby_replicas: int
    fingerprint: FingerprintNote | None = None
    known: str = ""

    def after(self, noted: Sequence[NotedTopology]) -> Self:
        """Return it as it is to be noted behind what a group has noted, the last start first."""
        fingerprint = self.fingerprint
        if fingerprint is None:
            return self
        # Others may have run the version that the directory knew while it was away.
        newer = len(started_since(self.known, noted)) + 1
        fingerprint = fingerprint.after(_told_by(noted[newer:]), _told_by(noted[:newer]))
        return replace(self, fingerprint=fingerprint)

    def keys_to_note(self, plan: TopologyPlan, topic: str) -> list[str]:
        """Return the key of the entry that is committed with offsets of a topic, by real name."""
        part = plan.subtopology_of_topic(topic)
        if part is None:
            return []
        standbys = self.standby_replicas if plan.logged_stores(part) else 0
        return [f"{_WORD} {self.digest} {self.started_ms} {part.id} {standbys}"]


@dataclass(slots=True)
class NotedTopology:
    """A topology that a group has run, as far as its offsets tell.

    Attributes:
        digest: What tells it from others.
        started_ms: When the last process was started that has committed with it.
        partitions: How many partitions it was the last to commit.
        subtopologies: The number of the sub-topology that reads a topic.
        standbys: How many standbys the tasks of a sub-topology have.
        first_tasks: The metadata of offsets of partitions 0, with the start (ms) that each is of.
    """

    digest: str
    started_ms: int = 0
    partitions: int = 0
    subtopologies: dict[str, int] = field(default_factory=dict)
    standbys: dict[int, int] = field(default_factory=dict)
    first_tasks: list[tuple[int, str]] = field(default_factory=list)

    def fingerprint(self) -> FoundFingerprint:
        """Return what the digest is of, or why the group does not tell."""
        return found_fingerprint(self.first_tasks)


def started_since(digest: str, noted: Sequence[NotedTopology]) -> list[NotedTopology]:
    """Return those that were started after the topology of a digest; all, if it is not there.

    Args:
        noted: The last start first.
    """
    return list(takewhile(lambda each: each.digest != digest, noted))


def _told_by(noted: Sequence[NotedTopology]) -> list[Fingerprint]:
    """Return what topologies have told of what they keep, the oldest first."""
    told = (each.fingerprint().fingerprint for each in reversed(noted))
    return [fingerprint for fingerprint in told if fingerprint is not None]


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _LONGEST_NUMBER


def noted_topologies(committed: Mapping[TopicPartition, CommittedOffset]) -> list[NotedTopology]:
    """Return the topologies that a group's offsets tell, the one that was started last first.

    None where an earlier pystreams, Kafka Streams or a backfill has committed them.
    """
    found: dict[str, NotedTopology] = {}
    for partition, offset in sorted(committed.items()):
        for entry in entries_of(offset.metadata, f"{_WORD} "):
            digest, *numbers = entry.split(" ")
            if len(numbers) != 3 or not all(map(_is_number, numbers)):
                continue
            if not digest.isprintable():
                continue  # Whoever may commit for the group may have written it.
            started_ms, subtopology, standbys = map(int, numbers)
            noted = found.setdefault(digest, NotedTopology(digest))
            noted.partitions += 1
            if partition.partition == 0:
                noted.first_tasks.append((started_ms, offset.metadata))
            if started_ms >= noted.started_ms:
                noted.started_ms = started_ms
                noted.subtopologies[partition.topic] = subtopology
                noted.standbys[subtopology] = standbys
            noted.subtopologies.setdefault(partition.topic, subtopology)
            noted.standbys.setdefault(subtopology, standbys)
    return sorted(found.values(), key=lambda noted: noted.started_ms, reverse=True)
