"""A batch of changelog records leaves what its records one by one do, with few reads."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import StoreEngine
from pystreams.stores.engines.memory import MemoryEngine
from tests.stores.families import families
from tests.stores.kinds.versioned_support import VersionedHome, versioned_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

RETENTION_MS = 20
SEGMENT_INTERVAL_MS = 7
Record = tuple[str, str | None, int]
"""(key, value, timestamp in ms)."""

records = st.lists(
    st.tuples(
        st.sampled_from(["", "k", "kk"]),
        st.none() | st.sampled_from(["", "x", "yy"]),
        st.integers(0, 3 * RETENTION_MS),
    ),
    max_size=25,
)


def restored(engine: StoreEngine, batches: Sequence[Sequence[Record]], directory: Path) -> Any:
    """Return all that a new store holds after some batches, and the stream time."""
    shop = VersionedHome(directory, versioned_spec(engine, RETENTION_MS, SEGMENT_INTERVAL_MS))
    for batch in batches:
        shop.restore(*batch)
    buffer = shop.store._versioned
    rows, metadata = dict(buffer.engine_range(None, None)), buffer._engine.metadata()
    stream_time = buffer._segments.stream_time
    shop.store.close()
    on_disk = families(directory / "rocksdb" / "s") if engine is StoreEngine.ROCKSDB else None
    return rows, metadata, stream_time, on_disk


@pytest.mark.property
@pytest.mark.parametrize("engine", list(StoreEngine))
@settings(deadline=None, max_examples=40)
@given(before=records, batch=records)
def test_a_batch_leaves_the_bytes_of_its_records_one_by_one(
    engine: StoreEngine, before: list[Record], batch: list[Record]
) -> None:
    with tempfile.TemporaryDirectory() as home:
        at_once = restored(engine, [before, batch], Path(home) / "at once")
        singly = restored(engine, [[record] for record in before + batch], Path(home) / "singly")
    assert at_once == singly


class Reads:
    """Counts the keys that a store asks its engine for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.singly: Counter[bytes] = Counter()
        self.at_once: list[list[bytes]] = []
        get, get_many = MemoryEngine.get, MemoryEngine.get_many

        def counted_get(engine: MemoryEngine, key: bytes) -> bytes | None:
            self.singly[key] += 1
            return get(engine, key)

        def counted_get_many(engine: MemoryEngine, keys: Sequence[bytes]) -> list[bytes | None]:
            self.at_once.append(list(keys))
            return get_many(engine, keys)

        monkeypatch.setattr(MemoryEngine, "get", counted_get)
        monkeypatch.setattr(MemoryEngine, "get_many", counted_get_many)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


@pytest.fixture
def shop(reads: Reads, tmp_path: Path) -> VersionedHome:
    """A store whose engine is counted."""
    return VersionedHome(
        tmp_path, versioned_spec(StoreEngine.IN_MEMORY, RETENTION_MS, SEGMENT_INTERVAL_MS)
    )


def test_the_rows_of_a_batch_in_order_are_read_at_once(shop: VersionedHome, reads: Reads) -> None:
    shop.restore(("k", "1", 1), ("kk", "1", 2), ("k", "2", 3))
    reads.at_once.clear()

    shop.restore(("k", "3", 4), ("kk", "2", 4), ("new", "1", 5), ("k", "4", 6))

    assert len(reads.at_once) == 1
    assert len(reads.at_once[0]) == len(set(reads.at_once[0])) == 6  # Latest values and rows.
    assert not reads.singly


def test_rows_of_a_segment_that_is_new_are_not_looked_for(
    shop: VersionedHome, reads: Reads
) -> None:
    shop.restore(("k", "1", 1), ("kk", "1", 2))

    shop.restore(("k", "2", SEGMENT_INTERVAL_MS), ("kk", "2", SEGMENT_INTERVAL_MS + 1))

    assert [len(keys) for keys in reads.at_once] == [2, 2]  # Latest values alone.
    assert not reads.singly


def test_a_late_record_reads_the_rows_of_newer_segments_once(
    shop: VersionedHome, reads: Reads
) -> None:
    newest = 2 * SEGMENT_INTERVAL_MS
    shop.restore(("k", "1", 1), ("k", "2", SEGMENT_INTERVAL_MS), ("k", "3", newest))

    shop.restore(("k", "early", 2), ("k", "late", 3))

    assert set(reads.singly.values()) == {1}
    assert [record.value for record in shop.versions("k")] == ["1", "early", "late", "2", "3"]
