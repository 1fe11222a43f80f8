"""Keys that are bytes, those that are no text included: asked for in each way, of any process."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from pystreams import StreamsBuilder, TimeWindows, Topology
from pystreams.broker import DevelopmentBroker
from pystreams.cli.main import pystreams
from pystreams.client import Client, HttpQueryError
from pystreams.serdes import BYTES, STRING
from tests.http.conftest import FIRST_MS, Served, Topics
from tests.http.test_keys_elsewhere import PARTITIONS, two, wait_for_all

SIZE_MS = 10_000
BINARY = [bytes((first, second, 0xFF)) for first in range(0, 256, 51) for second in (0, 0x2F, 0xC3)]
TEXTS = [b"plain", b"a/b", "ä".encode(), b"", b'{"a": 1}', b"{"]
OBJECTS = [b'{"base64": "AP8="}', b' {"base64":"no base64"}']
"""Texts that could be taken for what bytes are shown as."""
KEYS = [key for key in (*BINARY, *TEXTS, *OBJECTS) if key]


def by_bytes(topic: str) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(topic, key_serde=BYTES, value_serde=STRING).group_by_key()
    grouped.count(name="counts")
    # The broker keeps the changelog for as long, by its own clock, and these records are of 1970.
    windows = TimeWindows.of_size_and_grace(SIZE_MS, 10**13)
    grouped.windowed_by(windows).count(name="windows")
    return builder.build()


@pytest.fixture(scope="module")
def instances(
    broker: DevelopmentBroker, topics: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Served]]:
    topic = topics.make("bytes", PARTITIONS)
    topics.write(topic, [(key, "x", 0) for key in KEYS])
    with two(broker, by_bytes, topic, tmp_path_factory.mktemp("state")) as instances:
        for store in ("counts", "windows"):
            wait_for_all(instances, store, len(KEYS))
        yield instances


def shown(key: bytes) -> Any:
    return {"base64": base64.b64encode(key).decode()}


def test_bytes_are_asked_for_percent_encoded_and_as_base64(instances: list[Served]) -> None:
    for instance in instances:
        for key in KEYS:
            written = [json.dumps(shown(key)).encode()]
            if key not in OBJECTS:
                written.append(key)
            for text in written:
                answer = instance.ask(f"/v1/stores/counts/{quote(text, safe='')}")
                assert (answer.status, answer.json()["value"]) == (200, 1), text
                forwarded = instance.ask(
                    f"/v1/stores/counts/{quote(text, safe='')}", isolation="read_uncommitted"
                )
                assert forwarded.json()["value"] == 1


def test_bytes_that_are_no_text_are_shown_as_base64_and_others_as_text(
    instances: list[Served],
) -> None:
    keys = [entry["key"] for entry in Client(instances[0].url).range("counts")]

    expected = [shown(key) if key in BINARY or key in OBJECTS else key.decode() for key in KEYS]
    assert sorted(map(json.dumps, keys)) == sorted(map(json.dumps, expected))


@pytest.mark.parametrize("asks_owners", [False, True])
def test_a_client_is_given_bytes_or_what_an_answer_has_shown(
    instances: list[Served], asks_owners: bool
) -> None:
    for instance in instances:
        with Client(instance.url, asks_owners=asks_owners) as client:
            for key in KEYS:
                found = client.get("counts", key)
                assert found is not None, key
                assert client.get("counts", found["key"]) == found
                (entry,) = client.get("windows", key)["entries"]  # type: ignore[index]
                assert entry["window"]["start"] == FIRST_MS
            assert client.get("counts", b"\xff\xfe absent") is None
            assert client.get("counts", {"base64": "//4="}) is None


def test_a_range_begins_and_ends_with_bytes(instances: list[Served]) -> None:
    client = Client(instances[0].url)
    first, last = b"\x33\x00\xff", b"\xcc\x2f\xff"
    expected = sorted(key for key in KEYS if first <= key <= last)

    for between in (
        {"from": first, "to": last},
        {"from": shown(first), "to": shown(last)},
    ):
        found = [entry["key"] for entry in client.range("counts", **between)]
        assert len(found) == len(expected)
    refused = instances[0].ask("/v1/stores/counts?from=%FF&to=%00")
    assert (refused.status, "from is above to" in refused.json()["detail"]) == (400, True)


def test_the_command_takes_bytes_as_they_are_shown(instances: list[Served]) -> None:
    key = BINARY[0]
    command = ["query", instances[0].url, "counts"]

    of_key = CliRunner().invoke(pystreams, [*command, json.dumps(shown(key))])
    absent = CliRunner().invoke(pystreams, [*command, '{"base64": "//4="}'])
    of_range = CliRunner().invoke(
        pystreams, [*command, "--from", json.dumps(shown(key)), "--to", json.dumps(shown(key))]
    )

    assert json.loads(of_key.output)["key"] == shown(key)
    assert [json.loads(line)["key"] for line in of_range.output.splitlines()] == [shown(key)]
    assert (absent.exit_code, "has no key" in absent.output) == (4, True)


def test_base64_that_is_none_is_refused(instances: list[Served]) -> None:
    for key in ({"base64": "AP8"}, {"base64": "no!"}, {"base64": 5}):
        with pytest.raises(HttpQueryError, match=r"does not fit serdes\.BYTES") as refused:
            Client(instances[0].url).get("counts", key)
        assert refused.value.status == 400


def test_bytes_that_are_no_text_are_refused_where_keys_are_texts(filed: Served) -> None:
    for store, serde in (("counts", "STRING"), ("by-length", "LONG"), ("windows", "STRING")):
        answer = filed.ask(f"/v1/stores/{store}/%61%FF")
        assert answer.status == 400
        assert f"b'a\\xff' is no UTF-8 text, which serdes.{serde} takes" in answer.json()["detail"]
    with pytest.raises(HttpQueryError, match="is no UTF-8 text"):
        Client(filed.url).get("counts", b"\xff")
    found = Client(filed.url).get("counts", b"a")
    assert (found is not None, filed.ask("/v1/stores/counts?from=%FF").status) == (True, 400)


def test_other_parameters_that_are_no_text_are_refused(filed: Served) -> None:
    for parameters in ("%FF=1", "%FF", "order=%FF", "limit=%FF", "isolation=%FF", "partition=%FF"):
        for path in ("counts", "counts/x"):
            answer = filed.ask(f"/v1/stores/{path}?{parameters}")
            assert answer.status == 400, (path, parameters)
    assert "\N{REPLACEMENT CHARACTER}" in filed.ask("/v1/stores/counts?%FF=1").json()["detail"]
