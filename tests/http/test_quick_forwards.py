"""Keys of other processes are asked for where a request is read, and answered as all else is."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pystreams import StreamsBuilder, Topology
from pystreams.broker import DevelopmentBroker
from pystreams.kernel.partitioner import partition_of
from pystreams.runtime.cluster.streams_metadata import HostInfo
from pystreams.serdes import STRING
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.http.answering_owner import Asking, Owner, Tls, asked, run_asking
from tests.http.conftest import Served, Topics, certificate_of
from tests.http.connecting import HOST, ORDINARILY, Raw
from tests.http.counting import counting
from tests.http.scripted_server import Last
from tests.http.test_keys_elsewhere import two

PARTITIONS = 4
KEYS = [b"k%d" % number for number in range(12)]
VALUE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


def value(body: bytes) -> bytes:
    return VALUE % (len(body), body)


SILENCE = value(b"{}").replace(b"{}", b"")
"""A piece of an answer, and nothing more."""


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
    closes = value(b"1").replace(b"200 OK\r\n", b"200 OK\r\nconnection: close\r\n")

    async def ask(asking: Asking) -> None:
        there = asking.to
        assert await asking.asked() == b"1"
        asking.to = HostInfo("nobody.invalid", 1)
        assert await asking.asked() is None
        async with asyncio.timeout(DEADLINE_S):
            while asking.forwards.owners != {there}:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0)
        asking.to = there
        assert await asking.asked() == b"1"
        await asking.until_let_go()

    run_asking(Owner([value(b"1"), closes]), ask)


@pytest.mark.parametrize("cuts", [range(1, len(value(b"1"))), (50,), (len(value(b"")),)])
def test_an_answer_may_come_in_pieces(cuts: Sequence[int]) -> None:
    owner = Owner([value(b"%d" % number) for number in range(5)], cuts)
    assert asked(owner, 5) == [b"0", b"1", b"2", b"3", b"4"]
    assert owner.connections == 1


@pytest.mark.parametrize("over_tls", [False, True])
def test_a_large_answer_is_read_whole(tmp_path: Path, over_tls: bool) -> None:
    large = bytes(range(256)) * 20_000
    owner = Owner([value(large), value(b"1"), value(large)])
    assert asked(owner, 3, tls=tls_of(tmp_path) if over_tls else None) == [large, b"1", large]
    assert owner.connections == 1


def test_the_event_loop_hears_nothing_of_answers() -> None:
    async def ask(asking: Asking) -> None:
        for _ in range(5):
            assert await asking.asked() == b"1"
        assert asking.heard == 0

    run_asking(Owner([value(b"1")] * 5), ask)


def test_the_next_question_may_be_asked_as_soon_as_one_is_answered() -> None:
    numbers = [b"%d" % number for number in range(2_000)]
    owner = Owner([value(number) for number in numbers])

    async def ask(asking: Asking) -> None:
        answers: list[bytes | None] = []
        ended = asyncio.Event()

        def done(body: bytes | None) -> None:
            answers.append(body)
            if len(answers) < len(numbers):
                asking.ask(done)
            else:
                ended.set()

        asking.ask(done)
        await ended.wait()
        assert answers == numbers

    run_asking(owner, ask)
    assert owner.connections == 1


@pytest.mark.parametrize("cut", [9, 50, len(value(b"1")) - 1])
def test_an_owner_that_ends_in_the_middle_of_an_answer_has_given_none(cut: int) -> None:
    owner = Owner([value(b"1"), Last(value(b"2")[:cut]), value(b"3")])
    assert asked(owner, 3) == [b"1", None, b"3"]
    assert owner.connections == 2


def test_what_an_owner_says_unasked_is_no_answer_to_the_next_question() -> None:
    owner = Owner([value(b"1"), value(b"2")])

    async def ask(asking: Asking) -> None:
        assert await asking.asked() == b"1"
        owner.say(value(b"unasked"))
        await asking.until_let_go()
        assert await asking.asked() == b"2"
        assert asking.errors == []

    run_asking(owner, ask)
    assert owner.connections == 2


def test_who_fails_at_an_answer_is_told_of_and_the_next_question_goes_on() -> None:
    panic = KeyError("who has asked")

    async def ask(asking: Asking) -> None:
        def fail(_: bytes | None) -> None:
            raise panic

        assert await asking.asked() == b"1"
        asking.ask(fail)
        await asking.until_let_go()
        assert asking.errors == [panic]
        assert await asking.asked() == b"3"

    run_asking(Owner([value(b"1"), value(b"2"), value(b"3")]), ask)


def tls_of(directory: Path) -> Tls:
    certificate, key = certificate_of(directory)
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(certificate, key)
    return Tls(served, ssl.create_default_context(cafile=str(certificate)))


def test_owners_are_asked_over_tls(tmp_path: Path) -> None:
    owner = Owner([value(b"1"), value(b"2")])
    assert asked(owner, 2, tls=tls_of(tmp_path)) == [b"1", b"2"]
    assert owner.connections == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "orders-0..svc", "x" * 64 + ".svc"])
def test_who_does_not_listen_or_has_no_address_is_for_the_ordinary_way(host: str) -> None:
    async def ask(asking: Asking) -> None:
        asking.to = HostInfo(host, 1)
        assert await asking.asked() is None

    run_asking(Owner([]), ask)


def request(key: bytes, more: bytes = b"") -> bytes:
    return b"GET /v1/stores/counts/%b HTTP/1.1\r\n%b%b\r\n" % (key, HOST, more)


def answers_in_turn(raw: Raw) -> list[bytes]:
    """Ask for each key once the one before is answered."""
    answers = []
    for key in KEYS:
        raw.send(request(key))
        answers.append(raw.answer())
    return answers


def wait_until_both_have_keys(instances: list[Served]) -> None:
    """Wait until all keys are there, some in each instance."""
    last: list[bytes] = []

    def all_there() -> bool:
        answers = [
            one.ask(f"/v1/stores/counts/{key.decode()}") for one in instances for key in KEYS
        ]
        last[:] = [answer.body[:200] for answer in answers]
        owners = {answer.headers["x-pystreams-owner"] for answer in answers}
        return len(owners) == 3 and all(answer.status == 200 for answer in answers)

    wait_until(all_there, "all keys, in two processes", told=lambda: f"{last}")


@pytest.fixture
def instances(broker: DevelopmentBroker, topics: Topics, tmp_path: Path) -> Iterator[list[Served]]:
    """Two instances that each have a part of the keys, and know of each other."""
    topic = topics.make("forwarded", PARTITIONS)
    topics.write(topic, [(key.decode(), "x", 0) for key in KEYS])
    with two(broker, counting, topic, tmp_path) as started:
        wait_until_both_have_keys(started)
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
        expected = answers_in_turn(raw)
        for _ in range(10):
            for key in KEYS:  # No answer is waited for.
                raw.send(request(key))
            assert [raw.answer() for _ in KEYS] == expected


def test_questions_that_come_together_are_answered_in_order(instances: list[Served]) -> None:
    with contextlib.closing(Raw(instances[0].url)) as raw:
        expected = answers_in_turn(raw)
        for _ in range(10):
            raw.send(b"".join(map(request, KEYS)))
            assert [raw.answer() for _ in KEYS] == expected


def test_where_an_answer_fails_who_has_asked_is_let_go_and_nobody_else(
    instances: list[Served], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        contextlib.closing(Raw(instances[0].url)) as other,
        contextlib.closing(Raw(instances[0].url)) as raw,
    ):
        for key in KEYS:
            other.send(request(key))
            expected = other.answer()
            if b"x-pystreams-owner" in expected:
                break
        with monkeypatch.context() as patched:
            patched.delattr("pystreams.http.connections.forwarded_answer")
            raw.send(request(key))
            assert raw.answer() == b""
        (told,) = [record.exc_info for record in caplog.records if record.name == "asyncio"]
        assert told is not None
        assert "forwarded_answer" in str(told[1])
        other.send(request(key))
        assert other.answer() == expected


def latest(topic: str) -> Topology:
    builder = StreamsBuilder()
    builder.table(topic, key_serde=STRING, value_serde=STRING, name="counts")
    return builder.build()


def test_a_large_value_of_another_process_is_answered_whole_to_who_takes_it_slowly(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("large", PARTITIONS)
    topics.write(topic, [(key.decode(), key.decode() * 150_000, 0) for key in KEYS])
    with two(broker, latest, topic, tmp_path) as started:
        wait_until_both_have_keys(started)
        elsewhere = 0
        for instance in started:
            with contextlib.closing(Raw(instance.url)) as raw:
                expected = []
                for key in KEYS:
                    raw.send(request(key, ORDINARILY))
                    expected.append(raw.answer())
                for key in KEYS:  # The next comes before one is taken.
                    raw.send(request(key))
                assert [raw.answer() for _ in KEYS] == expected
            elsewhere += sum(b"x-pystreams-owner" in answer for answer in expected)
        assert elsewhere == len(KEYS)


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
