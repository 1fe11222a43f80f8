"""The changelogs of an application's stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pystreams.errors import StreamsError, TopologyError
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.topology.plan.topology_plan import TopologyPlan


class MissingChangelogError(StreamsError):
    """A store's changelog topic does not exist. Names the store and the topic."""


@dataclass(frozen=True, slots=True)
class StoreChangelog:
    """The changelog of one store.

    Attributes:
        subtopology: The id of the sub-topology that the store belongs to.
        num_partitions: How many partitions the topic has: one a task.
    """

    spec: StoreSpec
    topic: str
    subtopology: int
    num_partitions: int

    @property
    def store(self) -> str:
        """The store's name."""
        return self.spec.name


def changelogs_of(
    plan: TopologyPlan, num_partitions: Mapping[str, int], stores: Iterable[str] = ()
) -> list[StoreChangelog]:
    """Return the changelogs of an application.

    Args:
        stores: Names of the stores that are wanted; none for all that have a changelog.

    Raises:
        TopologyError: There is no such store, or it has no changelog.
        MissingChangelogError: A changelog topic does not exist.
    """
    wanted = list(dict.fromkeys(stores))
    for name in wanted:
        _check(plan, name)
    found = []
    for part in plan.subtopologies:
        for builder in plan.logged_stores(part):
            if wanted and builder.name not in wanted:
                continue
            topic = plan.changelog_topic(builder.name)
            if topic not in num_partitions:
                raise MissingChangelogError(
                    f"store {builder.name!r}: there is no topic {topic!r}. The application "
                    f"{plan.application_id!r} has never run with this topology, or runs under "
                    "another application.id: correct it"
                )
            found.append(StoreChangelog(builder.spec, topic, part.id, num_partitions[topic]))
    return found


def stores_without_changelog(plan: TopologyPlan) -> list[str]:
    """Return the names of the stores whose content is nowhere but in their own directories."""
    return sorted(name for name, builder in plan.topology.stores.items() if not builder.logging)


def _check(plan: TopologyPlan, name: str) -> None:
    builder = plan.topology.stores.get(name)
    if builder is None:
        known = ", ".join(sorted(plan.topology.stores)) or "none"
        raise TopologyError(f"the topology has no store {name!r} (it has: {known})")
    source = plan.topology.source_changelogs.get(name)
    if source is not None:
        raise TopologyError(
            f"store {name!r} has no changelog of its own: it holds what source {source!r} reads, "
            "so read that topic instead"
        )
    if not builder.logging:
        raise TopologyError(
            f"store {name!r} has no changelog (with_logging_disabled): what it holds is in its "
            "own directory only, and can't be read from here"
        )
