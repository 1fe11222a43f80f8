"""The application of a sweep: each record is a transaction that appends to lists, in two stages.

    in --> Append "first" --+--> out                the lists, as they are then
              |  (stores)   |
              |             +--> repartition --> Append "second" --> out
              |                                     |  (stores)
              +--> counts (a table, perhaps with a cache)

A record appends its own name to the lists of two or three keys, which lie in several stores of its
task and in several partitions of the output, and reads one more. The second stage does the same
with what the first hands on: several records, to several partitions, by one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from zlib import crc32

from pystreams import (
    Processor,
    ProcessorContext,
    Record,
    Stores,
    StreamsBuilder,
    Topology,
    serdes,
)
from pystreams.kernel.partitioner import partition_of
from pystreams.record import StaticMessage
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.histories.list_append import Observation

FIRST, SECOND = "first", "second"
SLOTS = 2
"""Lists a store and a task."""
HANDED = "app-handed-repartition"
_APPENDED, _READ, _HANDED = "+", "?", ">"

Cell = tuple[str, int]
"""A store, and the number of a list in it."""


class Append(Processor[str, str, str, str]):
    """Appends each record's value, the name of a transaction, to some lists, and reads another.

    Args:
        stage: Which one of the two.
        stores: The names of its stores.
    """

    def __init__(self, stage: str, stores: Sequence[str]) -> None:
        self._stage = stage
        self._names = stores

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        self._stores = {name: context.get_state_store(name) for name in self._names}
        self._partition = context.task_id.partition

    def process(self, record: Record[str, str]) -> None:
        transaction, timestamp = record.value, record.timestamp
        cells, other = cells_of(transaction, self._names)
        for cell in cells:
            elements = f"{self._seen(cell)} {transaction}".strip()
            self._stores[cell[0]].put(str(cell[1]), elements)
            self._tell(cell, f"{_APPENDED}{transaction}|{elements}", timestamp)
        self._tell(other, f"{_READ}{transaction}|{self._seen(other)}", timestamp)
        if self._stage == FIRST:
            for name, key in handed_on(transaction):
                self._context.forward(Record(key, f"{_HANDED}{name}", timestamp))

    def _seen(self, cell: Cell) -> str:
        name, slot = cell
        return self._stores[name].get(str(slot)) or ""

    def _tell(self, cell: Cell, text: str, timestamp: int) -> None:
        self._context.forward(Record(list_key(self._partition, cell), text, timestamp))


def cells_of(transaction: str, stores: Sequence[str]) -> tuple[list[Cell], Cell]:
    """Return what a transaction appends to, and what it reads."""
    cells = [(name, slot) for slot in range(SLOTS) for name in stores]
    drawn = crc32(transaction.encode())
    start, count = drawn % len(cells), 2 + drawn // 16 % 2
    chosen = [cells[(start + step) % len(cells)] for step in range(count + 1)]
    return chosen[:-1], chosen[-1]


def handed_on(transaction: str) -> Iterator[tuple[str, str]]:
    """Iterate over (name, key) of the transactions that one of the first stage sets off."""
    for number in range(2):
        name = f"{transaction}.{number}"
        yield name, f"h{crc32(name.encode()) % 7}"


def expected_of(
    name: str, key: str, stores: Iterable[str], partitions: int
) -> Iterator[tuple[str, set[str]]]:
    """Iterate over what one record of the input should do: transactions, and keys they append to.

    Args:
        name: The first transaction.
        key: The record's.
        stores: The names of all stores.
        partitions: How many each topic has.
    """
    by_stage: dict[str, list[str]] = {FIRST: [], SECOND: []}
    for store in stores:
        by_stage[stage_of(store)].append(store)
    stages = [(FIRST, name, key)]
    stages += [(SECOND, handed, other_key) for handed, other_key in handed_on(name)]
    for stage, transaction, its_key in stages:
        partition = partition_of(its_key.encode(), partitions)
        cells, _ = cells_of(transaction, by_stage[stage])
        yield transaction, {list_key(partition, cell) for cell in cells}


def stage_of(store: str) -> str:
    """Return the stage a store belongs to."""
    return store.partition("-")[0]


def list_key(partition: int, cell: Cell) -> str:
    """Return the key of a list in the output: no two tasks have the same."""
    name, slot = cell
    return f"{name}/{partition}/{slot}"


def appending(
    builders: Iterable[StoreSpecBuilder],
    *,
    source: str = "in",
    output: str = "out",
    counts: bool = False,
    caching: bool = False,
) -> Topology:
    """Return the topology.

    Args:
        builders: Its stores; their names begin with that of a stage.
        source: The input.
        output: Where lists go.
        counts: Whether it counts its input, too.
        caching: Whether it does so with a record cache.
    """
    builder = StreamsBuilder()
    names: dict[str, list[str]] = {FIRST: [], SECOND: []}
    for store in builders:
        builder.add_state_store(store)
        names[stage_of(store.name)].append(store.name)
    stream = builder.stream(source, key_serde=serdes.STRING, value_serde=serdes.STRING)
    first = stream.process(lambda: Append(FIRST, names[FIRST]), stores=names[FIRST])
    lists = first.filter_not(lambda _, value: value.startswith(_HANDED))
    lists.to(output, key_serde=serdes.STRING, value_serde=serdes.STRING)
    handed = first.filter(lambda _, value: value.startswith(_HANDED)).map_values(_without_mark)
    spread = handed.repartition(name="handed", key_serde=serdes.STRING, value_serde=serdes.STRING)
    second = spread.process(lambda: Append(SECOND, names[SECOND]), stores=names[SECOND])
    second.to(output, key_serde=serdes.STRING, value_serde=serdes.STRING)
    if counts:
        table = stream.group_by_key().count(name="counts", caching=caching)
        table.to_stream().to("counts", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def list_store(
    name: str, *, in_memory: bool, caching: bool, transactional: bool
) -> StoreSpecBuilder:
    """Return the builder of a store of lists."""
    supplier = (
        Stores.in_memory_key_value_store(name)
        if in_memory
        else Stores.persistent_key_value_store(name)
    )
    builder = Stores.key_value_store_builder(supplier, serdes.STRING, serdes.STRING)
    if caching:
        builder = builder.with_caching_enabled()
    return builder if transactional else builder.with_transactional_disabled()


def observations(records: Iterable[StaticMessage]) -> list[Observation]:
    """Return what the committed records of the output tell."""
    found = []
    for record in records:
        key, value = record.message_key, record.message_value
        assert key is not None
        assert value is not None
        found.append(observation(key, value))
    return found


def observation(key: bytes, value: bytes) -> Observation:
    """Return what one record of the output tells."""
    text = value.decode()
    transaction, _, elements = text[1:].partition("|")
    return Observation(
        transaction, key.decode(), tuple(elements.split()), is_append=text[0] == _APPENDED
    )


def _without_mark(value: str) -> str:
    return value[1:]
