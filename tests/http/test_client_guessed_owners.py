"""The Python client by default: which owners it asks, and what one costs that can't be reached."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pystreams.client import Client, HttpQueryError
from pystreams.client import client as client_module
from pystreams.client.owner_choice import owner_choice
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.http.conftest import certificate_of
from tests.http.scripted_application import TEXTS, answer, by_text, check, compared, running
from tests.http.scripted_server import Answer, Asked, Last, ScriptedServer, scripted, trickling
from tests.ports import ports_in_a_row

NEVER_S = 3600.0
TOKEN = "secret"


@pytest.fixture
def unknown_owners_have_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give them no more, as everyday does: these tests wait until that is over."""
    monkeypatch.setattr(client_module, "_GUESS_S", 1.0)


def values_of(owner: str) -> Answer:
    """Return answers of a process that has nothing, and passes all on."""

    def answering(asked: Asked) -> bytes:
        if "limit=1" in asked.target:
            return answer(200, {"partitions": [], "elsewhere": [0]})
        return answer(200, {"value": 1, "partition": 0, "position": {"in": {"0": 7}}}, owner)

    return answering


def check_one(client: Client, keys: list[str] = TEXTS) -> None:
    for key in keys:
        found = client.get("s", key)
        compared()
        assert found is not None
        assert found["value"] == 1


def in_threads(asking: Any, count: int = 1) -> None:
    """Call in threads; all come back."""
    done: list[bool] = []

    def ask() -> None:
        asking()
        done.append(True)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert len(done) == count


@contextlib.contextmanager
def deaf() -> Iterator[socket.socket]:
    """Listen, and take no connection: the system takes them, and nobody answers on them."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        listening.setblocking(False)
        yield listening


@contextlib.contextmanager
def dropping() -> Iterator[socket.socket]:
    """Listen with a queue that is full: what else comes is dropped, as by a firewall."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        waiting = stack.enter_context(socket.create_connection(listening.getsockname()))
        assert waiting.getpeername() == listening.getsockname()
        yield listening


def connections_to(listening: socket.socket) -> int:
    """Return how many connections the system has taken, and take them."""
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            connection, _ = listening.accept()
            connection.close()
            count += 1
    return count


def test_by_default_keys_are_asked_for_where_they_are() -> None:
    with running(by_text) as application, Client(application.url) as client:
        check(client, TEXTS)
        application.asked_at()
        application.passed_on.clear()
        check(client, TEXTS)
        counts = application.asked_at()

    assert application.passed_on == []
    assert (sum(counts), min(counts) > 0) == (len(TEXTS), True)


def test_who_asks_for_a_few_keys_asks_for_nothing_else() -> None:
    with running(by_text) as application, Client(application.url) as client:
        elsewhere = [key for key in TEXTS if application.shares[by_text(key)]]
        check(client, [*elsewhere[:2], *(key for key in TEXTS if key not in elsewhere)])
        asked = application.processes[0].asked
        assert len(asked) == 2 + len(TEXTS) - len(elsewhere)
        assert not any("limit" in one.target for one in asked)


@pytest.mark.usefixtures("unknown_owners_have_a_second")
@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("asks_owners", [None, True])
def test_an_owner_that_never_answers_is_waited_for_once_and_not_for_long(
    threads: int, asks_owners: bool | None
) -> None:
    with deaf() as owner:
        place = f"127.0.0.1:{owner.getsockname()[1]}"
        with (
            scripted(values_of(place)) as server,
            Client(server.url, timeout_s=NEVER_S, asks_owners=asks_owners) as client,
        ):
            in_threads(lambda: check_one(client), threads)
            in_threads(lambda: check_one(client), threads)
        assert connections_to(owner) == 1


@pytest.mark.usefixtures("unknown_owners_have_a_second")
def test_an_owner_that_takes_no_connection_costs_no_answer() -> None:
    with dropping() as owner:
        place = f"127.0.0.1:{owner.getsockname()[1]}"
        with (
            scripted(values_of(place)) as server,
            Client(server.url, timeout_s=NEVER_S) as client,
        ):
            in_threads(lambda: check_one(client))


