"""Standard output of commands is their own: what a topology prints goes to standard error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result

from pystreams import ValueAndTimestamp
from pystreams.cli.commands.applications.recover import recover
from pystreams.cli.commands.applications.reset import reset
from pystreams.cli.commands.applications.status import status
from pystreams.cli.commands.development.new import new
from pystreams.cli.commands.records.consume import consume
from pystreams.cli.commands.records.produce import produce
from pystreams.cli.commands.records.replay import replay
from pystreams.cli.commands.records.topics import topics
from pystreams.cli.exit_codes import ExitCode
from tests import names
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.cli.test_replay import CODE, Shop
from tests.cli.test_state import CODE as STORES
from tests.cli.test_state import Host

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

# It prints while it is loaded, in a serde, and of each record.
PRINTS = """
print("loading")

def read(data):
    print("reading")
    return data.decode()

loud = serdes.FunctionSerde(str.encode, read, "loud")
"""
# Most of its hops are told below a processor's forward().
FORWARDS = """
from pystreams import Processor, StreamsBuilder

config = {{"application.id": "{name}", "default.key.serde": "string",
           "default.value.serde": "json", "processing.exception.handler": "HANDLER"}}

class Forward(Processor):
    def init(self, context):
        self.context = context

    def process(self, record):
        self.context.forward(record)

builder = StreamsBuilder()
stream = builder.stream("{name}-orders")
for _ in range(30):
    stream = stream.process(Forward)
stream.to("{name}-sold")
"""
PRINTING_STREAM = f'{CODE}orders.print(label="order")\n'


@pytest.fixture
def shop(broker: DevelopmentBroker, tmp_path: Path) -> Shop:
    return Shop(broker, tmp_path)


def _consume(shop: Shop, *options: str) -> Result:
    words = [str(shop.file), f"{shop.name}-orders", *options, *shop.broker]
    return CliRunner().invoke(consume, words)


def _json_lines(answer: Result) -> list[object]:
    assert answer.exit_code == 0, answer.output
    return [json.loads(line) for line in answer.stdout.splitlines()]


def test_a_replay_of_the_first_application_prints_json_alone(
    broker: DevelopmentBroker, tmp_path: Path
) -> None:
    name, place = names.unique_name("words"), tmp_path / "words"
    assert CliRunner().invoke(new, [name, "--directory", str(place)]).exit_code == 0
    file, servers = (
        str(place / "topology.py"),
        ("-c", f"bootstrap.servers={broker.bootstrap_servers}"),
    )
    assert CliRunner().invoke(topics, ["create", f"{name}-lines", *servers]).exit_code == 0
    words = [file, f"{name}-lines", *servers]
    assert CliRunner().invoke(produce, words, input="the sea\n").exit_code == 0

    answer = CliRunner().invoke(replay, [file, "--last", "1h", "--show", "9", "--json", *servers])

    assert len(_json_lines(answer)) > 2
    assert answer.stderr == "[count]: the, 1\n[count]: sea, 1\n"


@pytest.mark.parametrize("options", [("--show", "5"), ("--key", "c1"), ("--key", "c1", "--json")])
def test_a_replay_shows_what_it_would_without_the_lines_of_the_topology(
    shop: Shop, options: tuple[str, ...]
) -> None:
    shop.create_topics()
    shop.order(range(4))
    silent = shop.replay("--from", "0", *options)
    loud = CODE.replace("\nbuilder", "\nprint('loading')\nbuilder", 1)
    shop.file.write_text(f"{loud}orders.foreach(print)\n".format(name=shop.name))

    answer = shop.replay("--from", "0", *options)

    assert answer.exit_code == 0, answer.output
    lines = [line for line in answer.stdout.splitlines() if "FOREACH" not in line]
    assert lines == silent.stdout.splitlines()
    loading, *orders = answer.stderr.splitlines()
    assert loading == "loading"
    assert sorted(line.split()[0] for line in orders) == ["c0", "c1", "c2", "c3"]


@pytest.mark.parametrize(
    ("code", "options"),
    [
        (PRINTING_STREAM, ("--show", "3000")),
        (FORWARDS.replace("HANDLER", "fail"), ("--key", "c1")),
        (FORWARDS.replace("HANDLER", "continue"), ("--key", "c1")),
    ],
    ids=["a stream prints", "a processor forwards", "a processor forwards and may fail"],
)
def test_a_replay_that_nobody_reads_ends_like_others_in_a_pipe(
    shop: Shop, code: str, options: tuple[str, ...]
) -> None:
    """Its output is larger than a pipe: it can't be over before its reader goes."""
    shop.file.write_text(code.format(name=shop.name))
    shop.create_topics()
    shop.order(range(3000))
    command = [sys.executable, "-m", "pystreams", "replay", str(shop.file), "--json"]
    with (shop.directory / "stderr").open("w+") as told:
        process = subprocess.Popen(
            [*command, "--from", "0", *options, *shop.broker],
            stdout=subprocess.PIPE,
            stderr=told,
        )
        assert process.stdout is not None
        for _ in range(1000):
            json.loads(process.stdout.readline())
        process.stdout.close()

        assert process.wait(DEADLINE_S) == ExitCode.OUTPUT_CLOSED
    text = (shop.directory / "stderr").read_text()
    assert [line for line in text.splitlines() if not line.startswith("[order]")] == []


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_consume_prints_records_alone(shop: Shop, options: tuple[str, ...]) -> None:
    shop.create_topics()
    shop.order(range(2))
    silent = _consume(shop, *options)
    loud = CODE.replace("\nbuilder", f"\n{PRINTS}\nbuilder", 1)
    loud = loud.replace(
        'orders", value_serde=serdes.JSON', 'orders", key_serde=loud, value_serde=serdes.JSON'
    )
    shop.file.write_text(loud.format(name=shop.name))

    answer = _consume(shop, *options)

    assert answer.exit_code == 0, answer.output
    assert answer.stdout == silent.stdout
    assert answer.stderr == "loading\nreading\nreading\n"


