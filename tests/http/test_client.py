"""The Python client, and `pystreams query`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pystreams import KafkaStreams
from pystreams.cli.main import pystreams
from pystreams.client import Client, HttpQueryError
from pystreams.http.server import HttpOptions, HttpServer
from tests.http.conftest import FIRST_MS, Served, certificate_of


def test_a_key_and_a_range_are_asked_for(filed: Served) -> None:
    client = Client(filed.url + "/")

    found = client.get("counts", "a")
    assert found is not None
    assert (found["value"], client.get("counts", "nobody")) == (4, None)
    again = client.get("counts", "a", min_position=found["position"], isolation="read_committed")
    assert again == found
    assert client.get("by-length", 2)["value"] == 10  # type: ignore[index]
    assert sorted(entry["key"] for entry in client.range("counts")) == list("abcde")
    assert client.get("versions", "a", as_of=FIRST_MS)["value"] == "v0"  # type: ignore[index]
    assert client.status()["state"] == "RUNNING"


def test_what_is_refused_is_raised_with_the_cure(filed: Served) -> None:
    client = Client(filed.url)
    for store in ("absent", "a/b"):
        with pytest.raises(HttpQueryError, match="there is no store") as refused:
            client.get(store, "a")
        assert refused.value.status == 404
    with pytest.raises(HttpQueryError, match="limit is 1 to") as refused:
        list(client.range("counts", limit=0))
    assert refused.value.status == 400
    with pytest.raises(HttpQueryError, match=r":1 does not answer") as refused:
        Client("http://127.0.0.1:1").get("counts", "a")
    assert refused.value.status == 0


def test_an_address_needs_no_scheme_and_another_scheme_is_refused(filed: Served) -> None:
    found = Client(filed.url.removeprefix("http://")).get("counts", "a")

    assert found is not None
    with pytest.raises(HttpQueryError, match="ftp://x is no http:// or https:// address"):
        Client("ftp://x")


def test_the_command_says_what_is_wrong_once(filed: Served) -> None:
    answer = CliRunner().invoke(pystreams, ["query", filed.url, "absent", "a"])

    assert answer.exit_code == 1
    assert answer.output.startswith("Error: there is no store 'absent'; there are: by-length, ")
    assert len(answer.output.splitlines()) == 1


def test_the_command_prints_lines_of_json(filed: Served) -> None:
    run = CliRunner()

    of_key = run.invoke(pystreams, ["query", filed.url, "counts", "a"])
    of_range = run.invoke(pystreams, ["query", filed.url, "counts", "--from", "b", "--to", "c"])
    none = run.invoke(pystreams, ["query", filed.url, "counts", "nobody"])

    assert json.loads(of_key.output)["value"] == 4
    entries = [json.loads(line) for line in of_range.output.splitlines()]
    assert sorted(entry["key"] for entry in entries) == ["b", "c"]
    assert (none.exit_code, none.output) == (1, "Error: store 'counts' has no key 'nobody'\n")
    both = run.invoke(pystreams, ["query", filed.url, "counts", "a", "--from", "b"])
    assert both.exit_code == 2


def test_the_command_trusts_the_certificates_it_is_given(filed: Served, tmp_path: Path) -> None:
    certificate, key = certificate_of(tmp_path)
    options = HttpOptions(port=0, certificate=certificate, private_key=key)
    with HttpServer(filed.streams, options) as server:
        command = ["query", server.url, "counts", "a"]
        refused = CliRunner().invoke(pystreams, command)
        answered = CliRunner().invoke(pystreams, [*command, "--tls-ca", str(certificate)])
        wrong = CliRunner().invoke(pystreams, [*command, "--tls-ca", str(key)])

    assert (refused.exit_code, "CERTIFICATE_VERIFY_FAILED" in refused.output) == (1, True)
    assert json.loads(answered.output)["value"] == 4
    assert (wrong.exit_code, "has no certificate" in wrong.output) == (2, True)


def test_the_token_is_read_from_a_file(filed: Served, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n", encoding="utf-8")
    streams: KafkaStreams = filed.streams
    with HttpServer(streams, HttpOptions(port=0, token="secret")) as server:
        command = ["query", server.url, "counts", "a"]
        refused = CliRunner().invoke(pystreams, command)
        answered = CliRunner().invoke(pystreams, [*command, "--token-file", str(token)])

    assert (refused.exit_code, "send the token" in refused.output) == (1, True)
    assert json.loads(answered.output)["value"] == 4
