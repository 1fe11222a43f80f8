"""A task with a store of each kind, and questions put to it without a broker."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pystreams import (
    IsolationLevel,
    JoinWindows,
    PositionBound,
    Processor,
    ProcessorContext,
    Query,
    StateQueryResult,
    StoreEngine,
    Stores,
    StreamsBuilder,
    Topology,
    Window,
    Windowed,
    serdes,
)
from pystreams.runtime.queries.query_execution import StateQueryRequest, query_tasks
from pystreams.stores.contracts.spec import Retention, StoreSpec
from pystreams.stores.kinds.session.kind import SESSION
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.runtime.running_task import RunningTask

WINDOW_MS = 10
RECENT_KEYS = 3
_RETENTION_MS = 100_000
_SERDES = serdes.STRING, serdes.STRING

BUILDERS: dict[str, StoreSpecBuilder] = {
    builder.name: builder
    for builder in (
        Stores.key_value_store_builder(Stores.in_memory_key_value_store("plain"), *_SERDES),
        Stores.timestamped_key_value_store_builder(
            Stores.in_memory_key_value_store("timed"), *_SERDES
        ),
        Stores.key_value_store_builder(Stores.lru_map("recent", RECENT_KEYS), *_SERDES),
        Stores.timestamped_window_store_builder(
            Stores.in_memory_window_store("windows", _RETENTION_MS, WINDOW_MS), *_SERDES
        ),
        StoreSpecBuilder(
            StoreSpec(
                "sessions",
                kind=SESSION,
                engine=StoreEngine.IN_MEMORY,
                key_serde=serdes.STRING,
                value_serde=serdes.STRING,
                retention=Retention(_RETENTION_MS, _RETENTION_MS),
            )
        ),
        Stores.versioned_key_value_store_builder(
            Stores.in_memory_versioned_key_value_store("versions", _RETENTION_MS), *_SERDES
        ),
    )
}


class Filing(Processor[str, str, str, str]):
    """Puts each value into all stores: a window of ten ms, a session of one record."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._stores: dict[str, Any] = {name: context.get_state_store(name) for name in BUILDERS}

    def process(self, record: Any) -> None:
        key, value, time = record.key, record.value, record.timestamp
        stores = self._stores
        stores["plain"].put(key, value)
        stores["recent"].put(key, value)
        stores["timed"].put_with_timestamp(key, value, time)
        stores["windows"].put_with_timestamp(key, value, time, time // WINDOW_MS * WINDOW_MS)
        stores["sessions"].put(Windowed(key, Window(time, time)), value)
        stores["versions"].put(key, value, time)


def filing() -> Topology:
    builder = StreamsBuilder()
    for store in BUILDERS.values():
        builder.add_state_store(store)
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(Filing, stores=list(BUILDERS))
    return builder.build()


def joining() -> Topology:
    """Two joins that keep records for themselves: those that start with "left" find no partner."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    left = stream.filter(lambda _key, value: value.startswith("left"))
    right = stream.filter(lambda _key, value: not value.startswith("left"))
    windows = JoinWindows.of_time_difference_and_grace(WINDOW_MS, WINDOW_MS)
    left.outer_join(right, lambda value, other: f"{value}+{other}", windows)
    table = right.to_table(name="history", history_retention_ms=_RETENTION_MS)
    left.join(table, lambda value, row: f"{value}+{row}", grace_period_ms=WINDOW_MS)
    return builder.build()


def specs_of(topology: Topology) -> dict[str, StoreSpec]:
    """Return what each store of a topology is, by name."""
    builders = topology.stores
    return {
        name: builder.spec
        for name, builder in builders.items()
        if isinstance(builder, StoreSpecBuilder)
    }


SPECS: Mapping[str, StoreSpec] = {name: builder.spec for name, builder in BUILDERS.items()}


def ask(
    running: Iterable[RunningTask],
    query: Query[Any],
    store: str,
    *,
    partitions: Collection[int] | None = None,
    level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    bound: PositionBound | None = None,
    num_partitions: int = 3,
    specs: Mapping[str, StoreSpec] = SPECS,
) -> StateQueryResult[Any]:
    request = StateQueryRequest(
        query,
        specs[store],
        None if partitions is None else frozenset(partitions),
        level,
        bound or PositionBound.unbounded(),
    )
    return query_tasks(request, [owner.task for owner in running], num_partitions)
