"""What one run of a sweep is about, all of it drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.simulation.sweeping.appending import FIRST, SECOND, list_store


@dataclass(frozen=True, slots=True)
class StoreDrawn:
    """One store of lists."""

    name: str
    in_memory: bool
    caching: bool
    transactional: bool

    def builder(self) -> StoreSpecBuilder:
        return list_store(
            self.name,
            in_memory=self.in_memory,
            caching=self.caching,
            transactional=self.transactional,
        )


@dataclass(frozen=True, slots=True)
class Scenario:
    """Members, topology and configuration.

    Attributes:
        processes: How many there are; all but the first may come later, and go.
        calm: How seldom there is trouble, from 1.
        steps: How many things happen before all comes to rest.
        acceptable_recovery_lag: With a small one processes that come warm up before they join.
    """

    guarantee: str
    processes: int
    threads: int
    partitions: int
    incremental: bool
    stores: tuple[StoreDrawn, ...]
    counts: bool
    caching: bool
    uncommitted_max_bytes: int
    max_task_idle_ms: int
    commit_interval_ms: int
    standbys: int
    calm: int
    steps: int
    transaction_timeout_ms: int
    acceptable_recovery_lag: int

    @classmethod
    def drawn(cls, seed: int, steps: int) -> Scenario:
        random = Random(f"sweep {seed}")
        return cls(
            guarantee=random.choice(["exactly_once", "exactly_once_v2"]),
            processes=random.choice([2, 2, 2, 3, 3, 4, 5]),
            threads=random.choice([1, 1, 1, 2]),
            partitions=random.randint(1, 3),
            incremental=random.random() < 0.5,
            stores=tuple(
                StoreDrawn(
                    f"{stage}-{number}",
                    in_memory=random.random() < 0.2,
                    caching=random.random() < 0.3,
                    transactional=random.random() < 0.85,
                )
                for stage in (FIRST, SECOND)
                for number in range(random.randint(2, 3))
            ),
            counts=random.random() < 0.3,
            caching=random.random() < 0.5,
            uncommitted_max_bytes=random.choice([-1, -1, 0, 100, 1000]),
            max_task_idle_ms=random.choice([-1, 0, 200]),
            commit_interval_ms=random.choice([20, 100, 100, 400]),
            standbys=random.choice([0, 0, 1, 2]),
            calm=random.choice([1, 1, 2, 4]),
            steps=steps,
            transaction_timeout_ms=random.choice([3000, 8000]),
            acceptable_recovery_lag=random.choice([10_000, 10_000, 0, 5]),
        )

    def config(self) -> dict[str, object]:
        """Return the configuration of its processes."""
        return {
            "application.id": "app",
            "processing.guarantee": self.guarantee,
            "num.stream.threads": self.threads,
            "num.standby.replicas": self.standbys,
            "acceptable.recovery.lag": self.acceptable_recovery_lag,
            "group.protocol": "consumer" if self.incremental else "classic",
            "commit.interval.ms": self.commit_interval_ms,
            "statestore.cache.max.bytes": 2000,
            "statestore.uncommitted.max.bytes": self.uncommitted_max_bytes,
            "max.task.idle.ms": self.max_task_idle_ms,
            "max.poll.records": 20,
            "buffered.records.per.partition": 10,
            "repartition.purge.interval.ms": 300,
            "log.summary.interval.ms": 0,
        }
