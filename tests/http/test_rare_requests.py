"""What HTTP allows and few do: whole addresses, and an end after the question."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

import pytest

from pystreams import KafkaStreams
from pystreams.http.server import HttpOptions, HttpServer
from tests.broker.waiting import wait_until
from tests.http.conftest import Served, certificate_of
from tests.http.connecting import HOST, ORDINARILY, Raw, connections_kept

KEY = b"/v1/stores/counts/a"
EVIL = b"Host: evil.example\r\n"
WATCH = b"GET /v1/events HTTP/1.1\r\n" + HOST + b"\r\n"


def get(target: bytes, headers: bytes = HOST) -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\n" + headers + b"\r\n"


def answer_to(url: str, request: bytes, trusting: ssl.SSLContext | None = None) -> bytes:
    with contextlib.closing(Raw(url, trusting)) as raw:
        raw.send(request)
        return raw.answer()


@pytest.mark.parametrize(
    "before", [b"http://localhost", b"HTTP://127.0.0.1:80", b"https://[::1]:1"]
)
@pytest.mark.parametrize("target", [KEY, KEY + b"?partition=0", b"/v1/stores/counts/%2F", b"/%00"])
def test_a_whole_address_is_answered_as_its_path(
    filed: Served, before: bytes, target: bytes
) -> None:
    expected = answer_to(filed.url, get(target))

    assert answer_to(filed.url, get(before + target)) == expected
    assert answer_to(filed.url, get(before + target, EVIL)) == expected


def test_a_whole_address_without_a_path_is_the_page(created: KafkaStreams) -> None:
    with HttpServer(created, HttpOptions(port=0, token="secret")) as server:
        expected = answer_to(server.url, get(b"/"))

        assert b"HTTP/1.1 200 OK" in expected
        assert answer_to(server.url, get(b"http://localhost")) == expected


@pytest.mark.parametrize("name", [b"evil.example", b"localhost@evil.example", b"localhost.evil"])
def test_the_name_in_an_address_counts_and_not_that_of_the_header(
    created: KafkaStreams, name: bytes
) -> None:
    with HttpServer(created, HttpOptions(port=0)) as server:
        answer = answer_to(server.url, get(b"http://" + name + b"/v1/status"))

    assert b"HTTP/1.1 421 " in answer
    assert b"asked as '" + name in answer


@pytest.mark.parametrize("headers", [HOST, HOST + ORDINARILY])
@pytest.mark.parametrize("target", [KEY, b"/v1/stores/counts", b"/v1/status", b"/nothing"])
def test_who_asks_and_then_ends_its_side_is_answered_and_let_go(
    filed: Served, target: bytes, headers: bytes
) -> None:
    request = get(target, headers)
    status = answer_to(filed.url, request).partition(b"\r\n")[0]
    with contextlib.closing(Raw(filed.url)) as raw:
        raw.send(request)
        raw.end()

        assert raw.answer().startswith(status)
        assert raw.answer() == b""


def test_all_that_was_asked_before_the_end_is_answered(filed: Served) -> None:
    keys = [b"a", b"nobody", b"b", b"c"]
    requests = [get(b"/v1/stores/counts/" + key) for key in keys]
    expected = [answer_to(filed.url, request) for request in requests]
    with contextlib.closing(Raw(filed.url)) as raw:
        raw.send(b"".join(requests) + b"GET /half")
        raw.end()

        assert [raw.answer() for _ in keys] == expected
        assert raw.answer() == b""


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTT", WATCH], ids=["nothing", "half", "watch"])
def test_who_ends_its_side_and_waits_for_no_answer_is_let_go(
    created: KafkaStreams, sent: bytes
) -> None:
    with HttpServer(created, HttpOptions(port=0)) as server:
        before = connections_kept()
        with contextlib.closing(Raw(server.url)) as raw:
            raw.send(sent)
            if sent == WATCH:
                assert b"text/event-stream" in raw.answer()
            raw.end()
            wait_until(lambda: connections_kept() <= before, "nothing is kept of it")


def test_over_tls_who_ends_its_side_is_let_go(created: KafkaStreams, tmp_path: Path) -> None:
    certificate, private_key = certificate_of(tmp_path)
    options = HttpOptions(port=0, certificate=certificate, private_key=private_key)
    trusting = ssl.create_default_context(cafile=str(certificate))
    with HttpServer(created, options) as server:
        before = connections_kept()
        with contextlib.closing(Raw(server.url, trusting)) as raw:
            raw.send(get(b"/livez"))
            raw.end()
            wait_until(lambda: connections_kept() <= before, "nothing is kept of it")
