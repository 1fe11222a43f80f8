"""Who is answered: who has the token, or asks from this machine by its own name."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from pystreams.http.api_description.api import OPERATIONS
from pystreams.http.responses import RequestError, as_problem

MAX_ADDRESS_BYTES = 8192
MAX_HEADER_BYTES = 32_768

_ABSOLUTE = re.compile(rb"https?://([^/]*)(/.*|)", re.IGNORECASE | re.DOTALL)
"""An address with the name by which the server is asked, as a proxy gets it."""
_LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])?(:\d+)?")
_OPEN_PATHS = frozenset(operation.path for operation in OPERATIONS if operation.is_open)


class Guard:
    """Lets requests through that may ask, and are no longer than need be.

    Args:
        token: What they must carry; None for nothing.
    """

    def __init__(self, inside: ASGIApp, token: str | None) -> None:
        self._inside = inside
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            return
        _take_name_from_address(scope)
        refusal = self._refusal(scope)
        answer = self._inside if refusal is None else as_problem(refusal)
        await answer(scope, receive, send)

    def refusal_of(self, headers: Mapping[bytes, bytes]) -> RequestError | None:
        """Return why who asks with these headers (names in lower case) is refused, None if not."""
        if self._token is None:
            return _refused_host(headers.get(b"host", b"").decode("latin-1"))
        scheme, _, sent = headers.get(b"authorization", b"").partition(b" ")
        is_bearer = scheme.lower() == b"bearer"  # In any case, by RFC 9110.
        if is_bearer and hmac.compare_digest(sent.strip(b" "), self._token):
            return None
        if is_bearer and sent.strip():
            return RequestError(
                401, "the token is another one than the server's (that in its --http-token-file)"
            )
        return RequestError(401, "send the token: `Authorization: Bearer TOKEN`")

    def _refusal(self, scope: Scope) -> RequestError | None:
        if len(scope["query_string"]) + len(scope["raw_path"]) > MAX_ADDRESS_BYTES:
            return RequestError(414, f"the address is longer than {MAX_ADDRESS_BYTES} bytes")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            return RequestError(431, f"the headers are longer than {MAX_HEADER_BYTES} bytes")
        if self._token is not None and scope["path"] in _OPEN_PATHS:
            return None
        return self.refusal_of(dict(scope["headers"]))


def _take_name_from_address(scope: Scope) -> None:
    """Make an absolute address one of this server; its name counts, and not the header's.

    Spec: RFC 9112, 3.2.2.
    """
    absolute = _ABSOLUTE.fullmatch(scope["raw_path"])
    if absolute is None:
        return
    name, path = absolute[1], absolute[2] or b"/"
    others = [header for header in scope["headers"] if header[0] != b"host"]
    scope["headers"] = [(b"host", name), *others]
    scope["raw_path"], scope["path"] = path, unquote(path.decode("ascii"))


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