@pytest.mark.usefixtures("unknown_owners_have_a_second")
def test_an_owner_that_answers_byte_by_byte_is_not_waited_for() -> None:
    with (
        trickling() as (place, owner),
        scripted(values_of(place)) as server,
        Client(server.url, timeout_s=NEVER_S) as client,
    ):
        in_threads(lambda: check_one(client))
        owner.join(DEADLINE_S)  # The connection is ended, and not kept for ever.
        assert not owner.is_alive()


def test_an_owner_that_has_answered_and_then_does_so_byte_by_byte_is_waited_for_in_all_once() -> (
    None
):
    (port,) = ports_in_a_row(1)
    place = f"127.0.0.1:{port}"
    with scripted(values_of(place)) as server, Client(server.url) as client:
        with scripted(values_of(""), port=port) as owner:
            check_one(client)
            assert len(owner.asked) > 1
        with trickling(port) as (_, trickle):
            in_threads(lambda: check_one(client))
            trickle.join(DEADLINE_S)
            assert not trickle.is_alive()


def test_no_answer_waits_for_an_owner_that_is_compared() -> None:
    answered = threading.Event()

    def late(asked: Asked) -> bytes:
        assert answered.wait(DEADLINE_S)
        return values_of("")(asked)

    with scripted(late) as owner:
        place = owner.url.removeprefix("http://")
        with scripted(values_of(place)) as server, Client(server.url) as client:
            for key in TEXTS:
                assert client.get("s", key)
            answered.set()
            compared()
            server.asked.clear()
            check_one(client)
            assert server.asked == []


def test_what_an_answer_is_compared_with_is_not_what_its_caller_makes_of_it() -> None:
    with scripted(values_of("")) as owner:
        place = owner.url.removeprefix("http://")
        with scripted(values_of(place)) as server, Client(server.url) as client:
            for key in TEXTS:
                found = client.get("s", key)
                assert found is not None
                found["position"]["in"].clear()
            compared()
            server.asked.clear()
            check_one(client)
            assert server.asked == []


def test_a_client_that_is_closed_compares_no_more_and_does_so_again_when_it_is_asked() -> None:
    with deaf() as owner:
        place = f"127.0.0.1:{owner.getsockname()[1]}"
        with scripted(values_of(place)) as server, Client(server.url) as client:
            for _ in range(2):
                for key in TEXTS:
                    assert client.get("s", key)
                client.close()
                compared()
                assert connections_to(owner) == 1
                wait_until(lambda: server.opened == 0, "no connection is left")


@pytest.mark.usefixtures("unknown_owners_have_a_second")
def test_an_owner_that_answered_and_takes_no_connection_any_more_costs_no_answer() -> None:
    """Its machine is gone, say: the connections that were kept have ended."""
    with running(by_text) as application:
        (port,) = ports_in_a_row(1)
        told = application.place
        application.place = lambda process: (  # type: ignore[method-assign]
            f"127.0.0.1:{port}" if process == 1 else told(process)
        )
        with scripted(lambda asked: application.answer(1, asked), port=port) as first:
            client = client_that_asks(first, application.url)
        with client, contextlib.ExitStack() as stack:
            gone = stack.enter_context(socket.create_server(("127.0.0.1", port), backlog=0))
            stack.enter_context(socket.create_connection(gone.getsockname()))
            in_threads(lambda: check(client, TEXTS))


def client_that_asks(owner: ScriptedServer, url: str) -> Client:
    """Return a client that asks an owner.

    One for which the owner was too late, as this machine stood still, would not do so for minutes.
    """
    clients: list[Client] = []

    def asks() -> bool:
        clients.append(Client(url, timeout_s=NEVER_S))
        owner.asked.clear()
        for _ in range(2):
            check(clients[-1], TEXTS)
        return len(owner.asked) > 1

    wait_until(asks, "an owner that is asked")
    for client in clients[:-1]:
        client.close()
    return clients[-1]


