"""What is answered where it is read is answered as all else is: byte by byte the same."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams.http.guard import MAX_ADDRESS_BYTES
from pystreams.http.server import HttpOptions, HttpServer
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.http.conftest import Served
from tests.http.connecting import HOST, ORDINARILY, Raw


@pytest.fixture
def connection(filed: Served) -> Iterator[Raw]:
    with contextlib.closing(Raw(filed.url)) as raw:
        yield raw


@pytest.mark.parametrize(
    "target",
    [
        b"counts/a",
        b"counts/%61",
        b"%63ounts/a",
        b"counts%2Fa",
        b"counts/a?",
        b"counts/a?isolation=read_committed",
        b"counts/a?isolation=READ_UNCOMMITTED&partition=0",
        b"counts/a?isolation=unknown",
        b"counts/a?nothing=such",
        b"counts/a?min_position=%7B%22x%22%3A%7B%220%22%3A5%7D%7D",
        b"counts/a?partition=99",
        b"counts/nobody",
        b"counts/a%2Fb",
        b"counts/%FF",
        b"counts/%zz",
        b"counts/a%0A",
        b"counts/%0Aa",
        b"/a",
        b"counts/",
        b"counts//",
        b"counts",
        b"counts?limit=2",
        b"absent/a",
        b"by-length/2",
        b"by-length/two",
        b"windows/a",
        b"windows/a?time_from=1000000&time_to=1000000",
        b"versions/a?as_of=1000005",
        b"versions/a",
        b"sessions/a",
        b"places/here",
        b"plain/a",
    ],
)
def test_both_ways_answer_the_same(connection: Raw, target: bytes) -> None:
    request = b"GET /v1/stores/" + target + b" HTTP/1.1\r\n" + HOST
    connection.send(request + ORDINARILY + b"\r\n")
    ordinary = connection.answer()
    for _ in range(2):  # The second time its headers are known.
        connection.send(request + b"\r\n")
        assert connection.answer() == ordinary
    assert ordinary.count(b"content-length") == 1


TARGETS = [
    *(b"counts/a", b"counts/b", b"counts/nobody", b"counts/%61", b"counts/a%2Fb", b"counts/a/b"),
    *(b"counts/", b"counts/a?", b"counts/a?partition=0", b"counts/a?isolation=read_committed"),
    *(
        b"counts/a:b@c",
        b"counts/" + b"x" * MAX_ADDRESS_BYTES,
        b"by-length/2",
        b"by-length/two",
        b"absent/a",
    ),
    *(b"%63ounts/a", b"windows/a", b"versions/a", b"plain/a", b"places/here", b"counts/a HTTP"),
]
HEADERS = [
    *(HOST, HOST + b"Accept: */*\r\n", HOST + b"accept: */*\r\n", HOST + b"X:\r\n"),
    *(HOST + b"X-Pystreams-Forwarded: 1\r\n", HOST + b"Content-Length: 0\r\n"),
    *(b"Host: evil.example\r\n", HOST + HOST, b""),
]


NO_HTTP = b"HTTP/1.1 400 Bad Request"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(TARGETS), st.sampled_from(HEADERS)), min_size=2, max_size=12)
)
def test_what_was_asked_before_on_a_connection_makes_no_difference(
    filed: Served, asked: list[tuple[bytes, bytes]]
) -> None:
    requests = [
        b"GET /v1/stores/" + target + b" HTTP/1.1\r\n" + headers + b"\r\n"
        for target, headers in asked
    ]
    used = Raw(filed.url)
    try:
        for request in requests:
            used.send(request)
            answer = used.answer()
            with contextlib.closing(Raw(filed.url)) as fresh:
                fresh.send(request)
                expected = fresh.answer()
            if NO_HTTP in expected:  # After which it is closed; the parser says it in two ways.
                assert NO_HTTP in answer, request
                used.close()
                used = Raw(filed.url)
            else:
                assert answer == expected, request
    finally:
        used.close()


@pytest.mark.parametrize("target", [b"counts/a", b"by-length/2", b"plain/a", b"counts/nobody"])
def test_a_key_is_answered_the_same_with_and_without_parameters(
    connection: Raw, target: bytes
) -> None:
    answers = []
    for asked in (target, target + b"?isolation=read_uncommitted"):
        connection.send(b"GET /v1/stores/" + asked + b" HTTP/1.1\r\n" + HOST + b"\r\n")
        answers.append(connection.answer())
    assert answers[0] == answers[1]


ASKED = b"GET /v1/stores/counts/a HTTP/1.1\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(ASKED + b"\r\n", b"400", id="no host"),
        pytest.param(ASKED + HOST + HOST + b"\r\n", b"400", id="two hosts"),
        pytest.param(ASKED + b"Host: evil.example\r\n\r\n", b"421", id="another host"),
        pytest.param(ASKED + HOST + b"No Header\r\n\r\n", b"400", id="no header"),
        pytest.param(ASKED + HOST + b"X: a\x00b\r\n\r\n", b"400", id="nul"),
        pytest.param(ASKED.replace(b"/a", b"/a b") + HOST + b"\r\n", b"400", id="space"),
        pytest.param(ASKED.replace(b"/a", b"/\xff") + HOST + b"\r\n", b"400", id="no ASCII"),
        pytest.param(ASKED.replace(b"1.1", b"one") + HOST + b"\r\n", b"400", id="version"),
        pytest.param(ASKED + HOST + b"X: %b\r\n\r\n" % (b"y" * 9000), b"200", id="long header"),
        pytest.param(ASKED.replace(b"GET", b"POST") + HOST + b"\r\n", b"405", id="method"),
    ],
)
def test_what_is_out_of_the_ordinary_is_decided_as_ever(
    connection: Raw, request_bytes: bytes, status: bytes
) -> None:
    connection.send(request_bytes)
    (line,) = (line for line in connection.answer().split(b"\r\n") if line.startswith(b"HTTP/"))
    assert line.split(b" ")[1] == status


def test_requests_that_come_in_pieces_or_together_are_answered_in_order(connection: Raw) -> None:
    """Pieces meet the parser of the ordinary way, and so does what follows them at once."""
    expected = []
    for key in b"abc":
        connection.send(b"GET /v1/stores/counts/%c HTTP/1.1\r\n%b\r\n" % (key, HOST))
        expected.append(connection.answer())
    requests = [b"GET /v1/stores/counts/%c HTTP/1.1\r\n%b\r\n" % (key, HOST) for key in b"abc"]
    connection.send(b"".join(requests))
    assert [connection.answer() for _ in requests] == expected
    for request in requests:
        for byte in request:
            connection.send(bytes([byte]))
    assert [connection.answer() for _ in requests] == expected


def test_a_body_is_not_taken_for_the_next_request(connection: Raw) -> None:
    inner = b"GET /v1/stores/counts/b HTTP/1.1\r\n" + HOST + b"\r\n"
    head = b"GET /v1/stores/counts/a HTTP/1.1\r\n" + HOST
    connection.send(head + b"Content-Length: %d\r\n\r\n" % len(inner))
    assert b'"key":"a"' in connection.answer()
    connection.send(inner)
    connection.send(b"GET /v1/stores/counts/c HTTP/1.1\r\n" + HOST + b"\r\n")
    assert b'"key":"c"' in connection.answer()


def test_who_asks_to_close_is_closed(connection: Raw) -> None:
    connection.send(b"GET /v1/stores/counts/a HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
    assert b'"key":"a"' in connection.answer()
    assert connection.answer() == b""


def test_a_token_is_asked_for_with_each_request_of_a_connection(filed: Served) -> None:
    good = b"Authorization: Bearer secret\r\n"
    with (
        HttpServer(filed.streams, HttpOptions(port=0, token="secret")) as server,
        contextlib.closing(Raw(server.url)) as raw,
    ):
        for header, status in (
            (b"", b"401"),
            (good, b"200"),
            (good, b"200"),
            (b"Authorization: bearer secret\r\n", b"200"),
            (b"Authorization: Bearer wrong\r\n", b"401"),
            (b"", b"401"),
            (good, b"200"),
        ):
            raw.send(ASKED + HOST + header + b"\r\n")
            assert b"HTTP/1.1 " + status in raw.answer(), (header, status)


def answered(url: str) -> Raw:
    """Return a connection that has an answer; one that was idle before it asked is closed."""
    opened: list[Raw] = []

    def asked() -> bool:
        opened.append(Raw(url))
        opened[-1].send(ASKED + HOST + b"\r\n")
        answer = opened[-1].answer()
        if not answer:
            opened[-1].close()
        return bool(answer)

    wait_until(asked, "an answer")
    return opened[-1]


def test_a_connection_on_which_keys_are_asked_for_is_not_idle(filed: Served) -> None:
    """Another one is closed meanwhile."""
    idle_s = 0.5
    with (
        HttpServer(filed.streams, HttpOptions(port=0, idle_timeout_s=idle_s)) as server,
        contextlib.ExitStack() as stack,
        contextlib.closing(answered(server.url)) as left,
    ):
        waiting = threading.Thread(target=left.answer)
        waiting.start()
        longest_s, last_s = 0.0, time.monotonic()
        used = stack.enter_context(contextlib.closing(Raw(server.url)))
        while waiting.is_alive():
            used.send(ASKED + HOST + b"\r\n")
            answer = used.answer()
            now_s = time.monotonic()
            longest_s, last_s = max(longest_s, now_s - last_s), now_s
            # On a machine that gave this test no time it was idle indeed.
            assert answer or longest_s > idle_s
            if not answer:
                break
        waiting.join(DEADLINE_S)
        assert not waiting.is_alive()
