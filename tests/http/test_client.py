"""The Python client, and `pystreams query`."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Iterator
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
    with pytest.raises(HttpQueryError, match="'ftp://x' is no http:// or https:// address"):
        Client("ftp://x")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://[::1", "no address"),
        ("http://host:many", "no address"),
        ("http://exa mple", "no http:// or https:// address"),
        ("http://", "no http:// or https:// address"),
        ("http://a\nb", "no http:// or https:// address"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, told: str) -> None:
    with pytest.raises(HttpQueryError, match=told):
        Client(url)
    answer = CliRunner().invoke(pystreams, ["query", url, "counts", "a"])
    assert (answer.exit_code, told in answer.output) == (2, True)


def test_a_partition_that_is_not_there_is_no_missing_key(filed: Served) -> None:
    with pytest.raises(HttpQueryError, match="has no partition 99") as refused:
        Client(filed.url).get("counts", "a", partition=99)
    assert refused.value.answer["reason"] == "DOES_NOT_EXIST"


@pytest.mark.parametrize(
    ("answered", "code"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 185\r\n\r\n{", 3, id="ends early"),
        pytest.param(
            b"HTTP/1.1 404 No\r\ncontent-length: 185\r\n\r\n{", 3, id="refusal ends early"
        ),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", 1, id="no HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n<p>", 1, id="no JSON"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]", 1, id="other JSON"),
        pytest.param(b"", 3, id="nothing"),
    ],
)
def test_what_is_no_answer_is_raised_as_that(answered: bytes, code: int) -> None:
    with answering(answered) as url:
        for ask in (lambda: Client(url).get("counts", "a"), lambda: [*Client(url).range("counts")]):
            with pytest.raises(HttpQueryError, match=f"^{url} ") as told:
                ask()
            assert told.value.status == 0
        command = CliRunner().invoke(pystreams, ["query", url, "counts"])
    assert (command.exit_code, command.output.startswith(f"Error: {url} ")) == (code, True)


def test_an_answer_of_other_fields_is_no_range() -> None:
    with (
        answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}") as url,
        pytest.raises(HttpQueryError, match="as no application does"),
    ):
        list(Client(url).range("counts"))


@contextlib.contextmanager
def answering(data: bytes) -> Iterator[str]:
    """Answer each request with these bytes, and close its connection."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_the_command_says_what_is_wrong_once(filed: Served) -> None:
    answer = CliRunner().invoke(pystreams, ["query", filed.url, "absent", "a"])

    assert answer.exit_code == 2
    assert answer.output.startswith("Error: there is no store 'absent'; there are: by-length, ")
    assert len(answer.output.splitlines()) == 1


@pytest.mark.parametrize(
    ("status", "code"), [("503 Busy", 3), ("502 Gone", 3), ("429 Many", 3), ("500 Broken", 1)]
)
def test_the_command_tells_who_may_answer_later_from_who_has_failed(status: str, code: int) -> None:
    told = b'{"detail": "partition 0 restores", "status": 1}'
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(told)}\r\n\r\n"
    with answering(head.encode() + told) as url:
        answer = CliRunner().invoke(pystreams, ["query", url, "counts", "a"])

    assert (answer.exit_code, answer.output) == (code, "Error: partition 0 restores\n")


def test_the_command_prints_lines_of_json(filed: Served) -> None:
    run = CliRunner()

    of_key = run.invoke(pystreams, ["query", filed.url, "counts", "a"])
    of_range = run.invoke(pystreams, ["query", filed.url, "counts", "--from", "b", "--to", "c"])
    none = run.invoke(pystreams, ["query", filed.url, "counts", "nobody"])
    negative = run.invoke(pystreams, ["query", filed.url, "by-length", "-7"])

    assert json.loads(of_key.output)["value"] == 4
    entries = [json.loads(line) for line in of_range.output.splitlines()]
    assert sorted(entry["key"] for entry in entries) == ["b", "c"]
    assert (none.exit_code, none.output) == (4, "Error: store 'counts' has no key 'nobody'\n")
    assert negative.output == "Error: store 'by-length' has no key '-7'\n"
    both = run.invoke(pystreams, ["query", filed.url, "counts", "a", "--from", "b"])
    assert both.exit_code == 2


