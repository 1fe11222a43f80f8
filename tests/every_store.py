"""Processors that write into every kind of store, and what such a store must hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pystreams import (
    Processor,
    ProcessorContext,
    Record,
    StateStoreContext,
    StoreEngine,
    StoreEnvironment,
    StoreKind,
    Stores,
    TaskId,
    Topology,
    Window,
    Windowed,
    serdes,
)
from pystreams.record import MAX_TIME, ConsumedMessage
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.kinds.buffer.kind import BUFFER
from pystreams.stores.kinds.expiring.kind import EXPIRING
from pystreams.stores.kinds.expiring.layout import (
    ROW,
    index_key,
    indexed_key,
    indexed_time,
    timestamp_of,
)
from pystreams.stores.kinds.key_value.kind import KEY_VALUE
from pystreams.stores.kinds.list.kind import LIST
from pystreams.stores.kinds.session.kind import SESSION
from pystreams.stores.kinds.suppress.kind import SUPPRESS
from pystreams.stores.kinds.versioned.kind import VERSIONED
from pystreams.stores.kinds.window.kind import WINDOW
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.stores.time_segments.segments import segment_id_of

ALL_KINDS: tuple[StoreKind, ...] = (
    KEY_VALUE,
    EXPIRING,
    WINDOW,
    SESSION,
    VERSIONED,
    LIST,
    BUFFER,
    SUPPRESS,
)
"""Kinds of stores of ours."""
RETENTION_MS = 120_000
SESSION_GAP_MS = 25_000
TYPES = (serdes.STRING, serdes.LONG)
BUILDERS: dict[str, StoreSpecBuilder] = {
    builder.name: builder
    for builder in (
        Stores.key_value_store_builder(Stores.persistent_key_value_store("plain"), *TYPES),
        Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("timestamped"), *TYPES
        ),
        Stores.key_value_store_builder(
            Stores.persistent_key_value_store("expiring"), *TYPES, ttl_ms=RETENTION_MS
        ),
        Stores.window_store_builder(
            Stores.persistent_window_store("window", RETENTION_MS, 1000), *TYPES
        ),
        Stores.timestamped_window_store_builder(
            Stores.persistent_timestamped_window_store("timestamped-window", RETENTION_MS, 1000),
            *TYPES,
        ),
        Stores.window_store_builder(
            Stores.persistent_window_store(
                "duplicates", RETENTION_MS, 1000, retain_duplicates=True
            ),
            *TYPES,
        ),
        Stores.session_store_builder(
            Stores.persistent_session_store("session", RETENTION_MS), *TYPES
        ),
        Stores.versioned_key_value_store_builder(
            Stores.persistent_versioned_key_value_store("versioned", RETENTION_MS), *TYPES
        ),
    )
}
"""Every kind of store, on the disk."""
NEWEST_KEYS = 3
IN_MEMORY: dict[str, StoreSpecBuilder] = {
    builder.name: builder
    for builder in (
        Stores.key_value_store_builder(Stores.in_memory_key_value_store("plain"), *TYPES),
        Stores.timestamped_key_value_store_builder(
            Stores.in_memory_key_value_store("timestamped"), *TYPES
        ),
        Stores.key_value_store_builder(
            Stores.in_memory_key_value_store("expiring"), *TYPES, ttl_ms=RETENTION_MS
        ),
        Stores.window_store_builder(
            Stores.in_memory_window_store("window", RETENTION_MS, 1000), *TYPES
        ),
        Stores.timestamped_window_store_builder(
            Stores.in_memory_window_store("timestamped-window", RETENTION_MS, 1000), *TYPES
        ),
        Stores.window_store_builder(
            Stores.in_memory_window_store("duplicates", RETENTION_MS, 1000, retain_duplicates=True),
            *TYPES,
        ),
        Stores.session_store_builder(
            Stores.in_memory_session_store("session", RETENTION_MS), *TYPES
        ),
        Stores.versioned_key_value_store_builder(
            Stores.in_memory_versioned_key_value_store("versioned", RETENTION_MS), *TYPES
        ),
        Stores.key_value_store_builder(Stores.lru_map("newest", NEWEST_KEYS), *TYPES),
    )
}
"""The same in memory, and the kind that keeps the keys that were used last."""


def cached(builders: Mapping[str, StoreSpecBuilder]) -> dict[str, StoreSpecBuilder]:
    """Return stores that log only the last update of each key at a commit, if their kind may.

    Those that retain duplicates or are of limited size have no record cache either.
    """
    return {
        name: builder.with_caching_enabled() if builder.store_kind.caches else builder
        for name, builder in builders.items()
    }


class WriteEverywhere(Processor[str, str, str, int]):
    """Counts each key in a plain store, and writes the count into all the others.

    Attributes:
        more_keys: Whether rows are written, too, under keys that are not the record's.
    """

    more_keys = True

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context
        self.stores: dict[str, Any] = {name: context.get_state_store(name) for name in BUILDERS}

    def process(self, record: Record[str, str]) -> None:
        key, time = record.key, record.timestamp
        stores = self.stores
        count = (stores["plain"].get(key) or 0) + 1
        stores["plain"].put(key, count)
        stores["timestamped"].put_with_timestamp(key, count, time)
        stores["expiring"].put(key, count)
        if self.more_keys:
            stores["expiring"].put(f"{key}{time}", count)
        start = time // 1000 * 1000
        stores["window"].put(key, count, start)
        stores["timestamped-window"].put_with_timestamp(key, count, time, start)
        stores["duplicates"].put(key, count, start)
        stores["duplicates"].put(key, -count, start)
        for session, _ in list(stores["session"].find_sessions(key, time - SESSION_GAP_MS, time)):
            stores["session"].remove(session)
        stores["session"].put(Windowed(key, Window(start, time)), count)
        stores["versioned"].put(key, count if count % 4 else None, time)
        self.context.forward(Record(key, count, time))


class WriteInMemory(WriteEverywhere):
    """The same, and a few keys more into a store of limited size, one of which is read again."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        super().init(context)
        self.newest: Any = context.get_state_store("newest")

    def process(self, record: Record[str, str]) -> None:
        super().process(record)
        count = self.stores["plain"].get(record.key)
        self.newest.put(f"{record.key}-{count % 4}", count)
        self.newest.get(f"{record.key}-{(count - 1) % 4}")


