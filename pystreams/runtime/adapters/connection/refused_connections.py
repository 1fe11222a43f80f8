"""Connections that brokers refuse, or that end before any request: credentials, TLS, protocols.

To librdkafka that is no error of the call that waits: it connects again and again, for ever, and
tells it beside, in errors and log lines that belong to no call. Here they become one error, when
they have gone on for too long:

- three seconds with credentials that no broker has accepted yet: the time in which brokers learn
  of a user that was just made;
- `task.timeout.ms` with those that were accepted before, in this process: time for a password that
  is being changed on the brokers. Until then it is a warning.

A connection that a broker only closes says nothing for certain. It counts before credentials were
accepted, and once the listener was asked what it speaks (`listeners`).
"""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore.

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import KafkaError

from pystreams.errors import AuthenticationError
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.connection.listeners import distrust, speaks_plain_text, speaks_tls

_log = get_logger("pystreams.kafka")

_AT_START_S = 3.0
_PAUSE_S = 60.0
"""After so long without a refusal the next one is the first again. librdkafka tells one that goes
on every 30 s at least."""
_SOON_MS = 2000

_LINE = re.compile(
    r"(?:\[thrd:[^\]]*\]: )?(?:\w+: )?(?:\w+://)?(?P<server>(?:\[[^\]]+\]|[\w.-]+):\d+)(?:/\w+)?: "
    r"(?P<reason>.*?)(?: \(after (?P<ms>\d+)ms in state (?P<state>\w+).*\))?"
)
_TLS_ALERT = "SSL alert number"
_NOT_GIVEN = "Failed to acquire SASL OAUTHBEARER token: "
_OF_TOKENS = (
    "correct sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret, or "
    "sasl.oauthbearer.token.endpoint.url"
)
_SECURED = ("ssl", "sasl_ssl")
_WITH_USER = ("sasl_plaintext", "sasl_ssl")
_IDENTITY = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.ca.location",
    "ssl.certificate.location",
)
_SIGNED = "set ssl.ca.location to the certificate of the authority that signed it"
_NAMED = (
    "name the broker in bootstrap.servers, and in its advertised.listeners, as its certificate "
    "does; ssl.endpoint.identification.algorithm=none does without"
)
_WRONG_NAME = (62, 64)
"""OpenSSL's `X509_V_ERR_HOSTNAME_MISMATCH` and `X509_V_ERR_IP_ADDRESS_MISMATCH`."""


