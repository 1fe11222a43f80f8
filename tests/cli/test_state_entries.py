"""What `pystreams state get` and `scan` print of entries, and how keys are written for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pystreams import ValueAndTimestamp
from tests.cli.test_state import Host

CODE = """
from pystreams import *

builder = StreamsBuilder()
tables = {
    "texts": (serdes.STRING, serdes.JSON),
    "numbers": (serdes.LONG, serdes.STRING),
    "fractions": (serdes.DOUBLE, serdes.STRING),
    "bytes": (serdes.BYTES, serdes.BYTES),
}
for name, (key, value) in tables.items():
    builder.table(f"{name}-in", key_serde=key, value_serde=value, name=name)
builder.table("open-in", value_serde=serdes.STRING, name="open")
history = Materialized(name="prices", history_retention_ms=100)
builder.table("prices-in", key_serde=serdes.STRING, value_serde=serdes.JSON, materialized=history)
config = {CONFIG}
"""
CONFIG = '{"default.key.serde": "string"}'


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, CODE.replace("{CONFIG}", CONFIG))


def put(host: Host, store: str, entries: dict[Any, Any], task: str = "0_0") -> None:
    def write(opened: Any) -> None:
        for key, value in entries.items():
            opened.put(key, ValueAndTimestamp(value, 7))

    host.fill(store, write, task)


def put_prices(host: Host, *versions: tuple[str, Any, int]) -> None:
    host.fill("prices", lambda store: [store.put(*version) for version in versions])


def as_json(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_versions_are_shown_with_the_times_in_which_they_are_valid(host: Host) -> None:
    put_prices(host, ("tea", 1, 10), ("tea", 2, 20), ("tea", None, 30), ("tea", 4, 40))

    assert host.ask("get", "prices", "tea").stdout == (
        "tea\t10\t20\t1\ntea\t20\t30\t2\ntea\t40\tnull\t4\n"
    )
    shown = as_json(host.ask("scan", "prices", "--json").stdout)
    assert [(entry["value"], entry["timestamp"], entry["valid_to"]) for entry in shown] == [
        (1, 10, 20),
        (2, 20, 30),
        (4, 40, None),
    ]


def test_versions_are_shown_key_by_key_however_old_they_are(host: Host) -> None:
    put_prices(host, ("tea", 1, 10), ("ink", 2, 20), ("tea", 3, 200), ("ink", 4, 210))

    lines = host.ask("scan", "prices").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["ink", "ink", "tea", "tea"]


def test_a_deleted_key_of_a_versioned_store_is_told_of_with_what_it_was(host: Host) -> None:
    put_prices(host, ("tea", 1, 10), ("tea", 2, 20), ("tea", None, 30), ("ink", 9, 30))

    deleted = host.ask("get", "prices", "tea")
    cut = host.ask("get", "prices", "tea", "--limit", "1")

    assert deleted.exit_code == cut.exit_code == 4
    assert (deleted.stdout, cut.stdout) == ("tea\t10\t20\t1\ntea\t20\t30\t2\n", "tea\t10\t20\t1\n")
    assert "'tea' was deleted at 30 (1970-01-01T00:00:00+00:00)" in deleted.stderr
    assert deleted.stderr == cut.stderr
    assert host.ask("get", "prices", "ink").exit_code == 0
    assert host.ask("scan", "prices").exit_code == 0


def read_with(host: Host, store: str, key: str, value: str) -> None:
    """Let the topology have other serdes for a store than those that have written it."""
    host.file.write_text(
        "from pystreams import *\n\n"
        "builder = StreamsBuilder()\n"
        f"builder.table('in', name='{store}', key_serde=serdes.{key}, value_serde=serdes.{value})"
    )


def test_a_value_that_its_serde_can_t_read_is_told_with_its_key_and_hides_no_other(
    host: Host,
) -> None:
    put(host, "texts", {"a": 1, "b": 123456.7, "c\x1b": 3})
    read_with(host, "texts", "STRING", "DOUBLE")

    scanned = host.ask("scan", "texts")
    of_key = host.ask("get", "texts", "a", "--json")

    assert scanned.exit_code == of_key.exit_code == 1
    assert [line.split("\t")[0] for line in scanned.stdout.splitlines()] == ["b"]
    why = "its value can't be read by serdes.DOUBLE: unpack requires a buffer of 8 bytes"
    assert scanned.stderr.startswith(f'0_0, key "a": {why}\n0_0, key "c\\u001b": {why}\n')
    assert "2 could not be read. Read them with the serdes that wrote them" in scanned.stderr
    assert (of_key.stdout, why in of_key.stderr) == ("", True)
    assert "has nothing" not in of_key.stderr


def test_a_key_that_its_serde_can_t_read_is_told_with_its_bytes(host: Host) -> None:
    put(host, "numbers", {-7: "x", 7: "y"})
    read_with(host, "numbers", "JSON", "STRING")

    scanned = host.ask("scan", "numbers")

    assert (scanned.exit_code, scanned.stdout) == (1, "")
    told = '0_0, key {"base64":"//////////k="}: its key can\'t be read by serdes.JSON: '
    assert told in scanned.stderr


def test_an_unread_version_is_told_with_its_times(host: Host) -> None:
    put_prices(host, ("tea", "x", 10), ("tea", None, 20))
    host.file.write_text(host.file.read_text().replace("serdes.JSON, mat", "serdes.LONG, mat"))

    told = host.ask("get", "prices", "tea").stderr

    assert '0_0, key "tea", timestamp 10, valid_to 20: its value can\'t be read' in told


def test_a_key_that_is_not_there_is_told_with_the_serde_it_was_asked_with(host: Host) -> None:
    put(host, "texts", {"5": 1})
    read_with(host, "texts", "LONG", "JSON")

    nothing = host.ask("get", "texts", "5")

    assert nothing.exit_code == 4
    assert nothing.stderr == "store 'texts' has nothing of '5', as serdes.LONG writes it\n"


def test_bytes_that_are_no_text_are_shown_as_they_are_asked_for(host: Host) -> None:
    like_an_object = b'{"base64": "AP8="}'
    put(host, "bytes", {b"\x00\xff": b"\xff", b"AP8=": b"text", like_an_object: b"other"})

    shown = as_json(host.ask("scan", "bytes", "--json").stdout)
    lines = host.ask("scan", "bytes").stdout.splitlines()

    assert [(entry["key"], entry["value"]) for entry in shown] == [
        ({"base64": "AP8="}, {"base64": "/w=="}),
        ("AP8=", "text"),
        ({"base64": "eyJiYXNlNjQiOiAiQVA4PSJ9"}, "other"),
    ]
    assert lines[:2] == ['{"base64":"AP8="}\t{"base64":"/w=="}', "AP8=\ttext"]
    for line, entry in zip(lines, shown, strict=True):
        key = entry["key"] if isinstance(entry["key"], str) else json.dumps(entry["key"])
        assert host.ask("get", "bytes", key).stdout == f"{line}\n"
        assert host.ask("get", "bytes", line.split("\t")[0]).stdout == f"{line}\n"


def test_base64_that_is_none_is_refused_as_a_key(host: Host) -> None:
    put(host, "bytes", {b"a": b"b"})

    refused = host.ask("get", "bytes", '{"base64": "?"}')

    assert refused.exit_code == 2
    assert "does not fit serdes.BYTES" in refused.stderr


@pytest.mark.parametrize(
    ("store", "key", "written"),
    [("numbers", -7, "-7"), ("fractions", -0.5, "-.5"), ("fractions", float("-inf"), "-inf")],
)
def test_a_key_may_be_a_negative_number(host: Host, store: str, key: Any, written: str) -> None:
    put(host, store, {key: "below", 5: "above"})

    asked = [
        host.ask("get", store, written, "--limit", "3"),
        host.ask("get", store, "--limit", "3", written),
        host.ask("get", store, behind=["--", written]),
    ]

    for answer in asked:
        assert (answer.exit_code, answer.stdout.split("\t")[1:]) == (0, ["below\n"]), answer.output


def test_a_negative_number_is_the_value_of_an_option_that_takes_one(host: Host) -> None:
    refused = host.ask("get", "numbers", "5", "--limit", "-7")

    assert refused.exit_code == 2
    assert "'--limit': -7 is not in the range" in refused.stderr


def test_a_key_that_looks_like_an_option_is_told_where_to_stand(host: Host) -> None:
    put(host, "texts", {"-x": 1})

    refused = host.ask("get", "texts", "-x")

    assert refused.exit_code == 2
    assert "A key that begins with - comes last, behind --" in refused.stderr
    assert host.ask("get", "texts", behind=["--", "-x"]).stdout == "-x\t1\n"


def test_default_serdes_may_be_given_on_the_command_line(host: Host) -> None:
    put(host, "open", {"a": "x"})
    host.file.write_text(CODE.replace("{CONFIG}", "{}"))

    without = host.ask("get", "open", "a")
    given = host.ask("get", "open", "a", "-c", "default.key.serde=string")
    scanned = host.ask("scan", "open", "-c", "default.key.serde=string")

    assert without.exit_code == 2
    assert "set default.key.serde" in without.stderr
    assert given.stdout == scanned.stdout == "a\tx\n"