@pytest.mark.parametrize(
    ("value", "position"),
    [
        pytest.param(2, {"in": {"0": 7}}, id="another value at the same position"),
        pytest.param(2, {"in": {"0": 6}}, id="before"),
        pytest.param(2, {"in": {"0": 8}}, id="behind"),
        pytest.param(2, {"elsewhere": {"0": 7}}, id="of another topic"),
        pytest.param(2, None, id="none"),
    ],
)
def test_another_application_at_the_address_of_an_owner_is_not_believed(
    value: int, position: Any
) -> None:
    """Through a tunnel, say, or a port that is forwarded."""

    def stranger(asked: Asked) -> bytes:
        return answer(200, {"value": value, "partition": 0, "position": position})

    with scripted(stranger) as other:
        place = other.url.removeprefix("http://")
        with scripted(values_of(place)) as server, Client(server.url) as client:
            check_one(client)
            check_one(client)
        assert len(other.asked) == 1


def test_while_records_come_an_owner_is_believed_whose_position_is_between() -> None:
    at = 0

    def coming(asked: Asked) -> bytes:
        nonlocal at
        if "limit=1" in asked.target:
            return answer(200, {"partitions": [], "elsewhere": [0]})
        at += 1
        found = {"value": 1, "partition": 0, "position": {"in": {"0": at}}}
        return answer(200, found, place if asked.headers["host"] != place else None)

    with scripted(coming) as owner, scripted(coming) as server, Client(server.url) as client:
        place = owner.url.removeprefix("http://")
        check_one(client)
        server.asked.clear()
        check_one(client)
        assert server.asked == []


@contextlib.contextmanager
def over_tls(directory: Path) -> Iterator[tuple[ssl.SSLContext, ssl.SSLContext]]:
    """Give how a server shows a certificate of 127.0.0.1, and how clients trust it."""
    certificate, key = certificate_of(directory)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    yield serving, ssl.create_default_context(cafile=str(certificate))


def test_over_tls_owners_are_asked_with_the_token(tmp_path: Path) -> None:
    with over_tls(tmp_path) as (serving, tls), scripted(values_of(""), tls=serving) as owner:
        place = f"127.0.0.1:{owner.port}"
        with (
            scripted(values_of(place), tls=serving) as server,
            Client(f"https://127.0.0.1:{server.port}", token=TOKEN, tls=tls) as client,
        ):
            check_one(client)
    assert {asked.headers["authorization"] for asked in owner.asked} == {f"Bearer {TOKEN}"}
    assert len(owner.asked) > len(TEXTS) / 2


