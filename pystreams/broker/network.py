"""Ports of the loopback address, and the one Kafka request that tells when a broker is ready."""

from __future__ import annotations

import socket
import struct

from pystreams.broker.settings import LOOPBACK

_METADATA_API_KEY = 3
_METADATA_VERSION = 1
_CORRELATION_ID = 1
_RESPONSE_BYTES_MAX = 1 << 20


def is_port_free(port: int) -> bool:
    """Whether a server can listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections of a stopped broker that linger in TIME_WAIT don't count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """Return different ports that nobody listened on a moment ago; another process may be faster.

    The sockets stay open until all ports are known, else the system could hand out one twice.
    """
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for opened in sockets:
            opened.bind((LOOPBACK, 0))
        return [int(opened.getsockname()[1]) for opened in sockets]
    finally:
        for opened in sockets:
            opened.close()


def answers_metadata(port: int, *, timeout_s: float = 2.0) -> bool:
    """Whether a Kafka broker answers on the port and lists itself as alive.

    A broker accepts connections before its controller has unfenced it; until then the list of
    brokers in its metadata is empty and topics can't be created. So a listed broker is the first
    moment at which clients can work.

    Format: Metadata request v1 with an empty list of topics, which asks for brokers only. Request:
    size, api key, version, correlation id, null client id (-1), count of topics 0. Response: size,
    correlation id, count of brokers, brokers.
    """
    header = struct.pack(">hhih", _METADATA_API_KEY, _METADATA_VERSION, _CORRELATION_ID, -1)
    request = header + struct.pack(">i", 0)
    try:
        with socket.create_connection((LOOPBACK, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _receive_exactly(connection, 4))
            # Anything may listen on the port; a web server's answer reads as a huge size.
            if not 8 <= size <= _RESPONSE_BYTES_MAX:
                return False
            body = _receive_exactly(connection, size)
    except OSError:
        return False
    correlation_id, brokers = struct.unpack_from(">ii", body)
    return bool(correlation_id == _CORRELATION_ID and brokers > 0)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionError("the connection was closed in the middle of a response")
        received += chunk
    return bytes(received)
