"""`pystreams replay`: what a topology makes of a slice, beside what the live application made."""

from __future__ import annotations

import json
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient

from pystreams.cli.application.topology_loader import load_topology
from pystreams.cli.commands.records.consume import consume
from pystreams.cli.commands.records.replay import replay
from pystreams.cli.commands.records.topics import topics
from pystreams.runtime.application.kafka_streams import KafkaStreams
from tests import names
from tests.broker.reading import answer_of, topics_of
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.broker.writing import writer_of

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.broker import DevelopmentBroker

CODE = """
from pystreams import StreamsBuilder, serdes

config = {{"application.id": "{name}", "default.key.serde": "string"}}
builder = StreamsBuilder()
orders = builder.stream("{name}-orders", value_serde=serdes.JSON)
orders.map_values(lambda order: order["total"]).to("{name}-totals", value_serde=serdes.LONG)
goods = orders.group_by(lambda _, order: order["of"]).count(name="sold")
goods.to_stream().to("{name}-sold", value_serde=serdes.LONG)
"""
# Its store is filled from the input itself, and so tells how much of that it covers.
WITHOUT_REPARTITION = """
from pystreams import StreamsBuilder, serdes

config = {{"application.id": "{name}", "default.key.serde": "string"}}
builder = StreamsBuilder()
orders = builder.stream("{name}-orders", value_serde=serdes.JSON)
orders.group_by_key().count(name="of-customers").to_stream().to(
    "{name}-sold", value_serde=serdes.LONG
)
"""
# Its stores are of one task: what comes to one of them comes to "kept", only some to "small".
SEVERAL_STORES = """
from pystreams import StreamsBuilder, serdes

config = {{"application.id": "{name}", "default.key.serde": "string"}}
builder = StreamsBuilder()
orders = builder.stream("{name}-orders", value_serde=serdes.JSON)
by_customer = orders.group_by_key()
by_customer.count(name="of-customers").to_stream().to("{name}-sold", value_serde=serdes.LONG)
by_customer.aggregate(int, lambda _, __, n: n + 1, name="kept", value_serde=serdes.LONG)
small = orders.filter(lambda _, order: order["total"] < 10).group_by_key()
small.count(name="small")
"""
# It sends each session once, when it is over.
FINAL = """
from pystreams import EmitStrategy, SessionWindows, StreamsBuilder, serdes

config = {{"application.id": "{name}", "default.key.serde": "string"}}
builder = StreamsBuilder()
orders = builder.stream("{name}-orders", value_serde=serdes.JSON)
sessions = orders.group_by_key().windowed_by(
    SessionWindows.of_inactivity_gap_and_grace(3_000, 1_000)
)
counted = sessions.emit_strategy(EmitStrategy.on_window_close()).count(name="sessions")
counted.to_stream(lambda key, _: f"{{key.key}} at {{key.window.start}}").to(
    "{name}-sold", value_serde=serdes.LONG
)
"""
START_MS = 1_700_000_000_000


