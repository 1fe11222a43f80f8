"""`pystreams produce` and `pystreams consume`: a topology's topics, with its serdes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from pystreams.cli.commands.records.consume import consume
from pystreams.cli.commands.records.produce import produce
from pystreams.cli.commands.records.topics import topics
from tests import names
from tests.broker import reading
from tests.broker.writing import writer_of

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

CODE = """
from pystreams import StreamsBuilder, serdes

config = {{"application.id": "{name}", "default.key.serde": "string"}}
builder = StreamsBuilder()
orders = builder.stream("{name}-orders", value_serde=serdes.JSON)
orders.map_values(lambda order: order["total"]).to("{name}-totals", value_serde=serdes.LONG)
"""


class Shop:
    """A topology and its topics."""

    def __init__(self, broker: DevelopmentBroker, directory: Path) -> None:
        self.name = names.unique_name("shop")
        self.file = directory / "shop.py"
        self.file.write_text(CODE.format(name=self.name))
        self.servers = broker.bootstrap_servers
        self.broker = ("-c", f"bootstrap.servers={self.servers}")

    def create_topics(self) -> None:
        names = [f"{self.name}-orders", f"{self.name}-totals"]
        words = ["create", *names, "--partitions", "1", *self.broker]
        assert CliRunner().invoke(topics, words).exit_code == 0

    def produce(self, lines: str, *options: str, topic: str = "orders") -> Result:
        words = [str(self.file), f"{self.name}-{topic}", *options, *self.broker]
        return CliRunner().invoke(produce, words, input=lines)

    def consume(self, *options: str, topic: str = "orders") -> Result:
        words = [str(self.file), f"{self.name}-{topic}", *options, *self.broker]
        return CliRunner().invoke(consume, words)


@pytest.fixture
def shop(broker: DevelopmentBroker, tmp_path: Path) -> Shop:
    return Shop(broker, tmp_path)


def test_lines_that_are_produced_are_consumed_as_they_were(shop: Shop) -> None:
    shop.create_topics()
    lines = 'alice\t{"total":3}\n\nbob\t{"total":4}\n{"total":5}\n'
    wrote = shop.produce(lines)
    read = shop.consume()

    assert (wrote.exit_code, wrote.stdout) == (0, ""), wrote.output
    assert wrote.stderr == f"Wrote 3 records to {shop.name}-orders\n"
    assert read.exit_code == 0, read.output
    assert read.stdout == lines.replace("\n\n", "\n")


def test_numbers_are_written_and_read_by_the_serde_of_the_sink(shop: Shop) -> None:
    shop.create_topics()
    assert shop.produce("alice\t3\n", topic="totals").exit_code == 0

    assert shop.consume(topic="totals").stdout == "alice\t3\n"


def test_json_carries_whole_records_there_and_back(shop: Shop, tmp_path: Path) -> None:
    shop.create_topics()
    records: list[dict[str, Any]] = [
        {"timestamp": 7, "key": "a", "value": {"total": 1}, "headers": [["h", "x"]]},
        {"timestamp": 8, "key": "a", "value": None},
        {"timestamp": 9, "key": None, "value": {"total": 2}},
    ]
    (tmp_path / "records").write_text("".join(json.dumps(record) + "\n" for record in records))
    wrote = shop.produce("", "--json", "--from-file", str(tmp_path / "records"))
    read = shop.consume("--json")

    assert wrote.exit_code == 0, wrote.output
    told = [json.loads(line) for line in read.stdout.splitlines()]
    assert told == [
        {"partition": 0, "offset": offset, **record} for offset, record in enumerate(records)
    ]
    assert shop.consume().stdout == 'a\t{"total":1}\na\tnull\n{"total":2}\n'
    assert shop.produce(read.stdout, "--json").exit_code == 0


def test_a_line_that_does_not_fit_is_named_and_those_before_it_are_written(shop: Shop) -> None:
    shop.create_topics()
    answer = shop.produce('a\t{"total":1}\nb\tnothing\n')

    assert answer.exit_code == 1
    assert "line 2 of the input: 'nothing' does not fit serdes.JSON" in answer.stderr
    assert shop.consume().stdout == 'a\t{"total":1}\n'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"ky": "a", "value": {}}', "'ky' is no field of a record: there are key, value,"),
        ('{"value": {}, "headers": ["h"]}', '"headers" are pairs'),
        ('{"value": {}, "timestamp": null}', '"timestamp" is a whole number'),
        ('{"value": {}, "timestamp": "noon"}', '"timestamp" is a whole number'),
    ],
)
def test_a_record_in_json_of_another_form_is_refused(shop: Shop, line: str, why: str) -> None:
    shop.create_topics()
    answer = shop.produce(line + "\n", "--json")

    assert answer.exit_code == 1
    assert f"line 1 of the input: {why}" in answer.stderr
    assert shop.consume().stdout == ""


def test_a_record_that_can_t_be_read_is_told_and_the_others_are_shown(shop: Shop) -> None:
    shop.create_topics()
    reading.produce(shop.servers, f"{shop.name}-totals", [(b"a", b"three")])
    shop.produce("b\t4\n", topic="totals")
    answer = shop.consume(topic="totals")

    assert answer.exit_code == 1
    assert answer.stdout == "b\t4\n"
    assert "partition 0, offset 0: can't be read by serdes.LONG: " in answer.stderr


def test_the_limit_ends_it(shop: Shop) -> None:
    shop.create_topics()
    shop.produce("".join(f'{number}\t{{"total":{number}}}\n' for number in range(9)))

    assert len(shop.consume("--limit", "4").stdout.splitlines()) == 4
    assert len(shop.consume("--limit", "4", "--follow").stdout.splitlines()) == 4


def test_an_unknown_topic_is_answered_with_those_of_the_topology(shop: Shop) -> None:
    for answer in (shop.consume(topic="order"), shop.produce("", topic="order")):
        assert answer.exit_code == 2
        assert f"its topics are {shop.name}-orders, {shop.name}-totals" in answer.stderr


def test_a_topic_that_does_not_exist_is_told_with_the_command_that_creates_it(shop: Shop) -> None:
    answer = shop.consume()

    assert answer.exit_code == 1
    assert f"`pystreams topics create {shop.name}-orders`" in answer.stderr


def test_consume_reads_with_the_headers_of_records(shop: Shop) -> None:
    shop.file.write_text(
        f"""
from pystreams import StreamsBuilder, serdes

class Tagged:
    def serializer(self, topic):
        return str.encode

    def deserializer(self, topic):
        return bytes.decode

    def headers_serializer(self, topic):
        return None

    def headers_deserializer(self, topic):
        return lambda data, headers: data.decode() + dict(headers)["language"].decode()

config = {{"application.id": "{shop.name}", "default.key.serde": "string"}}
builder = StreamsBuilder()
orders = builder.stream("{shop.name}-orders", value_serde=Tagged())
orders.to("{shop.name}-totals")
"""
    )
    shop.create_topics()
    writer = writer_of(shop.servers, f"{shop.name}-orders")
    writer.write(f"{shop.name}-orders", b"tea-", headers=[("language", b"en")])
    writer.flush()

    assert shop.consume().output == "tea-en\n"
