"""`pystreams replay`: each record is where it is in Kafka: its topic, partition and offset."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.broker.waiting import wait_until
from tests.broker.writing import writer_of
from tests.cli.test_replay import START_MS, Shop

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.broker import DevelopmentBroker

HEAD = """
from pystreams import *

config = {{"application.id": "{name}", "default.key.serde": "string",
           "default.value.serde": "string"}}
builder = StreamsBuilder()

class Where(Processor):
    def init(self, context):
        self.context = context

    def process(self, record):
        at = self.context.record_metadata()
        told = f"{{record.value}} at {{at.topic}}-{{at.partition}}@{{at.offset}}"
        self.context.forward(record.with_value(f"{{told}} {{record.timestamp}} {{record.headers}}"))

"""
WHERE = (
    HEAD
    + """
builder.stream("{name}-orders").process(Where).to("{name}-sold")
"""
)
REPARTITIONED = (
    HEAD
    + """
by_good = builder.stream("{name}-orders").select_key(lambda key, value: value)
by_good.repartition(name="by-good", num_partitions=2).process(Where).to("{name}-sold")
"""
)
OF_A_TABLE = (
    HEAD
    + """
config["topology.optimization"] = "all"
totals = builder.table("{name}-totals", name="totals")
orders = builder.stream("{name}-orders")
orders.join(totals, lambda order, total: f"{{order}} of {{total}}").to("{name}-sold")
"""
)
OF_A_GLOBAL_STORE = (
    HEAD
    + """
class Keep(Where):
    def init(self, context):
        self.context, self.store = context, context.get_state_store("kept")

    def process(self, record):
        at = self.context.record_metadata()
        self.store.put(record.key, f"{{at.partition}}@{{at.offset}}")

class Look(Where):
    def process(self, record):
        kept = self.context.get_state_store("kept").get(record.key)
        self.context.forward(record.with_value(f"{{record.value}} of {{kept}}"))

kept = Stores.in_memory_key_value_store("kept")
builder.add_global_store(
    Stores.key_value_store_builder(kept, serdes.STRING, serdes.STRING).with_logging_disabled(),
    "{name}-totals",
    Keep,
)
builder.stream("{name}-orders").process(Look).to("{name}-sold")
"""
)
READS_WHAT_IT_WRITES = (
    HEAD
    + """
builder.stream("{name}-orders").to("{name}-totals")
builder.stream("{name}-totals").process(Where).to("{name}-sold")
"""
)
FAILS = (
    HEAD
    + """
def checked(value):
    if value == "bad":
        raise ValueError("it is bad")
    return value

builder.stream("{name}-orders").map_values(checked).to("{name}-sold")
"""
)
NO_TEXT = (
    HEAD
    + """
builder.stream("{name}-orders", value_serde=serdes.LONG).to("{name}-sold")
"""
)
NO_TIME = (
    HEAD
    + """
def time_of(record, partition_time):
    if record.value == "bad":
        raise ValueError("it has no time")
    return record.timestamp

builder.stream("{name}-orders", timestamp_extractor=time_of).to("{name}-sold")
"""
)
DROPS = (
    HEAD
    + """
