"""A proxy before the registry: it asks for a password, counts what it is asked, can be down."""

from __future__ import annotations

import base64
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import urlsplit

from tests.ports import ports_in_a_row


class RegistryProxy:
    """Listens on a port of its own, which it keeps when it goes down and comes up again.

    Args:
        url: The registry's.
        user_info: `user:password` that is asked for, or None to let all in.

    Attributes:
        url: Where clients find it.
        asked: The paths of the requests that it let through.
    """

    def __init__(self, url: str, user_info: str | None = None) -> None:
        self._target = urlsplit(url)
        self._expected = None
        if user_info is not None:
            self._expected = f"Basic {base64.b64encode(user_info.encode()).decode()}"
        self.asked: list[str] = []
        self._server: ThreadingHTTPServer | None = None
        (self._port,) = ports_in_a_row(1)  # Nobody else is given it while this is down.
        self.up()
        self.url = f"http://127.0.0.1:{self._port}{self._target.path}"

    def up(self) -> None:
        """Answer."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                proxy.pass_on(self)

            do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Refuse connections."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def pass_on(self, request: BaseHTTPRequestHandler) -> None:
        """Answer a request with what the registry says to it."""
        if self._expected is not None and request.headers["Authorization"] != self._expected:
            _answer(request, 401, b'{"error_code": 40101, "message": "Unauthorized"}')
            return
        self.asked.append(request.path)
        asked = urllib.request.Request(
            f"http://{self._target.netloc}{request.path}",
            data=request.rfile.read(int(request.headers["Content-Length"] or 0)) or None,
            method=request.command,
            headers={"Content-Type": request.headers["Content-Type"] or "application/json"},
        )
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                _answer(request, answer.status, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                _answer(request, error.code, error.read())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()


def _answer(request: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)
