"""Which processes a client asks of its own accord, beside the one it was given.

Their addresses are told by answers, and mean something in the application's network; from where
the client is, the same address may be somebody else's. So nobody is asked who might be a stranger
to the application: who is asked gets the key, and the token. That leaves

- the host of the URL, which the user has named; but no token goes to other ports of this machine's
  own loopback addresses, as the URL may be the end of a tunnel;
- over TLS any host, whose certificate must fit the address: the process at the URL passes the
  token on to the same address, under the same condition.
"""

from __future__ import annotations

import ipaddress
import ssl
from typing import NamedTuple
from urllib.parse import urlsplit


class OwnerChoice(NamedTuple):
    """Says who may be asked.

    Attributes:
        host: That of the URL.
        has_token: Whether who is asked gets a token.
        is_vouched_for: Whether whoever answers has shown a certificate for its address.
        is_anybody: Whether the user has chosen that all may be asked.
    """

    host: str
    has_token: bool
    is_vouched_for: bool
    is_anybody: bool

    def has(self, place: str) -> bool:
        """Return whether a process may be asked, at `host:port`."""
        if self.is_anybody or self.is_vouched_for:
            return True
        host = urlsplit(f"//{place}").hostname or ""
        if _is_loopback(host):
            return _is_loopback(self.host) and not self.has_token
        return host == self.host


def owner_choice(
    url: str, *, token: str | None, tls: ssl.SSLContext | None, asks_owners: bool | None
) -> OwnerChoice:
    """Return who may be asked by a client with these arguments, of which the URL is checked."""
    parts = urlsplit(url)
    checks = tls is None or (tls.check_hostname and tls.verify_mode is ssl.CERT_REQUIRED)
    return OwnerChoice(
        parts.hostname or "",
        token is not None,
        parts.scheme == "https" and checks,
        bool(asks_owners),
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