def identity_of(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what clients have in common that are accepted or refused together."""
    return tuple(config.get(key) for key in _IDENTITY)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a connection came to nothing.

    Attributes:
        certain: Whether the client's words leave no doubt.
        examine: Asks the listener; returns what is to be told, or None when it is not so after all.
    """

    server: str
    what: str
    reason: str
    cure: str
    certain: bool = True
    examine: Callable[[_Refusal], _Refusal | None] = lambda refusal: refusal

    def __str__(self) -> str:
        return f"{self.what} ({self.reason}): {self.cure}"


class RefusedConnections:
    """The refused connections of clients with the same credentials; any thread may call it.

    Args:
        config: librdkafka's configuration of one of them.
        tolerance_s: How long clients that were accepted may be refused (s).
    """

    def __init__(self, config: Mapping[str, Any], tolerance_s: float) -> None:
        self._config = config
        self._protocol = str(config.get("security.protocol", "plaintext")).lower()
        self._tolerance_s = tolerance_s
        self._accepted = False
        self._lock = threading.Lock()
        self._refusal: tuple[str, _Refusal] | None = None
        self._first_s = self._last_s = self._tell_at_s = 0.0

    @property
    def told(self) -> bool:
        """Whether the log has told of a refusal lately."""
        held = self._refusal
        soon = time.monotonic() - self._last_s < _PAUSE_S
        return held is not None and held[1].certain and soon

    def accept(self) -> None:
        """Note that a broker has answered a client: what was refused before is over."""
        self._accepted = True
        self._refusal = None

    def take(self, client: str, error: KafkaError) -> bool:
        """Take an error that belongs to no call; return whether it is about a refusal.

        Args:
            client: The `client.id`.
        """
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            return self.told
        found = self._meaning_of(error)
        if found is not None:
            self._note(client, found)
        return found is not None and found.certain

    def hear(self, client: str, line: str) -> None:
        """Take a line of the client's log about a connection that has ended."""
        found = None if self._accepted else self._closed(line)
        if found is not None:
            self._note(client.partition("#")[0], found)  # librdkafka has put a number behind it.

    def check(self) -> None:
        """Return while it has not lasted too long.

        Raises:
            AuthenticationError: It has; says what the client said, and the cure.
        """
        if self._refusal is None or self._last_s - self._first_s < self._limit_s():
            return
        error = self.error()
        if error is not None:
            raise error
        self._refusal = None  # It was something else.

    def error(self) -> AuthenticationError | None:
        """Return what the refusals of the last minute come to, if there were any."""
        held = self._refusal
        if held is None or time.monotonic() - self._last_s > _PAUSE_S:
            return None
        client, refusal = held
        if not refusal.certain and self._accepted:
            return None
        examined = refusal.examine(refusal)
        if examined is None:
            return None
        return AuthenticationError(f"client {client!r}: {examined}")

    def _note(self, client: str, refusal: _Refusal) -> None:
        now_s = time.monotonic()
        with self._lock:
            if self._refusal is None or now_s - self._last_s > _PAUSE_S:
                self._first_s = now_s
            self._last_s = now_s
            self._refusal = (client, refusal)
            tell = refusal.certain and now_s >= self._tell_at_s
            if tell:
                self._tell_at_s = now_s + _PAUSE_S
        if tell:
            _log.warning(
                "a broker refuses the client, trying again",
                client=client,
                reason=str(refusal),
                tolerated_s=self._limit_s(),
            )

    def _limit_s(self) -> float:
        return self._tolerance_s if self._accepted else _AT_START_S

    # ------------------------------------------------------------------ what the client said

    def _meaning_of(self, error: KafkaError) -> _Refusal | None:
        """Return what an error says of a connection, if it is one of these."""
        if error.code() == KafkaError._AUTHENTICATION and error.str().startswith(_NOT_GIVEN):
            reason = error.str().removeprefix(_NOT_GIVEN)
            endpoint = str(self._config.get("sasl.oauthbearer.token.endpoint.url"))
            return _Refusal(endpoint, f"{endpoint} gives the client no token", reason, _OF_TOKENS)
        match = _LINE.fullmatch(error.str())
        if match is None:
            return None
        server, reason = match["server"], match["reason"]
        if error.code() == KafkaError._AUTHENTICATION:
            return self._unauthenticated(server, reason)
        if error.code() == KafkaError._SSL:
            return self._untrusted(server, reason)
        if _TLS_ALERT in reason:
            return self._untrusted(server, reason)
        if "PLAINTEXT broker listener?" in reason:
            plain = "SASL_PLAINTEXT" if self._protocol in _WITH_USER else "PLAINTEXT"
            return _Refusal(
                server,
                f"broker {server} does not speak TLS at this port",
                reason,
                f"set security.protocol={plain}, or name the port of its listener for "
                f"{self._protocol.upper()} in bootstrap.servers",
                certain=False,
                examine=_if(speaks_plain_text),
            )
        return None

    def _unauthenticated(self, server: str, reason: str) -> _Refusal:
        mechanism = self._config.get("sasl.mechanism", self._config.get("sasl.mechanisms"))
        if "Unsupported SASL mechanism" in reason:
            what = f"broker {server} does not know sasl.mechanism={mechanism}"
            return _Refusal(server, what, reason, "set sasl.mechanism to one that it supports")
        if "mechanism handshake failed" in reason:
            without = "SSL" if self._protocol == "sasl_ssl" else "PLAINTEXT"
            return _Refusal(
                server,
                f"broker {server} asks for no user at this port",
                reason,
                f"set security.protocol={without}, or name the port of its listener for "
                f"{self._protocol.upper()} in bootstrap.servers",
            )
        user = self._config.get("sasl.username")
        who = "the credentials" if user is None else f"user {user!r}"
        keys = "the sasl.* keys" if user is None else "sasl.username and sasl.password"
        return _Refusal(
            server,
            f"broker {server} refuses {who} ({mechanism})",
            reason,
            f"correct {keys}; a client's own have its prefix, such as consumer.sasl.password",
        )

    def _untrusted(self, server: str, reason: str) -> _Refusal:
        if "certificate verify failed" not in reason and "Failed to verify" not in reason:
            return _Refusal(
                server,
                f"TLS with broker {server} fails",
                reason,
                "check the ssl.* keys; where the broker asks for the client's certificate, set "
                "ssl.certificate.location and ssl.key.location",
            )
        return _Refusal(
            server,
            f"the certificate of broker {server} is not trusted",
            reason,
            f"{_SIGNED}, and name the broker in bootstrap.servers as it does",
            examine=self._distrusted,
        )

    def _distrusted(self, refusal: _Refusal) -> _Refusal:
        """Say why a certificate is not trusted, which the client keeps to itself."""
        why = distrust(refusal.server, self._config)
        if why is None:
            return refusal
        cure = _NAMED if why.verify_code in _WRONG_NAME else _SIGNED
        return replace(refusal, reason=why.verify_message, cure=cure)

    def _closed(self, line: str) -> _Refusal | None:
        """Return what a line means that says of a connection only that the broker has closed it."""
        match = _LINE.fullmatch(line)
        if match is None or "closed by peer" not in match["reason"]:
            return None
        server, reason, state = match["server"], match["reason"], match["state"]
        if state == "APIVERSION_QUERY" and self._protocol not in _SECURED:
            secured = "SASL_SSL" if self._protocol in _WITH_USER else "SSL"
            return _Refusal(
                server,
                f"broker {server} expects TLS at this port",
                reason,
                f"set security.protocol={secured}, and ssl.ca.location where a public authority "
                "has not signed its certificate",
                certain=False,
                examine=_if(speaks_tls),
            )
        if state == "UP" and int(match["ms"]) < _SOON_MS and self._protocol not in _WITH_USER:
            with_user = "SASL_SSL" if self._protocol in _SECURED else "SASL_PLAINTEXT"
            spoken = speaks_tls if self._protocol in _SECURED else speaks_plain_text
            return _Refusal(
                server,
                f"broker {server} takes no request without a user at this port",
                reason,
                f"set security.protocol={with_user}, sasl.mechanism, sasl.username and "
                "sasl.password",
                certain=False,
                examine=_if(spoken),
            )
        return None


def _if(speaks: Callable[[str], bool]) -> Callable[[_Refusal], _Refusal | None]:
    """Return what examines a refusal that is one only if the listener speaks so."""
    return lambda refusal: refusal if speaks(refusal.server) else None