@pytest.mark.parametrize("words", [("get", "counts", "a"), ("scan", "counts", "--json")])
def test_state_prints_entries_alone(tmp_path: Path, words: tuple[str, ...]) -> None:
    host = Host(tmp_path, STORES)
    host.fill("counts", lambda store: store.put("a", ValueAndTimestamp(1, 7)))
    silent = host.ask(*words)
    host.file.write_text(f"print('loading')\n{STORES}")

    answer = host.ask(*words)

    assert (answer.exit_code, answer.stdout) == (0, silent.stdout)
    assert answer.stderr == "loading\n"


def test_status_prints_one_json_object(shop: Shop) -> None:
    shop.create_topics()
    shop.order(range(1))
    shop.run_until(1, 1)
    shop.file.write_text(f"print('loading')\n{CODE}".format(name=shop.name))
    words = [shop.name, "--topology", str(shop.file), "--json", *shop.broker]
    wait_until(lambda: CliRunner().invoke(status, words).exit_code == 0, "a group")

    answer = CliRunner().invoke(status, words)

    assert json.loads(answer.stdout)["group"] == shop.name
    assert answer.stderr == "loading\n"


@pytest.mark.parametrize("command", [recover, reset])
def test_other_commands_print_what_they_have_to_say_alone(
    shop: Shop, command: click.Command
) -> None:
    shop.create_topics()
    words = [str(shop.file), *shop.broker, "-c", f"state.dir={shop.directory}"]
    silent = CliRunner().invoke(command, words)
    shop.file.write_text(f"print('loading')\n{CODE}".format(name=shop.name))

    answer = CliRunner().invoke(command, words)

    assert (answer.exit_code, answer.stdout) == (silent.exit_code, silent.stdout)
    assert answer.stderr.startswith("loading\n")
