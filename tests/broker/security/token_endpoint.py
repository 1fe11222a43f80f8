"""Gives out OAuth tokens to those who know the client's secret, as an identity provider does."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CLIENT, CLIENT_SECRET = "orders-service", "service-has-a-secret"
_LIFETIME_S = 60


class _Tokens(BaseHTTPRequestHandler):
    """Answers to the client credentials flow; its tokens are not signed."""

    user = ""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        wanted = base64.b64encode(f"{CLIENT}:{CLIENT_SECRET}".encode()).decode()
        if self.headers.get("authorization") != f"Basic {wanted}":
            self._answer(401, {"error": "invalid_client"})
            return
        now_s = int(time.time())
        claims = {"sub": self.user, "iat": now_s, "exp": now_s + _LIFETIME_S, "scope": "kafka"}
        token = f"{_part({'alg': 'none', 'typ': 'JWT'})}.{_part(claims)}."
        self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": 60})

    def log_message(self, *_: object) -> None:
        """Keep still."""

    def _answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def token_endpoint(user: str) -> Iterator[str]:
    """Serve tokens of a user; yields the address to ask."""
    handler = type("_TokensOfAUser", (_Tokens,), {"user": user})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _part(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
