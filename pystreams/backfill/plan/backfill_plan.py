"""What a backfill runs: its stages, with how many tasks, over topics of how many partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from pystreams.backfill.plan.stages import Stage, stages_of
from pystreams.config import StreamsConfig
from pystreams.topology.plan.partition_plan import PartitionPlan, plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """What is to be run; goes to the workers as it is.

    Attributes:
        stages: The stages, each after those it needs.
        num_partitions: Partition counts of all topics that are known, those only written included.
    """

    topology: TopologyPlan
    config: StreamsConfig
    stages: Sequence[Stage]
    partitions: PartitionPlan
    num_partitions: Mapping[str, int]

    @classmethod
    def of(
        cls, topology: TopologyPlan, config: StreamsConfig, num_partitions: Mapping[str, int]
    ) -> Self:
        """Return the plan of a backfill.

        Raises:
            TopologyError: The topology can't run as a backfill, or partition counts do not fit.
        """
        partitions = plan_partitions(topology, num_partitions)
        counts = {**num_partitions, **partitions.num_partitions}
        return cls(topology, config, stages_of(topology, counts), partitions, counts)
