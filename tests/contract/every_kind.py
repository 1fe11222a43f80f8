"""Stores of every kind behind one face: numbers in slots, and every way there is to iterate.

A slot is a key, a window or a session of its own; thirty milliseconds lie between two, so that the
slots of a window or session store are in several segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pystreams import (
    Position,
    StoreEngine,
    Stores,
    TopicPartition,
    ValueAndTimestamp,
    Window,
    Windowed,
)
from pystreams.record import MAX_TIME
from pystreams.serdes import LONG, STRING
from pystreams.stores.contracts.spec import Retention
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.stores.support import CHANGELOG, Home

INPUT = TopicPartition("orders", 0)
STEP_MS = 30
INTERVAL_MS = 60
RETENTION_MS = 600
FAR_MS = 10 * RETENTION_MS
"""A time by which every slot has expired."""

TYPES = (STRING, LONG)
KEY = "k"
Reads = Mapping[str, Callable[[Any], Any]]
"""Each gives an iterator of keys and values."""

KEY_VALUE_FORWARD: Reads = {
    "range": lambda store: store.range(KEY, KEY + "z"),
    "open range": lambda store: store.range(None, None),
    "all": lambda store: store.all(),
    "prefix_scan": lambda store: store.prefix_scan(KEY.encode()),
}
KEY_VALUE_BACKWARD: Reads = {
    "reverse_range": lambda store: store.reverse_range(KEY, KEY + "z"),
    "reverse_all": lambda store: store.reverse_all(),
}
WINDOW_FORWARD: Reads = {
    "fetch": lambda store: store.fetch(KEY, 0, MAX_TIME),
    "fetch_range": lambda store: store.fetch_range(KEY, KEY, 0, MAX_TIME),
    "fetch_all": lambda store: store.fetch_all(0, MAX_TIME),
    "all": lambda store: store.all(),
}
WINDOW_BACKWARD: Reads = {
    "backward_fetch": lambda store: store.backward_fetch(KEY, 0, MAX_TIME),
    "backward_fetch_range": lambda store: store.backward_fetch_range(None, KEY, 0, MAX_TIME),
    "backward_fetch_all": lambda store: store.backward_fetch_all(0, MAX_TIME),
    "backward_all": lambda store: store.backward_all(),
}
SESSION_FORWARD: Reads = {
    "fetch": lambda store: store.fetch(KEY),
    "fetch_range": lambda store: store.fetch_range(KEY, None),
    "find_sessions": lambda store: store.find_sessions(KEY, 0, MAX_TIME),
    "find_sessions_range": lambda store: store.find_sessions_range(None, KEY, 0, MAX_TIME),
    "find_sessions_by_end": lambda store: store.find_sessions_by_end(0, MAX_TIME),
}
SESSION_BACKWARD: Reads = {
    "backward_fetch": lambda store: store.backward_fetch(KEY),
    "backward_fetch_range": lambda store: store.backward_fetch_range(None, None),
    "backward_find_sessions": lambda store: store.backward_find_sessions(KEY, 0, MAX_TIME),
    "backward_find_sessions_range": lambda store: store.backward_find_sessions_range(
        KEY, KEY, 0, MAX_TIME
    ),
}


@dataclass(frozen=True)
class Kind:
    """One kind of store.

    Attributes:
        builder: Builds it, on disk.
        put: `put(store, slot, number)`; None deletes.
        slot_of: The slot of what an iterator gives as key.
        forward: Its iterators, in order of slots.
        backward: Those against it.
        expires: Whether slots expire with stream time.
    """

    builder: StoreSpecBuilder
    put: Callable[[Any, int, int | None], object]
    slot_of: Callable[[Any], int]
    forward: Reads
    backward: Reads
    expires: bool = False


def key_of(slot: int) -> str:
    return f"{KEY}{slot:02d}"


def session_of(slot: int) -> Windowed[str]:
    return Windowed(KEY, Window(slot * STEP_MS, slot * STEP_MS + 5))


def stamped(number: int | None) -> ValueAndTimestamp[int] | None:
    return None if number is None else ValueAndTimestamp(number, 5)


def start_of(key: Any) -> int:
    """Return the slot of a window, whether given as its start or as key and window."""
    start = key if isinstance(key, int) else key.window.start
    return int(start) // STEP_MS


def slot_of_key(key: str) -> int:
    return int(key.removeprefix(KEY))


def versions(*, descending: bool) -> Callable[[Any], Iterator[tuple[int, int]]]:
    """All versions of slot after slot."""

    def read(store: Any) -> Iterator[tuple[int, int]]:
        for slot in reversed(range(SLOTS)) if descending else range(SLOTS):
            for version in store.get_range(key_of(slot), descending=descending):
                yield slot, version.value

    return read


def points(store: Any) -> Iterator[tuple[int, int]]:
    """The latest version of slot after slot."""
    for slot in range(SLOTS):
        version = store.get(key_of(slot))
        if version is not None:
            yield slot, version.value


def with_segments(builder: StoreSpecBuilder) -> StoreSpecBuilder:
    retention = builder.spec.retention or Retention(0, 0)
    return StoreSpecBuilder(
        replace(
            builder.spec,
            retention=replace(
                retention, retention_ms=RETENTION_MS, segment_interval_ms=INTERVAL_MS
            ),
        )
    )


SLOTS = 12
KINDS: dict[str, Kind] = {
    "plain": Kind(
        Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), *TYPES),
        lambda store, slot, number: store.put(key_of(slot), number),
        slot_of_key,
        KEY_VALUE_FORWARD,
        KEY_VALUE_BACKWARD,
    ),
    "timestamped": Kind(
        Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("s"), *TYPES
        ),
        lambda store, slot, number: store.put(key_of(slot), stamped(number)),
        slot_of_key,
        KEY_VALUE_FORWARD,
        KEY_VALUE_BACKWARD,
    ),
    "window": Kind(
        with_segments(
            Stores.window_store_builder(
                Stores.persistent_window_store("s", RETENTION_MS, STEP_MS), *TYPES
            )
        ),
        lambda store, slot, number: store.put(KEY, number, slot * STEP_MS),
        start_of,
        WINDOW_FORWARD,
        WINDOW_BACKWARD,
        expires=True,
    ),
    "timestamped window": Kind(
        with_segments(
            Stores.timestamped_window_store_builder(
                Stores.persistent_timestamped_window_store("s", RETENTION_MS, STEP_MS), *TYPES
            )
        ),
        lambda store, slot, number: store.put(KEY, stamped(number), slot * STEP_MS),
        start_of,
        WINDOW_FORWARD,
        WINDOW_BACKWARD,
        expires=True,
    ),
    "session": Kind(
        with_segments(
            Stores.session_store_builder(Stores.persistent_session_store("s", RETENTION_MS), *TYPES)
        ),
        lambda store, slot, number: store.put(session_of(slot), number),
        start_of,
        SESSION_FORWARD,
        SESSION_BACKWARD,
        expires=True,
    ),
    "versioned": Kind(
        with_segments(
            Stores.versioned_key_value_store_builder(
                Stores.persistent_versioned_key_value_store("s", RETENTION_MS), *TYPES
            )
        ),
        lambda store, slot, number: store.put(key_of(slot), number, slot * STEP_MS),
        int,
        {"get": points, "get_range": versions(descending=False)},
        {"get_range, descending": versions(descending=True)},
    ),
}


@dataclass
class Slots:
    """One store of a kind with its home.

    Attributes:
        store: The store, open.
        offset: The changelog offset of the last commit.
        heard: What the flush listener heard: (slot, new, old).
    """

    directory: Path
    kind: Kind
    engine: StoreEngine
    caching: bool = False
    store: Any = None
    offset: int = -1
    heard: list[tuple[int, int | None, int | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = Home(self.directory, cache_enabled=self.caching)
        self.open()

    def open(self) -> None:
        spec = replace(self.kind.builder.spec, engine=self.engine, caching=self.caching)
        self.store = StoreSpecBuilder(spec).build()
        position = Position  # An input position that moves with the commits.
        self.store.init(self.home.context(position=lambda: position({INPUT: max(0, self.offset)})))
        if self.caching:
            assert self.store.set_flush_listener(self._hear, send_old_values=True)

    def _hear(self, key: Any, new: Any, old: Any, *_: object) -> None:
        self.heard.append((self.kind.slot_of(key), new, old))

    def put(self, numbers: Mapping[int, int | None]) -> None:
        for slot, number in numbers.items():
            self.kind.put(self.store, slot, number)

    def commit(self) -> None:
        self.offset += 1
        self.store.flush_cache()
        self.store.commit({CHANGELOG: self.offset})

    def entries(self, read: Any, reader: Any = None) -> list[tuple[int, int]]:
        return list(self.numbered(read(self.store if reader is None else reader)))

    def numbered(self, entries: Iterator[tuple[Any, Any]]) -> Iterator[tuple[int, int]]:
        """Turn what an iterator gives into (slot, number), one by one."""
        for key, value in entries:
            number = value.value if isinstance(value, ValueAndTimestamp) else value
            yield self.kind.slot_of(key), number

    def every_read(self, reader: Any = None) -> dict[str, list[tuple[int, int]]]:
        """What each iterator gives; those that go backward turned around."""
        found = {name: self.entries(read, reader) for name, read in self.kind.forward.items()}
        for name, read in self.kind.backward.items():
            found[name] = self.entries(read, reader)[::-1]
        return found

    def holds(self, numbers: Mapping[int, int], reader: Any = None) -> None:
        """Check that every iterator gives exactly these."""
        expected = sorted(numbers.items())
        for name, entries in self.every_read(reader).items():
            assert entries == expected, name
