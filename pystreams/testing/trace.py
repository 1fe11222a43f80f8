"""What becomes of each record that a `TopologyTestDriver` is given, told as it happens.

    driver = TopologyTestDriver(topology, trace=print)

    KSTREAM-SOURCE-0000000000: alice, {"total":7} at 5
      KSTREAM-AGGREGATE-0000000001: alice, {"total":7} at 5
        KTABLE-TOSTREAM-0000000002: alice, [1,null] at 5
          KSTREAM-SINK-0000000003: alice, 1 at 5
      store sold: alice: null -> 1
      topic sold: alice, 1 at 5

A hop is told when a node takes a record; so what a node forwards are the hops told next whose
`parent` it is, one level deeper. What a record has changed in stores, and what it has written, is
told when the task has done with it. Stores without a changelog of their own tell nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pystreams.config import StreamsConfig
from pystreams.readable_values import text_of_value
from pystreams.record import Headers, ProducedRecord
from pystreams.serdes import (
    BYTES,
    filled,
    filled_value,
    readers_deserializer,
    seeing_deserializer,
)
from pystreams.topology.contracts.operator import Step
from pystreams.topology.contracts.user_functions import checked_callback
from pystreams.topology.plan.topology_plan import TopologyPlan

_INDENT = "  "


class Hop(NamedTuple):
    """A node takes a record.

    Attributes:
        parent: The node that has forwarded it; None for a source, and for what was held back and
            goes on by itself.
        depth: How many nodes it came through.
        value: The record's value; of a table's update a pair, the new value and the old one (None
            where nobody asks for it).
        timestamp: Its timestamp (ms).
    """

    node: str
    parent: str | None
    depth: int
    key: Any
    value: Any
    timestamp: int

    def __str__(self) -> str:
        return f"{_INDENT * self.depth}{self.node}: {_told(self.key, self.value, self.timestamp)}"


class StateChange(NamedTuple):
    """A record has changed an entry of a store.

    Attributes:
        key: The entry's key; of what an outer join holds back with its time and side.
        times: The times (ms) in its key, by name: a window's, a session's.
        old: What it was, as the changelog has it; None where there was nothing.
        new: What it is now; None where it was deleted.
        timestamp: The time (ms) of the record.
    """

    store: str
    key: Any
    times: dict[str, int]
    old: Any
    new: Any
    timestamp: int

    def __str__(self) -> str:
        times = "".join(f" {name}={time}" for name, time in self.times.items())
        key, old, new = map(text_of_value, (self.key, self.old, self.new))
        return f"{_INDENT}store {self.store}: {key}{times}: {old} -> {new}"


class Written(NamedTuple):
    """A record goes to a topic, the user's or a repartition topic.

    Attributes:
        topic: The topic's real name.
        key: The record's key, as the topic's serde reads it; bytes where that is not known.
        value: Its value, likewise.
    """

    topic: str
    key: Any
    value: Any
    timestamp: int
    headers: Headers

    def __str__(self) -> str:
        return f"{_INDENT}topic {self.topic}: {_told(self.key, self.value, self.timestamp)}"


TraceEvent = Hop | StateChange | Written


class Tracer:
    """Tells of the hops, the state changes and the results of a driver's tasks.

    Args:
        config: Its default serdes stand in where there are no others.
    """

    def __init__(
        self, plan: TopologyPlan, config: StreamsConfig, tell: Callable[[TraceEvent], object]
    ) -> None:
        self._plan, self._config = plan, config
        self._tell = checked_callback(tell, "TopologyTestDriver: trace", ("event",))
        self._path: list[str] = []
        self._readers: dict[str, TopicReader] = {}
        self._stores = {
            plan.changelog_topic(store.name): _StoreReader(plan, config, store.name)
            for part in plan.subtopologies
            for store in plan.logged_stores(part)
        }

    def step(self, node: str, step: Step) -> Step:
        """Return a step that tells of each record before the node takes it."""
        path, tell = self._path, self._tell

        def traced(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            tell(Hop(node, path[-1] if path else None, len(path), key, value, timestamp))
            path.append(node)
            try:
                step(key, value, timestamp, headers)
            finally:
                path.pop()

        return traced

    def restored(self, changelogs: Mapping[str, Sequence[ProducedRecord]]) -> None:
        """Note what stores hold from the start, to be told as what an entry was."""
        for store, records in changelogs.items():
            reader = self._stores.get(self._plan.changelog_topic(store))
            if reader is not None:
                reader.held.update((key, value) for key, value, _, _ in records)

    def left(self, topic: str, records: Sequence[ProducedRecord]) -> None:
        """Tell of records that have left a task, for a changelog or for another topic."""
        changed = self._stores.get(topic)
        if changed is not None:
            for record in records:
                self._tell(changed.change(record))
            return
        reader = self._readers.get(topic)
        if reader is None:
            reader = self._readers[topic] = TopicReader(self._plan, self._config, topic)
        for key, value, timestamp, headers in records:
            self._tell(Written(topic, *reader(key, value, headers), timestamp, headers))


class TopicReader:
    """Reads the records of a topic of a topology; what its serdes can't read stays bytes."""

    def __init__(self, plan: TopologyPlan, config: StreamsConfig, topic: str) -> None:
        key_serde, value_serde = plan.serdes_of_topic(topic) or (BYTES, BYTES)
        key_serde = filled(key_serde, config.default_key_serde)
        defaults = config.default_value_serde, config.default_key_serde
        value_serde = filled_value(value_serde, *defaults)
        self._key = _or_bytes(seeing_deserializer(key_serde or BYTES, topic))
        self._value = _or_bytes(seeing_deserializer(value_serde or BYTES, topic))

    def __call__(self, key: bytes | None, value: bytes | None, headers: Headers) -> tuple[Any, Any]:
        """Return key and value."""
        return self._key(key, headers), self._value(value, headers)


class _StoreReader:
    """Reads the changelog records of a store.

    Attributes:
        held: The value of each logged key.
    """

    def __init__(self, plan: TopologyPlan, config: StreamsConfig, store: str) -> None:
        self._spec = spec = plan.spec_of(store)
        serdes = spec.filled_serdes(config.default_key_serde, config.default_value_serde)
        topic = plan.changelog_topic(store)
        read_key, read_value = (
            _or_bytes(bytes if serde is None else readers_deserializer(serde, topic))
            for serde in serdes
        )
        self._key, self._value = map(_or_bytes, spec.kind.entry_readers(read_key, read_value))
        self.held: dict[bytes | None, bytes | None] = {}

    def change(self, record: ProducedRecord) -> StateChange:
        """Return what a record changes; from now on it is held."""
        logged, new, timestamp, _ = record
        old, self.held[logged] = self.held.get(logged), new
        _, times = self._spec.parts_of_key(logged or b"")
        key, was, now = self._key(logged or b""), self._value(old), self._value(new)
        return StateChange(self._spec.name, key, times, was, now, timestamp)


def _or_bytes(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a deserializer that leaves what it can't read as it is, and None."""

    def readable(data: bytes | None, *headers: Headers) -> Any:
        try:
            return None if data is None else read(data, *headers)
        except Exception:  # noqa: BLE001 - the user's serde may raise anything; the bytes are told
            return data

    return readable


def _told(key: Any, value: Any, timestamp: int) -> str:
    return f"{text_of_value(key)}, {text_of_value(value)} at {timestamp}"