def everywhere(
    source: str,
    output: str,
    *,
    transactional: bool = True,
    builders: Mapping[str, StoreSpecBuilder] = BUILDERS,
    write: type[WriteEverywhere] = WriteEverywhere,
) -> Topology:
    """Count each key of a topic, with all stores in one task.

    Args:
        source: The topic.
        output: Where the counts go.
        transactional: Whether the stores wait for the commit.
        builders: The stores, under the names of `BUILDERS`.
        write: The processor that writes into them.
    """
    topology = Topology()
    topology.add_source("source", source, key_serde=serdes.STRING, value_serde=serdes.STRING)
    topology.add_processor("write", write, "source")
    for builder in builders.values():
        made = builder if transactional else builder.with_transactional_disabled()
        topology.add_state_store(made, "write")
    topology.add_sink("sink", output, "write", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return topology


def without_stale_entries(spec: StoreSpec, entries: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return what a store holds, with the entries in order of time that a restore writes.

    A row may have others beside its own, or one at a time that it had before: never none.
    """
    if not spec.kind.expires_rows:
        return dict(entries)
    rows = {key: stored for key, stored in entries.items() if key[:1] == ROW}
    times = {key[1:]: timestamp_of(stored) for key, stored in rows.items()}
    found = {
        key: b""
        for entry in entries.keys() - rows.keys()
        if (time := times.get(key := indexed_key(entry))) is not None
        and indexed_time(entry) <= time
    }
    return rows | {index_key(times[key], key): value for key, value in found.items()}


def replayed(
    name: str,
    messages: Sequence[ConsumedMessage],
    builders: Mapping[str, StoreSpecBuilder] = BUILDERS,
) -> tuple[dict[bytes, bytes], int | None]:
    """Return what a new store holds after a restore, and its oldest segment that is live."""
    spec = replace(builders[name].spec, engine=StoreEngine.IN_MEMORY)
    store: Any = StoreSpecBuilder(spec).build()
    store.init(
        StateStoreContext(
            environment=StoreEnvironment(application_id="app"),
            task_id=TaskId(0, 0),
            task_directory=Path(),
            changelog=None,
            changelog_topic=f"app-{name}-changelog",
        )
    )
    store.restore(messages)
    buffer = store._buffer
    segments: Any = getattr(store, "_segments", None) or getattr(buffer, "_segments", None)
    if segments is not None:
        segments.keep_from(MAX_TIME)  # The segment more that a restore keeps does not count.
    oldest_live = None if segments is None else segments.oldest_live
    entries = {
        key: value
        for key, value in buffer.engine_range(None, None)
        if oldest_live is None or not 0 <= segment_id_of(key) < oldest_live
    }
    store.close()
    return entries, oldest_live
