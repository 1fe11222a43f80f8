"""Asking the owner of a key over TLS, with a token, and again and again."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from starlette.requests import Request
from starlette.responses import Response

from pystreams.broker import DevelopmentBroker
from pystreams.client import Client, HttpQueryError
from pystreams.http.responses import RequestError
from pystreams.http.server import HttpOptions
from pystreams.http.stores.owners import Owners
from pystreams.runtime.cluster.streams_metadata import HostInfo
from tests.broker.waiting import wait_until
from tests.http.conftest import Served, Topics, certificate_of, served
from tests.http.connecting import HOST, ORDINARILY, Raw
from tests.http.counting import counting
from tests.ports import ports_in_a_row

KEYS = "abcdefgh"
TOKEN = "secret"


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    return certificate_of(tmp_path)


@pytest.fixture
def two(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path, certificate: tuple[Path, Path]
) -> Iterator[list[Served]]:
    """Two instances of an application, served over TLS to who has the token."""
    topic = topics.make("owned", 4)
    topics.write(topic, [(key, "x", 0) for key in KEYS])
    with contextlib.ExitStack() as stack:
        started = []
        for number in range(2):
            (port,) = ports_in_a_row(1)
            options = HttpOptions(
                port=port, token=TOKEN, certificate=certificate[0], private_key=certificate[1]
            )
            application = stack.enter_context(
                served(
                    broker,
                    counting(topic),
                    tmp_path / str(number),
                    options,
                    application_id=f"{topic}-app",
                    application_server=f"127.0.0.1:{port}",
                )
            )
            application.streams.start()
            started.append(application)
        yield started


def test_owners_are_asked_over_tls_with_the_token_of_the_request(
    two: list[Served], certificate: tuple[Path, Path]
) -> None:
    tls = ssl.create_default_context(cafile=str(certificate[0]))
    clients = [
        Client(application.url, token=TOKEN, tls=tls, asks_owners=asks_owners)
        for application in two
        for asks_owners in (False, None, True)
    ]

    def all_answer() -> bool:
        with contextlib.suppress(HttpQueryError):
            shares = [client.status()["tasks"] for client in clients]
            answers = [client.get("counts", key) for client in clients for key in KEYS]
            return all(shares) and all(found and found["value"] == 1 for found in answers)
        return False

    wait_until(all_answer, "all keys of both", told=lambda: _told(clients))
    with pytest.raises(HttpQueryError, match="another one than the server's"):
        Client(two[0].url, token="wrong", tls=tls).get("counts", "a")


def test_both_ways_ask_owners_over_tls_and_with_the_token(
    two: list[Served], certificate: tuple[Path, Path]
) -> None:
    tls = ssl.create_default_context(cafile=str(certificate[0]))
    token = b"Authorization: Bearer %b\r\n" % TOKEN.encode()
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(contextlib.closing(Raw(application.url, tls)))
            for application in two
        ]

        def answers(*headers: bytes) -> list[bytes]:
            found = []
            for connection in connections:
                for key in KEYS.encode():
                    asked = b"GET /v1/stores/counts/%c HTTP/1.1\r\n" % key
                    connection.send(asked + HOST + b"".join(headers) + b"\r\n")
                    found.append(connection.answer())
            return found

        def all_answer() -> bool:
            found = answers(token, ORDINARILY)
            elsewhere = sum(b"x-pystreams-owner: 127" in answer for answer in found)
            return elsewhere == len(KEYS) and all(b'"value":1' in answer for answer in found)

        wait_until(all_answer, "all keys of both")
        assert answers(token) == answers(token, ORDINARILY)
        assert all(b"HTTP/1.1 401" in answer for answer in answers())


class _Known:
    """Streams that know who has which partition."""

    def __init__(self, owners: dict[int, HostInfo]) -> None:
        self.owners = owners

    def owner_of(self, store: str, number: int, *, afresh: bool) -> HostInfo:
        return self.owners[number]


def question(query: bytes = b"", *, key: bytes = b"/x", token: bytes | None = None) -> Request:
    return Request(
        {
            "type": "http",
            "headers": [] if token is None else [(b"authorization", b"Bearer " + token)],
            "raw_path": b"/v1/stores/counts" + key,
            "query_string": query,
        }
    )


class _Answers(BaseHTTPRequestHandler):
    """Answers with the number of connections so far; says nothing of a connection's end."""

    protocol_version = "HTTP/1.1"
    accepted = 0
    hangs_up = False

    def setup(self) -> None:
        type(self).accepted += 1
        super().setup()

    def do_GET(self) -> None:
        body = str(self.accepted).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.hangs_up

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("hangs_up", [False, True])
def test_a_connection_to_an_owner_is_used_again_unless_it_has_ended(hangs_up: bool) -> None:
    handler = type("Answers", (_Answers,), {"hangs_up": hangs_up})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        owner = HostInfo("127.0.0.1", server.server_port)
        with contextlib.closing(Owners(cast("Any", _Known({0: owner})), None)) as owners:
            answers = [owners.ask(question(), "counts", 0).body for _ in range(5)]
            server.shutdown()
        thread.join()
    assert answers == [b"1", b"2", b"3", b"4", b"5"] if hangs_up else [b"1"] * 5