class Shop:
    """A topology, its topics, and its live application."""

    def __init__(self, broker: DevelopmentBroker, directory: Path) -> None:
        self.name = names.unique_name("replay")
        self.directory = directory
        self.file = directory / "shop.py"
        self.file.write_text(CODE.format(name=self.name))
        self.servers = broker.bootstrap_servers
        self.broker = ("-c", f"bootstrap.servers={self.servers}")

    def create_topics(self, partitions: int = 2) -> None:
        names = [f"{self.name}-{topic}" for topic in ("orders", "totals", "sold")]
        words = ["create", *names, "--partitions", str(partitions), *self.broker]
        assert CliRunner().invoke(topics, words).exit_code == 0

    def order(self, numbers: range) -> None:
        """Write an order a number, a second apart: of 5 customers, for 3 goods."""
        writer = writer_of(self.servers, f"{self.name}-orders")
        for number in numbers:
            order = json.dumps({"total": number, "of": f"good {number % 3}"})
            time_ms = START_MS + 1000 * number
            writer.write(f"{self.name}-orders", order, f"c{number % 5}", timestamp=time_ms)
        writer.flush()

    def application(self) -> KafkaStreams:
        loaded = load_topology(str(self.file))
        config = {
            **loaded.config,
            "bootstrap.servers": self.servers,
            "state.dir": str(self.directory / "state"),
            "statestore.cache.max.bytes": 0,
            "window.emit.interval.ms": 0,
            "commit.interval.ms": 100,
        }
        return KafkaStreams(loaded.topology, config)

    def run_until(self, totals: int, sold: int) -> None:
        """Let the live application run until it has written so many records."""
        with self.application():
            wait_until(lambda: len(self.written("totals")) >= totals, f"{totals} totals")
            wait_until(lambda: len(self.written("sold")) >= sold, f"{sold} counts")

    def written(self, topic: str) -> list[tuple[Any, ...]]:
        words = [str(self.file), f"{self.name}-{topic}", "--json", *self.broker]
        lines = CliRunner().invoke(consume, words).stdout.splitlines()
        records = map(json.loads, lines)
        return sorted((record["key"], record["value"]) for record in records)

    def replay(self, *options: str) -> Result:
        return CliRunner().invoke(replay, [str(self.file), *options, *self.broker])

    def replayed(self, *options: str) -> list[dict[str, Any]]:
        answer = self.replay("--json", *options)
        assert answer.exit_code == 0, answer.output
        return [json.loads(line) for line in answer.stdout.splitlines()]

    def would_write(self, lines: list[dict[str, Any]], topic: str) -> list[tuple[Any, ...]]:
        writes = (line["write"] for line in lines if "write" in line)
        name = f"{self.name}-{topic}"
        return sorted((it["key"], it["value"]) for it in writes if it["topic"] == name)


@pytest.fixture
def shop(broker: DevelopmentBroker, tmp_path: Path) -> Shop:
    return Shop(broker, tmp_path)


def test_it_would_write_what_the_live_application_has_written(shop: Shop) -> None:
    shop.create_topics()
    shop.order(range(30))
    shop.run_until(totals=30, sold=30)
    lines = shop.replayed("--from", "0", "--show", "1000")

    for topic in ("totals", "sold"):
        assert shop.would_write(lines, topic) == shop.written(topic)
    assert lines[0]["slice"]["state"] == "empty"
    written = {topic.removeprefix(f"{shop.name}-"): n for topic, n in _written(lines).items()}
    assert written == {"totals": 30, "sold": 30, "sold-repartition": 30}


def test_over_the_state_that_was_there_it_goes_on_as_the_live_application_did(shop: Shop) -> None:
    shop.create_topics()
    shop.order(range(30))
    shop.run_until(totals=30, sold=30)
    before = shop.written("sold")
    state = str(shop.directory / "state")
    shop.order(range(30, 45))
    options = ("--state", state, "--from", str(START_MS + 30_000))
    answer = shop.replay(*options)
    lines = shop.replayed(*options, "--show", "1000")
    unsaid = shop.replay("--state", state)
    shop.run_until(totals=45, sold=45)

    assert sorted(before + shop.would_write(lines, "sold")) == shop.written("sold")
    assert f"State at the beginning: the stores in {state}: sold (3)" in answer.stdout
    assert _summary(lines)["records"] == 15
    assert unsaid.exit_code == 2
    assert f"does not tell up to where it covers {shop.name}-orders" in unsaid.stderr


