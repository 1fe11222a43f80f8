"""Asks the process that has a partition for what this one has not: one hop, never two.

Who is asked for another learns that from a header and answers itself or not at all, so that two
processes that each take the other for the owner don't ask each other in a circle. It is asked with
the token of the request, as all processes of an application have the same.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pystreams.client.kept_connections import Address, HttpAnswer, KeptConnections
from pystreams.errors import StreamsError
from pystreams.http.responses import RequestError, forwarded
from pystreams.http.stores.store_answers import partitions_without_key, position_where_no_key_is
from pystreams.runtime.application.kafka_streams import KafkaStreams
from pystreams.runtime.cluster.streams_metadata import HostInfo

FORWARDED_HEADER = "x-pystreams-forwarded"
_TIMEOUT_S = 5.0
_MISDIRECTED = 421
_LATER = "; ask again in a moment"
_REFUSES = ", which refuses this token: give all processes the same (--http-token-file)"
_NO_ANSWER = (OSError, http.client.HTTPException, UnicodeError)


class Owners:
    """Asks other processes of an application. Safe to use from any thread.

    Args:
        certificate: What they are served with over TLS, beside what the system trusts; None asks
            without TLS.

    Attributes:
        tls: How they are asked over TLS; None: they are asked without.
    """

    def __init__(self, streams: KafkaStreams, certificate: Path | None) -> None:
        self.tls: ssl.SSLContext | None = None
        if certificate is not None:
            self.tls = ssl.create_default_context()
            self.tls.load_verify_locations(certificate)
        self._streams = streams
        self._connections = KeptConnections(_TIMEOUT_S, self.tls, through_proxies=False)

    def close(self) -> None:
        """Close what stays open between two requests."""
        self._connections.close()

    def ask(
        self,
        request: Request,
        store: str,
        number: int,
        silent: Mapping[HostInfo, str] | None = None,
    ) -> Response:
        """Return what the owner of a partition answers; waits for it.

        Args:
            silent: Who has not answered just now, or not this token, and why; is not asked again.

        Raises:
            RequestError: Nobody has it, or who has it does not answer, or was not to be asked.
        """
        what = f"partition {number} of store {store!r}"
        told: dict[str, Any] = {"reason": "NOT_PRESENT", "partition": number}
        if FORWARDED_HEADER in request.headers:
            raise RequestError(_MISDIRECTED, f"{what} is not in this process", **told)
        trouble = _LATER
        for afresh in (False, True):  # A rebalance may have made the first answer an old one.
            owner = self._owner(store, number, afresh=afresh)
            if owner is None:
                continue
            told["owner"] = str(owner)
            if silent and owner in silent:
                trouble = silent[owner]
                continue
            try:
                found = self._get(owner, request, number)
            except _NO_ANSWER as error:
                trouble = _silence(error)
                continue
            if found.status == HTTPStatus.UNAUTHORIZED:
                trouble = _REFUSES
                break
            if found.status != _MISDIRECTED:
                return _forwarded(found, owner)
            trouble = f": it has not got it, or has given it away just now{_LATER}"
        if "owner" in told:
            message = f"{what} is in the process at {told['owner']}{trouble}"
            raise RequestError(503, message, **told)
        raise RequestError(
            503,
            f"{what} is not in this process, and nobody says where it is: ask again in a moment; "
            "each process tells the others with application.server (or --http HOST:PORT)",
            **told,
        )

    def first_found(self, request: Request, store: str, numbers: Sequence[int]) -> Response | None:
        """Return the first answer of these partitions that has the key; None if none has it.

        A process is asked once for all it has. What has moved meanwhile is asked for alone.

        Raises:
            RequestError: None that has answered has it, and one has not.
        """
        left, silent = list(numbers), dict[HostInfo, str]()
        for owner in self._owners_of(store, numbers):
            try:
                found = self._get(owner, request, None)
            except _NO_ANSWER as error:
                silent[owner] = _silence(error)
                continue
            if found.status == HTTPStatus.UNAUTHORIZED:
                silent[owner] = _REFUSES
                continue
            answer = _forwarded(found, owner)
            if found.status == HTTPStatus.OK:
                return answer
            without = partitions_without_key(answer)
            left = [number for number in left if number not in without]
        return self._first_of_each(request, store, left, silent)

    def _first_of_each(
        self, request: Request, store: str, numbers: Sequence[int], silent: Mapping[HostInfo, str]
    ) -> Response | None:
        unanswered: Response | RequestError | None = None
        told: set[str] = set()
        for number in numbers:
            if told and str(self._owner(store, number, afresh=False)) in told:
                continue
            try:
                answer = self.ask(request, store, number, silent)
            except RequestError as error:
                unanswered = unanswered or error
                told.add(str(error.fields.get("owner")))
                continue
            if answer.status_code == HTTPStatus.OK:
                return answer
            if position_where_no_key_is(answer) is None:
                unanswered = unanswered or answer
        if isinstance(unanswered, RequestError):
            message = f"there is no such key in the partitions that have answered, but {unanswered}"
            raise RequestError(unanswered.status, message, **unanswered.fields) from unanswered
        return unanswered

    def _owners_of(self, store: str, numbers: Sequence[int]) -> list[HostInfo]:
        owners = [self._owner(store, number, afresh=False) for number in numbers]
        return [owner for owner in dict.fromkeys(owners) if owner is not None]

    def _owner(self, store: str, number: int, *, afresh: bool) -> HostInfo | None:
        try:
            return self._streams.owner_of(store, number, afresh=afresh)
        except StreamsError as error:
            raise RequestError(503, f"the owner is not known: {error}") from error

    def _get(self, owner: HostInfo, request: Request, number: int | None) -> HttpAnswer:
        """Ask for a key in one partition, or in all that the owner has."""
        headers = {FORWARDED_HEADER: "1"}
        if (token := request.headers.get("authorization")) is not None:
            headers["authorization"] = token
        path = request.scope["raw_path"].decode("ascii")
        query = request.scope["query_string"].decode("ascii")
        if number is not None and "partition" not in request.query_params:
            query = f"{query}&partition={number}" if query else f"partition={number}"
        target = f"{path}?{query}" if query else path
        address = Address("http" if self.tls is None else "https", str(owner))
        return self._connections.get(address, target, headers)


def _forwarded(found: HttpAnswer, owner: HostInfo) -> Response:
    return forwarded(found.status, found.body, found.media_type or "application/json", str(owner))


def _silence(error: Exception) -> str:
    if isinstance(error, UnicodeError):  # A part of its host's name is empty, or too long.
        return f", which is no valid address ({error}): give it another application.server"
    return f": it does not answer ({type(error).__name__}: {error}){_LATER}"
