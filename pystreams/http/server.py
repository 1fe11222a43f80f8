"""The server: Starlette's application in uvicorn, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from pystreams.errors import ConfigError, StreamsError
from pystreams.http import NOT_INSTALLED

try:
    import starlette  # noqa: F401 - so that what is missing is told here
    import uvicorn
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(NOT_INSTALLED, name=error.name) from error

from pystreams.http.application import Application, application_of
from pystreams.http.connections import connections
from pystreams.http.direct_sockets import DirectSockets
from pystreams.http.guard import MAX_HEADER_BYTES
from pystreams.http.lock_keeping_socket import LockKeepingSocket
from pystreams.http.reading_selector import ReadingSelector
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.application.kafka_streams import KafkaStreams

_START_S = 10.0
_STOP_S = 5.0
_KEEP_ALIVE_S = 15
_MAX_CONNECTIONS = 2000
_BACKLOG = 2048
_THREAD_NAME = "pystreams-http"

_log = get_logger("pystreams.http")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Where and to whom an application is shown.

    Attributes:
        host: The address to listen on; others than loopback ask for a token.
        port: The port, 0 for any free one.
        token: What a request must carry as `Authorization: Bearer ...`; None for nothing. Health
            (`/livez`, `/readyz`) is told to anybody.
        certificate: The server's certificate chain (PEM); None serves without TLS.
        private_key: Its private key (PEM); None if the certificate's file has it.
        idle_timeout_s: After how long a connection without a request is closed (s).
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    idle_timeout_s: float = 15.0


class HttpServer:
    """Serves one application.

    Args:
        streams: The application; it need not have started.

    Raises:
        ConfigError: The address is open to others and there is no token, or the certificate can't
            be read.
    """

    def __init__(self, streams: KafkaStreams, options: HttpOptions) -> None:
        _refuse_openness(options)
        self._options = options
        sockets = DirectSockets()
        try:
            self._application = application_of(streams, sockets, options.token, options.certificate)
            self._server = _uvicorn_server(self._application, sockets, options)
        except OSError as error:
            raise ConfigError(_why_without_tls(options, error)) from error
        self._port = options.port
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it listens, once it was started, or has listened."""
        host = f"[{self._options.host}]" if ":" in self._options.host else self._options.host
        return f"{'https' if self._options.certificate else 'http'}://{host}:{self._port}"

    def start(self) -> None:
        """Listen, and serve from now on.

        Raises:
            ConfigError: The port is taken, or the address is none of this machine's.
            StreamsError: It was started before, or closed.
        """
        if self._socket is not None or self._server.should_exit:
            raise StreamsError(
                f"the server at {self.url} was started before; make a new HttpServer"
            )
        options = self._options
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        try:
            plain = socket.create_server(
                (options.host, options.port), family=family, backlog=_BACKLOG
            )
        except OSError as error:
            raise ConfigError(
                f"HTTP can't be served on {options.host}:{options.port}: {error.strerror}; choose "
                "another with --http HOST:PORT (port 0 takes any free one)"
            ) from error
        self._port = plain.getsockname()[1]
        self._socket = LockKeepingSocket(plain.detach())
        # asyncio does not see that it is TCP: without this answers wait for the client's kernel.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._thread = threading.Thread(
            target=self._server.run,
            kwargs={"sockets": [self._socket]},
            name=_THREAD_NAME,
            daemon=True,
        )
        self._thread.start()
        _log.info("served over HTTP", url=self.url)

    def close(self) -> None:
        """Stop serving: open requests have a moment to end. Safe to call twice."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_STOP_S)
        self._application.owners.close()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(uvicorn.Server):
    """Closes what is still open when the time to end has passed: uvicorn would leave it to be."""

    def __init__(
        self, config: uvicorn.Config, sockets: DirectSockets, application: Application
    ) -> None:
        super().__init__(config)
        self._readers = sockets.readers
        self._forwards = application.quick.forwards
        self._watchers = application.watchers

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        loop = partial(asyncio.SelectorEventLoop, ReadingSelector(self._readers))
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(self.serve(sockets))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._watchers.close()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        self._forwards.close()
        await asyncio.sleep(0)  # In which they are closed.


class _Quiet(logging.Filter):
    """Passes over what uvicorn tells of our server's life; of the program's own servers all stays.

    It speaks of processes and of Ctrl-C, of which this thread knows nothing.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or record.threadName != _THREAD_NAME


_QUIET = _Quiet()


def _uvicorn_server(
    application: Application, sockets: DirectSockets, options: HttpOptions
) -> uvicorn.Server:
    config = uvicorn.Config(
        application.asgi,
        http=connections(options.idle_timeout_s, application.quick, sockets),
        ws="none",
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(_STOP_S) - 2,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.private_key,
    )
    config.load()
    logging.getLogger("uvicorn.error").addFilter(_QUIET)  # A second time does nothing.
    return _Server(config, sockets, application)


def _why_without_tls(options: HttpOptions, error: OSError) -> str:
    """Return which file is the trouble: OpenSSL's error names none."""
    for what, file in (("certificate", options.certificate), ("private key", options.private_key)):
        try:
            if file is not None:
                file.open("rb").close()
        except OSError as unread:
            return f"the {what} {file} can't be read: {unread.strerror}"
    return f"the certificate {options.certificate} can't be used: {error}"


def _refuse_openness(options: HttpOptions) -> None:
    """Refuse to show an application to a network without a token."""
    if options.token is not None or options.host == "localhost":
        return
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(options.host).is_loopback:
            return
    raise ConfigError(
        f"--http {options.host}:{options.port} would show stores and topology to everybody who can "
        "reach it: give a token (--http-token-file FILE), or listen on 127.0.0.1"
    )