def test_the_slice_begins_where_a_state_ends_that_tells_its_input(shop: Shop) -> None:
    shop.file.write_text(WITHOUT_REPARTITION.format(name=shop.name))
    shop.create_topics()
    shop.order(range(10))
    shop.run_until(totals=0, sold=10)
    before = shop.written("sold")
    shop.order(range(10, 15))
    state = ("--state", str(shop.directory / "state"))
    lines = shop.replayed(*state, "--show", "100")
    twice = shop.replay(*state, "--from", "0")
    shop.run_until(totals=0, sold=15)

    assert _summary(lines)["records"] == 5
    assert sorted(before + shop.would_write(lines, "sold")) == shop.written("sold")
    assert "are in the state already and count twice" in twice.stderr


def test_final_results_that_were_sent_before_the_slice_are_not_told_again(shop: Shop) -> None:
    shop.file.write_text(FINAL.format(name=shop.name))
    shop.create_topics(partitions=1)
    shop.order(range(20))
    shop.run_until(totals=0, sold=12)
    before = shop.written("sold")
    shop.order(range(20, 30))
    lines = shop.replayed("--state", str(shop.directory / "state"), "--show", "100")
    told = shop.would_write(lines, "sold")
    shop.run_until(totals=0, sold=22)

    assert len(told) < 15
    assert set(shop.written("sold")) <= {*before, *told}
    assert not set(before) & set(told)


def test_of_stores_flushed_at_different_moments_the_slice_begins_at_the_oldest(shop: Shop) -> None:
    shop.file.write_text(SEVERAL_STORES.format(name=shop.name))
    shop.create_topics()
    shop.order(range(10))
    shop.run_until(totals=0, sold=10)
    before = shop.written("sold")
    stores = sorted((shop.directory / "state" / shop.name).glob("*/rocksdb/of-customers"))
    for number, store in enumerate(stores):
        shutil.copytree(store, shop.directory / f"flushed-{number}")
    shop.order(range(10, 20))
    shop.run_until(totals=0, sold=20)
    # As after a kill: this store's last flush was before those of the others.
    for number, store in enumerate(stores):
        shutil.rmtree(store)
        shutil.copytree(shop.directory / f"flushed-{number}", store)
    shop.order(range(20, 25))
    state = ("--state", str(shop.directory / "state"))
    lines, told = shop.replayed(*state, "--show", "100"), shop.replay(*state).stderr
    late = shop.replay(*state, "--from", str(START_MS + 22_000)).stderr
    shop.run_until(totals=0, sold=25)

    assert _summary(lines)["records"] == 15
    assert sorted(before + shop.would_write(lines, "sold")) == shop.written("sold")
    assert _offsets_of(told, "are in store kept already and count twice there") == 10
    assert _offsets_of(late, "are missing in store of-customers") == 12
    assert _offsets_of(late, "are missing in stores kept, small") == 2
    assert len(told.splitlines()) == 2


def test_a_store_to_which_nothing_came_lately_is_as_far_as_the_others(shop: Shop) -> None:
    shop.file.write_text(SEVERAL_STORES.format(name=shop.name))
    shop.create_topics()
    for orders in (range(10), range(10, 20)):
        shop.order(orders)
        shop.run_until(totals=0, sold=orders.stop)
    shop.order(range(20, 25))
    answer = shop.replay("--state", str(shop.directory / "state"))

    assert answer.exit_code == 0, answer.output
    assert "\n5 records replayed" in answer.stdout
    assert answer.stderr == ""


def _restored(shop: Shop) -> Path:
    """Return the state of an application that was killed, has restored it, and found no input."""
    shop.file.write_text(SEVERAL_STORES.format(name=shop.name))
    shop.create_topics()
    state, flushed = shop.directory / "state", shop.directory / "flushed"
    shop.order(range(10))
    shop.run_until(totals=0, sold=10)
    shutil.copytree(state, flushed)
    shop.order(range(10, 20))
    shop.run_until(totals=0, sold=20)
    shutil.rmtree(state)
    shutil.copytree(flushed, state)
    with shop.application() as streams:
        wait_until(lambda: streams.state.name == "RUNNING", "the restored application")
    return state