def test_certificates_are_checked_though_a_program_checks_none_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some do, for all that is asked by urllib."""
    monkeypatch.setattr(ssl, "_create_default_https_context", ssl._create_unverified_context)
    with (
        over_tls(tmp_path) as (serving, _),
        scripted(values_of(""), tls=serving) as server,
        Client(f"https://127.0.0.1:{server.port}", token=TOKEN) as client,
        pytest.raises(HttpQueryError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        client.get("s", "a")
    assert server.asked == []


def test_an_owner_whose_certificate_is_of_another_host_gets_no_question(tmp_path: Path) -> None:
    with (
        over_tls(tmp_path) as (serving, tls),
        scripted(values_of(""), "127.0.0.2", tls=serving) as owner,
    ):
        place = f"127.0.0.2:{owner.port}"
        with (
            scripted(values_of(place), tls=serving) as server,
            Client(f"https://127.0.0.1:{server.port}", token=TOKEN, tls=tls) as client,
        ):
            check_one(client)
            check_one(client)
    assert (owner.accepted, owner.asked) == (1, [])


def test_an_owner_that_does_not_speak_tls_gets_no_question(tmp_path: Path) -> None:
    with over_tls(tmp_path) as (serving, tls), scripted(values_of("")) as owner:
        place = f"127.0.0.1:{owner.port}"
        with (
            scripted(values_of(place), tls=serving) as server,
            Client(f"https://127.0.0.1:{server.port}", token=TOKEN, tls=tls) as client,
        ):
            check_one(client)
            check_one(client)
    assert (owner.accepted, owner.asked) == (1, [])


def test_an_owner_that_does_speak_tls_is_no_owner_of_a_url_that_does_not(tmp_path: Path) -> None:
    with over_tls(tmp_path) as (serving, _), scripted(values_of(""), tls=serving) as owner:
        place = f"127.0.0.1:{owner.port}"
        with scripted(values_of(place)) as server, Client(server.url) as client:
            check_one(client)
            check_one(client)
    assert owner.asked == []


@pytest.mark.parametrize(
    ("url", "token", "told", "is_asked"),
    [
        ("http://127.0.0.1:8080", None, "127.0.0.1:8081", True),
        ("http://127.0.0.1:8080", None, "localhost:8081", True),
        ("http://localhost:8080", None, "[::1]:8081", True),
        ("http://127.0.0.1:8080", TOKEN, "127.0.0.1:8081", False),
        ("http://127.0.0.1:8080", None, "orders-1:8080", False),
        ("http://orders:8080", None, "127.0.0.1:8080", False),
        ("http://orders:8080", None, "orders:8081", True),
        ("http://Orders:8080", TOKEN, "orders:8081", True),
        ("http://orders:8080", None, "orders-1:8080", False),
        ("http://orders:8080", TOKEN, "orders-1:8080", False),
        ("http://10.0.0.5:8080", TOKEN, "10.0.0.5:8081", True),
        ("http://10.0.0.5:8080", TOKEN, "10.0.0.6:8080", False),
        ("https://orders:8080", TOKEN, "orders-1:8080", True),
        ("https://127.0.0.1:8080", TOKEN, "127.0.0.1:8081", True),
    ],
)
def test_by_default_only_who_is_no_stranger_is_asked(
    url: str, token: str | None, told: str, is_asked: bool
) -> None:
    choice = owner_choice(url, token=token, tls=None, asks_owners=None)
    assert choice.has(told) == is_asked
    assert owner_choice(url, token=token, tls=None, asks_owners=True).has(told)


@pytest.mark.parametrize("check", ["host", "certificate"])
def test_over_tls_that_checks_nothing_only_the_host_of_the_url_is_asked(check: str) -> None:
    tls = ssl.create_default_context()
    tls.check_hostname = False
    if check == "certificate":
        tls.verify_mode = ssl.CERT_NONE
    choice = owner_choice("https://orders:1", token=TOKEN, tls=tls, asks_owners=None)
    assert (choice.has("orders:2"), choice.has("orders-1:1")) == (True, False)


@pytest.mark.parametrize("asks_owners", [None, True])
@pytest.mark.parametrize(
    ("url", "told", "is_asked"),
    [
        ("http://orders.example:8080", "orders.example:8081", True),
        ("http://orders.example:8080", "orders-1.example:8080", False),
        ("http://127.0.0.1:8080", "127.0.0.1:8081", False),
    ],
)
def test_strangers_get_the_token_only_where_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, url: str, told: str, is_asked: bool, asks_owners: bool | None
) -> None:
    with scripted(values_of(told)) as proxy:
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", proxy.url)
        with Client(url, token=TOKEN, asks_owners=asks_owners) as client:
            check_one(client)
        places = {urlsplit(asked.target).netloc for asked in proxy.asked}
        counted = sum("limit=1" in asked.target for asked in proxy.asked)

    is_asked = is_asked or bool(asks_owners)
    assert places == {url.removeprefix("http://"), *([told] if is_asked else [])}
    assert counted == is_asked


def test_an_owner_that_refused_is_asked_again_later() -> None:
    """With a token of its own, say; it is not asked with each question meanwhile."""
    with running(by_text) as application, Client(application.url) as client:
        application.instead[1] = answer(401, {})
        check(client, TEXTS)
        assert application.asked_at()[1] == 1
        check(client, TEXTS)
        assert application.asked_at()[1] == 0


def test_an_owner_that_is_gone_costs_no_answer() -> None:
    with running(by_text) as application, Client(application.url) as client:
        application.instead[1] = Last()
        check(client, TEXTS)
        del application.instead[1]
        check(client, TEXTS)
        assert application.asked_at()[1] in (1, 2)  # Over a connection that had been closed.
