"""Tables whose values a transformer makes: when it is asked, with which context, what is kept.

The cases are those of Kafka Streams' KTableTransformValuesTest.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from pystreams import (
    BufferConfig,
    FixedKeyProcessor,
    KTable,
    Materialized,
    ProcessorContext,
    Record,
    RecordMetadata,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyError,
    ValueTransformerWithKey,
)
from pystreams.serdes import LONG, STRING
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.testing import TopologyTestDriver


class Exclaim(ValueTransformerWithKey[str, str, str]):
    """Says key and value aloud, and notes what becomes of it."""

    events: ClassVar[list[str]] = []
    seen: ClassVar[list[tuple[str, RecordMetadata | None, Any]]] = []

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.context = context
        self.events.append("init")

    def transform(self, key: str, value: str | None) -> str:
        self.seen.append((key, self.context.record_metadata(), self.context.headers()))
        return f"{key}->{value}!"

    def close(self) -> None:
        self.events.append("close")


class Length(ValueTransformerWithKey[str, str, int]):
    """Needs no state."""

    def transform(self, key: str, value: str | None) -> int | None:
        return None if value is None else len(value)


class Counter(ValueTransformerWithKey[str, str, int]):
    """Gives another number each time it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def transform(self, key: str, value: str | None) -> int:
        self.asked += 1
        return self.asked


class Numbered(ValueTransformerWithKey[str, str, str]):
    """Says how many values of its key there were, by a store."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.numbers = context.get_state_store("numbers")

    def transform(self, key: str, value: str | None) -> str:
        number = (self.numbers.get(key) or 0) + 1
        self.numbers.put(key, number)
        return f"{number}. {value}"


class LooksUp(ValueTransformerWithKey[str, str, str]):
    """Only reads its store."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.names = context.get_state_store("names")

    def transform(self, key: str, value: str | None) -> str | None:
        return None if value is None else f"{self.names.get(value)}"


class Names(FixedKeyProcessor[str, str, str]):
    """Fills the store that `LooksUp` reads."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.names = context.get_state_store("names")

    def process(self, record: Record[str, str]) -> None:
        self.names.put(record.key, record.value)


class Forwards(ValueTransformerWithKey[str, str, str]):
    """Tries to forward."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.context = context

    def transform(self, key: str, value: str | None) -> str:
        self.context.forward(Record(key, value, 0))
        return ""


class Doubled(ValueTransformerWithKey[Any, int, int]):
    """Needs no state."""

    def transform(self, key: Any, value: int | None) -> int | None:
        return None if value is None else 2 * value


class FailsOnB(ValueTransformerWithKey[str, str, str]):
    """Fails with one key."""

    def transform(self, key: str, value: str | None) -> str | None:
        if key == "B":
            raise ValueError(key)
        return value


