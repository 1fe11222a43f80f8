"""Bytes that a Java application left on its disk: a versioned store, and positions of its input."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from pystreams import Position, Stores, TopicPartition, VersionedRecord, serdes
from tests.archives import unpack
from tests.stores.support import Home

pytestmark = pytest.mark.parity

GOLDEN = Path(__file__).parent / "golden" / "stores"
HISTORY_RETENTION_MS = 300_000
LATEST = b"\xff" * 8
VECTORS = json.loads((GOLDEN / "position.json").read_text("utf-8"))["positions"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["position"]))
def test_position_reads_javas_bytes_and_writes_them_without_the_zeros_behind(
    vector: dict[str, Any],
) -> None:
    data = bytes_of(vector["bytes"])
    position = position_of(vector["position"])

    assert Position.deserialize(data) == position
    ours = position.serialize()
    assert Position.deserialize(ours) == position
    assert not any(data[len(ours) :])
    if len(vector["position"]) < 2:  # Java keeps topics in the order of a hash map.
        assert data.startswith(ours)


@pytest.mark.parametrize("which", ["clean", "killed"])
def test_versioned_store_of_a_java_application_is_read(which: str, tmp_path: Path) -> None:
    left = json.loads((GOLDEN / "java-state.json").read_text("utf-8"))[which]["prices"]
    rows = [
        (bytes_of(key), bytes_of(row)) for key, row in map(str.split, left["families"]["default"])
    ]
    unpack(GOLDEN / "java-state.tar.gz", tmp_path)

    store: Any = Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store("prices", HISTORY_RETENTION_MS),
        serdes.BYTES,
        serdes.BYTES,
    ).build()
    store.init(Home(tmp_path / which / "shop" / "0_0").context())

    changelog = TopicPartition("shop-prices-changelog", 0)
    assert store.committed_offset(changelog) == left[str(changelog)]
    latest = {key[8:]: row for key, row in rows if key.startswith(LATEST)}
    assert latest
    for key, row in latest.items():
        timestamp = struct.unpack_from(">q", row)[0]
        assert store.get(key) == VersionedRecord(row[8:], timestamp)
    deleted = {key[8:] for key, _ in rows} - latest.keys()
    assert deleted
    assert [store.get(key) for key in deleted] == [None] * len(deleted)
    store.close()


def bytes_of(text: str) -> bytes:
    """Return the bytes that "x" and hexadecimal digits stand for."""
    return bytes.fromhex(text.removeprefix("x"))


def position_of(topics: dict[str, dict[str, int]]) -> Position:
    """Return the position with these offsets, by topic and partition."""
    return Position(
        {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
        }
    )
