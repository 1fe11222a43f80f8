"""What is not committed is seen over HTTP by who asks for that, and by nobody else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from pystreams import FixedKeyProcessor, StreamsBuilder, Topology
from pystreams.broker import DevelopmentBroker
from pystreams.client import Client
from pystreams.kernel.partitioner import partition_of
from pystreams.record import Record
from pystreams.serdes import STRING
from tests.broker.waiting import wait_until
from tests.http.conftest import Served, Topics
from tests.http.connecting import HOST, ORDINARILY, Raw
from tests.http.test_keys_elsewhere import two, wait_for_all

PARTITIONS = 4
KEYS = list("abcdefgh")
NEW_KEYS = list("pqrs")
COMMIT, LEAVE = "commit", "leave"
UNCOMMITTED, COMMITTED = "read_uncommitted", "read_committed"
WAYS = {"quick": b"", "ordinary": ORDINARILY}


class CommitsWhereAsked(FixedKeyProcessor[str, str, str]):
    """Asks for a commit behind each record that says so: nothing else commits."""

    def init(self, context: Any) -> None:
        self._context = context

    def process(self, record: Record[str, str]) -> None:
        if record.value == COMMIT:
            self._context.commit()
        self._context.forward(record)


def counting_with_commits(topic: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(topic, key_serde=STRING, value_serde=STRING)
    stream.process_values(CommitsWhereAsked).group_by_key().count(name="counts")
    return builder.build()


class Found(NamedTuple):
    """An answer for a key.

    Attributes:
        value: The count; None where there is no such key.
        passed_on: Whether another process gave it than the one that was asked.
    """

    value: int | None
    passed_on: bool


def ask_for(connection: Raw, key: str, level: str | None, headers: bytes) -> Found:
    query = "" if level is None else f"?isolation={level}"
    asked = f"GET /v1/stores/counts/{key}{query} HTTP/1.1\r\n".encode()
    connection.send(asked + HOST + headers + b"\r\n")
    head, _, body = connection.answer().partition(b"\r\n\r\n")
    assert b"HTTP/1.1 200" in head or b"HTTP/1.1 404" in head, head + body
    return Found(json.loads(body).get("value"), b"x-pystreams-owner: 127" in head)


def wait_for_counts(instances: list[Served], level: str, total: int) -> None:
    with contextlib.closing(Client(instances[0].url)) as client:

        def all_counted() -> bool:
            counts: list[int] = [
                entry["value"] for entry in client.range("counts", isolation=level)
            ]
            return sum(counts) == total

        wait_until(all_counted, f"{total} records, {level}")


@pytest.fixture(scope="module")
def half_committed(
    broker: DevelopmentBroker, topics: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Served]]:
    """Two instances with keys of which one record is committed and one is not, and new keys."""
    topic = topics.make("isolation", PARTITIONS)
    assert {partition_of(key.encode(), PARTITIONS) for key in KEYS} == {*range(PARTITIONS)}
    settings = {
        "processing_guarantee": "exactly_once_v2",
        "commit_interval_ms": 600_000,
        "producer_transaction_timeout_ms": 660_000,
    }
    directory = tmp_path_factory.mktemp("state")
    with two(broker, counting_with_commits, topic, directory, **settings) as instances:
        # A task that has moved commits its first records at once: here, those that ask for it.
        wait_for_all(instances, "counts", 0)
        topics.write(topic, [(key, COMMIT, 0) for key in KEYS])
        wait_for_counts(instances, COMMITTED, len(KEYS))
        topics.write(topic, [(key, LEAVE, 1) for key in KEYS + NEW_KEYS])
        wait_for_counts(instances, UNCOMMITTED, 2 * len(KEYS) + len(NEW_KEYS))
        yield instances


def test_a_level_shows_what_is_committed_or_all_in_each_way_and_in_each_process(
    half_committed: list[Served],
) -> None:
    expected: dict[str | None, tuple[int, int | None]] = {
        UNCOMMITTED: (2, 1),
        COMMITTED: (1, None),
        None: (1, None),
    }
    for level, (of_both, of_uncommitted) in expected.items():
        for way, headers in WAYS.items():
            for instance in half_committed:
                with contextlib.closing(Raw(instance.url)) as connection:
                    found = {
                        key: ask_for(connection, key, level, headers) for key in KEYS + NEW_KEYS
                    }
                where = level, way, instance.url
                assert {found[key].value for key in KEYS} == {of_both}, where
                assert {found[key].value for key in NEW_KEYS} == {of_uncommitted}, where
                assert {found[key].passed_on for key in KEYS} == {True, False}, where


@pytest.mark.parametrize(
    ("level", "counts"),
    [
        (UNCOMMITTED, dict.fromkeys(KEYS, 2) | dict.fromkeys(NEW_KEYS, 1)),
        (COMMITTED, dict.fromkeys(KEYS, 1)),
    ],
)
def test_a_range_of_all_processes_has_what_its_level_shows(
    half_committed: list[Served], level: str, counts: dict[str, int]
) -> None:
    for instance in half_committed:
        with contextlib.closing(Client(instance.url)) as client:
            found = client.range("counts", isolation=level)
            assert {entry["key"]: entry["value"] for entry in found} == counts
