"""The user's processors of the parity topologies: the Java classes of the same names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystreams import (
    FixedKeyProcessor,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Stores,
    ValueAndTimestamp,
)
from pystreams.serdes import INT, STRING
from tests.parity.values import amount, city, or_dash

SUMMARY_INTERVAL_MS = 5_000
TICK_INTERVAL_MS = 1_000
GREETINGS_MAX = 3


class Totals(Processor[str, str | None, str, int | None]):
    """Sums amounts a key; forwards each sum to "updates", by stream time all to "summaries"."""

    def init(self, context: ProcessorContext[str, int | None]) -> None:
        self.context = context
        self.totals = context.get_state_store("totals")
        self.ticks = context.get_state_store("ticks")
        context.schedule(SUMMARY_INTERVAL_MS, PunctuationType.STREAM_TIME, self.summarize)
        context.schedule(TICK_INTERVAL_MS, PunctuationType.WALL_CLOCK_TIME, self.tick)
        self.greeting = context.schedule(
            SUMMARY_INTERVAL_MS, PunctuationType.STREAM_TIME, self.greet
        )
        self.greetings = 0

    def process(self, record: Record[str, str | None]) -> None:
        if record.value is None:
            self.totals.delete(record.key)
            self.context.forward(record.with_value(None))  # To both children.
            return
        total = (self.totals.get(record.key) or 0) + amount(record.value)
        self.totals.put(record.key, total)
        origin = self.context.record_metadata()
        assert origin is not None
        stream_time = self.context.current_stream_time_ms()
        text = f"{origin.topic}/{origin.partition}/{origin.offset}@{stream_time}"
        headers = (*record.headers, ("origin", text.encode()))
        self.context.forward(record.with_value(total).with_headers(headers), "updates")

    def summarize(self, stream_time_ms: int) -> None:
        for key, total in self.totals.all():
            self.context.forward(Record(key, total, stream_time_ms), "summaries")
        self.totals.put("#summaries", (self.totals.get("#summaries") or 0) + 1)

    def tick(self, wall_clock_ms: int) -> None:
        before = self.ticks.get("ticks")
        count = 1 if before is None else before.value + 1
        self.ticks.put("ticks", ValueAndTimestamp(count, wall_clock_ms))
        metadata = self.context.record_metadata()
        topic = None if metadata is None else metadata.topic
        now_ms = self.context.current_system_time_ms()
        self.context.forward(Record("tick" + or_dash(topic), count, now_ms))

    def greet(self, stream_time_ms: int) -> None:
        self.greetings += 1
        self.context.forward(Record("greeting", self.greetings, stream_time_ms), "updates")
        if self.greetings == GREETINGS_MAX:
            self.greeting.cancel()


class Numbering(FixedKeyProcessor[str, str | None, str | None]):
    """Puts a number a key before each value; drops records that have a "route" header."""

    def init(self, context: ProcessorContext[str, str | None]) -> None:
        self.context = context
        self.numbers = context.get_state_store("numbers")

    def process(self, record: Record[str, str | None]) -> None:
        if any(name == "route" for name, _ in record.headers):
            return
        number = (self.numbers.get(record.key) or 0) + 1
        self.numbers.put(record.key, number)
        value = record.value
        self.context.forward(record.with_value(None if value is None else f"{number}. {value}"))
        if number % 5 == 0:
            later: Record[str, str | None] = Record(
                record.key, "fifth", record.timestamp + 1, record.headers
            )
            self.context.forward(later)


class NumberingSupplier:
    """Brings the store "numbers": plain, 4-byte integers, logged."""

    def __call__(self) -> Numbering:
        return Numbering()

    def stores(self) -> list[Any]:
        return [
            Stores.key_value_store_builder(
                Stores.persistent_key_value_store("numbers"), STRING, INT
            )
        ]


class CityKey(Processor[str, str | None, str, str]):
    """Makes the city the key; forwards nothing for a null value."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context

    def process(self, record: Record[str, str | None]) -> None:
        if record.value is not None:
            self.context.forward(
                Record(city(record.value), record.value, record.timestamp, record.headers)
            )


class RememberPrice(Processor[str, str | None, None, None]):
    """Keeps the newest price of a key by event time; forwards nothing."""

    def init(self, context: ProcessorContext[None, None]) -> None:
        self.prices = context.get_state_store("prices-store")

    def process(self, record: Record[str, str | None]) -> None:
        known = self.prices.get(record.key)
        if known is not None and known.timestamp > record.timestamp:
            return
        if record.value is None:
            self.prices.put(record.key, None)
        else:
            self.prices.put(record.key, ValueAndTimestamp(amount(record.value), record.timestamp))


class PriceOrder(Processor[str, str | None, str, int]):
    """Multiplies an order's amount by the price known for its key; -1 where none is known."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context
        self.prices = context.get_state_store("prices-store")
        self.seen = context.get_state_store("seen")

    def process(self, record: Record[str, str | None]) -> None:
        metadata = self.context.record_metadata()
        assert metadata is not None
        if record.value is None or metadata.topic == "prices":
            return
        price = self.prices.get(record.key)
        total = -1 if price is None else price.value * amount(record.value)
        priced = record.with_value(total)
        self.context.forward(priced, "priced-sink")
        if self.seen.put_if_absent(record.key, record.value) is None:
            self.context.forward(priced, "first-sink")
        self.context.forward(priced, "list-history")


class ListHistory(Processor[str, int, str, str]):
    """Uses every operation of a key-value store and forwards what the iterators gave, as text."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.history = context.get_state_store("history")
        self.count = 0

    def process(self, record: Record[str, int]) -> None:
        key, history = record.key, self.history
        history.put(f"{key}/{self.count % 3}", record.value)
        first = history.put_if_absent(key, record.value)
        # Kafka Streams' cache shows deletions that wait in it to reverse iterators.
        reverse = self.count % 5 in {1, 3}
        if self.count % 4 == 1 and not reverse:
            gone = history.delete(f"{key}/0")
            self.context.forward(record.with_value(f"deleted {or_dash(gone)}"))
        if self.count % 6 == 2 and not reverse:
            history.put_all([("zz", record.value), (f"{key}/1", None)])
        self.context.forward(record.with_value(f"first {or_dash(first)}"))
        entries: Iterator[tuple[str, int]]
        match self.count % 5:
            case 0:
                label, entries = "range", history.range("b", "ç")
            case 1:
                label, entries = "reverse range", history.reverse_range(None, "ç")
            case 2:
                label, entries = "all", history.all()
            case 3:
                label, entries = "reverse all", history.reverse_all()
            case _:
                label, entries = "prefix", history.prefix_scan(key.encode())
        text = "".join(f" {entry_key}={value}" for entry_key, value in entries)
        self.context.forward(record.with_value(label + text))
        self.count += 1
