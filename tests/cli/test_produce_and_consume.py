"""`pystreams produce` and `pystreams consume`: a topology's topics, with its serdes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from pystreams.cli.commands.records.consume import consume
from pystreams.cli.commands.records.produce import produce
from pystreams.cli.commands.records.topics import topics
from pystreams.kernel.partitioner import partition_of
from tests import names
from tests.broker import reading
from tests.broker.troubles.request_proxy import PRODUCE, RequestProxy, not_leader
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

    def create_topics(self, *more: str, partitions: int = 1) -> None:
        names = [f"{self.name}-{topic}" for topic in ("orders", "totals", *more)]
        words = ["create", *names, "--partitions", str(partitions), *self.broker]
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


def test_a_batch_that_is_refused_at_first_is_written(shop: Shop) -> None:
    """As by a broker that does not lead the new topic yet: librdkafka may forget the batch."""
    shop.create_topics()
    proxy = RequestProxy(shop.servers)
    proxy.answer_next(PRODUCE, not_leader(f"{shop.name}-orders"))
    around, shop.broker = shop.broker, ("-c", f"bootstrap.servers={proxy.bootstrap_servers}")
    lines = [json.dumps({"total": total, "note": "x" * 700_000}) for total in range(3)]
    wrote = shop.produce("\n".join(lines))
    shop.broker = around
    proxy.close()

    assert wrote.exit_code == 0, wrote.output
    assert proxy.own_answers == 1
    assert [json.loads(line)["total"] for line in shop.consume().stdout.splitlines()] == [0, 1, 2]


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
    (command,) = re.findall(r"`pystreams topics (create [^`]*)`", answer.stderr)
    created = CliRunner().invoke(topics, shlex.split(command))
    assert f"Created topic {shop.name}-orders" in created.stdout, created.output


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


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_byte_order_mark_at_the_beginning_is_passed_over(
    shop: Shop, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Spreadsheets and editors of Windows write one; later ones are part of the text."""
    shop.create_topics()
    lines = (
        '{"key":"a","value":{"total":1}}\n' if options else 'a\t{"total":1}\n\ufeffb\t{"total":2}\n'
    )
    file = tmp_path / "orders.txt"
    file.write_text(lines, "utf-8-sig")

    wrote = shop.produce("", *options, "--from-file", str(file))

    assert wrote.exit_code == 0, wrote.output
    shown = shop.consume().stdout
    assert shown == ('a\t{"total":1}\n' if options else lines)


def test_a_line_that_is_no_text_is_named_and_those_before_it_are_written(shop: Shop) -> None:
    shop.create_topics()
    words = [str(shop.file), f"{shop.name}-totals", *shop.broker]
    answer = CliRunner().invoke(produce, words, input=b"a\t1\nb\xff\t2\n")

    assert answer.exit_code == 1, answer.output
    assert "line 2 of the input: it is not UTF-8 text (byte 0xff at position 2)" in answer.stderr
    assert shop.consume(topic="totals").stdout == "a\t1\n"


def test_the_topic_of_a_global_table_is_written_and_read_with_its_serdes(shop: Shop) -> None:
    table = f'builder.global_table("{shop.name}-rates", value_serde=serdes.LONG)\n'
    shop.file.write_text(CODE.format(name=shop.name) + table)
    shop.create_topics("rates")
    wrote = shop.produce("euro\t3\n", topic="rates")

    assert wrote.exit_code == 0, wrote.output
    assert shop.consume(topic="rates").stdout == "euro\t3\n"
    assert f"topics are {shop.name}-orders, {shop.name}-rates, " in shop.consume(topic="x").stderr


WINDOWS = """
windows = orders.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10_000))
written = time_windowed_serde(serdes.STRING, 10_000)
windows.count(name="counted").to_stream().to(
    "{name}-windows", key_serde=written, value_serde=serdes.LONG
)
builder.stream("{name}-read", key_serde=written, value_serde=serdes.LONG)
"""
CHOSEN = """
def by_value(topic, key, value, num_partitions):
    return {{"all": {{0, 1, 2, 3}}, "none": set(), "far": 4}}.get(value, None if key else 2)
orders.map_values(str).to("{name}-chosen", value_serde=serdes.STRING, partitioner=by_value)
"""


@pytest.mark.parametrize("topic", ["windows", "read"])
def test_windowed_keys_go_to_the_partition_of_the_key_inside(shop: Shop, topic: str) -> None:
    imports = "from pystreams import TimeWindows, time_windowed_serde\n"
    shop.file.write_text(imports + CODE.format(name=shop.name) + WINDOWS.format(name=shop.name))
    shop.create_topics(topic, partitions=4)
    keys = [f"k{number}" for number in range(20)]
    window = {"start": 0, "end": 10_000}
    lines = [json.dumps({"key": {"key": key, "window": window}, "value": 1}) for key in keys]
    wrote = shop.produce("\n".join(lines), "--json", topic=topic)

    assert wrote.exit_code == 0, wrote.output
    read = map(json.loads, shop.consume("--json", topic=topic).stdout.splitlines())
    partitions = {record["key"]["key"]: record["partition"] for record in read}
    assert partitions == {key: partition_of(key.encode(), 4) for key in keys}


def test_the_partitioner_of_a_sink_chooses_the_partitions(shop: Shop) -> None:
    shop.file.write_text(CODE.format(name=shop.name) + CHOSEN.format(name=shop.name))
    shop.create_topics("chosen", partitions=4)
    wrote = shop.produce("a\tby key\na\tnone\nb\tall\nby none\n", topic="chosen")
    far = shop.produce("c\tfar\n", topic="chosen")

    read = map(json.loads, shop.consume("--json", topic="chosen").stdout.splitlines())
    found = sorted((record["value"], record["key"], record["partition"]) for record in read)
    assert wrote.exit_code == 0, wrote.output
    assert wrote.stderr == (
        f"Wrote 3 records to {shop.name}-chosen\n"
        "Dropped 1 record, for which the sink's partitioner chose no partition\n"
    )
    everywhere = [("all", "b", number) for number in range(4)]
    assert [record for record in found if record[1] == "b"] == everywhere
    assert ("by key", "a", partition_of(b"a", 4)) in found
    assert ("by none", None, 2) in found
    assert far.exit_code == 1
    assert "line 1 of the input: the partitioner of sink 'KSTREAM-SINK-0000000004'" in far.stderr
