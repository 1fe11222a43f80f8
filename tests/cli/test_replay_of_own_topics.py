"""`pystreams replay` of topologies that read what they write: each record counts once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from pystreams.cli.application.topology_loader import load_topology
from pystreams.cli.commands.records.consume import consume
from pystreams.cli.commands.records.replay import replay
from pystreams.cli.commands.records.topics import topics
from pystreams.runtime.application.kafka_streams import KafkaStreams
from tests import names
from tests.broker.waiting import wait_until
from tests.broker.writing import writer_of

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.broker import DevelopmentBroker

CODE = """
from pystreams import StreamsBuilder, serdes

text = {{"key_serde": serdes.STRING, "value_serde": serdes.STRING}}
config = {{"application.id": "{name}"}}
builder = StreamsBuilder()
builder.stream("{name}-orders", **text).filter(lambda _, order: order != "bad").to(
    "{name}-valid", **text
)
builder.stream("{name}-valid", **text).group_by_key().count(name="counted").to_stream().to(
    "{name}-counts", key_serde=serdes.STRING, value_serde=serdes.LONG
)
"""
# What it writes to "last" is kept by its global table, which gives each order the one before.
GLOBAL = """
from pystreams import StreamsBuilder, serdes

text = {{"key_serde": serdes.STRING, "value_serde": serdes.STRING}}
config = {{"application.id": "{name}"}}
builder = StreamsBuilder()
last = builder.global_table("{name}-last", **text, name="last")
orders = builder.stream("{name}-orders", **text)
joined = orders.left_join(last, lambda key, _: key, lambda new, had: f"{{new}} with {{had}}")
joined.to("{name}-counts", **text)
orders.to("{name}-last", **text)
"""


class Shop:
    """A topology that reads what it writes, its topics, and its live application."""

    def __init__(self, broker: DevelopmentBroker, directory: Path) -> None:
        self.name = names.unique_name("replay-own")
        self.directory = directory
        self.file = directory / "shop.py"
        self.file.write_text(CODE.format(name=self.name))
        self.servers = broker.bootstrap_servers
        self.broker = ("-c", f"bootstrap.servers={self.servers}")
        created = [f"{self.name}-{topic}" for topic in ("orders", "valid", "counts", "last")]
        assert CliRunner().invoke(topics, ["create", *created, *self.broker]).exit_code == 0

    def order(self, *orders: tuple[str, str]) -> None:
        writer = writer_of(self.servers, f"{self.name}-orders")
        for customer, order in orders:
            writer.write(f"{self.name}-orders", order, customer)
        writer.flush()

    def run_until(self, counts: int) -> list[tuple[Any, ...]]:
        """Let the live application run until it has written so many counts; return them."""
        loaded = load_topology(str(self.file))
        config = {
            **loaded.config,
            "bootstrap.servers": self.servers,
            "state.dir": str(self.directory / "state"),
            "statestore.cache.max.bytes": 0,
            "commit.interval.ms": 100,
        }
        with KafkaStreams(loaded.topology, config):
            wait_until(lambda: len(self.written()) >= counts, f"{counts} counts")
        return self.written()

    def written(self) -> list[tuple[Any, ...]]:
        words = [str(self.file), f"{self.name}-counts", "--json", *self.broker]
        records = map(json.loads, CliRunner().invoke(consume, words).stdout.splitlines())
        return [(record["key"], record["value"]) for record in records]

    def replay(self, *options: str) -> Result:
        return CliRunner().invoke(replay, [str(self.file), *options, *self.broker])

    def would_write(self, *options: str, topic: str = "counts") -> list[tuple[Any, ...]]:
        answer = self.replay("--json", "--from", "0", "--show", "100", *options)
        assert answer.exit_code == 0, answer.output
        lines = [json.loads(line) for line in answer.stdout.splitlines()]
        writes = [line["write"] for line in lines if "write" in line]
        name = f"{self.name}-{topic}"
        return [(it["key"], it["value"]) for it in writes if it["topic"] == name]


@pytest.fixture
def shop(broker: DevelopmentBroker, tmp_path: Path) -> Shop:
    return Shop(broker, tmp_path)


_ORDERS = (("a", "x"), ("a", "y"), ("b", "bad"), ("b", "z"))


def test_a_topic_that_it_writes_and_reads_is_read_once(shop: Shop) -> None:
    shop.order(*_ORDERS)
    written = shop.run_until(counts=3)
    told = shop.replay("--from", "0").stderr

    assert shop.would_write() == written == [("a", 1), ("a", 2), ("b", 1)]
    assert shop.would_write(topic="valid") == [("a", "x"), ("a", "y"), ("b", "z")]
    assert f"Note: {shop.name}-valid, which the topology writes too, is read as it is" in told


def test_what_is_not_in_such_a_topic_yet_comes_back_from_the_replay(shop: Shop) -> None:
    shop.order(*_ORDERS)
    before_it_ran = shop.would_write()
    written = shop.run_until(counts=3)
    shop.order(("a", "more"))
    would_write = shop.would_write()

    assert before_it_ran == written
    assert would_write == [*written, ("a", 3)] == shop.run_until(counts=4)


def test_without_such_a_topic_among_those_named_only_the_replay_feeds_it(shop: Shop) -> None:
    shop.order(*_ORDERS)
    written = shop.run_until(counts=3)
    orders = ("--topic", f"{shop.name}-orders")
    told = shop.replay("--from", "0", *orders).stderr

    assert shop.would_write(*orders) == written
    assert f"Note: {shop.name}-valid is not among --topic" in told
    assert shop.would_write("--topic", f"{shop.name}-valid") == written


def test_the_offsets_of_a_group_that_is_gone_are_not_needed(shop: Shop) -> None:
    shop.order(*_ORDERS)
    written = shop.run_until(counts=3)

    assert shop.would_write("-c", f"application.id={shop.name}-other") == written


def test_a_global_table_keeps_what_its_topic_has_last(shop: Shop) -> None:
    shop.file.write_text(GLOBAL.format(name=shop.name))
    shop.order(("a", "x"), ("a", "y"))
    shop.run_until(counts=2)

    # It is filled first, with all that its topic has: what the replay would write is older.
    assert shop.would_write() == [("a", "x with y"), ("a", "y with y")]
