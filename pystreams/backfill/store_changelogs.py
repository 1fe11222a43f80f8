"""The changelogs of an application's stores, and what a logged key is made of.

| kind | logged key |
|---|---|
| key-value, versioned | key |
| window | key, start (int64), sequence number (int32) |
| session | key, end (int64), start (int64) |
| buffer | 0 (one byte), time (int64), key, sequence number (int32) |
| list-value | time (int64), side (one byte), key |

Of a store of a user's own nothing is known but that its logged key is its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pystreams.errors import StreamsError, TopologyError
from pystreams.serdes import Serde
from pystreams.stores.session_keys import SUFFIX_BYTES as SESSION_SUFFIX_BYTES
from pystreams.stores.spec import Retention, StoreBuilder, StoreKind
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.stores.window_keys import SUFFIX_BYTES as WINDOW_SUFFIX_BYTES
from pystreams.topology.plan import TopologyPlan

_BUFFER_HEAD_BYTES = 9
_BUFFER_TAIL_BYTES = 4
_HELD_BACK_HEAD_BYTES = 9


class MissingChangelogError(StreamsError):
    """A store's changelog topic does not exist. Names the store and the topic."""


class KeyLayout(NamedTuple):
    """Where the record's key stands in a logged key.

    Attributes:
        head_bytes: Bytes before it.
        tail_bytes: Bytes behind it. Of a window or session the first eight of them are the time
            (int64, ms) that says how old it is.
    """

    head_bytes: int = 0
    tail_bytes: int = 0


_LAYOUTS = {
    StoreKind.WINDOW: KeyLayout(tail_bytes=WINDOW_SUFFIX_BYTES),
    StoreKind.SESSION: KeyLayout(tail_bytes=SESSION_SUFFIX_BYTES),
    StoreKind.BUFFER: KeyLayout(_BUFFER_HEAD_BYTES, _BUFFER_TAIL_BYTES),
    StoreKind.LIST_VALUE: KeyLayout(_HELD_BACK_HEAD_BYTES),
}


@dataclass(frozen=True, slots=True)
class StoreChangelog:
    """The changelog of one store.

    Attributes:
        store: The store's name.
        topic: The changelog topic.
        subtopology: The id of the sub-topology that the store belongs to.
        num_partitions: How many partitions the topic has: one a task.
        kind: What the store is indexed by; None for one of the user's own.
        retention: How long it keeps records; None for ever.
        key_serde: Serde of its keys; None takes the default.
        value_serde: Serde of its values; None takes the default.
    """

    store: str
    topic: str
    subtopology: int
    num_partitions: int
    kind: StoreKind | None
    retention: Retention | None = None
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None

    @property
    def layout(self) -> KeyLayout:
        """Where the record's key stands in a logged key."""
        return KeyLayout() if self.kind is None else _LAYOUTS.get(self.kind, KeyLayout())

    @property
    def kind_name(self) -> str:
        """The kind, as texts have it."""
        return "custom" if self.kind is None else self.kind.value


def changelogs_of(
    plan: TopologyPlan, num_partitions: Mapping[str, int], stores: Iterable[str] = ()
) -> list[StoreChangelog]:
    """Return the changelogs of an application.

    Args:
        plan: The topology's plan.
        num_partitions: Partition counts of the topics there are.
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
            found.append(_changelog(builder, topic, part.id, num_partitions[topic]))
    return found


def stores_without_changelog(plan: TopologyPlan) -> list[str]:
    """Return the names of the stores whose content is nowhere but in their own directories."""
    return sorted(name for name, builder in plan.topology.stores.items() if not builder.logging)


def _check(plan: TopologyPlan, name: str) -> None:
    builder = plan.topology.stores.get(name)
    if builder is None:
        known = ", ".join(sorted(plan.topology.stores)) or "none"
        raise TopologyError(f"the topology has no store {name!r} (it has: {known})")
    if not builder.logging:
        raise TopologyError(
            f"store {name!r} has no changelog (with_logging_disabled): what it holds is in its "
            "own directory only, and can't be read from here"
        )


def _changelog(
    builder: StoreBuilder, topic: str, subtopology: int, num_partitions: int
) -> StoreChangelog:
    if not isinstance(builder, StoreSpecBuilder):
        return StoreChangelog(builder.name, topic, subtopology, num_partitions, None)
    spec = builder.spec
    return StoreChangelog(
        spec.name,
        topic,
        subtopology,
        num_partitions,
        spec.kind,
        spec.retention,
        spec.key_serde,
        spec.value_serde,
    )
