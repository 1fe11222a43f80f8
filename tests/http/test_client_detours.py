"""The Python client where it is sent on to another address, or asks through a proxy."""

from __future__ import annotations

import base64
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pystreams import KafkaStreams
from pystreams.client import Client, HttpQueryError
from pystreams.client.kept_connections import Address, KeptConnections
from pystreams.http.server import HttpOptions, HttpServer
from tests.broker.waiting import DEADLINE_S
from tests.http.conftest import certificate_of
from tests.http.scripted_application import TEXTS, by_text, check, running
from tests.http.scripted_server import Asked, as_json, in_between, scripted, sent_on, trickling


def told(asked: Asked) -> bytes:
    return as_json({"asked": asked.target})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_question_is_sent_on_with_the_token_on_the_same_server(status: int) -> None:
    def moved(asked: Asked) -> bytes:
        return told(asked) if asked.target[:4] == "/new" else sent_on("/new/ä b?x=1", status)

    with scripted(moved) as server, Client(server.url, token="secret") as client:
        found = client.get("s", "a")

    assert found == {"asked": "/new/%E4%20b?x=1"}
    assert [asked.headers.get("authorization") for asked in server.asked] == ["Bearer secret"] * 2
    assert server.accepted == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_token_is_not_sent_on_to_another_server(host: str) -> None:
    """Another port is one, too; on the way back the first gets it again."""

    def back(asked: Asked) -> bytes:
        return sent_on(f"{first.url}/back{asked.target}")

    def forth(asked: Asked) -> bytes:
        back_again = asked.target.startswith("/back")
        return told(asked) if back_again else sent_on(f"http://{host}:{second.port}{asked.target}")

    with scripted(back) as second, scripted(forth) as first:
        with Client(first.url, token="secret") as client:
            assert client.get("s", "a") == {"asked": "/back/v1/stores/s/a"}
        assert [asked.headers.get("authorization") for asked in first.asked] == [
            "Bearer secret",
            "Bearer secret",
        ]
        assert [asked.headers.get("authorization") for asked in second.asked] == [None]


def test_an_owner_that_another_server_names_is_not_asked_with_the_token() -> None:
    with (
        running(by_text) as application,
        scripted(lambda asked: sent_on(f"{application.url}{asked.target}")) as first,
        Client(first.url, token="secret", asks_owners=True) as client,
    ):
        for _ in range(2):
            check(client, TEXTS)
        for server in application.processes:
            assert {asked.headers.get("authorization") for asked in server.asked} <= {None}
        assert application.asked_at() == [2 * len(TEXTS), 0, 0]


def test_who_is_refused_without_the_token_is_told_whom_to_ask(created: KafkaStreams) -> None:
    with (
        HttpServer(created, HttpOptions(port=0, token="secret")) as server,
        scripted(lambda asked: sent_on(f"{server.url}{asked.target}")) as first,
        Client(first.url, token="secret") as client,
    ):
        place = server.url.removeprefix("http://")
        with pytest.raises(HttpQueryError, match=f"sends on to {place}, which .* ask that") as why:
            client.status()
        assert why.value.status == 401
        with Client(f"http://{place}", token="secret") as itself:
            assert itself.status()["state"] == "CREATED"


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("/v1/status", "in a circle"),
        ("ftp://127.0.0.1/", "'ftp://127.0.0.1/', which is no http:// or https:// address"),
        ("file:///etc/hostname", "'file:///etc/hostname', which is no"),
        ("http://", "which is no http:// or https:// address|in a circle"),
        ("http://localhost:99999/", "which is no http:// or https:// address"),
        ("http://[::1/x", "which is no http:// or https:// address"),
    ],
)
def test_what_sends_on_to_nowhere_is_told(location: str, says: str) -> None:
    with (
        scripted(lambda _: sent_on(location)) as server,
        Client(server.url) as client,
        pytest.raises(HttpQueryError, match=f"^{server.url} sends on .*({says})") as why,
    ):
        client.status()
    assert why.value.status == 302


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY"])
@pytest.mark.parametrize("scheme", ["http://", "//", ""])
def test_a_proxy_of_the_environment_is_asked_over_one_connection(
    no_proxies: pytest.MonkeyPatch, name: str, scheme: str
) -> None:
    with scripted(told) as proxy:
        no_proxies.setenv(name, f"{scheme}me:p%40ss@127.0.0.1:{proxy.port}/")
        with Client("http://orders.example:8080/at", token="secret") as client:
            for key in "ab":
                address = f"http://orders.example:8080/at/v1/stores/s/{key}"
                assert client.get("s", key) == {"asked": address}

    assert proxy.accepted == 1
    for asked in proxy.asked:
        assert asked.headers["host"] == "orders.example:8080"
        assert asked.headers["authorization"] == "Bearer secret"
        basic = asked.headers["proxy-authorization"].removeprefix("Basic ")
        assert base64.b64decode(basic) == b"me:p@ss"