class TellsWhere(FixedKeyProcessor[str, str, str]):
    """Replaces a value by where the record came from."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context

    def process(self, record: Record[str, str]) -> None:
        place = self.context.record_metadata()
        assert place is not None
        headers = " ".join(name for name, _ in self.context.headers())
        value = f"{place.topic} {place.partition} {place.offset} {headers}"
        self.context.forward(record.with_value(value))


class BringsNumbers:
    """A supplier with a store of its own."""

    def __init__(self) -> None:
        self.store = numbers_store()

    def __call__(self) -> Numbered:
        return Numbered()

    def stores(self) -> list[Any]:
        return [self.store]


def numbers_store() -> StoreSpecBuilder:
    return Stores.key_value_store_builder(
        Stores.in_memory_key_value_store("numbers"), key_serde=STRING, value_serde=LONG
    )


def names_store() -> StoreSpecBuilder:
    return Stores.key_value_store_builder(
        Stores.in_memory_key_value_store("names"), key_serde=STRING, value_serde=STRING
    )


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    Exclaim.events.clear()
    Exclaim.seen.clear()


@pytest.fixture
def homes(builder: StreamsBuilder) -> KTable[str, str]:
    return builder.table("homes", key_serde=STRING, value_serde=STRING)


def pipe(driver: TopologyTestDriver, *records: tuple[str, str | None, int]) -> None:
    source = driver.create_input_topic("homes", STRING, STRING)
    for key, value, timestamp in records:
        source.pipe_input(key, value, timestamp)


def read(driver: TopologyTestDriver, value_serde: Any = STRING) -> list[tuple[Any, Any, int]]:
    topic = driver.create_output_topic("out", STRING, value_serde)
    return [(record.key, record.value, record.timestamp) for record in topic.read_records()]


def test_each_change_is_transformed_deletions_too(
    builder: StreamsBuilder, homes: KTable[str, str], drive: Any
) -> None:
    homes.transform_values(Exclaim).to_stream().to("out")
    driver = drive()

    pipe(driver, ("A", "a", 5), ("B", "b", 10), ("D", None, 15))

    assert read(driver) == [("A", "A->a!", 5), ("B", "B->b!", 10), ("D", "D->None!", 15)]
    assert list(builder.build().stores) == []


def test_a_named_table_is_kept(homes: KTable[str, str], drive: Any) -> None:
    homes.transform_values(Exclaim, name="loud").to_stream().to("out")
    driver = drive()

    pipe(driver, ("A", "a", 5), ("B", "b", 10), ("C", None, 15))

    assert read(driver) == [("A", "A->a!", 5), ("B", "B->b!", 10), ("C", "C->None!", 15)]
    kept = driver.get_timestamped_key_value_store("loud")
    assert list(kept.all()) == [
        ("A", ("A->a!", 5)),
        ("B", ("B->b!", 10)),
        ("C", ("C->None!", 15)),
    ]


def test_a_transformer_uses_a_store_that_is_named(
    builder: StreamsBuilder, homes: KTable[str, str], drive: Any
) -> None:
    builder.add_state_store(numbers_store())
    homes.transform_values(Numbered, stores=["numbers"]).to_stream().to("out")
    driver = drive()

    pipe(driver, ("A", "a", 5), ("A", "b", 6))

    assert read(driver) == [("A", "1. a", 5), ("A", "2. b", 6)]


def test_a_transformer_uses_a_store_that_its_supplier_brings(
    homes: KTable[str, str], drive: Any
) -> None:
    homes.transform_values(BringsNumbers(), name="kept").to_stream().to("out")
    driver = drive()

    pipe(driver, ("A", "a", 5), ("A", "b", 6))

    assert read(driver) == [("A", "1. a", 5), ("A", "2. b", 6)]
    assert driver.get_key_value_store("kept").get("A") == "2. b"


def test_old_values_of_a_kept_table_are_those_that_it_kept(
    homes: KTable[str, str], drive: Any
) -> None:
    counted = homes.transform_values(Counter, name="kept", key_serde=STRING, value_serde=LONG)
    grouped = counted.group_by(lambda key, n: (key, n), key_serde=STRING, value_serde=LONG)
    grouped.reduce(lambda a, b: a + b, lambda a, b: a - b).to_stream().to("out", value_serde=LONG)
    driver = drive()

    pipe(driver, ("A", "ignored", 5), ("A", "ignored1", 15), ("A", "ignored2", 10))

    assert read(driver, LONG) == [("A", 1, 5), ("A", 2, 15), ("A", 3, 15)]
    assert driver.get_key_value_store("kept").get("A") == 3


@pytest.mark.parametrize("options", [{}, {"key_serde": STRING, "value_serde": LONG}])
def test_old_values_of_a_table_that_is_not_kept_are_transformed_again(
    builder: StreamsBuilder, homes: KTable[str, str], drive: Any, options: dict[str, Any]
) -> None:
    grouped = homes.transform_values(Length, **options).group_by(
        lambda key, n: (key, n), key_serde=STRING, value_serde=LONG
    )
    grouped.reduce(lambda a, b: a + b, lambda a, b: a - b).to_stream().to("out", value_serde=LONG)
    driver = drive()

    pipe(driver, ("A", "a", 5), ("A", "aa", 15), ("A", "aaa", 10))

    assert read(driver, LONG) == [("A", 1, 5), ("A", 2, 15), ("A", 3, 15)]
    source, groups = builder.build().stores
    assert source == "homes-STATE-STORE-0000000000"
    assert groups.startswith("KTABLE-AGGREGATE-STATE-STORE-")


def test_the_table_above_keeps_no_store_for_old_values_of_a_kept_one(
    builder: StreamsBuilder, homes: KTable[str, str]
) -> None:
    kept = homes.transform_values(Length, name="kept", value_serde=LONG)
    kept.group_by(lambda key, n: (key, n)).count(name="counts")

    assert list(builder.build().stores) == ["kept", "counts"]


def test_old_values_that_nobody_wants_are_not_transformed(
    builder: StreamsBuilder, drive: Any
) -> None:
    homes = builder.table("homes", materialized=Materialized(name="homes"))
    homes.transform_values(Counter).to_stream().to("out", value_serde=LONG)
    driver = drive()

    pipe(driver, ("A", "a", 1), ("A", "b", 2))

    assert read(driver, LONG) == [("A", 1, 1), ("A", 2, 2)]


def test_who_looks_into_a_table_that_is_not_kept_has_a_transformer_of_its_own(
    builder: StreamsBuilder, homes: KTable[str, str], drive: Any
) -> None:
    orders = builder.stream("orders", key_serde=STRING, value_serde=STRING)
    orders.join(homes.transform_values(Exclaim), "{} {}".format).to("out")
    driver = drive()
    pipe(driver, ("A", "a", 73))
    Exclaim.seen.clear()

    driver.create_input_topic("orders", STRING, STRING).pipe_input("A", "socks", 42)

    assert read(driver) == [("A", "socks A->a!", 42)]
    # The row that it is asked about is of no known origin, and has no headers.
    assert Exclaim.seen == [("A", None, ())]
    assert Exclaim.events == ["init", "init"]
    driver.close()
    assert Exclaim.events == ["init", "init", "close", "close"]
    assert list(builder.build().stores) == ["homes-STATE-STORE-0000000000"]


def test_a_row_that_is_not_there_is_transformed_too_when_it_is_looked_up(
    builder: StreamsBuilder, homes: KTable[str, str], drive: Any
) -> None:
    orders = builder.stream("orders", key_serde=STRING, value_serde=STRING)
    orders.join(homes.transform_values(Exclaim), "{} {}".format).to("out")
    driver = drive()

    topic = driver.create_input_topic("orders", STRING, STRING)
    topic.pipe_input("A", "socks", 42, (("h", b"1"),))

    joined = driver.create_output_topic("out", STRING, STRING).read_record()
    assert joined == Record("A", "socks A->None!", 42, (("h", b"1"),))


def test_who_looks_into_a_kept_table_finds_what_was_kept(
    builder: StreamsBuilder, homes: KTable[str, str], drive: Any
) -> None:
    orders = builder.stream("orders", key_serde=STRING, value_serde=STRING)
    counted = homes.transform_values(Counter, name="kept", value_serde=LONG)
    orders.join(counted, "{} {}".format).to("out")
    driver = drive()
    pipe(driver, ("A", "a", 73))
    orders_in = driver.create_input_topic("orders", STRING, STRING)

    orders_in.pipe_input("A", "socks", 80)
    orders_in.pipe_input("A", "shoes", 81)

    assert read(driver) == [("A", "socks 1", 80), ("A", "shoes 1", 81)]
    assert list(builder.build().stores) == ["kept"]


def test_a_lookup_leaves_the_record_that_is_processed_as_it_was(
    builder: StreamsBuilder, homes: KTable[str, str], drive: Any
) -> None:
    orders = builder.stream("orders", key_serde=STRING, value_serde=STRING)
    joined = orders.left_join(homes.transform_values(Exclaim), lambda order, _: order)
    joined.process_values(TellsWhere).to("out")
    driver = drive()

    source = driver.create_input_topic("orders", STRING, STRING)
    source.pipe_input("A", "socks", 42, headers=(("shop", b"1"),))

    assert read(driver) == [("A", "orders 0 0 shop", 42)]


def test_a_transformer_that_is_asked_in_a_join_finds_its_store(
    builder: StreamsBuilder, homes: KTable[str, str], drive: Any
) -> None:
    builder.add_state_store(names_store())
    builder.stream("names").process_values(Names, stores=["names"])
    named = homes.transform_values(LooksUp, stores=["names"])
    orders = builder.stream("orders", key_serde=STRING, value_serde=STRING)
    orders.join(named, "{} to {}".format).to("out")
    driver = drive()
    driver.create_input_topic("names", STRING, STRING).pipe_input("tp", "Taipei")
    pipe(driver, ("A", "tp", 5))

    driver.create_input_topic("orders", STRING, STRING).pipe_input("A", "socks", 6)

    assert read(driver) == [("A", "socks to Taipei", 6)]


def test_two_transformed_tables_are_joined(
    builder: StreamsBuilder, homes: KTable[str, str], drive: Any
) -> None:
    jobs = builder.table("jobs", key_serde=STRING, value_serde=STRING)
    loud = homes.transform_values(Exclaim)
    loud.join(jobs.transform_values(Length), "{} {}".format).to_stream().to("out")
    driver = drive()

    driver.create_input_topic("jobs", STRING, STRING).pipe_input("A", "cook", 9)
    pipe(driver, ("A", "a", 5))

    assert read(driver)[-1] == ("A", "A->a! 4", 9)


def test_a_late_row_of_a_versioned_table_is_transformed_as_of_its_time(
    builder: StreamsBuilder, drive: Any
) -> None:
    builder.add_state_store(names_store())
    builder.stream("names").process_values(Names, stores=["names"])
    prices = builder.table(
        "homes", materialized=Materialized(name="homes", history_retention_ms=1000)
    )
    named = prices.transform_values(LooksUp, stores=["names"])
    orders = builder.stream("orders", key_serde=STRING, value_serde=STRING)
    orders.join(named, "{} {}".format, grace_period_ms=20).to("out")
    driver = drive()
    for short in ("old", "new"):
        driver.create_input_topic("names", STRING, STRING).pipe_input(short, short.upper())
    pipe(driver, ("A", "old", 5), ("A", "new", 15))

    orders_in = driver.create_input_topic("orders", STRING, STRING)
    orders_in.pipe_input("A", "socks", 10)
    orders_in.pipe_input("A", "shoes", 40)

    assert read(driver) == [("A", "socks OLD", 10)]


def test_a_transformer_can_not_forward(homes: KTable[str, str], drive: Any) -> None:
    homes.transform_values(Forwards, node_name="cheat").to_stream().to("out")
    driver = drive()

    with pytest.raises(TopologyError, match=r"transformer of 'cheat' forwarded.*transform returns"):
        pipe(driver, ("A", "a", 1))


@pytest.mark.parametrize("name", [None, "kept"])
def test_a_supplier_must_make_transformers(homes: KTable[str, str], name: str | None) -> None:
    with pytest.raises(TopologyError, match=r"returned None, which has no method transform"):
        homes.transform_values(lambda: None, name=name)  # type: ignore[arg-type, return-value]


def test_a_supplier_must_make_a_new_transformer_each_time(homes: KTable[str, str]) -> None:
    same = Length()

    with pytest.raises(TopologyError, match="returned the same object twice"):
        homes.transform_values(lambda: same)


def test_a_record_that_a_transformer_fails_with_is_dropped_if_the_handler_says_so(
    homes: KTable[str, str], drive: Any
) -> None:
    homes.transform_values(FailsOnB).to_stream().to("out")
    driver = drive(processing_exception_handler="continue")

    pipe(driver, ("A", "a", 1), ("B", "b", 2), ("C", "c", 3))

    assert read(driver) == [("A", "a", 1), ("C", "c", 3)]


def test_names_are_those_of_kafka_streams(builder: StreamsBuilder, homes: KTable[str, str]) -> None:
    homes.transform_values(Exclaim).transform_values(Length, node_name="mine")
    homes.transform_values(Length, name="kept", value_serde=LONG)

    names = [name for name in builder.build().nodes if "TABLE" in name or name == "mine"]
    assert names == [
        "KTABLE-SOURCE-0000000002",
        "KTABLE-TRANSFORMVALUES-0000000003",
        "mine",
        "KTABLE-TRANSFORMVALUES-0000000005",
    ]


def test_a_serde_that_is_missing_is_told_with_the_line_that_makes_the_values(
    homes: KTable[str, str], drive: Any
) -> None:
    homes.transform_values(Length).to_stream().to("out", key_serde=STRING)

    with pytest.raises(TopologyError, match=r"transform_values\(\.\.\.\) at .* makes new values"):
        drive(default_value_serde=None)


def test_results_of_windows_can_be_transformed_and_held_back(
    builder: StreamsBuilder, drive: Any
) -> None:
    windows = TimeWindows.of_size_with_no_grace(10)
    counts = builder.stream("homes").group_by_key().windowed_by(windows).count()
    final = counts.transform_values(Doubled, value_serde=LONG).suppress(
        Suppressed.until_window_closes(BufferConfig.unbounded())
    )
    final.to_stream(lambda windowed, _: windowed.key).to("out", value_serde=LONG)
    driver = drive()

    pipe(driver, ("A", "a", 1), ("A", "b", 2), ("B", "c", 10))

    assert read(driver, LONG) == [("A", 4, 2)]
