"""An application with a store of each kind, to be asked over HTTP."""

from __future__ import annotations

from typing import Any

from pystreams import (
    JoinWindows,
    Processor,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from pystreams.serdes import JSON, LONG, STRING

HOUR_MS = 3_600_000
SIZE_MS = 10
TEXT: Any = {"key_serde": STRING, "value_serde": STRING}


class Keeping(Processor[str, str, str, str]):
    """Puts each value into the plain and the versioned store."""

    def init(self, context: Any) -> None:
        self._plain = context.get_state_store("plain")
        self._versions = context.get_state_store("versions")

    def process(self, record: Any) -> None:
        self._plain.put(record.key, {"value": record.value})
        self._versions.put(record.key, record.value, record.timestamp)


def pair(left: str | None, right: str | None) -> str:
    return f"{left}, {right}"


def filing(events: str, places: str) -> Topology:
    """Return a topology with a table, windows, sessions, versions, a join and a global table."""
    builder = StreamsBuilder()
    plain = Stores.persistent_key_value_store("plain")
    versions = Stores.persistent_versioned_key_value_store("versions", HOUR_MS)
    builder.add_state_store(Stores.key_value_store_builder(plain, STRING, JSON))
    builder.add_state_store(Stores.versioned_key_value_store_builder(versions, STRING, STRING))
    stream = builder.stream(events, **TEXT)
    stream.process(Keeping, stores=["plain", "versions"])
    grouped = stream.group_by_key()
    grouped.count(name="counts")
    kept: Any = {"retention_ms": HOUR_MS}
    windows = TimeWindows.of_size_with_no_grace(SIZE_MS)
    grouped.windowed_by(windows).count(name="windows", **kept)
    sessions = SessionWindows.of_inactivity_gap_with_no_grace(SIZE_MS)
    grouped.windowed_by(sessions).count(name="sessions", **kept)
    by_number = stream.select_key(lambda _, value: len(value)).group_by_key(key_serde=LONG)
    by_number.count(name="by-length")
    near = JoinWindows.of_time_difference_with_no_grace(SIZE_MS)
    both: Any = {"store_name": "pairs", "key_serde": STRING, "value_serde": STRING}
    stream.outer_join(stream, pair, near, **both, other_value_serde=STRING)
    builder.global_table(places, **TEXT, name="places")
    return builder.build()