def test_stores_that_were_restored_before_the_application_stopped_are_as_far_as_it_was(
    shop: Shop,
) -> None:
    state = _restored(shop)
    shop.order(range(20, 25))
    answer = shop.replay("--state", str(state))

    assert "\n5 records replayed" in answer.stdout, answer.output
    assert answer.stderr == ""


def test_a_store_that_was_restored_and_went_on_elsewhere_is_named_as_well(
    shop: Shop,
) -> None:
    """Such a store says how far it was when it wrote last: what it was restored from is twice."""
    state, left = _restored(shop), shop.directory / "left"
    state.rename(left)
    shop.order(range(20, 25))
    shop.run_until(totals=0, sold=25)
    answer = shop.replay("--state", str(left), "--from", "0")

    assert "nothing tells which input is in stores kept, of-customers" in answer.stderr


def test_a_store_behind_a_repartition_topic_is_named_as_one_of_which_nothing_is_known(
    shop: Shop,
) -> None:
    direct = 'orders.group_by_key().count(name="of-customers")\n'
    shop.file.write_text(CODE.format(name=shop.name) + direct)
    shop.create_topics()
    shop.order(range(10))
    shop.run_until(totals=10, sold=10)
    shop.order(range(10, 15))
    answer = shop.replay("--state", str(shop.directory / "state"))

    assert "\n5 records replayed" in answer.stdout
    assert answer.stderr == (
        "Note: nothing tells which input is in store sold: it came by way of a repartition topic, "
        "of a backfill, or of a restore\n"
    )


def test_over_an_export_the_slice_begins_where_its_input_ends(shop: Shop) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    shop.file.write_text(WITHOUT_REPARTITION.format(name=shop.name))
    shop.create_topics(partitions=1)
    shop.order(range(10))
    export, input_topic = shop.directory / "exported", f"{shop.name}-orders"
    (export / "of-customers").mkdir(parents=True)
    customers = [f"c{number}" for number in range(5)]
    times = pa.array([START_MS * 1000] * 5, pa.timestamp("us", "UTC"))
    columns = {"partition": [0] * 5, "key": customers, "value": [2] * 5, "timestamp": times}
    parquet.write_table(pa.table(columns), export / "of-customers" / "part.parquet")
    covered = {"source_offsets": {f"{input_topic}-0": 10}, "exact": True}
    manifest = {"application_id": shop.name, "tasks": {"0_0": covered}}
    (export / "manifest.json").write_text(json.dumps(manifest))
    shop.order(range(10, 15))
    state = ("--state", str(export))
    answer, lines = shop.replay(*state), shop.replayed(*state, "--show", "100")

    assert answer.exit_code == 0, answer.output
    told = answer.stdout.splitlines()
    assert told[0] == f"State at the beginning: the export {export}: of-customers (5)"
    assert told[1] == f"Input: {input_topic}-0 [10, 15)"
    assert "5 records replayed, 5 followed" in told
    assert answer.stderr == ""
    assert lines[0]["slice"]["offsets"] == {f"{input_topic}-0": [10, 15]}
    assert shop.would_write(lines, "sold") == [(customer, 3) for customer in customers]


def test_of_the_last_hour_it_tells_what_would_be_written_to_each_topic(shop: Shop) -> None:
    shop.create_topics(partitions=1)
    topic, now_ms = f"{shop.name}-orders", int(time.time() * 1000)
    writer = writer_of(shop.servers, topic)
    for number, age_ms in enumerate((2 * 3_600_000, 60_000, 0)):
        order = json.dumps({"total": number, "of": "tea"})
        writer.write(topic, order, "c1", timestamp=now_ms - age_ms)
    writer.flush()
    answer = shop.replay("--last", "1h", "--show", "1")

    assert answer.exit_code == 0, answer.output
    told = answer.stdout.splitlines()
    assert told[:2] == ["State at the beginning: empty", f"Input: {topic}-0 [1, 3)"]
    shown = [re.sub(r"  \d{4}-\d\d-\d\dT[\d:.]+Z", "", line) for line in told]
    # A first result of each topic, and below how many there are.
    assert f"{shop.name}-totals  c1  1" in shown
    assert f"{shop.name}-sold  tea  1" in shown
    assert "2 records replayed, 2 followed" in told
    counts = [line.split() for line in told]
    for written in ("totals", "sold", "sold-repartition"):
        assert [f"{shop.name}-{written}", "2"] in counts


