"""Processes that pass questions for keys on, as real ones do; tests change what they answer."""

from __future__ import annotations

import contextlib
import json
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

from pystreams.client import Client
from pystreams.kernel.partitioner import partition_of
from tests.broker.waiting import wait_until
from tests.http.scripted_server import Asked, ScriptedServer, scripted

PARTITIONS = 6
TEXTS = [f"key {number}/ä" for number in range(40)]
NUMBERS = [*range(-3, 30), 2**31 - 1]

Rule = Callable[[str], int]


def by_text(key: str) -> int:
    return partition_of(key.encode(), PARTITIONS)


def by_long(key: str) -> int:
    return partition_of(int(key).to_bytes(8, "big", signed=True), PARTITIONS)


def by_int(key: str) -> int:
    return partition_of(int(key).to_bytes(4, "big", signed=True), PARTITIONS)


def by_another_rule(key: str) -> int:
    return zlib.crc32(key.encode()) % PARTITIONS


def answer(status: int, value: Mapping[str, Any], owner: str | None = None) -> bytes:
    told = {"status": status, "detail": "refused"} if status != HTTPStatus.OK else {}
    body = json.dumps({**told, **value}).encode()
    passed_on = "" if owner is None else f"x-pystreams-owner: {owner}\r\n"
    return f"HTTP/1.1 {status} X\r\n{passed_on}content-length: {len(body)}\r\n\r\n".encode() + body


class Application:
    """Processes that pass questions on as real ones do.

    Attributes:
        processes: Where each is asked.
        shares: Which of them has each partition.
        absent: Keys that no partition has.
        refused: Keys that are none of the store's.
        instead: What a process answers to questions for keys that it should pass on to none.
        position: How many questions were answered: something comes before each of them.
        passed_on: The keys that were passed on.
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self.processes: list[ScriptedServer] = []
        self.shares = {number: number % 3 for number in range(PARTITIONS)}
        self.absent: set[str] = set()
        self.refused: set[str] = set()
        self.instead: dict[int, bytes] = {}
        self.position = 0
        self.passed_on: list[str] = []

    @property
    def url(self) -> str:
        return self.processes[0].url

    def place(self, process: int) -> str:
        return f"127.0.0.1:{self.processes[process].port}"

    def answer(self, process: int, asked: Asked) -> bytes:
        path, _, query = asked.target.partition("?")
        _, _, _, store, *keys = (unquote(part) for part in path.split("/"))
        if not keys:
            here = [number for number, owner in self.shares.items() if owner == process]
            elsewhere = sorted({*self.shares} - {*here})
            parts = [{"partition": number, "entries": [], "more": False} for number in here]
            return answer(200, {"partitions": parts, "elsewhere": elsewhere})
        if process in self.instead:
            return self.instead[process]
        (key,) = keys
        if key in self.refused:
            return answer(400, {})
        number = int(dict(parse_qsl(query)).get("partition", self._rule(key)))
        if key in self.absent:
            return answer(404, {"partition": number, "position": {}})
        self.position += 1
        position = {"in": {str(number): self.position}}
        found = {
            "key": key,
            "value": f"{store} {key}",
            "partition": number,
            "position": position,
        }
        owner = self.shares[number]
        if owner == process:
            return answer(200, found)
        self.passed_on.append(key)
        return answer(200, found, self.place(owner))

    def asked_at(self) -> list[int]:
        """Return how many questions for keys each process got; forget them."""
        counts = []
        for server in self.processes:
            counts.append(sum(asked.target.count("/") == 4 for asked in server.asked))
            server.asked.clear()
        return counts


@contextlib.contextmanager
def running(rule: Rule) -> Iterator[Application]:
    """Run three processes whose keys are partitioned by a rule."""
    application = Application(rule)
    with contextlib.ExitStack() as stack:
        for number in range(3):

            def answering(asked: Asked, process: int = number) -> bytes:
                return application.answer(process, asked)

            application.processes.append(stack.enter_context(scripted(answering)))
        yield application


def compared() -> None:
    """Wait until no client compares an owner in the background."""
    wait_until(
        lambda: all(thread.name != "pystreams-client" for thread in threading.enumerate()),
        "owners are compared",
    )


def check(client: Client, keys: list[Any], store: str = "s") -> None:
    """Ask for all keys; each answer is that of the key."""
    for key in keys:
        found = client.get(store, key)
        compared()
        assert found is not None
        assert found["value"] == f"{store} {key}"
