"""Connections read questions before the event loop does, whatever a serde does then."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pystreams import StreamsBuilder
from pystreams.broker import DevelopmentBroker
from pystreams.http.server import HttpOptions
from pystreams.serdes import STRING, Serde
from tests.broker.waiting import wait_until
from tests.http.conftest import Served, Topics, certificate_of, served
from tests.http.connecting import HOST, ORDINARILY, Raw

LARGE = "x" * 400_000


class Panic(BaseException):
    """What a serde that is written in another language may raise."""


class Panicking(Serde[str]):
    """Panics at a value, unless a stream thread reads it."""

    def serializer(self, topic: str) -> Callable[[str], bytes]:
        return str.encode

    def deserializer(self, topic: str) -> Callable[[bytes], str]:
        def deserialize(data: bytes) -> str:
            if data == b"panic" and threading.current_thread().name == "pystreams-http":
                raise Panic("at the disco")
            return data.decode()

        return deserialize


@contextlib.contextmanager
def latest(
    broker: DevelopmentBroker, topics: Topics, directory: Path, **options: Any
) -> Iterator[Served]:
    """Serve a table of the latest value of each key."""
    topic = topics.make("latest", 1)
    topics.write(topic, [("bad", "panic", 0), ("good", "value", 0), ("large", LARGE, 0)])
    builder = StreamsBuilder()
    builder.table(topic, key_serde=STRING, value_serde=Panicking(), name="latest")
    asked = HttpOptions(port=0, **options)
    with served(broker, builder.build(), directory, asked) as application:
        application.streams.start()
        yield application


def request_for(key: bytes, headers: bytes = b"") -> bytes:
    return b"GET /v1/stores/latest/%b HTTP/1.1\r\n%b%b\r\n" % (key, HOST, headers)


def test_a_serde_that_panics_costs_the_question_and_not_the_server(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    with latest(broker, topics, tmp_path) as application:
        application.wait_for_value("/v1/stores/latest/good", "value", "value")
        for _ in range(2):
            with contextlib.closing(Raw(application.url)) as raw:
                for key, status in ((b"good", b"200"), (b"bad", b"500")):
                    raw.send(request_for(key))
                    assert b"HTTP/1.1 " + status in raw.answer(), key


@pytest.mark.parametrize("over_tls", [False, True])
def test_a_large_value_is_answered_whole_to_who_takes_it_slowly(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path, over_tls: bool
) -> None:
    options: dict[str, Path] = {}
    trusting = None
    if over_tls:
        certificate, private_key = certificate_of(tmp_path)
        options = {"certificate": certificate, "private_key": private_key}
        trusting = ssl.create_default_context(cafile=str(certificate))
    with (
        latest(broker, topics, tmp_path / "state", **options) as application,
        contextlib.closing(Raw(application.url, trusting)) as raw,
    ):

        def asked(headers: bytes = b"") -> bytes:
            raw.send(request_for(b"large", headers))
            return raw.answer()

        wait_until(lambda: b"HTTP/1.1 200" in asked(), "the store is there")
        answers = [asked(headers) for headers in (b"", ORDINARILY, b"")]
        assert answers[0] == answers[1] == answers[2]
        assert LARGE.encode() in answers[0]
        for key in (b"large", b"good", b"large"):  # The next comes before one is taken.
            raw.send(request_for(key))
        told = [raw.answer() for _ in range(3)]
        assert told[0] == told[2] == answers[0]
        assert b'"good"' in told[1]


def test_the_event_loop_hears_nothing_of_questions_for_keys(
    filed: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []
    name = "pystreams.http.connections._Connection.data_received"
    with contextlib.closing(Raw(filed.url)) as raw:
        monkeypatch.setattr(name, lambda _, data: heard.append(data))
        for key in (b"a", b"b"):
            raw.send(b"GET /v1/stores/counts/%b HTTP/1.1\r\n%b\r\n" % (key, HOST))
            assert b'"value":4' in raw.answer()
    assert heard == []
