"""A proxy between clients and the broker that can keep a request back and deliver it late.

Clients are sent to it alone: in what the broker tells of itself, its port becomes the proxy's. It
can answer in the broker's place. It can also leave the broker out of its answers, as one that its
controller has put out does itself.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import KafkaError

PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
OFFSET_FETCH = 9
FIND_COORDINATOR = 10
CREATE_TOPICS = 19
DELETE_TOPICS = 20
INIT_PRODUCER_ID = 22
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
TXN_OFFSET_COMMIT = 28

NODE_ID = 1
"""The development broker's."""
NO_BROKERS = bytes([0 + 1])
"""A compact array has its length and one before it."""


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError
        data += piece
    return data


def _receive_frame(connection: socket.socket) -> bytes:
    size = _receive(connection, 4)
    return size + _receive(connection, struct.unpack(">i", size)[0])


def not_leader(topic: str, partition: int = 0) -> bytes:
    """Return the body of an answer to Produce, version 9 or 10, of one partition."""
    name = topic.encode()
    error = struct.pack(">ihqqq", partition, KafkaError.NOT_LEADER_FOR_PARTITION, -1, -1, -1)
    no_errors, no_message, no_tags = bytes([0 + 1]), bytes(1), bytes(1)
    partitions = bytes([1 + 1]) + error + no_errors + no_message + no_tags
    topics = bytes([1 + 1, len(name) + 1]) + name + partitions + no_tags
    throttled = bytes(4)
    return topics + throttled + no_tags


def api_of(request: bytes) -> int:
    return int(struct.unpack(">h", request[4:6])[0])


@dataclass
class Kept:
    """A request that has not reached the broker, and what came before it on its connection."""

    first: bytes
    request: bytes


class RequestProxy:
    """Passes requests on, but for those it is told to keep.

    Attributes:
        bootstrap_servers: Where clients find it.
        kept: Requests that were kept back.
        names_brokers: Whether answers about the cluster name its one broker.
        nameless: How many answers did not.
        lost_answers: How many clients had no answer to what was done.
        own_answers: How many were answered in the broker's place.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        host, port = bootstrap_servers.split(":")
        self._broker = (host, int(port))
        self._listener = socket.create_server((host, 0))
        own_port = self._listener.getsockname()[1]
        self._told = host.encode() + struct.pack(">i", int(port))
        self._replaced = host.encode() + struct.pack(">i", own_port)
        # An array of one: id, name and port, no rack, no tags.
        node = struct.pack(">i", NODE_ID) + bytes([len(host) + 1])
        self._one_broker = bytes([1 + 1]) + node + self._told + bytes(2)
        self.bootstrap_servers = f"{host}:{own_port}"
        self.kept: list[Kept] = []
        self.names_brokers = True
        self.nameless = 0
        self.lost_answers = 0
        self.own_answers = 0
        self._given: dict[int, list[bytes]] = {}
        self._waits_for_next = False
        self._keep: dict[int, int] = {}
        self._cuts = True
        self._delivers = False
        self._refuses = False
        self._connections: list[socket.socket] = []
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def keep_next(self, api: int, count: int = 1, *, cuts: bool = True) -> None:
        """Keep the next requests of a kind, and cut the connections that bring them, or do not."""
        self._set(api, count, cuts=cuts, delivers=False)

    def lose_answers(self, api: int, count: int = 1) -> None:
        """Let the next requests of a kind be done, and cut the connections before the answer."""
        self._set(api, count, cuts=True, delivers=True)

    def answer_next(self, api: int, *bodies: bytes, late: bool = False) -> None:
        """Answer the next requests of a kind with these bodies; the broker does not see them.

        Args:
            late: Whether an answer waits for the next request of its kind on the connection.
        """
        with self._lock:
            self._given[api] = list(bodies)
            self._waits_for_next = late

    def deliver_late(self) -> None:
        """Send what was kept to the broker, on connections of its own; return when answered."""
        kept, self.kept = self.kept, []
        for late in kept:
            with socket.create_connection(self._broker) as connection:
                for request in (late.first, late.request):
                    connection.sendall(request)
                    _receive_frame(connection)

    def refuse(self) -> None:
        """Cut all connections, and each that comes."""
        self._refuses = True
        self._cut(*self._connections)

    def accept(self) -> None:
        """Let clients connect again."""
        self._refuses = False

    def close(self) -> None:
        """Cut all connections."""
        self._cut(self._listener)
        self._threads[0].join()
        self._cut(*self._connections)
        for thread in self._threads:
            thread.join()
        for connection in (self._listener, *self._connections):
            connection.close()

    # ------------------------------------------------------------------ inside

    def _set(self, api: int, count: int, *, cuts: bool, delivers: bool) -> None:
        with self._lock:
            self._keep[api] = count
            self._cuts, self._delivers = cuts, delivers

    def _start(self, run: Callable[..., None], *connections: socket.socket) -> None:
        thread = threading.Thread(target=run, args=connections, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._connections.append(client)
                if self._refuses:
                    self._cut(client)
                    continue
                try:
                    broker = socket.create_connection(self._broker)
                except OSError:
                    self._cut(client)  # It comes again, as it does to a broker that is down.
                    continue
                self._connections.append(broker)
                self._start(self._requests, client, broker)
                self._start(self._answers, client, broker)

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        first = b""
        late: dict[int, bytes] = {}
        with suppress(OSError):
            while True:
                request = _receive_frame(client)
                first = first or request
                if waiting := late.pop(api_of(request), b""):
                    client.sendall(waiting)
                given = self._given_for(request)
                if given is not None:
                    # The header: the number of the request, and no tags.
                    answer = request[8:12] + bytes(1) + given
                    framed = struct.pack(">i", len(answer)) + answer
                    if self._waits_for_next:
                        late[api_of(request)] = framed
                    else:
                        client.sendall(framed)
                    self.own_answers += 1
                elif self._is_kept(request):
                    self.kept.append(Kept(first, request))
                    if self._delivers:
                        self.deliver_late()
                        self.lost_answers += 1
                    if self._cuts:
                        break
                else:
                    broker.sendall(request)
        self._cut(client, broker)

    def _answers(self, client: socket.socket, broker: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client.sendall(self._edited(_receive_frame(broker)))
        self._cut(client, broker)

    def _edited(self, answer: bytes) -> bytes:
        if not self.names_brokers and self._one_broker in answer:
            body = answer[4:].replace(self._one_broker, NO_BROKERS)
            self.nameless += 1
            return struct.pack(">i", len(body)) + body
        return answer.replace(self._told, self._replaced)

    def _is_kept(self, request: bytes) -> bool:
        with self._lock:
            left = self._keep.get(api_of(request), 0)
            self._keep[api_of(request)] = max(left - 1, 0)
            return left > 0

    def _given_for(self, request: bytes) -> bytes | None:
        with self._lock:
            bodies = self._given.get(api_of(request))
            return bodies.pop(0) if bodies else None

    @staticmethod
    def _cut(*connections: socket.socket) -> None:
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
