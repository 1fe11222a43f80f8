"""Global tables and stores, met by streams, to be backfilled."""

from __future__ import annotations

from typing import Any

from pystreams import Processor, ProcessorContext, Record, Stores, StreamsBuilder, Topology, serdes

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


class CountEach(Processor[str, str, str, str]):
    """Counts the records of each key, deletions included: it must see each of them once."""

    def __init__(self, store: str) -> None:
        self._name = store

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._counts: Any = context.get_state_store(self._name)

    def process(self, record: Record[str, str]) -> None:
        self._counts.put(record.key, (self._counts.get(record.key) or 0) + 1)


class LookUp(Processor[str, str, str, str]):
    """Tells what two global stores have of a record's key."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        self._stores: Any = [context.get_state_store(name) for name in ("counted", "numbered")]

    def process(self, record: Record[str, str]) -> None:
        found = [store.get(record.key) for store in self._stores]
        self._context.forward(record.with_value(str(found)))


def counts(name: str) -> Any:
    supplier = Stores.persistent_key_value_store(name)
    return Stores.key_value_store_builder(supplier, serdes.STRING, serdes.LONG)


def global_tables() -> Topology:
    """A stream that looks up rows of its values and of its keys, and counts what it has found."""
    builder = StreamsBuilder()
    table = builder.global_table("rows", name="shared", **TEXT)
    builder.add_global_store(counts("counted"), "right", lambda: CountEach("counted"), **TEXT)
    stream = builder.stream("left", **TEXT)
    by_value = stream.join(
        table, lambda _, value: value and f"k{value[1:]}", lambda value, row: f"{value}/{row}"
    )
    by_value.to("joined", **TEXT)
    by_value.group_by_key().count(name="found").to_stream().map_values(str).to("found", **TEXT)
    every = stream.left_join(table, lambda key, _: key, lambda value, row: f"{value}/{row}")
    every.to("every", **TEXT)
    stream.process(LookUp).to("told", **TEXT)
    return builder.build().add_global_store(
        counts("numbered"), "read-more", "more", "count-more", lambda: CountEach("numbered"), **TEXT
    )