def test_a_key_is_followed_through_every_node_store_and_topic(shop: Shop) -> None:
    shop.create_topics()
    shop.order(range(10))
    lines = shop.replayed("--from", "0", "--key", "c1")

    records = [line["record"] for line in lines if "record" in line]
    assert [(record["key"], record["value"]["total"]) for record in records] == [
        ("c1", 1),
        ("c1", 6),
    ]
    assert records[0]["timestamp"] == START_MS + 1000
    changes = [line["change"] for line in lines if "change" in line]
    # All orders are counted: good 1 has one of another customer before this one's, good 0 two.
    assert [(it["store"], it["key"], it["old"], it["new"]) for it in changes] == [
        ("sold", "good 1", None, 1),
        ("sold", "good 0", 2, 3),
    ]
    hops = [line["hop"] for line in lines if "hop" in line]
    assert {hop["key"] for hop in hops} == {"c1", "good 0", "good 1"}
    assert shop.would_write(lines, "totals") == [("c1", 1), ("c1", 6)]
    assert shop.would_write(lines, "sold") == [("good 0", 3), ("good 1", 1)]
    assert _summary(lines) | {"written": {}} == {"records": 10, "followed": 2, "written": {}}


def test_a_key_of_a_store_is_followed_from_the_repartition_topic_on(shop: Shop) -> None:
    shop.create_topics()
    shop.order(range(10))
    lines = shop.replayed("--from", "0", "--key", "good 1")

    changes = [line["change"] for line in lines if "change" in line]
    assert [(it["store"], it["key"], it["new"]) for it in changes] == [
        ("sold", "good 1", count) for count in (1, 2, 3)
    ]
    totals = [line["record"]["value"]["total"] for line in lines if "record" in line]
    assert totals == [1, 4, 7]
    assert {line["hop"]["key"] for line in lines if "hop" in line} == {"good 1"}
    assert shop.would_write(lines, "totals") == []
    assert shop.would_write(lines, "sold") == [("good 1", count) for count in (1, 2, 3)]
    assert _summary(lines) | {"written": {}} == {"records": 10, "followed": 3, "written": {}}


def test_json_tells_all_headers_of_a_record_in_their_order(shop: Shop) -> None:
    shop.create_topics()
    topic, headers = f"{shop.name}-orders", [("h", b"1"), ("h", b"2"), ("raw", b"\xff")]
    writer = writer_of(shop.servers, topic)
    writer.write(topic, '{"total": 1, "of": "tea"}', "c1", headers=headers)
    writer.flush()
    lines = shop.replayed("--from", "0", "--key", "c1")

    writes = [line["write"] for line in lines if "write" in line]
    (total,) = (write for write in writes if write["topic"] == f"{shop.name}-totals")
    assert total["headers"] == [["h", "1"], ["h", "2"], ["raw", {"base64": "/w=="}]]


def test_text_shows_a_line_a_hop_below_the_record_it_comes_of(shop: Shop) -> None:
    shop.create_topics()
    shop.order(range(2))
    answer = shop.replay("--from", "2023-11-14T22:13:20Z", "--key", "c1")

    assert answer.exit_code == 0, answer.output
    assert "  2023-11-14T22:13:21.000Z  c1  " in answer.stdout
    assert "      KSTREAM-SINK-0000000002  c1  1\n" in answer.stdout
    assert "  store sold  good 1: null -> 1\n" in answer.stdout
    assert f"  topic {shop.name}-totals  c1  1\n" in answer.stdout
    assert "2 records replayed, 1 followed" in answer.stdout


