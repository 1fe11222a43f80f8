"""Changelogs as stores of every kind write them, and what a store holds that is restored by some.

The stores are those of `tests.every_store`; keys, times and values are drawn from a seed. Time goes
on, beyond the retention, with late records; some puts are deletions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pystreams import Window, Windowed, serdes
from pystreams.backfill.plan.rows import HISTORY_TYPE
from pystreams.backfill.plan.store_changelogs import StoreChangelog
from pystreams.kernel.partitioner import partition_of
from pystreams.stores.kinds.expiring.layout import ROW, ROWS_END
from tests.every_store import BUILDERS, RETENTION_MS
from tests.stores.support import Home, Message

PUTS = 300
KEYS = tuple(f"key {number}" for number in range(12))
_STEP_MS = 1500
_LATE_MS = RETENTION_MS // 2

Logged = Mapping[int, list[Message]]
"""Changelog records by partition."""


def changelog(store: str, num_partitions: int) -> StoreChangelog:
    """The changelog of a store of `tests.every_store`, as a plan would give it."""
    spec = BUILDERS[store].spec
    typed = replace(spec, key_serde=serdes.STRING, value_serde=serdes.LONG)
    return StoreChangelog(typed, f"app-{store}-changelog", 0, num_partitions)


def logged(store: str, directory: Path, num_partitions: int, seed: int = 1) -> Logged:
    """Write into one store a partition; return their changelogs."""
    draw = random.Random(seed)
    homes = {number: Home(directory / str(number)) for number in range(num_partitions)}
    stores: dict[int, Any] = {}
    for number, home in homes.items():
        home.directory.mkdir(parents=True)
        stores[number] = home.open_builder(BUILDERS[store])
    time = 1_000_000
    for number in range(PUTS):
        time += draw.randrange(_STEP_MS)
        at = time - (draw.randrange(_LATE_MS) if draw.random() < 0.2 else 0)
        key = draw.choice(KEYS)
        partition = partition_of(key.encode(), num_partitions)
        homes[partition].record.timestamp = at
        value = None if draw.random() < 0.2 else number
        _WRITES[store](stores[partition], key, value, at)
    for opened in stores.values():
        opened.close()
    return {
        number: [
            Message(key, value, offset, timestamp)
            for offset, (key, value, timestamp) in enumerate(home.logged())
        ]
        for number, home in homes.items()
    }


def frame(spark: SparkSession, store: str, changelogs: Logged) -> DataFrame:
    """Return changelogs as Spark's Kafka source gives them, in no order."""
    rows = [
        (
            f"app-{store}-changelog",
            partition,
            message.message_offset,
            message.timestamp_ms,
            message.message_key,
            message.message_value,
            list(message.message_headers) or None,
        )
        for partition, messages in changelogs.items()
        for message in messages
    ]
    return spark.createDataFrame(random.Random(0).sample(rows, len(rows)), HISTORY_TYPE)


def content(store: str, messages: Iterable[Message], directory: Path) -> dict[bytes, Any]:
    """Return what is read of a store that was restored by these records, by the key's bytes.

    Of a versioned store the versions that reach into its history, with their times.
    """
    home = Home(directory)
    directory.mkdir(parents=True)
    opened: Any = home.open_builder(BUILDERS[store])
    opened.restore(list(messages))
    opened.commit({})
    found: dict[bytes, Any]
    if store == "versioned":
        reader = opened._versioned.reader
        begins = reader.history_begins()
        found = {
            key.encode(): versions
            for key in KEYS
            if (versions := reader.between(key.encode(), begins, None))
        }
    elif BUILDERS[store].spec.kind.expires_rows:
        found = dict(opened._buffer.engine_range(ROW, ROWS_END))
    else:
        buffer, segments = opened._buffer, getattr(opened, "_segments", None)
        first = None if segments is None else segments.oldest_live.to_bytes(8, "big")
        found = dict(buffer.engine_range(first, None))
    opened.close()
    return found


def _session(store: Any, key: str, value: int | None, at: int) -> None:
    session = Windowed(key, Window(at, at + 20_000))
    if value is None:
        for found, _ in list(store.find_sessions(key, 0, at)):
            store.remove(found)
    else:
        store.put(session, value)


_WRITES: dict[str, Callable[[Any, str, int | None, int], object]] = {
    "plain": lambda store, key, value, _: store.put(key, value),
    "timestamped": lambda store, key, value, at: store.put_with_timestamp(key, value, at),
    "expiring": lambda store, key, value, _: store.put(key, value),
    "window": lambda store, key, value, at: store.put(key, value, at // 20_000 * 20_000),
    "timestamped-window": lambda store, key, value, at: store.put_with_timestamp(
        key, value, at, at // 20_000 * 20_000
    ),
    "duplicates": lambda store, key, value, at: store.put(key, value, at // 20_000 * 20_000),
    "session": _session,
    "versioned": lambda store, key, value, at: store.put(key, value, at),
}
