"""Keys of other processes are asked for where a request is read, and answered as all else is."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from pystreams.broker import DevelopmentBroker
from pystreams.http.stores.quick_forwards import Forward, QuickForwards
from pystreams.kernel.partitioner import partition_of
from pystreams.runtime.cluster.streams_metadata import HostInfo
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.http.conftest import Served, Topics, certificate_of
from tests.http.connecting import HOST, ORDINARILY, Raw
from tests.http.counting import counting
from tests.http.test_keys_elsewhere import two

PARTITIONS = 4
KEYS = [b"k%d" % number for number in range(12)]
VALUE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


def value(body: bytes) -> bytes:
    return VALUE % (len(body), body)


SILENCE = value(b"{}").replace(b"{}", b"")
"""A piece of an answer, and nothing more."""


class Owner:
    """Answers each request with the next of some answers; an empty one hangs up.

    Attributes:
        connections: How often somebody has connected.
        ended: No connection is open any more.
    """

    def __init__(self, answers: Sequence[bytes]) -> None:
        self._answers = list(answers)
        self.connections = 0
        self.ended = asyncio.Event()
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open += 1
        self.ended.clear()
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                answer = self._answers.pop(0)
                if not answer:
                    break
                for piece in (answer[:9], answer[9:]):
                    writer.write(piece)
                    await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self._open -= 1
        if not self._open:
            self.ended.set()


class Tls(NamedTuple):
    """How an owner is served over TLS, and how it is asked."""

    served: ssl.SSLContext
    asked: ssl.SSLContext


def asked(
    owner: Owner,
    times: int,
    *,
    at_once: bool = False,
    tls: Tls | None = None,
    timeout_s: float = DEADLINE_S,
) -> list[bytes | None]:
    """Return what an owner is understood to have answered, however slow this machine is."""

    async def ask_all() -> list[bytes | None]:
        server = await asyncio.start_server(
            owner.serve, "127.0.0.1", 0, ssl=tls.served if tls else None
        )
        (listening,) = server.sockets
        to = HostInfo("127.0.0.1", listening.getsockname()[1])
        forwards, found = QuickForwards(tls.asked if tls else None, timeout_s=timeout_s), []
        loop = asyncio.get_running_loop()
        for _ in range(times):
            answer: asyncio.Future[bytes | None] = loop.create_future()
            forwards.ask(Forward(to, b"GET / HTTP/1.1\r\n\r\n"), answer.set_result)
            found.append(answer)
            if not at_once:
                await answer
        bodies = [await answer for answer in found]
        forwards.close()
        server.close()
        await owner.ended.wait()
        return bodies

    return asyncio.run(ask_all())


def test_a_connection_is_used_again_and_again() -> None:
    owner = Owner([value(b"%d" % number) for number in range(5)])
    assert asked(owner, 5) == [b"0", b"1", b"2", b"3", b"4"]
    assert owner.connections == 1


def test_questions_at_once_have_connections_of_their_own() -> None:
    owner = Owner([value(b"1")] * 5)
    assert asked(owner, 5, at_once=True) == [b"1"] * 5
    assert owner.connections == 5


def test_a_burst_of_questions_waits_in_order_for_a_few_connections() -> None:
    owner = Owner([value(b"1")] * 300)
    assert asked(owner, 300, at_once=True) == [b"1"] * 300
    assert owner.connections <= 40


def test_questions_that_wait_go_on_over_new_connections_where_others_hang_up() -> None:
    owner = Owner([b""] * 50 + [value(b"1")] * 250)
    assert sorted(asked(owner, 300, at_once=True), key=str) == [None] * 50 + [b"1"] * 250


def test_questions_that_wait_for_an_owner_that_says_nothing_go_the_ordinary_way() -> None:
    assert asked(Owner([SILENCE] * 100), 100, at_once=True, timeout_s=1.0) == [None] * 100


def test_after_an_owner_that_says_nothing_the_next_question_goes_on() -> None:
    answers = asked(Owner([SILENCE] + [value(b"2")] * 20), 20, timeout_s=1.0)
    assert answers[0] is None
    assert b"2" in answers


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(value(b"{}").replace(b"200 OK", b"404 Not Found"), id="no key"),
        pytest.param(value(b"{}").replace(b"200 OK", b"421 Misdirected Request"), id="moved"),
        pytest.param(value(b"{}").replace(b"application/json", b"text/html"), id="no JSON"),
        pytest.param(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", id="no length"),
        pytest.param(value(b"{}") + b"more", id="more than its length"),
        pytest.param(b"x" * 100_000, id="no HTTP"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_what_is_no_value_is_for_the_ordinary_way_and_the_next_question_goes_on(
    answer: bytes,
) -> None:
    assert asked(Owner([answer, value(b"2")]), 2) == [None, b"2"]


def test_who_says_that_it_closes_is_not_asked_on_that_connection_again() -> None:
    closing = value(b"1").replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    owner = Owner([closing, value(b"2")])
    assert asked(owner, 2) == [b"1", b"2"]
    assert owner.connections == 2


def test_an_owner_is_forgotten_when_no_connection_to_it_is_left() -> None:
    """So are those that never listen: where addresses come and go, none is kept for ever."""

    async def ask() -> None:
        closes = value(b"1").replace(b"200 OK\r\n", b"200 OK\r\nconnection: close\r\n")
        owner, nobody = Owner([value(b"1"), closes]), HostInfo("nobody.invalid", 1)
        server = await asyncio.start_server(owner.serve, "127.0.0.1", 0)
        (listening,) = server.sockets
        there = HostInfo("127.0.0.1", listening.getsockname()[1])
        forwards, loop = QuickForwards(None), asyncio.get_running_loop()
        for to, left in ((there, {there}), (nobody, {there}), (there, set())):
            answer: asyncio.Future[bytes | None] = loop.create_future()
            forwards.ask(Forward(to, b"GET / HTTP/1.1\r\n\r\n"), answer.set_result)
            await answer
            async with asyncio.timeout(DEADLINE_S):
                while forwards.owners != left:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0)
        server.close()
        await owner.ended.wait()

    asyncio.run(ask())


def test_owners_are_asked_over_tls(
    tmp_path: Path,
) -> None:
    certificate, key = certificate_of(tmp_path)
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(certificate, key)
    knowing = ssl.create_default_context(cafile=str(certificate))
    owner = Owner([value(b"1"), value(b"2")])
    assert asked(owner, 2, tls=Tls(served, knowing)) == [b"1", b"2"]
    assert owner.connections == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "orders-0..svc", "x" * 64 + ".svc"])
def test_who_does_not_listen_or_has_no_address_is_for_the_ordinary_way(host: str) -> None:
    async def ask() -> bytes | None:
        answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        QuickForwards(None).ask(Forward(HostInfo(host, 1), b""), answer.set_result)
        return await answer

    assert asyncio.run(ask()) is None


def request(key: bytes, more: bytes = b"") -> bytes:
    return b"GET /v1/stores/counts/%b HTTP/1.1\r\n%b%b\r\n" % (key, HOST, more)


@pytest.fixture
def instances(broker: DevelopmentBroker, topics: Topics, tmp_path: Path) -> Iterator[list[Served]]:
    """Two instances that each have a part of the keys, and know of each other."""
    topic = topics.make("forwarded", PARTITIONS)
    topics.write(topic, [(key.decode(), "x", 0) for key in KEYS])
    with two(broker, counting, topic, tmp_path) as started:

        def all_there() -> bool:
            answers = [
                one.ask(f"/v1/stores/counts/{key.decode()}") for one in started for key in KEYS
            ]
            owners = {answer.headers["x-pystreams-owner"] for answer in answers}
            return len(owners) == 3 and all(answer.status == 200 for answer in answers)

        wait_until(all_there, "all keys, in two processes")
        yield started


def test_keys_of_another_process_are_answered_the_same_both_ways(instances: list[Served]) -> None:
    with contextlib.ExitStack() as stack:
        for instance in instances:
            raw = stack.enter_context(contextlib.closing(Raw(instance.url)))
            elsewhere = 0
            for key in [*KEYS, b"k1?partition=0", b"k1?isolation=read_committed", b"absent"]:
                raw.send(request(key, ORDINARILY))
                ordinary = raw.answer()
                for _ in range(2):
                    raw.send(request(key))
                    assert raw.answer() == ordinary
                elsewhere += b"x-pystreams-owner" in ordinary
            assert elsewhere > 1


def test_what_follows_a_question_for_another_process_is_answered_in_order(
    instances: list[Served],
) -> None:
    with contextlib.closing(Raw(instances[0].url)) as raw:
        expected = []
        for key in KEYS:
            raw.send(request(key))
            expected.append(raw.answer())
        for _ in range(10):
            for key in KEYS:  # No answer is waited for.
                raw.send(request(key))
            assert [raw.answer() for _ in KEYS] == expected


def test_a_question_that_was_passed_on_is_answered_by_who_is_asked_or_not_at_all(
    instances: list[Served],
) -> None:
    with contextlib.closing(Raw(instances[0].url)) as raw:
        for asked, statuses in ((b"", {b"200", b"404"}), (b"?partition=%d", {b"200", b"421"})):
            answers = []
            for key in KEYS:
                number = partition_of(key, PARTITIONS)
                target = key + (asked % number if asked else b"")
                raw.send(request(target, b"X-Pystreams-Forwarded: 1\r\n"))
                answers.append(raw.answer())
            assert {answer.partition(b"HTTP/1.1 ")[2][:3] for answer in answers} == statuses
            assert not any(b"x-pystreams-owner" in answer for answer in answers)


def test_after_the_owner_has_gone_a_question_is_answered_or_refused(
    instances: list[Served],
) -> None:
    """It is refused with the reason until another process has its keys."""
    with contextlib.closing(Raw(instances[0].url)) as raw:

        def ask_all() -> list[bytes]:
            answers = []
            for key in KEYS:
                raw.send(request(key))
                answers.append(raw.answer())
            return answers

        before = ask_all()
        assert instances[1].streams.close(60, leave_group=True)
        wait_until(lambda: all(b'"value":1' in answer for answer in ask_all()), "all keys here")
        assert any(b"x-pystreams-owner" in answer for answer in before)
        assert not any(b"x-pystreams-owner" in answer for answer in ask_all())