builder.stream("{name}-orders").group_by_key().count(name="counted")
"""
)


@pytest.fixture
def shop(broker: DevelopmentBroker, tmp_path: Path) -> Shop:
    return Shop(broker, tmp_path)


def _begin(shop: Shop, code: str, partitions: int = 2) -> None:
    shop.file.write_text(code.format(name=shop.name))
    shop.create_topics(partitions)


def _write(shop: Shop, *values: str, topic: str = "orders", key: str | None = "k") -> None:
    """Write values a second apart; of three the first two go to partition 1, the last to 0."""
    writer, name = writer_of(shop.servers, f"{shop.name}-{topic}"), f"{shop.name}-{topic}"
    later_ms = 0 if topic == "totals" else 10_000
    for number, value in enumerate(values):
        time_ms = START_MS + later_ms + 1000 * number
        own = key and f"{key}{number}"
        writer.write(name, value, own, int(number % 3 != 2), time_ms, [("h", b"1")])
    writer.flush()


def _run_until(shop: Shop, sold: int) -> list[tuple[Any, ...]]:
    with shop.application():
        wait_until(lambda: len(shop.written("sold")) >= sold, f"{sold} results")
    return shop.written("sold")


def test_a_record_of_the_input_has_the_metadata_that_it_has_in_the_live_application(
    shop: Shop,
) -> None:
    _begin(shop, WHERE)
    _write(shop, *"abcdefghi")
    live = _run_until(shop, 9)
    lines = shop.replayed("--from", str(START_MS + 14_000), "--show", "100")

    would = shop.would_write(lines, "sold")
    assert len(would) == 5
    assert would == [row for row in live if row[1] >= "e"]
    assert f"e at {shop.name}-orders-1@3 {START_MS + 14_000} (('h', b'1'),)" in would[0][1]


def test_what_comes_by_a_repartition_topic_has_offsets_of_this_replay(shop: Shop) -> None:
    _begin(shop, REPARTITIONED)
    _write(shop, *"abcdef")
    lines = shop.replayed("--from", str(START_MS + 13_000), "--show", "100")

    told = [value.split()[2] for _, value in shop.would_write(lines, "sold")]
    topic = f"{shop.name}-by-good-repartition"
    assert told == [f"{topic}-0@{offset}" for offset in range(3)]


def test_what_comes_back_from_a_topic_that_is_read_too_has_offsets_behind_its_records(
    shop: Shop,
) -> None:
    _begin(shop, READS_WHAT_IT_WRITES, partitions=1)
    shop.order(range(3))
    _run_until(shop, 3)
    shop.order(range(3, 4))
    lines = shop.replayed("--from", "0", "--show", "100")

    told = [
        re.split("[@ ]", value.split(" at ")[1]) for _, value in shop.would_write(lines, "sold")
    ]
    *read, new = sorted(int(offset) for _, offset, *_ in told)
    assert read == [0, 1, 2]
    assert new > 2


def test_a_table_restored_from_its_topic_keeps_the_rows_of_each_partition(shop: Shop) -> None:
    _begin(shop, OF_A_TABLE)
    _write(shop, "one", "two", "three", topic="totals")
    _write(shop, "a", "b", "c")
    lines = shop.replayed("--from", "0", "--show", "100")

    rows = [("k0", "a of one"), ("k1", "b of two"), ("k2", "c of three")]
    assert shop.would_write(lines, "sold") == rows


def test_records_of_a_global_store_have_their_own_partitions_too(shop: Shop) -> None:
    _begin(shop, OF_A_GLOBAL_STORE)
    _write(shop, "one", "two", "three", topic="totals")
    _write(shop, "a", "b", "c")
    lines = shop.replayed("--from", "0", "--show", "100")

    rows = [("k0", "a of 1@0"), ("k1", "b of 1@1"), ("k2", "c of 0@0")]
    assert shop.would_write(lines, "sold") == rows


@pytest.mark.parametrize("code", [FAILS, NO_TEXT, NO_TIME])
def test_an_error_names_the_record_where_it_is_in_kafka(shop: Shop, code: str) -> None:
    _begin(shop, code)
    good = "12345678"  # Eight bytes, which are a number as well.
    _write(shop, good, good, good, good, "bad")
    answer = shop.replay("--from", str(START_MS + 12_000))

    first, *_ = answer.stderr.splitlines()
    assert answer.exit_code == 1
    assert f"Error: replaying {shop.name}-orders-1, offset 3: " in first
    assert first.count(f"{shop.name}-orders-1") == 2, first
    assert f"{shop.name}-orders-0" not in answer.stderr


def test_the_log_names_a_record_that_is_dropped_where_it_is_in_kafka(shop: Shop) -> None:
    _begin(shop, DROPS)
    _write(shop, *"abcde")
    _write(shop, "nobody's", key=None)
    answer = shop.replay("--from", "0")

    (line,) = (line for line in answer.stderr.splitlines() if "dropped" in line)
    told = json.loads(line)
    assert (told["topic"], told["partition"], told["offset"]) == (f"{shop.name}-orders", 1, 4)
