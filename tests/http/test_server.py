"""Who is answered, and where: tokens, TLS, addresses, methods, limits."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import subprocess
import sys
import urllib.error
from pathlib import Path

import pytest

from pystreams import KafkaStreams
from pystreams.errors import ConfigError, StreamsError
from pystreams.http.server import HttpOptions, HttpServer
from tests.broker.waiting import DEADLINE_S
from tests.http.asking import ask
from tests.http.conftest import certificate_of
from tests.http.connecting import Raw, connected, wait_for_answer
from tests.ports import ports_in_a_row


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer secret "}, 200),  # A header's end is no part of it.
        ({"Authorization": "Bearer secrets"}, 401),
        ({"Authorization": "secret"}, 401),
        ({"Authorization": "Bearer sécret"}, 401),
        ({"Authorization": "Bearer secret"}, 200),
        ({"Authorization": "bearer secret"}, 200),  # A scheme is written in any case.
        ({"Authorization": "BEARER  secret"}, 200),
        ({"Authorization": "bearer SECRET"}, 401),
        ({"Authorization": "Basic secret"}, 401),
        ({"Authorization": "Bearer"}, 401),
    ],
)
def test_only_who_has_the_token_is_answered(
    created: KafkaStreams, headers: dict[str, str], status: int
) -> None:
    with HttpServer(created, HttpOptions(port=0, token="secret")) as server:
        for path in ("/v1/status", "/metrics", "/v1/stores/counts", "/v1/nothing"):
            answer = ask(server.url, path, headers=headers)
            assert (answer.status == 401) == (status == 401)
            assert (answer.headers["www-authenticate"] == "Bearer") == (status == 401)
        assert ask(server.url, "/livez").status == 200
        assert ask(server.url, "/readyz").status == 503


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:80", 200), ("127.0.0.1", 200), ("[::1]:8080", 200), ("evil.example:80", 421)],
)
def test_without_a_token_only_this_machine_is_answered_whatever_name_leads_here(
    created: KafkaStreams, host: str, status: int
) -> None:
    with HttpServer(created, HttpOptions(port=0)) as server:
        for path in ("/", "/v1/config", "/v1/status"):
            assert ask(server.url, path, headers={"Host": host}).status == status


def test_an_address_that_others_reach_asks_for_a_token(created: KafkaStreams) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org", ""):
        with pytest.raises(ConfigError, match="give a token"):
            HttpServer(created, HttpOptions(host=host, port=0))
    HttpServer(created, HttpOptions(host="0.0.0.0", port=0, token="secret"))


def test_it_is_served_over_tls(created: KafkaStreams, tmp_path: Path) -> None:
    certificate, key = certificate_of(tmp_path)
    options = HttpOptions(port=0, certificate=certificate, private_key=key)
    with HttpServer(created, options) as server:
        assert server.url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(certificate))
        assert ask(server.url, "/livez", trusting=trusting).status == 200
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            ask(server.url, "/livez", trusting=ssl.create_default_context())


def test_a_certificate_that_is_none_is_refused(created: KafkaStreams, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("nothing", encoding="utf-8")
    for file, told in ((wrong, "used"), (tmp_path / "absent.pem", "read")):
        with pytest.raises(ConfigError, match=rf"the certificate .* can't be {told}"):
            HttpServer(created, HttpOptions(port=0, certificate=file))


def test_the_file_of_a_private_key_that_is_missing_is_named(
    created: KafkaStreams, tmp_path: Path
) -> None:
    certificate, _ = certificate_of(tmp_path)
    absent = tmp_path / "absent.key"
    options = HttpOptions(port=0, certificate=certificate, private_key=absent)
    with pytest.raises(ConfigError) as refusal:
        HttpServer(created, options)
    assert (
        str(refusal.value) == f"the private key {absent} can't be read: No such file or directory"
    )


def test_a_port_that_is_taken_is_told(created: KafkaStreams) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = HttpServer(created, HttpOptions(port=port))
        with pytest.raises(ConfigError, match=f"can't be served on 127.0.0.1:{port}.*in use"):
            server.start()
        server.close()


def test_an_address_of_another_machine_is_told(created: KafkaStreams) -> None:
    server = HttpServer(created, HttpOptions(host="192.0.2.1", port=0, token="secret"))
    with pytest.raises(ConfigError, match=r"can't be served on 192\.0\.2\.1"):
        server.start()
    other = HttpServer(created, HttpOptions(host="nobody.invalid", port=0, token="secret"))
    with pytest.raises(ConfigError, match=r"can't be served on nobody\.invalid"):
        other.start()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_is_changed_over_http(created: KafkaStreams, method: str) -> None:
    with HttpServer(created, HttpOptions(port=0)) as server:
        answer = ask(server.url, "/v1/status", method=method)

    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert "all is read with GET" in answer.json()["detail"]


def test_an_address_that_is_too_long_is_refused(created: KafkaStreams) -> None:
    with HttpServer(created, HttpOptions(port=0)) as server:
        assert ask(server.url, f"/v1/stores/counts/{'x' * 9000}").status == 414
        assert ask(server.url, "/v1/status", x="y" * 9000).status == 414
        assert ask(server.url, "/livez").status == 200


def test_stores_of_an_application_that_was_not_started_are_not_there_yet(
    created: KafkaStreams,
) -> None:
    with HttpServer(created, HttpOptions(port=0)) as server:
        answer = ask(server.url, "/v1/stores/counts/a")

    assert answer.status == 503
    assert "the application is CREATED" in answer.json()["detail"]


def test_what_uvicorn_tells_of_its_life_is_in_no_log(
    created: KafkaStreams, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "uvicorn")  # Whatever a command has set before.
    with HttpServer(created, HttpOptions(port=0)) as server:
        assert ask(server.url, "/livez").status == 200
    logging.getLogger("uvicorn.error").info("a server of the program's own")

    told = [record.getMessage() for record in caplog.records if record.name.startswith("uvicorn")]
    assert told == ["a server of the program's own"]


@pytest.mark.parametrize("sent_apart", [False, True])
def test_a_body_that_is_no_http_is_refused_and_fills_no_log(
    created: KafkaStreams, caplog: pytest.LogCaptureFixture, sent_apart: bool
) -> None:
    head = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"no length of a chunk\r\n"
    with HttpServer(created, HttpOptions(port=0)) as server, connected(server) as connection:
        connection.sendall(head if sent_apart else head + body)
        read = connection.recv(12)
        if sent_apart:
            connection.sendall(body)
        with contextlib.suppress(ConnectionError):
            while connection.recv(1 << 16):
                pass

    assert read == (b"HTTP/1.1 200" if sent_apart else b"HTTP/1.1 400")
    assert [
        record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR
    ] == []


def test_a_closed_server_frees_its_port(created: KafkaStreams) -> None:
    (port,) = ports_in_a_row(1)
    server = HttpServer(created, HttpOptions(port=port))
    server.start()
    assert ask(server.url, "/livez").status == 200
    server.close()
    server.close()

    with HttpServer(created, HttpOptions(port=port)) as again:
        assert ask(again.url, "/livez").status == 200


def test_a_server_closes_while_somebody_watches_and_says_nothing(
    created: KafkaStreams, caplog: pytest.LogCaptureFixture
) -> None:
    with HttpServer(created, HttpOptions(port=0)) as server:
        raw = Raw(server.url)
        raw.send(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"text/event-stream" in raw.answer()
    with contextlib.closing(raw):
        while raw.answer():
            pass  # It ends.
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


def test_a_server_is_started_once(created: KafkaStreams) -> None:
    with HttpServer(created, HttpOptions(port=0)) as server:
        url = server.url
        with pytest.raises(StreamsError, match="started before; make a new HttpServer"):
            server.start()
        assert ask(url, "/livez").status == 200
    with pytest.raises(StreamsError, match="started before; make a new HttpServer"):
        server.start()
    assert server.url == url


def test_connections_without_a_whole_request_are_closed(created: KafkaStreams) -> None:
    """Some say nothing, some begin and don't go on; meanwhile others are answered."""
    options = HttpOptions(port=0, idle_timeout_s=0.5)
    with HttpServer(created, options) as server, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        opened = [stack.enter_context(socket.create_connection(address)) for _ in range(1000)]
        for slow in opened[:100]:
            with contextlib.suppress(ConnectionError):  # It may have said nothing for too long.
                slow.sendall(b"GET /livez HTTP/1.1\r\nX-Slow: ")
        wait_for_answer(server)

        for connection in opened:
            connection.settimeout(DEADLINE_S)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        wait_for_answer(server)


def test_of_a_thousand_bad_slow_and_idle_clients_nothing_is_kept(tmp_path: Path) -> None:
    """No descriptor, thread or memory: counted in a process that has nothing else to do."""
    command = [sys.executable, "-m", "tests.http.abused_server", str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Invalid HTTP request" not in done.stderr  # Who is refused fills no log.


def test_headers_that_are_too_long_are_refused(created: KafkaStreams) -> None:
    with HttpServer(created, HttpOptions(port=0)) as server:
        assert ask(server.url, "/livez", headers={"X-Long": "x" * 40_000}).status in (400, 431)
        assert ask(server.url, "/livez").status == 200


@pytest.mark.parametrize("missing", ["uvicorn", "starlette"])
def test_without_the_extra_the_import_says_what_to_install(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from pystreams.http.server import HttpServer"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert ended.stderr.endswith("pip install 'pystreams-kafka[http]'\n")
