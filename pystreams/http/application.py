"""What is served where, and to whom."""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pystreams.config.shown_values import shown_values
from pystreams.errors import StreamsError
from pystreams.http.health import Health
from pystreams.http.owners import Owners
from pystreams.http.page.routes import PAGE_PATHS, page_routes
from pystreams.http.responses import RequestError, as_json, as_problem
from pystreams.http.snapshot import Snapshots
from pystreams.http.store_queries import StoreQueries
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.user_tracebacks import traceback_field
from pystreams.runtime.adapters.prometheus import metrics_registry
from pystreams.runtime.application.kafka_streams import KafkaStreams

_log = get_logger("pystreams.http")

_LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])?(:\d+)?")
_OPEN_PATHS = ("/livez", "/readyz", *PAGE_PATHS)
_MAX_QUERY_BYTES = 8192
_MAX_HEADER_BYTES = 32_768

Endpoint = Callable[[Request], Awaitable[Response]]


def application_of(
    streams: KafkaStreams, token: str | None, certificate: Path | None = None
) -> ASGIApp:
    """Return the application that serves `streams`.

    Args:
        streams: The application that is shown.
        token: What requests must carry; None for nothing.
        certificate: What the application's processes are served with over TLS, or None.
    """
    health, snapshots = Health(streams), Snapshots(streams)
    stores = StoreQueries(streams, Owners(streams, certificate))
    registry = metrics_registry(streams.metrics)

    def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    def status(_: Request) -> Response:
        return as_json(snapshots.latest())

    def tasks(_: Request) -> Response:
        now = snapshots.latest()
        return as_json([*now["tasks"], *now["standby_tasks"]])

    async def topology(_: Request) -> Response:
        return as_json({"description": str(streams.topology.describe())})

    async def config(_: Request) -> Response:
        return as_json(shown_values(streams.config))

    routes: list[tuple[str, Any]] = [
        ("/livez", health.livez),
        ("/readyz", health.readyz),
        ("/metrics", metrics),
        ("/v1/status", status),
        ("/v1/tasks", tasks),
        ("/v1/topology", topology),
        ("/v1/config", config),
        *page_routes(streams, snapshots, asks_for_token=token is not None),
        ("/v1/stores", stores.names),
        ("/v1/stores/{store}", stores.entries),
        ("/v1/stores/{store}/{key:path}", stores.value),
    ]
    application = Starlette(
        routes=[Route(path, endpoint, methods=["GET"]) for path, endpoint in routes],
        exception_handlers={
            RequestError: _problem,
            StreamsError: _streams_error,
            Exception: _bug,
            404: _not_found,
            405: _wrong_method,
        },
    )
    return _Guard(application, token)


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return as_problem(error)


async def _streams_error(_: Request, error: Exception) -> Response:
    return as_problem(RequestError(503, str(error)))


async def _bug(request: Request, error: Exception) -> Response:
    _log.error("could not answer", path=request.url.path, **traceback_field(error))
    return as_problem(RequestError(500, f"{type(error).__name__}: {error}"))


async def _not_found(request: Request, _: Exception) -> Response:
    return as_problem(RequestError(404, f"there is nothing at {request.url.path}; see /v1/status"))


async def _wrong_method(request: Request, _: Exception) -> Response:
    return as_problem(RequestError(405, f"{request.method} is not for here: all is read with GET"))


class _Guard:
    """Lets requests through that may ask, and are no longer than need be.

    Args:
        inside: What answers them.
        token: What they must carry; None for nothing.
    """

    def __init__(self, inside: ASGIApp, token: str | None) -> None:
        self._inside = inside
        self._expected = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        answer = self._inside if refusal is None else as_problem(refusal)
        await answer(scope, receive, send)

    def _refusal(self, scope: Scope) -> RequestError | None:
        if len(scope["query_string"]) + len(scope["raw_path"]) > _MAX_QUERY_BYTES:
            return RequestError(414, f"the address is longer than {_MAX_QUERY_BYTES} bytes")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > _MAX_HEADER_BYTES:
            return RequestError(431, f"the headers are longer than {_MAX_HEADER_BYTES} bytes")
        headers = dict(scope["headers"])
        if self._expected is None:
            return _refused_host(headers.get(b"host", b"").decode("latin-1"))
        if scope["path"] in _OPEN_PATHS:
            return None
        given = headers.get(b"authorization", b"")
        if hmac.compare_digest(given, self._expected):
            return None
        return RequestError(401, "send the token: `Authorization: Bearer TOKEN`")


def _refused_host(host: str) -> RequestError | None:
    """Return why a request by some name is refused, where there is no token.

    Only this machine is listened to then. A page from elsewhere could still ask in a browser here,
    once its own name leads to this address: it would ask by that name.
    """
    if _LOOPBACK.fullmatch(host):
        return None
    return RequestError(
        421, f"asked as {host!r}: without --http-token-file only localhost is answered"
    )
