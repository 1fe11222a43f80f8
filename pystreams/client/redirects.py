"""Answers that send on to another address, and who is given the token there."""

from __future__ import annotations

import string
from typing import NamedTuple
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from pystreams.client.kept_connections import Address, HttpAnswer, KeptConnections

_SENDS_ON = (301, 302, 303, 307, 308)
_MOST = 10
_PORTS = {"http": 80, "https": 443}


class RedirectError(Exception):
    """An answer sends on to where nothing can be asked.

    Attributes:
        status: Its HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Followed(NamedTuple):
    """The last answer, which sends on to nowhere.

    Attributes:
        place: Whose it is: `host:port`.
        was_told_secrets: Whether that one was given what only who is asked first may know.
    """

    answer: HttpAnswer
    place: str
    was_told_secrets: bool


def ask(
    connections: KeptConnections,
    url: str,
    secrets: dict[str, str],
    connect_timeout_s: float | None = None,
    within_s: float | None = None,
    *,
    ends_with_close: bool = False,
) -> Followed:
    """Ask at an address, and at those that its answers send on to.

    Args:
        secrets: Headers for nobody else.
        connect_timeout_s: How long a connection may take (s); as long as an answer when None.
        within_s: How long each address may take to its whole answer (s), if that is limited.
        ends_with_close: Whether it ends as the connections are closed.

    Raises:
        RedirectError: They send on to another kind of address, or again and again.
        OSError: There is no answer.
        HTTPException: What is answered is no HTTP, or ends early.
        ValueError: It is no address.
    """
    first = asked = urlsplit(url)
    for _ in range(_MOST + 1):
        may_know = asked is first or _may_know(asked, first)
        target = asked.path or "/"
        if asked.query:
            target = f"{target}?{asked.query}"
        answer = connections.get(
            Address(asked.scheme, asked.netloc),
            target,
            secrets if may_know else {},
            connect_timeout_s=connect_timeout_s,
            within_s=within_s,
            ends_with_close=ends_with_close,
        )
        if answer.status not in _SENDS_ON or answer.location is None:
            return Followed(answer, asked.netloc, may_know)
        # Its letters were read as Latin-1.
        location = quote(answer.location, safe=string.punctuation, encoding="latin-1")
        found = _address(asked.geturl(), location)
        if found is None:
            raise RedirectError(
                f"sends on to {location!r}, which is no http:// or https:// address", answer.status
            )
        asked = found
    raise RedirectError(f"sends on more than {_MOST} times, or in a circle", answer.status)


def _address(base: str, location: str) -> SplitResult | None:
    """Return where something is; None if it is nowhere that can be asked."""
    try:
        found = urlsplit(urljoin(base, location))
        is_one = found.scheme in _PORTS and bool(found.hostname) and found.port != 0
    except ValueError:  # Its port, or an address of IPv6.
        return None
    return found if is_one else None


def _may_know(asked: SplitResult, first: SplitResult) -> bool:
    """Return whether it is the same server; over TLS as well, if that is at the usual port."""
    ports = [part.port or _PORTS[part.scheme] for part in (first, asked)]
    if asked.hostname != first.hostname:
        return False
    if asked.scheme == first.scheme:
        return ports[0] == ports[1]
    return asked.scheme == "https" and ports == [80, 443]