def test_who_is_named_in_no_proxy_is_asked_without_one(no_proxies: pytest.MonkeyPatch) -> None:
    with scripted(told) as server, scripted(told) as proxy:
        no_proxies.setenv("http_proxy", proxy.url)
        no_proxies.setenv("no_proxy", "example.org, 127.0.0.1")
        with Client(server.url) as client:
            assert client.get("s", "a") == {"asked": "/v1/stores/s/a"}
            no_proxies.setenv("no_proxy", "*")
            client.close()
            client.get("s", "a")

    assert (len(server.asked), proxy.accepted) == (2, 0)


def test_a_proxy_passes_on_what_goes_over_tls(
    created: KafkaStreams, tmp_path: Path, no_proxies: pytest.MonkeyPatch
) -> None:
    certificate, key = certificate_of(tmp_path)
    options = HttpOptions(port=0, token="secret", certificate=certificate, private_key=key)
    tls = ssl.create_default_context(cafile=str(certificate))
    with HttpServer(created, options) as server, in_between() as proxy:
        no_proxies.setenv("https_proxy", f"http://me:secret@127.0.0.1:{proxy.port}")
        with Client(server.url, token="secret", tls=tls) as client:
            for _ in range(2):
                assert client.status()["state"] == "CREATED"
        (tunnel,) = proxy.asked
        assert tunnel.target == server.url.removeprefix("https://")
    assert "proxy-authorization" in tunnel.headers
    assert "authorization" not in tunnel.headers


def test_a_proxy_that_speaks_no_http_is_told_without_its_password(
    no_proxies: pytest.MonkeyPatch,
) -> None:
    no_proxies.setenv("http_proxy", "socks5://me:hidden@127.0.0.1:1080")
    with pytest.raises(HttpQueryError, match=r"socks5 proxy .*set http_proxy to") as why:
        Client("http://orders.example").status()
    assert "hidden" not in str(why.value)


@pytest.mark.parametrize(
    ("within_s", "connect_timeout_s"),
    [
        pytest.param(0.5, None, id="the owner's time"),
        pytest.param(DEADLINE_S, 0.5, id="the time to connect"),
    ],
)
def test_a_proxy_that_answers_byte_by_byte_is_not_waited_for_longer_than_its_owner(
    no_proxies: pytest.MonkeyPatch, within_s: float, connect_timeout_s: float | None
) -> None:
    with ThreadPoolExecutor(1) as pool, trickling() as (place, proxy):
        no_proxies.setenv("https_proxy", f"http://{place}")
        kept = KeptConnections(DEADLINE_S, ssl.create_default_context())
        asked = pool.submit(
            kept.get,
            Address("https", "a.example:1"),
            "/",
            {},
            within_s=within_s,
            connect_timeout_s=connect_timeout_s,
        )
        proxy.join(DEADLINE_S / 2)
        assert not proxy.is_alive()
        with pytest.raises(TimeoutError):
            asked.result(DEADLINE_S)