class _Keyless(BaseHTTPRequestHandler):
    """Has some partitions, and no key in any of them."""

    protocol_version = "HTTP/1.1"
    partitions: ClassVar[list[int]] = []
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        _, _, number = self.path.partition("partition=")
        told = {"partition": int(number)} if number else {"partitions": self.partitions}
        body = json.dumps({"status": 404, "detail": "", **told}).encode()
        self.send_response(404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _OtherToken(_Keyless):
    """Has another token than the request."""

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(401)
        self.send_header("content-length", "0")
        self.end_headers()


def asked_for_absent_key(
    shares: list[list[int]], has: list[list[int]], answers: type[_Keyless] = _Keyless
) -> tuple[Response | RequestError | None, list[list[str]]]:
    """Return the answer for a key that is nowhere, and what each process was asked.

    Args:
        shares: The partitions that each process is known to have; the last one does not listen.
        has: Those that it has, of all that listen.
        answers: How those that listen answer.
    """
    with contextlib.ExitStack() as stack:
        owners, asked = {}, []
        for share, here in zip(shares, [*has, None], strict=True):
            if here is None:
                owners.update(dict.fromkeys(share, HostInfo("127.0.0.1", 1)))
                continue
            fields = {"partitions": here, "asked": []}
            handler: Any = type("Answers", (answers,), fields)
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), handler))
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            owners.update(dict.fromkeys(share, HostInfo("127.0.0.1", server.server_port)))
            asked.append(handler.asked)
        known = stack.enter_context(contextlib.closing(Owners(cast("Any", _Known(owners)), None)))
        try:
            answer: Any = known.first_found(question(), "counts", sorted(owners))
        except RequestError as error:
            answer = error
        return answer, asked


def test_for_a_key_that_is_nowhere_each_process_is_asked_once() -> None:
    answer, asked = asked_for_absent_key([[1, 2, 3], [4, 5], []], [[1, 2, 3], [4, 5]])
    assert answer is None
    assert asked == [["/v1/stores/counts/x"]] * 2


def test_a_partition_that_has_moved_meanwhile_is_asked_for_alone() -> None:
    answer, asked = asked_for_absent_key([[1, 2, 3], []], [[1, 3]])
    assert answer is None
    assert asked == [["/v1/stores/counts/x", "/v1/stores/counts/x?partition=2"]]


def test_a_process_that_does_not_answer_is_named_with_the_reason() -> None:
    answer, asked = asked_for_absent_key([[1], [2, 3]], [[1]])
    assert isinstance(answer, RequestError)
    assert (answer.status, answer.fields["owner"]) == (503, "127.0.0.1:1")
    assert "it does not answer (ConnectionRefusedError" in str(answer)
    assert asked == [["/v1/stores/counts/x"]]


def test_an_owner_with_another_token_is_named_with_the_cure_and_asked_once() -> None:
    answer, asked = asked_for_absent_key([[1, 2], []], [[1, 2]], _OtherToken)
    assert isinstance(answer, RequestError)
    owner = answer.fields.pop("owner")
    assert (answer.status, answer.fields) == (503, {"reason": "NOT_PRESENT", "partition": 1})
    assert f"at {owner}, which refuses this token: give all processes the same" in str(answer)
    assert asked == [["/v1/stores/counts/x"]]


def test_an_owner_asked_for_one_partition_that_refuses_the_token_is_named() -> None:
    asked: list[str] = []
    handler: Any = type("Answers", (_OtherToken,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        owner = HostInfo("127.0.0.1", server.server_port)
        asking = question(b"partition=3", key=b"", token=b"secret")
        with contextlib.closing(Owners(cast("Any", _Known({3: owner})), None)) as owners:
            try:
                answer: Any = owners.ask(asking, "counts", 3)
            except RequestError as error:
                answer = error
        server.shutdown()
        thread.join()
    assert isinstance(answer, RequestError)
    told = {"reason": "NOT_PRESENT", "partition": 3, "owner": str(owner)}
    assert (answer.status, answer.fields) == (503, told)
    assert "refuses this token: give all processes the same (--http-token-file)" in str(answer)
    assert asked == ["/v1/stores/counts?partition=3"]


@pytest.mark.parametrize("host", ["orders-0..svc", "x" * 64 + ".svc"])
@pytest.mark.parametrize("everywhere", [False, True])
def test_an_owner_whose_address_is_none_is_named_with_the_reason(
    host: str, everywhere: bool
) -> None:
    owner = HostInfo(host, 8080)
    with contextlib.closing(Owners(cast("Any", _Known({3: owner})), None)) as owners:
        if everywhere:
            ask: Callable[[], object] = partial(owners.first_found, question(), "counts", [3])
        else:
            ask = partial(owners.ask, question(), "counts", 3)
        with pytest.raises(RequestError) as refused:
            ask()

    told = {"reason": "NOT_PRESENT", "partition": 3, "owner": str(owner)}
    assert (refused.value.status, refused.value.fields) == (503, told)
    assert f"at {owner}, which is no valid address" in str(refused.value)
    assert "application.server" in str(refused.value)


def _told(clients: list[Client]) -> str:
    return str([client.status()["tasks"] for client in clients])
