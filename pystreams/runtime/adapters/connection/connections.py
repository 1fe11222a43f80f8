"""Clients of librdkafka, and what they say beside the answers to calls: errors and log lines."""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore.

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException

from pystreams.errors import ConfigError
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.connection.confluent_errors import TRANSIENT, cure_of
from pystreams.runtime.adapters.connection.refused_configurations import cure_of_configuration
from pystreams.runtime.adapters.connection.refused_connections import (
    RefusedConnections,
    identity_of,
)

_log = get_logger("pystreams.kafka")

_Client = TypeVar("_Client")

_ABOUT_CONNECTIONS = frozenset({"ERROR", "FAIL", "GETPID", "REQTMOUT"})


class BrokerOutage:
    """Says once that no broker can be reached, and once that one can again.

    Every client retries several times a second and would say so each time. Shared by all clients
    of a process; may be called from any thread.

    Args:
        bootstrap_servers: Named in the message.
        refused_max_s: How long brokers may refuse clients that they have accepted before (s).

    Attributes:
        lasting: Whether brokers can't be reached now.
        reason: What was said of a connection last that could not be made.
    """

    def __init__(self, bootstrap_servers: str, refused_max_s: float = 300.0) -> None:
        self.lasting = False
        self.reason = ""
        self._bootstrap_servers = bootstrap_servers
        self._refused_max_s = refused_max_s
        self._refused: dict[tuple[Any, ...], RefusedConnections] = {}
        self._lock = threading.Lock()

    def refused(self, config: Mapping[str, Any]) -> RefusedConnections:
        """Return what is known of connections with a configuration's credentials."""
        with self._lock:
            known = RefusedConnections(config, self._refused_max_s)
            return self._refused.setdefault(identity_of(config), known)

    def begins(self, reason: str) -> None:
        """Note that no broker can be reached."""
        with self._lock:
            if not self.lasting:
                self.lasting = True
                _log.warning(
                    "no broker can be reached, trying again until one can",
                    bootstrap_servers=self._bootstrap_servers,
                    reason=reason,
                )

    def ends(self) -> None:
        """Note that a broker has answered."""
        with self._lock:
            if self.lasting:
                self.lasting = False
                _log.info(
                    "a broker can be reached again", bootstrap_servers=self._bootstrap_servers
                )

    def on_error(self, error: KafkaError) -> None:
        """Take an error that belongs to no call: librdkafka's `error_cb`."""
        code = error.code()
        if code == KafkaError._ALL_BROKERS_DOWN:
            self.begins(error.str())
        elif code in TRANSIENT:
            self.reason = error.str()
            if not self.lasting:
                _log.debug("kafka client", error=error.str())
        else:
            _log.warning("kafka client", error=error.str(), cure=cure_of(code))


_ON_THE_WAY_TO_0 = "offset reset (at offset 1 (leader epoch -1)"


class ClientLog(Protocol):
    """What takes librdkafka's log lines: the one method of `logging.Logger` that it calls."""

    def log(self, level: int, template: str, facility: str, client: str, line: str) -> None:
        """Take one line."""


class LibrdkafkaLog:
    """Takes librdkafka's log lines.

    Lines about single connections are demoted to debug, and left out while there is an outage:
    there are hundreds a second, and `BrokerOutage` has said what matters. So is what an empty
    partition says when the consumer moves to 0, by way of 1.

    Args:
        outage: Knows whether brokers can be reached.
        refused: Told of connections that end.
    """

    def __init__(self, outage: BrokerOutage, refused: RefusedConnections) -> None:
        self._outage = outage
        self._refused = refused

    def log(self, level: int, template: str, facility: str, client: str, line: str) -> None:
        """Pass one line on."""
        del template
        if facility in _ABOUT_CONNECTIONS:
            self._refused.hear(client, line)
            if self._outage.lasting:
                return
            level = logging.DEBUG
        elif facility == "OFFSET" and _ON_THE_WAY_TO_0 in line:
            level = logging.DEBUG
        _log.log(level, line, facility=facility, client=client)


def make_client(
    kind: Callable[[dict[str, Any]], _Client],
    config: Mapping[str, Any],
    outage: BrokerOutage,
    log: ClientLog | None = None,
) -> _Client:
    """Make a client whose errors and log lines come to us.

    Args:
        log: Takes its log lines; None to show them all.

    Raises:
        ConfigError: librdkafka refuses the configuration.
    """
    refused = outage.refused(config)
    name = str(config.get("client.id", ""))

    def on_error(error: KafkaError) -> None:
        if not refused.take(name, error):
            outage.on_error(error)

    own = {
        **config,
        "error_cb": on_error,
        "logger": log or LibrdkafkaLog(outage, refused),
    }
    try:
        return kind(own)
    except KafkaException as error:
        told = f"the Kafka client refuses its configuration: {error}"
        cure = cure_of_configuration(config, str(error))
        raise ConfigError(told if cure is None else f"{told}. {cure}") from error
