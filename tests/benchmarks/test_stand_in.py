"""What a benchmark asks beside a count answers as a process of the count does."""

from __future__ import annotations

import re

from benchmarks.apps.stand_in import StandIn
from benchmarks.queries import Asked
from pystreams.kernel.partitioner import partition_of

PORTS = (7001, 7002, 7003)
KEYS = [f"key{number:07d}" for number in range(60)]


def answered(key: str, number: int) -> tuple[bytes, bytes]:
    """Return head and body of what the process with a number answers for a key."""
    request = f"GET /v1/stores/counts/{key} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    head, _, body = StandIn(PORTS, 12, KEYS).answer(number, request).partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None
    assert int(length[1]) == len(body)
    return head, body


def test_each_key_is_answered_everywhere_and_others_name_who_has_it() -> None:
    for key in KEYS:
        owner = partition_of(key.encode(), 12) % 3
        for number in range(3):
            head, body = answered(key, number)
            Asked({key: 1}).check(f"/v1/stores/counts/{key}", int(head[9:12]), body)
            told = re.search(rb"x-pystreams-owner: (.*)", head)
            if number == owner:
                assert told is None
            else:
                assert told is not None
                assert told[1].decode().strip() == f"127.0.0.1:{PORTS[owner]}"


def test_a_key_that_is_not_there_is_no_error() -> None:
    head, body = answered("absent", 0)
    Asked({"a": 1}).check("/v1/stores/counts/absent", int(head[9:12]), body)
