"""What the statements of `mistakes.txt` are written with; comes before them."""

# ruff: noqa: F401 - they are for the statements.

from __future__ import annotations

from pystreams import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    Grouped,
    Joined,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Repartitioned,
    Retry,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindows,
    ValueTransformerWithKey,
    Windowed,
    aggregations,
)
from pystreams.serdes import LONG, STRING

builder = StreamsBuilder()
words = builder.stream("words", key_serde=STRING, value_serde=STRING)
numbers = builder.stream("numbers", key_serde=STRING, value_serde=LONG)
names = builder.table("names", key_serde=STRING, value_serde=STRING)
totals = builder.table("totals", key_serde=STRING, value_serde=LONG)
cities = builder.table("cities", key_serde=LONG, value_serde=STRING)
places = builder.global_table("places", key_serde=LONG, value_serde=STRING)
store_builder = Stores.key_value_store_builder(
    Stores.in_memory_key_value_store("s"), STRING, STRING
)
groups = words.group_by_key()
number_groups = numbers.group_by_key()
windows = TimeWindows.of_size_with_no_grace(1)
sessions = SessionWindows.of_inactivity_gap_with_no_grace(1)
nearby = JoinWindows.of_time_difference_with_no_grace(1)
windowed = groups.windowed_by(windows)
in_sessions = groups.windowed_by(sessions)
rows = names.group_by(lambda key, value: (value, len(key)))


def total_length(key: str, value: str, total: int) -> int:
    return total + len(value)


def length_so_far(key: str, value: str, total: int) -> str:
    return f"{total}{value}"


def merged_totals(key: str, one: int, other: int) -> int:
    return one + other


def merged_to_text(key: str, one: int, other: int) -> str:
    return f"{one}{other}"


def length(value: str) -> int:
    return len(value)


async def asked(value: str) -> int:
    return len(value)


def doubled(value: int) -> int:
    return value * 2


def deleted_at_last(key: str, value: str, total: int) -> int | None:
    return None if value == "last" else total + 1


def is_long(key: str, value: str) -> bool:
    return len(value) > len(key)


def is_large(key: str, value: int) -> bool:
    return value > len(key)


class Lengths(Processor[str, str, str, int]):
    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(len(record.value)))


class Halves(Processor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        print(record.value // 2)


class LengthsOfValues(FixedKeyProcessor[str, str, int]):
    pass


class HalvesOfValues(FixedKeyProcessor[str, int, int]):
    pass


class RowLengths(ValueTransformerWithKey[str, str, int]):
    def transform(self, key: str, value: str | None) -> int | None:
        return None if value is None else len(value)
