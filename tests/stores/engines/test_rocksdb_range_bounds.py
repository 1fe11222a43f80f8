"""The upper bound of a range holds for as long as the range is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pystreams.stores.engines.rocksdb import RocksDBEngine, RocksDBSegmentEngine

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.stores.contracts.key_value import KeyValueEngine

SEGMENT = bytes(8)


def engine_of(kind: str) -> KeyValueEngine:
    if kind == "segments":
        return RocksDBSegmentEngine("s", 60_000)
    return RocksDBEngine("s", timestamped=False)


@pytest.mark.parametrize("kind", ["one database", "segments"])
@pytest.mark.parametrize("width", [1, 9, 18, 40])
def test_a_range_ends_at_its_bound_and_not_before(tmp_path: Path, kind: str, width: int) -> None:
    engine = engine_of(kind)
    engine.open(tmp_path / "s")
    keys = [SEGMENT + bytes((number,)) + bytes(width) for number in range(100)]
    engine.write(dict.fromkeys(keys, b"x"), {})
    bound = SEGMENT + bytes((50,)) + bytes(width)
    for _ in range(20):
        assert [key for key, _ in engine.range(SEGMENT, bound)] == keys[:50]
        assert [key for key, _ in engine.range(SEGMENT, bound, reverse=True)] == keys[49::-1]
    engine.close()
