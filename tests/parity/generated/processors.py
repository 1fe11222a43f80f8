"""The processors of generated cases, by kind: those of `Processors.java`, one for one."""

from __future__ import annotations

from typing import Any

from pystreams import (
    FixedKeyProcessor,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Stores,
    Topology,
    ValueAndTimestamp,
    ValueTransformerWithKey,
)
from pystreams.serdes import STRING
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.parity.generated.functions import KEYS, tail, text, weight
from tests.parity.generated.options import Step, supplier


class Tagging(Processor[Any, Any, Any, Any]):
    """Adds a header and a second record a little later."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.context = context

    def process(self, record: Record[Any, Any]) -> None:
        value = record.value
        tag = ("tag", text(value).encode())
        self.context.forward(record.with_headers((*record.headers, tag)))
        if weight(value) % 3 == 0:
            later = record.with_timestamp(record.timestamp + 7)
            self.context.forward(later.with_value(tail(f"{text(value)}~")))


class Counting(Processor[Any, Any, Any, Any]):
    """Keeps and forwards what it has seen of each key."""

    def __init__(self, store: Step) -> None:
        self.given = store

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.context = context
        self.store = context.get_state_store(self.given["name"])

    def process(self, record: Record[Any, Any]) -> None:
        key, value = text(record.key), text(record.value)
        before = self.store.get(key)
        if self.given["kind"] == "timestamped":
            kept = "none" if before is None else f"{before.value}@{before.timestamp}"
            new: Any = ValueAndTimestamp(value, record.timestamp)
        else:
            kept, new = text(before), value
        self.store.put(key, None if record.value is None else new)
        self.context.forward(record.with_value(tail(f"{kept}/{value}")))


class Ticking(Processor[Any, Any, Any, Any]):
    """Hands records on, and by the clock how many there were."""

    def __init__(self, clock: PunctuationType, step: Step) -> None:
        self.clock, self.given, self.count = clock, step, 0

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.context = context
        anchor_ms = self.given.get("anchor_ms")
        context.schedule(self.given["every_ms"], self.clock, self.tick, start_time_ms=anchor_ms)

    def tick(self, time: int) -> None:
        self.context.forward(Record("tick", f"n{self.count}", time))

    def process(self, record: Record[Any, Any]) -> None:
        self.count += 1
        self.context.forward(record)


class Numbering(FixedKeyProcessor[Any, Any, Any]):
    """Puts a number before each value, of a key if it has a store."""

    def __init__(self, store: Step | None) -> None:
        self.given, self.count = store, 0

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.context = context
        self.store = None if self.given is None else context.get_state_store(self.given["name"])

    def process(self, record: Record[Any, Any]) -> None:
        self.count += 1
        number = self.count
        if self.store is not None:
            key = text(record.key)
            number = int(self.store.get(key) or 0) + 1
            self.store.put(key, str(number))
        self.context.forward(record.with_value(tail(f"{number}.{text(record.value)}")))


class Filling(Processor[Any, Any, Any, Any]):
    """Puts records into the store of a topic: global, or read-only for the others."""

    def __init__(self, store: Step) -> None:
        self.given = store

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.store = context.get_state_store(self.given["name"])

    def process(self, record: Record[Any, Any]) -> None:
        value: Any = record.value
        if value is not None and self.given["kind"] == "timestamped":
            value = ValueAndTimestamp(value, record.timestamp)
        if record.key is not None:
            self.store.put(record.key, value)


class LookingUp(Processor[Any, Any, Any, Any]):
    """Puts beside each value what a store of others has of a key that it names."""

    def __init__(self, store_name: str, key: str) -> None:
        self.store_name, self.key = store_name, KEYS[key]

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.context = context
        self.store = context.get_state_store(self.store_name)

    def process(self, record: Record[Any, Any]) -> None:
        key = self.key(record.key, record.value)
        found = None if key is None else self.store.get(key)
        if isinstance(found, ValueAndTimestamp):
            found = f"{text(found.value)}@{found.timestamp}"
        self.context.forward(record.with_value(tail(f"{text(record.value)}?{text(found)}")))


def add_read_only_store(topology: Topology, step: Step) -> None:
    """Add a read-only store of a topic, and a processor that looks records up in it."""
    name, store = step["label"], step["store"]
    topology.add_read_only_state_store(
        store_builder(store),
        f"{name}-source",
        step["topic"],
        f"{name}-filling",
        lambda: Filling(store),
        key_serde=STRING,
        value_serde=STRING,
    )
    topology.add_source(f"{name}-reads", step["reads"])
    topology.add_processor(
        f"{name}-looks",
        lambda: LookingUp(store["name"], step["fn"]),
        f"{name}-reads",
    )
    topology.connect_processor_and_state_stores(f"{name}-looks", store["name"])
    topology.add_sink(f"{name}-writes", step["writes"], f"{name}-looks")


class Marking(ValueTransformerWithKey[Any, Any, Any]):
    """Makes something of rows that are not there too, and of some rows nothing."""

    def transform(self, key: Any, value: Any) -> Any:
        if value is None:
            return "nobody" if weight(key) % 2 == 0 else None
        return None if weight(value) % 4 == 0 else tail(f"{text(key)}~{text(value)}")


class Turning(ValueTransformerWithKey[Any, Any, Any]):
    """Numbers the values of each key."""

    def __init__(self, store: Step) -> None:
        self.given = store

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.store = context.get_state_store(self.given["name"])

    def transform(self, key: Any, value: Any) -> Any:
        turn = int(self.store.get(text(key)) or 0) + 1
        self.store.put(text(key), str(turn))
        return None if turn % 5 == 0 else tail(f"{turn}.{text(value)}")


def transformer(step: Step) -> Any:
    """Return a new transformer of a table's values."""
    return Turning(step["store"]) if "store" in step else Marking()


def processor(step: Step) -> Any:
    """Return a new processor of a step."""
    store = step.get("store")
    match step["kind"]:
        case "number":
            return Numbering(store)
        case "tag":
            return Tagging()
        case "look_up":
            return LookingUp(step["looks_into"], step["fn"])
        case "count":
            assert store is not None
            return Counting(store)
        case "wall_clock":
            return Ticking(PunctuationType.WALL_CLOCK_TIME, step)
        case _:
            return Ticking(PunctuationType.STREAM_TIME, step)


def store_builder(given: Step) -> StoreSpecBuilder:
    """Return the builder of a processor's store."""
    made = supplier(given)
    if given["kind"] == "timestamped":
        builder = Stores.timestamped_key_value_store_builder(made, STRING, STRING)
    else:
        builder = Stores.key_value_store_builder(made, STRING, STRING)
    return builder.with_caching_enabled() if given.get("caching") else builder
