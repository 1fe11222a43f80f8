"""Offsets that Kafka Streams has committed: the time of a partition is in their metadata.

Its metadata has no zero byte at the end, as that which our client commits has; so it is committed
here by hand.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pystreams import ConsumerRecord, KafkaStreams, StreamsBuilder, serdes
from pystreams.broker import DevelopmentBroker
from pystreams.runtime.cluster.committed_offsets import encode_partition_time
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce
from tests.broker.waiting import DEADLINE_S, wait_until

PARTITIONS = 40
FIRST_MS = 1_700_000_000_000


def test_partition_times_that_kafka_streams_has_committed_are_known_after_a_change_to_pystreams(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> None:
    servers, topic = broker.bootstrap_servers, create_topic("timed", partitions=PARTITIONS)
    times = {partition: FIRST_MS + 7_919 * partition for partition in range(PARTITIONS)}
    metadata = {number: encode_partition_time(time) for number, time in times.items()}
    commit_by_hand(servers, unique_name, topic, metadata)
    produce(servers, topic, [(b"key", b"value")] * PARTITIONS, partition_of=lambda index: index)
    known: dict[int, int] = {}

    def extract(record: ConsumerRecord, partition_time: int) -> int:
        known[record.partition] = partition_time
        return record.timestamp

    builder = StreamsBuilder()
    bytes_of: dict[str, Any] = {"key_serde": serdes.BYTES, "value_serde": serdes.BYTES}
    builder.stream(topic, timestamp_extractor=extract, **bytes_of).foreach(lambda *_: None)
    config = {
        "application.id": unique_name,
        "bootstrap.servers": servers,
        "state.dir": str(tmp_path),
    }
    with KafkaStreams(builder.build(), config) as streams:

        def done() -> bool:
            assert streams.error is None, streams.error
            return len(known) == PARTITIONS

        wait_until(done, "a record of each partition")

    assert known == times


def test_metadata_that_our_client_commits_ends_with_a_zero_byte(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    """Kafka Streams takes it for no metadata; once this fails, docs/downgrading.md can say less."""
    servers, topic = broker.bootstrap_servers, create_topic("timed")
    produce(servers, topic, [(b"key", b"value")], timestamps_ms=[FIRST_MS])
    builder = StreamsBuilder()
    bytes_of: dict[str, Any] = {"key_serde": serdes.BYTES, "value_serde": serdes.BYTES}
    builder.stream(topic, **bytes_of).foreach(lambda *_: None)
    config = {
        "application.id": unique_name,
        "bootstrap.servers": servers,
        "state.dir": str(tmp_path),
        "commit.interval.ms": 20,
    }
    asked = _text(unique_name) + struct.pack(">i", 1) + _text(topic) + struct.pack(">ii", 1, 0)

    with KafkaStreams(builder.build(), config):
        written = encode_partition_time(FIRST_MS)[:8].encode()
        wait_until(lambda: written in _answer(servers, 9, 1, asked), "an offset is committed")

    answer = _answer(servers, 9, 1, asked)
    metadata = answer[answer.index(written) : -2]
    assert metadata.endswith(b"\0")
    assert metadata.count(b"\0") == 1


def commit_by_hand(servers: str, group: str, topic: str, metadata_of: Mapping[int, str]) -> None:
    """Commit offset 0 of partitions, with these metadata (OffsetCommit, version 2)."""
    partitions = b"".join(
        struct.pack(">iq", partition, 0) + _text(metadata)
        for partition, metadata in metadata_of.items()
    )
    topics = struct.pack(">i", 1) + _text(topic) + struct.pack(">i", len(metadata_of)) + partitions
    body = _text(group) + struct.pack(">i", -1) + _text("") + struct.pack(">q", -1) + topics

    def errors() -> set[int]:
        _answer(servers, 10, 0, _text(group))  # To look for a coordinator makes it begin.
        each = _answer(servers, 8, 2, body)[-6 * len(metadata_of) :]
        return {error for _, error in struct.iter_unpack(">ih", each)}

    wait_until(lambda: errors() == {0}, "offsets are committed")


def _answer(servers: str, api: int, version: int, body: bytes) -> bytes:
    """Return what a broker answers to a request, by the number of its kind."""
    request = struct.pack(">hhi", api, version, 1) + _text("test") + body
    host, port = servers.rsplit(":", 1)
    with socket.create_connection((host, int(port)), DEADLINE_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        file = connection.makefile("rb")
        return file.read(struct.unpack(">i", file.read(4))[0])


def _text(words: str) -> bytes:
    return struct.pack(">h", len(words)) + words.encode()
