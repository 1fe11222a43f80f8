"""What a backfill is of: by this results are told apart, on disk and in the marks of a group."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from pystreams.backfill.plan.fingerprint import other_keys, topology_fingerprint
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.ids import TopicPartition
from pystreams.topology.plan.topology_plan import TopologyPlan

APPLICATION_ID = "application.id"
TOPOLOGY = "topology"
"""What `BackfillIdentity.differences` calls these two."""


@dataclass(frozen=True, slots=True)
class BackfillIdentity:
    """What a backfill is of; equal ones may share a staging directory.

    Its fields are those of the files in a staging directory.

    Attributes:
        topology: See `fingerprint.topology_fingerprint`.
        num_partitions: Partition count of each source and repartition topic, by real name.
        num_tasks: How many tasks each sub-topology has, by its id as text.
        bounds: First offset, end offset and number of records of each partition of the history.
        configuration: See `fingerprint.declared_configuration`; empty where it has no part.
        computed_offsets: Whether the offsets are not Kafka's; see `history.History`.
        guessed_partitions: Whether the partitions may not be Kafka's; the same.
        topics_in_turn: See `turns.topics_in_turn`; sorted, of a backfill only.
    """

    application_id: str
    topology: str
    num_partitions: Mapping[str, int]
    num_tasks: Mapping[str, int]
    bounds: Mapping[str, tuple[int, int, int]]
    configuration: Mapping[str, str] = field(default_factory=dict)
    computed_offsets: bool = False
    guessed_partitions: bool = False
    topics_in_turn: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        plan: TopologyPlan,
        num_partitions: Mapping[str, int],
        num_tasks: Mapping[int, int],
        bounds: Mapping[TopicPartition, PartitionBounds],
        configuration: Mapping[str, str] | None = None,
        *,
        topics_in_turn: Iterable[str] = (),
    ) -> Self:
        """Return the identity of a backfill."""
        return cls(
            plan.application_id,
            topology_fingerprint(plan.topology),
            dict(sorted(num_partitions.items())),
            {str(number): count for number, count in sorted(num_tasks.items())},
            {
                str(partition): (has.first, has.end, has.records)
                for partition, has in sorted(bounds.items())
            },
            dict(configuration or {}),
            topics_in_turn=tuple(sorted(topics_in_turn)),
        )

    @classmethod
    def read(cls, noted: Mapping[str, Any]) -> Self:
        """Return the identity that a file holds."""
        bounds = {partition: tuple(has) for partition, has in noted["bounds"].items()}
        in_turn = tuple(noted.get("topics_in_turn", ()))
        return cls(**{**noted, "bounds": bounds, "topics_in_turn": in_turn})

    @property
    def fingerprint(self) -> str:
        """A text of letters and digits that differs between backfills."""
        parts = asdict(self)
        if not self.topics_in_turn:
            del parts["topics_in_turn"]
        text = json.dumps(parts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def partition_bounds(self) -> dict[TopicPartition, PartitionBounds]:
        """Return the bounds of the history by partition."""
        found = {}
        for name, has in self.bounds.items():
            topic, _, number = name.rpartition("-")
            found[TopicPartition(topic, int(number))] = PartitionBounds(*has)
        return found

    def differences(self, wanted: BackfillIdentity) -> list[str]:
        """Return what is another in a backfill that is to go on here, in words."""
        different = [
            what
            for what, here, there in (
                (APPLICATION_ID, wanted.application_id, self.application_id),
                (TOPOLOGY, wanted.topology, self.topology),
                ("number of partitions", wanted.num_partitions, self.num_partitions),
                ("number of tasks", wanted.num_tasks, self.num_tasks),
                ("history", wanted.bounds, self.bounds),
                ("way to offsets", wanted.computed_offsets, self.computed_offsets),
                ("way to partitions", wanted.guessed_partitions, self.guessed_partitions),
                ("order of own records", wanted.topics_in_turn, self.topics_in_turn),
            )
            if here != there
        ]
        return different + other_keys(self.configuration, wanted.configuration)