def test_the_command_takes_times_as_people_write_them(filed: Served) -> None:
    command = ["query", filed.url, "windows", "a", "--time-from"]
    run = CliRunner()

    by_date = run.invoke(pystreams, [*command, "1970-01-01T00:16:40Z", "--time-to", str(FIRST_MS)])
    seconds = run.invoke(pystreams, [*command, "1795824000"])

    starts = [entry["window"]["start"] for entry in json.loads(by_date.output)["entries"]]
    assert starts == [FIRST_MS]
    assert (seconds.exit_code, "it takes milliseconds" in seconds.output) == (2, True)


def test_the_command_trusts_the_certificates_it_is_given(filed: Served, tmp_path: Path) -> None:
    certificate, key = certificate_of(tmp_path)
    options = HttpOptions(port=0, certificate=certificate, private_key=key)
    with HttpServer(filed.streams, options) as server:
        command = ["query", server.url, "counts", "a"]
        refused = CliRunner().invoke(pystreams, command)
        answered = CliRunner().invoke(pystreams, [*command, "--tls-ca", str(certificate)])
        wrong = CliRunner().invoke(pystreams, [*command, "--tls-ca", str(key)])

    assert (refused.exit_code, "CERTIFICATE_VERIFY_FAILED" in refused.output) == (2, True)
    assert json.loads(answered.output)["value"] == 4
    assert (wrong.exit_code, "has no certificate" in wrong.output) == (2, True)


@pytest.mark.parametrize("secret", ["secret", "geheimnis-ä", "t€"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test_the_token_is_read_from_a_file(
    filed: Served, tmp_path: Path, secret: str, mark: str
) -> None:
    token = tmp_path / "token"
    token.write_text(f"{mark}{secret}\n", encoding="utf-8")
    streams: KafkaStreams = filed.streams
    with HttpServer(streams, HttpOptions(port=0, token=secret)) as server:
        command = ["query", server.url, "counts", "a"]
        refused = CliRunner().invoke(pystreams, command)
        answered = CliRunner().invoke(pystreams, [*command, "--token-file", str(token)])
        token.write_text("another", encoding="utf-8")
        wrong = CliRunner().invoke(pystreams, [*command, "--token-file", str(token)])

    assert (refused.exit_code, "send the token" in refused.output) == (2, True)
    assert (wrong.exit_code, "another one than the server's" in wrong.output) == (2, True)
    assert "send the token" not in wrong.output
    assert json.loads(answered.output)["value"] == 4


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"\xff\xfe", "no text in UTF-8"), (b"\n", "is empty"), (b"a\nb", "more than one line")],
)
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    token = tmp_path / "token"
    token.write_bytes(content)
    run = ["run", "absent.py", "--http", "0", "--http-token-file", str(token)]
    for command in (run, ["query", "localhost:1", "counts", "a", "--token-file", str(token)]):
        answer = CliRunner().invoke(pystreams, command)
        assert (answer.exit_code, told in answer.output) == (2, True), answer.output


def test_a_token_that_no_request_can_carry_is_refused() -> None:
    with pytest.raises(HttpQueryError, match="the token has") as refused:
        Client("localhost:1", token="a\nsecret")
    assert "secret" not in str(refused.value)


def test_a_port_that_leaves_none_for_all_processes_is_refused() -> None:
    command = ["run", "absent.py", "--http", "65534", "--processes", "3"]
    answer = CliRunner().invoke(pystreams, command)

    assert answer.exit_code == 2
    assert "process 3 would listen on port 65536" in answer.output