def test_the_slice_begins_and_ends_by_the_time_of_records(shop: Shop) -> None:
    shop.create_topics()
    shop.order(range(10))
    bounds = ("--from", "2023-11-14T22:13:22Z", "--to", str(START_MS + 5000))
    lines = shop.replayed(*bounds, "--show", "100")

    totals = [value for _, value in shop.would_write(lines, "totals")]
    assert sorted(totals) == [2, 3, 4]


def test_nothing_is_written_and_no_group_is_joined(shop: Shop) -> None:
    shop.create_topics()
    shop.order(range(3))
    shop.replayed("--from", "0")

    admin = AdminClient({"bootstrap.servers": shop.servers})
    groups = answer_of(lambda: admin.list_consumer_groups().result(DEADLINE_S).valid) or []
    assert shop.written("totals") == shop.written("sold") == []
    assert [group.group_id for group in groups if shop.name in group.group_id] == []
    assert not [name for name in topics_of(admin) if f"{shop.name}-sold-" in name]


def test_what_can_t_be_replayed_is_told_with_what_to_do(shop: Shop) -> None:
    missing = shop.replay("--from", "0")
    shop.create_topics()
    empty = shop.replay("--from", "0")
    shop.order(range(3))
    unknown = shop.replay("--from", "0", "--topic", "other")
    nobody = shop.replay("--from", "0", "--key", "nobody")

    assert (missing.exit_code, empty.exit_code, nobody.exit_code) == (1, 1, 1)
    assert unknown.exit_code == 2
    assert f"topic '{shop.name}-orders', which the topology reads, does not" in missing.stderr
    assert "there are no records in this slice" in empty.stderr
    assert f"does not read topic 'other'; it reads {shop.name}-orders" in unknown.stderr
    assert "none of the 3 records of the slice has key 'nobody'" in nobody.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "where does the slice begin? Say --from TIME or --last SPAN"),
        (("--from", "yesterday"), "--from yesterday: write a time such as 2025-01-31T12:00:00"),
        (("--last", "1w"), "--last 1w: write a span such as 90s, 15m, 1h or 2d"),
        (("--last", "99999999999d"), "--last 99999999999d is before 1970: no record has such"),
        (("--from", "99999999999d"), "--from 99999999999d is before 1970: no record has such"),
        (("--from", "0001-01-01"), "--from 0001-01-01 is before 1970: no record has such"),
        (("--from", "9" * 20), "is too far ahead: no record has such a time"),
        (("--from", "2h", "--to", "19700102"), "--to 19700102 is not after --from 2h"),
        (("--last", "1h", "--from", "0"), "--last says where the slice begins and ends"),
        (("--from", "2h", "--to", "3h"), "--to 3h is not after --from 2h"),
        (("--last", "1h", "--state", "nowhere"), "--state nowhere: there is no such directory"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    file = tmp_path / "shop.py"
    file.write_text(CODE.format(name="shop"))
    words = [str(file), *options, "-c", "bootstrap.servers=localhost:1"]
    answer = CliRunner().invoke(replay, words)

    assert answer.exit_code == 2
    assert told in answer.stderr


def _offsets_of(notes: str, what: str) -> int:
    """Return how many offsets the notes that end so are about, over the partitions."""
    found = re.findall(rf"offsets \[(\d+), (\d+)\): {re.escape(what)}$", notes, re.MULTILINE)
    return sum(int(end) - int(first) for first, end in found)


def _summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    summary: dict[str, Any] = lines[-1]["summary"]
    return summary


def _written(lines: list[dict[str, Any]]) -> dict[str, int]:
    written: dict[str, int] = _summary(lines)["written"]
    return written
