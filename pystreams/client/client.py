"""Questions to one process of an application, which asks the others; or to them as well."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from pystreams.client import redirects
from pystreams.client.errors import NOT_TAKEN, HttpQueryError
from pystreams.client.kept_connections import KeptConnections
from pystreams.client.keys import UNDECODED, text_of_key, texts_of
from pystreams.client.owner_choice import owner_choice
from pystreams.client.owner_questions import OwnerQuestions
from pystreams.client.owners import KnownOwners, asked_for

_TIMEOUT_S = 10.0
_GUESS_S = 1.0
"""How long a process may cost of which is not known whether it can be reached (s)."""
_NO_APPLICATION = "answers as no application does that is served with --http"
_LARGEST_LIMIT = 10_000


class Client:
    """Asks one process, which asks the others, or them as well. Safe to use from any thread.

    Connections stay open for the next question, until it is closed or nobody has it any more. As a
    context manager it closes itself.

    Args:
        url: Where it is served: `http://host:port`, `https://...`, or `host:port` alone.
        token: What it asks for (`--http-token-file`), or None.
        tls: How its certificate is checked; as the system does it when None.
        timeout_s: How long each step of an answer may take (s): to connect, and until more of it
            comes. An owner that `get` asks has as long for the whole of it; then the URL is asked.
        asks_owners: Whether `get` asks the process that has a key, as soon as answers have told
            which that is: by the scheme of the URL, at the address that this process gives for
            itself, and with the token. Where it does not answer, or has no answer, the URL is
            asked. None: only where no stranger can get the key and the token, which is at the
            host of the URL, though never with a token at loopback, and over TLS anywhere, if `tls`
            checks certificates and hosts. True: anywhere.

    Raises:
        HttpQueryError: The URL is of another kind, or no request can carry the token.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = _TIMEOUT_S,
        asks_owners: bool | None = None,
    ) -> None:
        self._url = _checked_url(url)
        self._headers = {} if token is None else {"Authorization": _checked_token(token)}
        self._connections = KeptConnections(timeout_s, tls)
        self._timeout_s = timeout_s
        self._guess_s = min(_GUESS_S, timeout_s)
        self._owners: KnownOwners | None = None
        if asks_owners is not False:
            choice = owner_choice(self._url, token=token, tls=tls, asks_owners=asks_owners)
            self._owners = KnownOwners(choice.has)

    def close(self) -> None:
        """Close the connections that wait for the next question, which opens another."""
        if self._owners is not None:
            self._owners.give_up_comparing()
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(
        self, store: str, key: Any, *, as_shown: bool = False, **asked: Any
    ) -> dict[str, Any] | None:
        """Return what a store has of a key; None if it has no such key.

        Args:
            key: The key. A text is sent as it is, and is the key as the store's serde writes it:
                of `serdes.STRING` the key itself, of `serdes.LONG` digits, of `serdes.JSON` JSON,
                so that its key `"a"` is `'"a"'`. Bytes are sent as they are, all else as JSON.
            as_shown: The key is what an answer has shown, as `range` does under "key": a text is
                that key whatever the serde. Asks twice where the first question is not about it.
            **asked: `isolation`, `min_position`, `partition`; `as_of`, `time_from`, `time_to`.

        Raises:
            HttpQueryError: There is no answer.
        """
        if not as_shown or not isinstance(key, str):
            return self._got(store, key, text_of_key(key), asked)
        try:
            found = self._got(store, key, key, asked)
        except HttpQueryError as error:
            if error.status not in NOT_TAKEN:
                raise
            refused: HttpQueryError | None = error
        else:
            if found is not None and found["key"] == key:
                return found
            refused = None
        try:
            found = self._got(store, None, json.dumps(key), asked)
        except HttpQueryError as error:
            if error.status not in NOT_TAKEN:
                raise
            if refused is not None:
                raise refused from None
            return None
        return found if found is not None and found["key"] == key else None

    def _got(self, store: str, key: Any, text: str, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Return what a store has of a key that is sent as a text."""
        place = quote(text, safe="", errors=UNDECODED)
        path = f"/v1/stores/{quote(store, safe='')}/{place}"
        try:
            if self._owners is None:
                return self._ask(path, asked)
            question = asked_for(store, key, text, asked.get("partition"))
            questions = OwnerQuestions(self._url, self._asked_at, self._guessed_at, self._owners)
            return questions.ask(question, path, asked)
        except HttpQueryError as error:
            if error.tells_of_no_key:
                return None
            raise

    def range(self, store: str, **asked: Any) -> Iterator[dict[str, Any]]:
        """Give the entries of a range, partition by partition, those of other processes as well.

        Args:
            **asked: `from`, `to` (in a dict: `**{"from": "a"}`), `order`, `limit` of each
                partition, which gives all if there is none; `time_from`, `time_to`; `isolation`,
                `min_position`, `partition`.

        Raises:
            HttpQueryError: A partition does not answer; or, behind all that can be given, there is
                more.
        """
        cut = []
        for page in self.range_pages(store, **asked):
            yield from ({**entry, "partition": page["partition"]} for entry in page["entries"])
            if page["more"]:
                cut.append(page["partition"])
        if cut and asked.get("limit") is None:
            raise HttpQueryError(cut_short(store, cut), answer={"partitions": cut})

    def range_pages(self, store: str, **asked: Any) -> Iterator[dict[str, Any]]:
        """Give a range as it is answered: a page is of one partition, which may have several.

        What changes between two pages may be seen or not. Without a limit, where a store can't go
        on behind the largest limit (only key-value stores can), the rest is left out.

        Args:
            **asked: As for `range`.

        Returns:
            Of each page `partition` (None: a global store), `entries`, `position`, and `more`:
            whether entries behind these are left out.

        Raises:
            HttpQueryError: A partition does not answer.
        """
        path = f"/v1/stores/{quote(store, safe='')}"
        answer = self._parts(path, asked)
        is_cut = asked.get("limit") is not None
        for page in answer["partitions"]:
            if is_cut or not page["more"]:
                yield page
            else:
                yield from self._all_pages(path, {**asked, "partition": page["partition"]})
        for number in answer["elsewhere"]:
            of_one = {**asked, "partition": number}
            if is_cut:
                yield from self._parts(path, of_one)["partitions"]
            else:
                yield from self._all_pages(path, of_one)

    def status(self) -> dict[str, Any]:
        """Return what the process shows of itself.

        Raises:
            HttpQueryError: There is no answer.
        """
        return self._ask("/v1/status", {})

    def _all_pages(self, path: str, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Give all pages of one partition."""
        asked = {**asked, "limit": _LARGEST_LIMIT}
        (page,) = self._parts(path, asked)["partitions"]
        while page["more"]:
            following = self._following(path, asked, page["entries"])
            yield {**page, "more": following is None}
            if following is None:
                return
            page = following
        yield page

    def _following(
        self, path: str, asked: dict[str, Any], entries: list[dict[str, Any]]
    ) -> dict[str, Any] | None:
        """Return the page that follows some entries; None if the store can't go on there.

        It goes on from the last key, which must come first then: else it is gone, as an earlier
        one may not be, or its text is read as another key.
        """
        end = "to" if asked.get("order") == "descending" else "from"
        back = 1
        while back <= len(entries):
            for text in texts_of(entries[-back]):
                question = {**asked, end: text}
                if self._begins_with(entries[-back], path, question):
                    given = {_id_of(entry) for entry in entries[-back:]}
                    (page,) = self._parts(path, question)["partitions"]
                    fresh = [entry for entry in page["entries"] if _id_of(entry) not in given]
                    return {**page, "entries": fresh}
            back *= 2
        return None

    def _begins_with(self, entry: dict[str, Any], path: str, asked: dict[str, Any]) -> bool:
        try:
            (page,) = self._parts(path, {**asked, "limit": 1})["partitions"]
        except HttpQueryError as error:
            if error.status in NOT_TAKEN:
                return False
            raise
        return [_id_of(first) for first in page["entries"]] == [_id_of(entry)]

    def _parts(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        answer = self._ask(path, asked)
        if "partitions" not in answer:
            raise HttpQueryError(f"{self._url} {_NO_APPLICATION}", answer={})
        return answer

    def _ask(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        found, _ = self._asked_at(self._url, path, asked)
        return found

    def _guessed_at(
        self, url: str, path: str, asked: dict[str, Any]
    ) -> tuple[dict[str, Any], str | None]:
        return self._asked_at(url, path, asked, is_guess=True)

    def _asked_at(
        self, url: str, path: str, asked: dict[str, Any], *, is_guess: bool = False
    ) -> tuple[dict[str, Any], str | None]:
        """Return what is answered, and whom that process has asked for it, if it has."""
        given = {
            name: text_of_key(value) if isinstance(value, dict | bytes) else value
            for name, value in asked.items()
            if value is not None
        }
        address = f"{url}{path}" + (f"?{urlencode(given, errors=UNDECODED)}" if given else "")
        try:
            found, owner = self._answer_to(url, address, is_guess=is_guess)
        except redirects.RedirectError as error:
            raise HttpQueryError(f"{url} {error}", status=error.status, answer={}) from None
        except (OSError, ValueError) as error:
            raise HttpQueryError(f"{url} does not answer: {error}", answer={}) from error
        except http.client.HTTPException as error:
            why = f"{type(error).__name__}: {str(error).strip()}"
            raise HttpQueryError(
                f"{url} has not answered as HTTP does, or not to the end: {why}", answer={}
            ) from error
        if not isinstance(found, dict):
            raise HttpQueryError(f"{url} {_NO_APPLICATION}", answer={})
        return found, owner

    def _answer_to(self, url: str, address: str, *, is_guess: bool) -> tuple[Any, str | None]:
        is_owner = url != self._url
        # An answer that comes byte by byte is never late by the time-out of a socket.
        within_s = self._guess_s if is_guess else self._timeout_s if is_owner else None
        answer, place, was_told_token = redirects.ask(
            self._connections,
            address,
            self._headers,
            self._guess_s if is_owner else None,
            within_s,
            ends_with_close=is_guess,
        )
        if 200 <= answer.status < 300:
            # Who was not trusted with the token does not say who is.
            is_trusted = was_told_token or not self._headers
            return json.loads(answer.body), answer.owner if is_trusted else None
        said = _said(answer.body)
        # It says what it has to say; the status is beside it.
        message = str(said.pop("detail", answer.reason))
        if answer.status == HTTPStatus.UNAUTHORIZED and self._headers and not was_told_token:
            message = (
                f"{message} ({url} sends on to {place}, which is not sent the token as it is "
                "another server: ask that one)"
            )
        raise HttpQueryError(message, status=answer.status, answer=said)


def _checked_url(url: str) -> str:
    whole = (url if "://" in url else f"http://{url}").rstrip("/")
    try:
        parts = urlsplit(whole)
        is_one = parts.scheme in ("http", "https") and parts.hostname
        _ = parts.port
    except ValueError as error:  # What is no IPv6 address, or no port.
        raise HttpQueryError(f"{url!r} is no address: {error}", answer={}) from None
    if not is_one or any(letter.isspace() or not letter.isprintable() for letter in whole):
        raise HttpQueryError(f"{url!r} is no http:// or https:// address", answer={})
    return whole


def _checked_token(token: str) -> str:
    """Return the header with a token; other letters go as UTF-8, as the server reads them."""
    if not token.isprintable():
        raise HttpQueryError("the token has an end of line or another control character", answer={})
    return f"Bearer {token}".encode().decode("latin-1")


def in_partitions(partitions: list[int | None]) -> str:
    """Return where something is, behind what it is; nothing of a global store, which has none."""
    return "" if partitions == [None] else f" in partitions {', '.join(map(str, partitions))}"


def cut_short(store: str, partitions: list[int | None]) -> str:
    """Return what to say of partitions that have more than the largest limit, and can't go on."""
    return (
        f"store {store!r} has more than was given{in_partitions(partitions)}: it gives "
        f"{_LARGEST_LIMIT} entries of a partition, and can't go on behind them; ask for less at a "
        "time, with from and to or, of windows, time_from and time_to"
    )


def _said(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _id_of(entry: dict[str, Any]) -> str:
    """Return what tells an entry of a range from others."""
    return json.dumps([entry.get("key"), entry.get("window")], sort_keys=True)
