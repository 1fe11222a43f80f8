"""What is served where, and to whom."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pystreams.config.shown_values import shown_values
from pystreams.errors import StreamsError
from pystreams.exception_texts import named_exception
from pystreams.http.api_description.api import OPERATIONS
from pystreams.http.api_description.openapi import openapi_of
from pystreams.http.direct_sockets import DirectSockets
from pystreams.http.guard import Guard
from pystreams.http.health import Health
from pystreams.http.page.routes import page_endpoints
from pystreams.http.page.watchers import Watchers
from pystreams.http.responses import RequestError, as_json, as_problem
from pystreams.http.snapshot import Snapshots
from pystreams.http.stores.owners import Owners
from pystreams.http.stores.quick_answers import QuickAnswers
from pystreams.http.stores.quick_forwards import QuickForwards
from pystreams.http.stores.store_queries import StoreQueries
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.user_tracebacks import traceback_field
from pystreams.runtime.adapters.prometheus import metrics_registry
from pystreams.runtime.application.kafka_streams import KafkaStreams

_log = get_logger("pystreams.http")


class _KeyConvertor(Convertor[str]):
    """Takes the rest of a path, ends of lines as well."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("key", _KeyConvertor())


class Application(NamedTuple):
    """What answers requests.

    Attributes:
        quick: Answers those for keys, where they are read.
        watchers: Those who watch the page.
    """

    asgi: Guard
    quick: QuickAnswers
    owners: Owners
    watchers: Watchers


def application_of(
    streams: KafkaStreams,
    sockets: DirectSockets,
    token: str | None,
    certificate: Path | None = None,
) -> Application:
    """Return the application that serves `streams`.

    Args:
        sockets: Those of the event loop in which it is served.
        token: What requests must carry; None for nothing.
        certificate: What the application's processes are served with over TLS, or None.
    """
    health, snapshots = Health(streams), Snapshots(streams)
    owners = Owners(streams, certificate)
    stores = StoreQueries(streams, owners)
    registry = metrics_registry(streams.metrics)

    def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    def status(_: Request) -> Response:
        return as_json(snapshots.latest())

    def tasks(_: Request) -> Response:
        now = snapshots.latest()
        return as_json([*now["tasks"], *now["standby_tasks"]])

    async def described(_: Request) -> Response:
        return as_json(openapi_of(asks_for_token=token is not None))

    async def topology(_: Request) -> Response:
        return as_json({"description": str(streams.topology.describe())})

    async def config(_: Request) -> Response:
        return as_json(shown_values(streams.config))

    page = page_endpoints(streams, snapshots, asks_for_token=token is not None)
    endpoints: dict[str, Callable[[Request], Any]] = {
        "livez": health.livez,
        "readyz": health.readyz,
        "metrics": metrics,
        "openapi": described,
        "status": status,
        "tasks": tasks,
        "topology": topology,
        "config": config,
        **page.by_name,
        "stores": stores.names,
        "entries": stores.entries,
        "value": stores.value,
    }
    application = Starlette(
        routes=[
            Route(operation.path, endpoints[operation.name], methods=["GET"])
            for operation in OPERATIONS
        ],
        exception_handlers={
            RequestError: _problem,
            StreamsError: _streams_error,
            404: _not_found,
            405: _wrong_method,
        },
        middleware=[Middleware(_Bugs)],
    )
    application.router.redirect_slashes = False
    guard = Guard(application, token)
    quick = QuickAnswers(stores, guard, QuickForwards(sockets, owners.tls))
    return Application(guard, quick, owners, page.watchers)


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return as_problem(error)


async def _streams_error(_: Request, error: Exception) -> Response:
    return as_problem(RequestError(503, str(error)))


class _Bugs:
    """Answers where an endpoint has failed, and keeps the connection.

    Starlette's handler of `Exception` raises it once more, for which uvicorn closes the connection
    without having said so.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._inside = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_begun = False

        async def sending(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        try:
            await self._inside(scope, receive, sending)
        except Exception as error:
            if is_begun:
                raise
            _log.error("could not answer", path=scope["path"], **traceback_field(error))
            await as_problem(RequestError(500, named_exception(error)))(scope, receive, send)


async def _not_found(request: Request, _: Exception) -> Response:
    path = request.url.path
    return as_problem(RequestError(404, f"there is nothing at {path}; see /v1/openapi.json"))


async def _wrong_method(request: Request, _: Exception) -> Response:
    return as_problem(RequestError(405, f"{request.method} is not for here: all is read with GET"))
