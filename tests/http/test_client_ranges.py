"""Ranges that the Python client and `pystreams query` give: whole, or with what is missing told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from pystreams import Processor, Stores, StreamsBuilder, TimeWindows, Topology
from pystreams.broker import DevelopmentBroker
from pystreams.cli.main import pystreams
from pystreams.client import Client, HttpQueryError
from pystreams.serdes import JSON, LONG, STRING
from tests.broker.waiting import wait_until
from tests.http.conftest import Served, Topics, served

LARGEST_LIMIT = 10_000
COUNT = 2 * LARGEST_LIMIT + 500
FEW = 150
PARTITIONS = 2


class Keeping(Processor[str, str, None, None]):
    """Puts each record into a store by its number, and by its name as JSON."""

    def init(self, context: Any) -> None:
        self._numbers = context.get_state_store("numbers")
        self._names = context.get_state_store("names")

    def process(self, record: Any) -> None:
        number = int(record.key.removeprefix("key-"))
        self._numbers.put(number, None if record.value == "gone" else "x")
        # As texts these are read as numbers, unless they are quoted.
        self._names.put(str(number), "x")


def many(topic: str) -> Topology:
    builder = StreamsBuilder()
    numbers = Stores.in_memory_key_value_store("numbers")
    names = Stores.in_memory_key_value_store("names")
    builder.add_state_store(Stores.key_value_store_builder(numbers, LONG, STRING))
    builder.add_state_store(Stores.key_value_store_builder(names, JSON, STRING))
    stream = builder.stream(topic, key_serde=STRING, value_serde=STRING)
    stream.process(Keeping, stores=["numbers", "names"])
    stream.filter(lambda key, _: key < "key-00150").group_by_key().count(name="few")
    grouped = stream.group_by_key()
    grouped.count(name="counts")
    windows = grouped.windowed_by(TimeWindows.of_size_with_no_grace(1000))
    windows.count(name="windows")
    return builder.build()


@pytest.fixture(scope="module")
def full(
    broker: DevelopmentBroker, topics: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """An application of which one partition has more than two of the largest answers."""
    topic = topics.make("many", PARTITIONS)
    topics.write_to(topic, 0, [(f"key-{number:05}", "x", 0) for number in range(COUNT)])
    directory = tmp_path_factory.mktemp("state")
    with served(broker, many(topic), directory, commit_interval_ms=1000) as application:
        application.streams.start()
        committed = {"isolation": "read_committed", "partition": 0}
        last = f"/v1/stores/counts/key-{COUNT - 1:05}"
        application.wait_for_value(last, "value", 1, **committed)
        yield Served(application.streams, application.url, (topic,))


def test_a_range_without_a_limit_gives_all(full: Served) -> None:
    keys = [entry["key"] for entry in Client(full.url).range("counts")]

    assert keys == [f"key-{number:05}" for number in range(COUNT)]
    some = Client(full.url).range("counts", **{"from": "key-00200", "to": "key-11000"})
    assert [entry["key"] for entry in some] == keys[200:11001]
    assert len(list(Client(full.url).range("few"))) == FEW


def test_a_range_that_descends_gives_all(full: Served) -> None:
    entries = Client(full.url).range("counts", order="descending")

    assert [entry["key"] for entry in entries] == [
        f"key-{number:05}" for number in reversed(range(COUNT))
    ]


@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize(("store", "kind"), [("numbers", int), ("names", str)])
def test_keys_that_are_no_plain_text_are_gone_on_from(
    full: Served, store: str, kind: type, order: str
) -> None:
    keys = [entry["key"] for entry in Client(full.url).range(store, order=order)]

    assert len(keys) == COUNT
    assert set(keys) == {kind(number) for number in range(COUNT)}


def test_a_range_goes_on_where_the_last_key_of_a_page_is_gone(full: Served, topics: Topics) -> None:
    (topic,) = full.topics
    gone = 2 * (LARGEST_LIMIT - 1)
    entries = Client(full.url).range("numbers")
    keys = [next(entries)["key"]]  # The next page was asked for, not the one behind it.
    try:
        topics.write_to(topic, 0, [(f"key-{gone}", "gone", 0)])
        path = f"/v1/stores/numbers/{gone}"
        wait_until(lambda: full.ask(path, partition=0).status == 404, "a key is gone")
        keys.extend(entry["key"] for entry in entries)
    finally:
        topics.write_to(topic, 0, [(f"key-{gone}", "x", 0)])
        full.wait_for_value(path, "value", "x", partition=0)

    assert keys == list(range(COUNT))


def test_a_limit_is_kept(full: Served) -> None:
    assert len(list(Client(full.url).range("counts", limit=120))) == 120


def test_what_a_store_that_can_not_go_on_leaves_out_is_told_behind_the_rest(full: Served) -> None:
    given: list[Any] = []
    with pytest.raises(HttpQueryError, match="has more than was given in partitions 0: ") as told:
        given.extend(Client(full.url).range("windows"))

    assert len(given) == LARGEST_LIMIT
    assert (told.value.status, told.value.answer) == (0, {"partitions": [0]})
    pages = list(Client(full.url).range_pages("windows"))
    assert [(page["partition"], page["more"]) for page in pages] == [(0, True), (1, False)]


def test_the_command_prints_all(full: Served) -> None:
    answer = CliRunner().invoke(pystreams, ["query", full.url, "counts"])

    assert (answer.exit_code, answer.stderr) == (0, "")
    assert len({json.loads(line)["key"] for line in answer.stdout.splitlines()}) == COUNT


def test_the_command_says_that_its_limit_has_cut(full: Served) -> None:
    cut = CliRunner().invoke(pystreams, ["query", full.url, "counts", "--limit", "7"])
    whole = CliRunner().invoke(pystreams, ["query", full.url, "few", "--limit", "150"])

    assert (cut.exit_code, len(cut.stdout.splitlines())) == (0, 7)
    assert cut.stderr == "there are more in partitions 0: --limit 7 was reached\n"
    assert (whole.exit_code, len(whole.stdout.splitlines()), whole.stderr) == (0, FEW, "")


def test_the_command_fails_where_it_can_not_give_all(full: Served) -> None:
    answer = CliRunner().invoke(pystreams, ["query", full.url, "windows"])

    assert (answer.exit_code, len(answer.stdout.splitlines())) == (1, LARGEST_LIMIT)
    assert answer.stderr.startswith("Error: store 'windows' has more than was given in partitions")
