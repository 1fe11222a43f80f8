"""Proxies that the environment, or the system's settings, put before an address."""

from __future__ import annotations

import base64
import urllib.request
from typing import NamedTuple
from urllib.parse import unquote

_KINDS = ("http", "https")


class Proxy(NamedTuple):
    """A proxy.

    Attributes:
        is_secure: Whether it is itself connected to over TLS.
        place: Its `host:port`.
        headers: What it alone is told.
    """

    is_secure: bool
    place: str
    headers: dict[str, str]


def proxy_before(scheme: str, place: str) -> Proxy | None:
    """Return the proxy through which an address is asked, found as by `urllib`; None: no proxy.

    Args:
        scheme: That of the address.
        place: Its `host:port`.

    Raises:
        OSError: No request can go through the proxy that is set.
    """
    set_to = urllib.request.getproxies().get(scheme)
    if not set_to or urllib.request.proxy_bypass(place):
        return None
    before, is_url, behind = set_to.partition("://")
    kind, rest = (before.lower(), behind) if is_url else ("http", set_to.removeprefix("//"))
    user, _, found = rest.rpartition("@")
    host_and_port = unquote(found.partition("/")[0])
    if not host_and_port or (scheme == "http" and kind not in _KINDS):
        # What it is set to is not told: it may have a password.
        raise OSError(
            f"the {kind} proxy that is set for {scheme} can't be used: set {scheme}_proxy to "
            f"http://HOST:PORT, or name {place} in no_proxy"
        )
    name, _, password = user.partition(":")
    headers = {}
    if name and password:
        told = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode("ascii")
        headers["Proxy-Authorization"] = f"Basic {told}"
    # A tunnel, through which https goes, begins without TLS.
    return Proxy(kind == "https" and scheme == "http", host_and_port, headers)
