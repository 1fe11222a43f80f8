"""The partitioner gives what Kafka's gives."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from pystreams.kernel.partitioner import murmur2, partition_of

GOLDEN = Path(__file__).parents[1] / "parity" / "golden" / "partitioner.json"
KEYS: list[dict[str, Any]] = json.loads(GOLDEN.read_text())["keys"]


@pytest.mark.parity
def test_hashes_and_partitions_are_java_s() -> None:
    assert len(KEYS) >= 100
    for vector in KEYS:
        key = base64.b64decode(vector["key"])
        assert murmur2(key) == vector["murmur2"] & 0xFFFFFFFF
        for count, partition in vector["partitions"].items():
            assert partition_of(key, int(count)) == partition
