"""The Python client's connections: kept for the next question, and let go of."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pystreams import KafkaStreams
from pystreams.client import Client, HttpQueryError
from pystreams.client.kept_connections import Address, KeptConnections
from pystreams.http.application import application_of
from pystreams.http.direct_sockets import DirectSockets
from pystreams.http.server import HttpOptions, HttpServer
from pystreams.testing.simulation import ManualClock
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.http.scripted_server import Asked, Last, as_json, in_between, scripted
from tests.ports import ports_in_a_row

PROJECT = Path(__file__).parents[2]


def told(asked: Asked) -> bytes:
    return as_json({"asked": asked.target, "connection": asked.connection})


def test_one_connection_takes_all_questions(created: KafkaStreams) -> None:
    """Refused ones, and ranges, as well."""
    with (
        HttpServer(created, HttpOptions(port=0)) as server,
        in_between(server.url.removeprefix("http://")) as between,
        Client(between.url) as client,
    ):
        for _ in range(3):
            assert client.status()["state"] == "CREATED"
        for ask in (lambda: client.get("absent", "a"), lambda: list(client.range("absent"))):
            with pytest.raises(HttpQueryError, match="there is no store 'absent'"):
                ask()
        assert client.status()["state"] == "CREATED"
        assert between.accepted == 1


@pytest.mark.parametrize("token", [None, "secret"])
def test_a_question_for_a_key_is_one_that_is_answered_where_it_is_read(
    created: KafkaStreams, token: str | None
) -> None:
    quick = application_of(created, DirectSockets(), token).quick.of_connection()
    with scripted(told) as server, Client(server.url, token=token) as client:
        client.get("counts", "a", isolation="unknown")

    (asked,) = server.asked
    headers = "".join(f"{name}: {value}\r\n" for name, value in asked.headers.items())
    answer = quick(f"GET {asked.target} HTTP/1.1\r\n{headers}\r\n".encode(), b"now")
    assert isinstance(answer, bytes)
    assert b"isolation is one of" in answer


def test_a_server_that_was_started_again_answers_the_next_question(created: KafkaStreams) -> None:
    (port,) = ports_in_a_row(1)
    client = Client(f"http://127.0.0.1:{port}")
    for _ in range(3):
        with HttpServer(created, HttpOptions(port=port)):
            assert client.status()["state"] == "CREATED"
    with pytest.raises(HttpQueryError, match=r"does not answer: .*refused"):
        client.status()


def test_a_question_is_asked_again_once_and_only_where_no_answer_had_begun() -> None:
    says: list[bytes] = []
    with (
        scripted(lambda asked: says.pop(0) if says else told(asked)) as server,
        Client(server.url) as client,
    ):
        assert client.get("s", "a")
        says[:] = [Last()]
        assert client.get("s", "b") == {"asked": "/v1/stores/s/b", "connection": 2}
        says[:] = [Last(), Last(), told(server.asked[0])]
        with pytest.raises(HttpQueryError, match="does not answer"):
            client.get("s", "c")
        says.clear()
        assert client.get("s", "d")
        says[:] = [Last(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")]
        with pytest.raises(HttpQueryError, match="not to the end: IncompleteRead"):
            client.get("s", "e")
        assert client.get("s", "f")

    keys = [asked.target[-1] for asked in server.asked]
    assert keys == list("abbccdef")


def test_a_connection_that_was_closed_while_it_waited_costs_no_answer() -> None:
    with scripted(lambda asked: Last(told(asked))) as server, Client(server.url) as client:
        for connection in (1, 2, 3):
            assert client.get("s", "a") == {"asked": "/v1/stores/s/a", "connection": connection}
            wait_until(lambda: server.opened == 0, "the server has closed it")


def test_an_answer_that_does_not_come_in_time_is_not_waited_for_twice() -> None:
    ended = threading.Event()

    def silent(asked: Asked) -> bytes:
        if asked.target == "/v1/stores/s/quick":
            return told(asked)
        ended.wait(DEADLINE_S)
        return Last()

    with scripted(silent) as server, Client(server.url, timeout_s=0.5) as client:

        def answered() -> bool:
            with contextlib.suppress(HttpQueryError):  # On a machine that stood still.
                return client.get("s", "quick") is not None
            return False

        wait_until(answered, "a connection that waits")
        for _ in range(2):
            with pytest.raises(HttpQueryError, match="does not answer: timed out"):
                client.get("s", "slow")
        ended.set()

    assert [asked.target for asked in server.asked].count("/v1/stores/s/slow") == 2


@pytest.mark.parametrize("ended_by", ["time", "close"])
def test_what_is_ended_over_a_connection_that_has_waited_is_not_asked_again(ended_by: str) -> None:
    let_go = threading.Event()

    def slow(asked: Asked) -> bytes:
        if asked.target == "/slow":
            let_go.wait(DEADLINE_S)
        return told(asked)

    with scripted(slow) as server:
        address = Address("http", server.url.removeprefix("http://"))
        kept = KeptConnections(DEADLINE_S, None)
        kept.get(address, "/", {})
        limit = {"within_s": 0.2} if ended_by == "time" else {"ends_with_close": True}
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(kept.get, address, "/slow", {}, **limit)
            if ended_by == "close":
                wait_until(lambda: len(server.asked) == 2, "it is asked")
                kept.close()
            wait_until(lambda: answer.done() or len(server.asked) > 2, "it is ended")
            let_go.set()
            with pytest.raises(TimeoutError if ended_by == "time" else ConnectionError):
                answer.result(DEADLINE_S)
        wait_until(lambda: server.opened == 0, "closed")
        assert [asked.target for asked in server.asked] == ["/", "/slow"]


def test_the_time_that_one_question_has_says_nothing_of_the_next_over_its_connection() -> None:
    is_over = time.monotonic() + DEADLINE_S

    def slow(asked: Asked) -> bytes:
        if asked.target == "/slow":
            wait_until(lambda: time.monotonic() > is_over, "the first one's time is over")
        return told(asked)

    with scripted(slow) as server:
        address = Address("http", server.url.removeprefix("http://"))
        kept = KeptConnections(DEADLINE_S, None)
        kept.get(address, "/", {})

        def answered() -> bool:
            with contextlib.suppress(TimeoutError):  # On a machine that stood still.
                return kept.get(address, "/quick", {}, within_s=1).status == 200
            return False

        wait_until(answered, "an answer in time")
        is_over = time.monotonic() + 1
        kept.get(address, "/slow", {})
        kept.close()
        quick, slow_one = server.asked[-2:]
        assert (slow_one.target, slow_one.connection) == ("/slow", quick.connection)


def test_threads_get_each_its_own_answers_over_few_connections() -> None:
    threads, questions = 8, 50
    wrong: list[object] = []
    begin = threading.Barrier(threads)

    with scripted(told) as server, Client(server.url) as client:

        def ask(thread: int) -> None:
            begin.wait(DEADLINE_S)
            for number in range(questions):
                found = client.get("s", f"{thread}-{number}")
                if not found or found["asked"] != f"/v1/stores/s/{thread}-{number}":
                    wrong.append(found)

        asking = [threading.Thread(target=ask, args=(number,)) for number in range(threads)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(DEADLINE_S)

    assert not wrong
    assert len(server.asked) == threads * questions
    assert server.accepted <= threads


def test_a_client_that_is_closed_or_dropped_lets_go_of_its_connections() -> None:
    with scripted(told) as server:
        with Client(server.url) as client:
            client.get("s", "a")
            assert server.opened == 1
        wait_until(lambda: server.opened == 0, "closed at the end of the block")
        client.get("s", "a")  # It is opened anew.
        assert server.opened == 1
        client.close()
        wait_until(lambda: server.opened == 0, "closed")
        client.get("s", "a")
        del client
        gc.collect()
        wait_until(lambda: server.opened == 0, "dropped")


def test_connections_to_addresses_that_are_asked_no_more_are_closed_as_others_are_used() -> None:
    clock = ManualClock()
    with contextlib.ExitStack() as servers:
        before = [servers.enter_context(scripted(told)) for _ in range(3)]
        now = servers.enter_context(scripted(told))
        kept = KeptConnections(DEADLINE_S, None, monotonic_s=lambda: clock.monotonic_ms() / 1000)
        for server in [*before, now]:
            kept.get(Address("http", server.url.removeprefix("http://")), "/", {})
        assert [server.opened for server in [*before, now]] == [1, 1, 1, 1]
        clock.advance_ms(3_600_000)
        kept.get(Address("http", now.url.removeprefix("http://")), "/", {})

        wait_until(lambda: not any(server.opened for server in before), "closed")
        assert now.accepted == 2
        kept.close()


def test_a_connection_that_comes_back_as_all_are_closed_is_closed_as_well() -> None:
    times: list[Callable[[], None]] = [lambda: None]

    def closing() -> float:
        """Close as it is noted since when a connection waits: then it is about to be kept."""
        if times:
            times.pop(0)()
        return 0.0

    with scripted(told) as server:
        kept = KeptConnections(DEADLINE_S, None, monotonic_s=closing)
        times.append(kept.close)
        kept.get(Address("http", server.url.removeprefix("http://")), "/", {})
        assert times == []
        wait_until(lambda: server.opened == 0, "closed")


ASKS_AND_FORKS = """
import os, sys
from pystreams.client import Client
client = Client(sys.argv[1])
for process in range(2):
    assert client.get("s", "before")
    child = os.fork()
    if not child:
        assert client.get("s", "child")
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
    assert client.get("s", "parent")
sys.argv[2:] and client.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
@pytest.mark.parametrize("closing", [[], ["close"]], ids=["dropped", "closed"])
def test_a_forked_process_opens_its_own_and_leaves_no_warning(closing: list[str]) -> None:
    with scripted(told) as server:
        command = [sys.executable, "-X", "dev", "-W", "error", "-c", ASKS_AND_FORKS, server.url]
        run = subprocess.run(
            [*command, *closing],
            cwd=PROJECT,
            check=False,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    assert (run.returncode, run.stderr) == (0, "")
    by_key = [(asked.target[13:], asked.connection) for asked in server.asked]
    assert by_key == [
        *(("before", 1), ("child", 2), ("parent", 1)),
        *(("before", 1), ("child", 3), ("parent", 1)),
    ]


def test_a_client_that_was_pickled_asks_over_connections_of_its_own() -> None:
    with scripted(told) as server, Client(server.url, token="secret") as client:
        client.get("s", "a")
        with pickle.loads(pickle.dumps(client)) as again:
            assert again.get("s", "b") == {"asked": "/v1/stores/s/b", "connection": 2}

    assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer secret"] * 2
