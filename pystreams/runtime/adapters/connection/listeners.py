"""What a broker's listener speaks, found out by talking to it.

librdkafka does not say why it does not trust a certificate, and takes a connection that is closed
at once for one thing whether TLS met plain text, or a forwarded port has no broker behind it yet.
Asked only before an application ends because of it; each question takes two seconds at most.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from typing import Any

_TIMEOUT_S = 2.0
_API_VERSIONS_KEY = 18
_HEADER = struct.Struct(">hhih")
"""Key, version and correlation id of a request, and the length of the client id."""


def speaks_tls(server: str) -> bool:
    """Return whether a listener answers a TLS handshake."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        _handshake(server, context)
    except ssl.SSLError as error:
        return "ALERT" in str(error.reason)
    except OSError:
        return False
    return True


def speaks_plain_text(server: str) -> bool:
    """Return whether a listener answers Kafka's first request without TLS."""
    request = _HEADER.pack(_API_VERSIONS_KEY, 0, 1, 0)
    try:
        with _connected(server) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            return bool(connection.recv(1))
    except OSError:
        return False


def distrust(server: str, config: Mapping[str, Any]) -> ssl.SSLCertVerificationError | None:
    """Return why a listener's certificate is not trusted; None when that can't be told."""
    try:
        context = _trusting(config)
        _handshake(server, context)
    except ssl.SSLCertVerificationError as error:
        return error
    except OSError:
        return None
    return None


def _trusting(config: Mapping[str, Any]) -> ssl.SSLContext:
    location, pem = config.get("ssl.ca.location"), config.get("ssl.ca.pem")
    context = ssl.create_default_context()
    if pem:
        context = ssl.create_default_context(cadata=str(pem))
    elif location:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cafile=location)
        except IsADirectoryError:
            context.load_verify_locations(capath=location)
    if config.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    return context


def _handshake(server: str, context: ssl.SSLContext) -> None:
    host = server.rpartition(":")[0].strip("[]")
    with _connected(server) as connection, context.wrap_socket(connection, server_hostname=host):
        pass


def _connected(server: str) -> socket.socket:
    host, _, port = server.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=_TIMEOUT_S)
