"""Partition time in the metadata of committed offsets: Kafka Streams' bytes."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystreams.runtime.cluster.committed_offsets import (
    decode_partition_time,
    encode_partition_time,
    numbers_of,
)

GOLDEN = {
    1000: "AgAAAAAAAAPo",
    0: "AgAAAAAAAAAA",
    -1: "Av//////////",
    1_700_000_000_000: "AgAAAYvP5WgA",
}


@pytest.mark.parametrize(("time", "text"), list(GOLDEN.items()))
def test_metadata_is_base64_of_version_and_time(time: int, text: str) -> None:
    """Kafka Streams writes nothing behind them when processors have no metadata."""
    raw = b"\x02" + time.to_bytes(8, "big", signed=True)

    assert base64.b64decode(text) == raw
    assert encode_partition_time(time) == text
    assert decode_partition_time(text) == time


@given(st.integers(-1, 2**63 - 1))
def test_every_time_comes_back(time: int) -> None:
    assert decode_partition_time(encode_partition_time(time)) == time


def test_version_one_is_understood() -> None:
    text = base64.b64encode(b"\x01" + (1234).to_bytes(8, "big")).decode()

    assert decode_partition_time(text) == 1234


def test_processor_metadata_behind_the_time_is_passed_over() -> None:
    raw = b"\x02" + (55).to_bytes(8, "big") + (1).to_bytes(4, "big") + b"whatever"

    assert decode_partition_time(base64.b64encode(raw).decode()) == 55


@pytest.mark.parametrize("behind", ["\ufffd\x01", "AAA", "AAAB", "AAAAAQAAAAZjb", "=", "!"])
def test_what_the_client_has_read_on_behind_a_text_changes_nothing(behind: str) -> None:
    alone = encode_partition_time(1000)
    numbered = encode_partition_time(1000, numbers={"counts": 7})

    assert decode_partition_time(alone + behind) == 1000
    assert numbers_of(alone + behind) == {}
    assert decode_partition_time(numbered + behind) == 1000
    assert numbers_of(numbered + behind) == {"counts": 7}


@pytest.mark.parametrize(
    "text",
    ["", "not base64!", "AQ==", "AgAA", "CQAAAAAAAAPoAAAAAA==", "metadata"],
)
def test_foreign_metadata_tells_no_time(text: str) -> None:
    assert decode_partition_time(text) == -1


@given(st.text())
def test_no_text_raises(text: str) -> None:
    assert decode_partition_time(text) >= -(2**63)
