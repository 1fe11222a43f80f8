"""What pystreams makes of a case, in the form of Java's answers: what `Answers.java` does."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pystreams import Topology
from pystreams.stores.kinds.list.store import ListValueStore
from pystreams.stores.kinds.session.store import TypedSessionStore
from pystreams.stores.kinds.versioned.store import TypedVersionedKeyValueStore
from pystreams.stores.kinds.window.store import TypedTimestampedWindowStore, TypedWindowStore
from pystreams.testing import TopologyTestDriver
from tests.parity.generated.build import CaseTopology
from tests.parity.generated.functions import text

Answer = dict[str, Any]

# Keys a versioned store is asked for, which can't be listed: all that functions make.
KEYS = ("a", "b", "ab", "k0", "k1", "k2", "g0", "g1", "null", "tick")

# In our answers only: changelogs of stores with duplicates, and how long these keep them (ms).
DUPLICATES = "duplicates"
# Likewise: the earliest start of windows that are found in a store.
OLDEST = "oldest"
# Stores that only operators read.
_INTERNAL = re.compile("SUBSCRIPTION-STATE-STORE-|-subscription-store")
_WINDOW_STORES = (TypedWindowStore, TypedTimestampedWindowStore)


def answer(case: dict[str, Any]) -> Answer:
    """Return what pystreams makes of a case; of one that fails only why."""
    try:
        with TemporaryDirectory(prefix="generated-") as directory:
            return _answer(case, Path(directory) if case.get("on_disk") else None)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer.
        return {"error": f"{type(error).__name__}: {error}"}


def _answer(case: dict[str, Any], directory: Path | None) -> Answer:
    built = CaseTopology(case["steps"])
    config: dict[str, Any] = {
        "application.id": "app",
        "default.key.serde": "string",
        "default.value.serde": "string",
        "outer.join.emit.interval.ms": case["emit_interval_ms"],
        "window.emit.interval.ms": case["emit_interval_ms"],
    }
    if not case.get("caching", True):
        config["statestore.cache.max.bytes"] = 0
    if "optimization" in case:
        config["topology.optimization"] = case["optimization"]
    topology = built.topology(config)
    start_ms = case["start_ms"]
    with TopologyTestDriver(
        topology, config, wall_clock_ms=start_ms, state_directory=directory
    ) as driver:
        for record in case["input"]:
            _pipe(driver, record)
        topics = {
            topic: [_shown_record(record) for record in driver.produced_raw(topic)]
            for topic in sorted(driver.produced_topic_names())
        }
        stores = {
            name: entries
            for name, store in sorted(driver.get_all_state_stores().items())
            if not _INTERNAL.search(name) and (entries := _entries(store)) is not None
        }
        return {
            "description": str(topology.describe()),
            "topics": topics,
            "stores": stores,
            "seen": built.seen,
            "printed": {
                file: words.getvalue().splitlines() for file, words in built.printed.items()
            },
            DUPLICATES: _duplicates(topology),
            OLDEST: {
                name: store._reader.oldest_readable()
                for name, store in driver.get_all_state_stores().items()
                if isinstance(store, TypedWindowStore | TypedTimestampedWindowStore)
                and name in stores
            },
        }


def _duplicates(topology: Topology) -> dict[str, int]:
    found = {}
    for name, builder in topology.stores.items():
        retention = getattr(getattr(builder, "spec", None), "retention", None)
        if retention is not None and retention.retain_duplicates:
            found[f"app-{name}-changelog"] = retention.retention_ms
    return found


def _pipe(driver: TopologyTestDriver, record: Any) -> None:
    if isinstance(record, int):
        driver.advance_wall_clock_ms(record)
        return
    topic, key, value, timestamp, *headers = record
    pairs = tuple((name, _bytes(content)) for name, content in (headers[0] if headers else ()))
    driver.pipe_raw(topic, _bytes(key), _bytes(value), timestamp, pairs)


def _bytes(words: str | None) -> bytes | None:
    return None if words is None else words.encode()


def shown(data: bytes | None) -> str | None:
    r"""Return bytes as text: printable ASCII as it is, other bytes as `\xNN`."""
    if data is None:
        return None
    return "".join(
        chr(each) if 32 <= each < 127 and each != ord("\\") else f"\\x{each:02x}" for each in data
    )


def unshown(words: str) -> bytes:
    """Return the bytes of such a text."""
    return re.sub(r"\\x(..)", lambda found: chr(int(found[1], 16)), words).encode("latin-1")


def _shown_record(record: Any) -> list[Any]:
    key, value, timestamp, headers = record
    pairs = [[name, shown(content)] for name, content in headers]
    return [shown(key), shown(value), timestamp, *pairs]


def _entries(store: Any) -> list[list[str]] | None:
    """Return what a store holds, as text; None of those that only operators read."""
    if isinstance(store, TypedVersionedKeyValueStore):
        found = [(key, store.get(key)) for key in KEYS]
        return [
            [key, f"{text(one.value)}@{one.timestamp}"] for key, one in found if one is not None
        ]
    if isinstance(store, TypedSessionStore):
        return [[text(key), _value(value)] for key, value in store.fetch_range(None, None)]
    if isinstance(store, ListValueStore) or not hasattr(store, "all"):
        return None
    entries = list(store.all())
    if isinstance(store, _WINDOW_STORES) and any(
        key.window.start == key.window.end for key, _ in entries
    ):
        return None  # Kafka Streams can't list windows of no size.
    return [[text(key), _value(value)] for key, value in entries]


def _value(value: Any) -> str:
    if hasattr(value, "timestamp"):
        return f"{text(value.value)}@{value.timestamp}"
    return text(value)
