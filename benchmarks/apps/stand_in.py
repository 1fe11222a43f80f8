"""Answers as the processes of a count do, from memory: whoever asks it has the work of asking.

It answers at each of its ports what a process there would: for the keys of its partitions itself,
for others with their owner's address, byte for byte as long. Nothing is counted, read or passed on.

Runs until it is killed.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
from collections.abc import Sequence
from typing import NamedTuple

from pystreams.http.responses import OWNER_HEADER
from pystreams.kernel.partitioner import partition_of

_HEAD = (
    b"HTTP/1.1 %b\r\ndate: Sun, 29 Nov 2026 12:00:00 GMT\r\ncache-control: no-store\r\n"
    b"x-content-type-options: nosniff\r\ncontent-type: application/json\r\n%bcontent-length: %d"
    b"\r\n\r\n%b"
)


class Answer(NamedTuple):
    """What is answered for a key.

    Attributes:
        owner: The number of the process that has it.
        by_owner: What that one answers.
        by_others: What the others do.
    """

    owner: int
    by_owner: bytes
    by_others: bytes


class StandIn:
    """What is answered where.

    Args:
        ports: Of the processes; each has every so-manieth partition.
        partitions: Of the store.
        keys: The keys of the store.
    """

    def __init__(self, ports: Sequence[int], partitions: int, keys: Sequence[str]) -> None:
        self._ports, self._partitions = ports, partitions
        self._answers = {f"/v1/stores/counts/{key}".encode(): self._answer(key) for key in keys}

    def answer(self, number: int, request: bytes) -> bytes:
        """Return what the process with a number answers."""
        target = request.split(b" ", 2)[1]
        found = self._answers.get(target)
        if found is not None:
            return found.by_owner if found.owner == number else found.by_others
        path, _, asked = target.partition(b"?")
        return _of_store(*self._shares(number)) if asked else self._of_no_key(path)

    def _answer(self, key: str) -> Answer:
        partition = partition_of(key.encode(), self._partitions)
        owner = partition % len(self._ports)
        place = f"127.0.0.1:{self._ports[owner]}"
        body = {
            "key": key,
            "value": 1,
            "timestamp": 1_800_000_000_000,
            "partition": partition,
            "position": {"input": {str(partition): 1_000_000}},
        }
        passed_on = f"{OWNER_HEADER}: {place}\r\n".encode()
        return Answer(owner, _response("200 OK", body), _response("200 OK", body, passed_on))

    def _shares(self, number: int) -> tuple[list[int], list[int]]:
        """Return the partitions that a process has, and those of the others."""
        of_all = range(self._partitions)
        here = [partition for partition in of_all if partition % len(self._ports) == number]
        return here, [partition for partition in of_all if partition not in here]

    def _of_no_key(self, path: bytes) -> bytes:
        key = path.rpartition(b"/")[2]
        partition = partition_of(key, self._partitions)
        told = {"status": 404, "detail": f"no key {key.decode()!r}", "partition": partition}
        return _response("404 Not Found", told)


def _of_store(here: Sequence[int], elsewhere: Sequence[int]) -> bytes:
    pages = [{"partition": partition, "entries": [], "more": False} for partition in here]
    return _response("200 OK", {"partitions": pages, "elsewhere": list(elsewhere)})


def _response(status: str, content: object, more: bytes = b"") -> bytes:
    body = json.dumps(content, separators=(",", ":")).encode()
    return _HEAD % (status.encode(), more, len(body), body)


def serve(listening: Sequence[socket.socket], stand_in: StandIn) -> None:
    """Answer for ever."""
    selector = selectors.DefaultSelector()
    for number, opened in enumerate(listening):
        selector.register(opened, selectors.EVENT_READ, number)
    while True:
        for ready, _ in selector.select():
            connection, number = ready.fileobj, ready.data
            assert isinstance(connection, socket.socket)
            if connection in listening:
                accepted, _ = connection.accept()
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(accepted, selectors.EVENT_READ, number)
            elif request := connection.recv(1 << 16):
                connection.send(stand_in.answer(number, request))
            else:
                selector.unregister(connection)
                connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, action="append", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--keys", type=int, required=True)
    given = parser.parse_args()
    keys = [f"key{number:07d}" for number in range(given.keys)]
    stand_in = StandIn(given.port, given.partitions, keys)
    serve([socket.create_server(("127.0.0.1", port)) for port in given.port], stand_in)


if __name__ == "__main__":
    main()
