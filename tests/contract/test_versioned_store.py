"""What every versioned store promises its user and the runtime, over both engines.

Up to "Beyond Kafka's cases" these are the cases of Kafka's RocksDBVersionedStoreTest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    PUT_RETURN_CODE_NOT_PUT,
    PUT_RETURN_CODE_VALID_TO_UNDEFINED,
    IsolationLevel,
    SerializationError,
    StateStoreError,
    StoreEngine,
    StoreNotAvailableError,
    Stores,
    TopologyError,
    VersionedRecord,
)
from pystreams.serdes import LONG, STRING
from pystreams.stores.build import build_store
from pystreams.stores.kinds.versioned.kind import VERSIONED
from tests.stores.kinds.versioned_support import (
    HISTORY_RETENTION_MS,
    SEGMENT_INTERVAL_MS,
    VersionedHome,
    versioned_spec,
)
from tests.stores.support import Message

pytestmark = pytest.mark.contract

LATEST = PUT_RETURN_CODE_VALID_TO_UNDEFINED
NOT_PUT = PUT_RETURN_CODE_NOT_PUT
RETENTION = GRACE = HISTORY_RETENTION_MS
SEGMENT = SEGMENT_INTERVAL_MS
BASE = 10
ENGINES = list(StoreEngine)


class Shop(VersionedHome):
    """Calls and checks by the line."""

    def puts(self, *puts: tuple[str | None, int, int]) -> None:
        """Put versions of "k"; each is (value, timestamp, what `put` returns)."""
        for value, timestamp, valid_to in puts:
            assert self.put("k", value, timestamp) == valid_to, (value, timestamp)

    def finds(self, *found: tuple[int, str, int, int]) -> None:
        """Each is (time, value, timestamp, end or LATEST)."""
        for as_of, value, timestamp, valid_to in found:
            end = None if valid_to == LATEST else valid_to
            assert self.get("k", as_of) == VersionedRecord(value, timestamp, end), as_of

    def finds_nothing_at(self, *times: int, key: str = "k") -> None:
        for as_of in times:
            assert self.get(key, as_of) is None, as_of

    def finds_between(
        self, start: int | None, end: int | None, *found: tuple[str, int, int]
    ) -> None:
        """Each is (value, timestamp, end or LATEST), newest first."""
        expected = [
            VersionedRecord(value, timestamp, None if valid_to == LATEST else valid_to)
            for value, timestamp, valid_to in found
        ]
        assert self.versions("k", start, end, descending=True) == expected
        assert self.versions("k", start, end) == expected[::-1]

    @property
    def dropped(self) -> int:
        return self.home.dropped.count


@pytest.fixture(params=ENGINES, ids=[engine.value for engine in ENGINES])
def engine(request: pytest.FixtureRequest) -> StoreEngine:
    chosen: StoreEngine = request.param
    return chosen


@pytest.fixture
def shop(engine: StoreEngine, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path, versioned_spec(engine))
    yield made
    made.store.close()


def test_put_latest(shop: Shop) -> None:
    shop.puts(("v", BASE, LATEST), ("v2", BASE + 1, LATEST))

    assert shop.get("k") == VersionedRecord("v2", BASE + 1)
    shop.finds((BASE, "v", BASE, BASE + 1))
    shop.finds((BASE + 1, "v2", BASE + 1, LATEST), (BASE + 2, "v2", BASE + 1, LATEST))


def test_put_null_as_latest(shop: Shop) -> None:
    shop.puts((None, BASE, LATEST), (None, BASE + 1, LATEST))

    assert shop.get("k") is None
    shop.finds_nothing_at(BASE, BASE + 1, BASE + 2)


def test_put_older_with_value_as_latest(shop: Shop) -> None:
    shop.puts(("v", BASE, LATEST), ("v2", BASE - 2, BASE), ("v1", BASE - 1, BASE))
    shop.puts(("v4", BASE - 4, BASE - 2))

    assert shop.get("k") == VersionedRecord("v", BASE)
    shop.finds((BASE, "v", BASE, LATEST), (BASE - 1, "v1", BASE - 1, BASE))
    shop.finds((BASE - 2, "v2", BASE - 2, BASE - 1), (BASE - 3, "v4", BASE - 4, BASE - 2))


def test_put_older_with_null_as_latest(shop: Shop) -> None:
    shop.puts((None, BASE, LATEST), ("v2", BASE - 2, BASE), ("v1", BASE - 1, BASE))
    shop.puts(("v4", BASE - 4, BASE - 2))

    assert shop.get("k") is None
    shop.finds_nothing_at(BASE)
    shop.finds((BASE - 1, "v1", BASE - 1, BASE), (BASE - 2, "v2", BASE - 2, BASE - 1))
    shop.finds((BASE - 3, "v4", BASE - 4, BASE - 2))


@pytest.mark.parametrize("latest", ["v", None])
def test_put_older_null(shop: Shop, latest: str | None) -> None:
    shop.puts((latest, BASE, LATEST), (None, BASE - 2, BASE), (None, BASE - 1, BASE))
    shop.puts((None, BASE - 4, BASE - 2), ("v5", BASE - 5, BASE - 4), ("v3", BASE - 3, BASE - 2))
    shop.puts((None, BASE - 6, BASE - 5))

    assert shop.get("k") == (VersionedRecord("v", BASE) if latest else None)
    shop.finds_nothing_at(BASE - 1, BASE - 2, BASE - 4, BASE - 6)
    shop.finds((BASE - 3, "v3", BASE - 3, BASE - 2), (BASE - 5, "v5", BASE - 5, BASE - 4))


def test_put_repeated_timestamp_as_latest(shop: Shop) -> None:
    for value in ("to be replaced", "b", None, None, "b"):
        shop.puts((value, BASE, LATEST))
        expected = None if value is None else VersionedRecord(value, BASE)
        assert shop.get("k") == shop.get("k", BASE) == expected
        shop.finds_nothing_at(BASE - 1)


REPEATED_TIMESTAMPS = [
    ("to be replaced", SEGMENT + 20, LATEST),
    (None, SEGMENT - 10, SEGMENT + 20),
    ("to be replaced", SEGMENT - 10, SEGMENT + 20),  # Replaces a tombstone, over two segments.
    (None, SEGMENT - 10, SEGMENT + 20),
    ("to be replaced", SEGMENT - 1, SEGMENT + 20),
    ("to be replaced", SEGMENT + 1, SEGMENT + 20),
    (None, SEGMENT - 1, SEGMENT + 1),
    (None, SEGMENT + 1, SEGMENT + 20),
    (None, SEGMENT + 10, SEGMENT + 20),
    (None, SEGMENT + 5, SEGMENT + 10),
    ("vp5", SEGMENT + 5, SEGMENT + 10),
    ("to be replaced", SEGMENT - 5, SEGMENT - 1),
    ("vn5", SEGMENT - 5, SEGMENT - 1),
    (None, SEGMENT + 20, LATEST),
    (None, SEGMENT + 20, LATEST),
    ("vn6", SEGMENT - 6, SEGMENT - 5),
]


def check_repeated_timestamps(shop: Shop) -> None:
    assert shop.get("k") is None
    shop.finds_nothing_at(SEGMENT + 30, SEGMENT + 15, SEGMENT + 2, SEGMENT, SEGMENT - 1)
    shop.finds((SEGMENT + 6, "vp5", SEGMENT + 5, SEGMENT + 10))
    shop.finds((SEGMENT - 5, "vn5", SEGMENT - 5, SEGMENT - 1))
    shop.finds((SEGMENT - 6, "vn6", SEGMENT - 6, SEGMENT - 5))
    shop.finds_nothing_at(SEGMENT - 8)


def test_put_repeated_timestamps(shop: Shop) -> None:
    shop.puts(*REPEATED_TIMESTAMPS)

    check_repeated_timestamps(shop)


def test_put_into_several_segments(shop: Shop) -> None:
    shop.puts((None, SEGMENT - 20, LATEST), ("vn10", SEGMENT - 10, LATEST))
    shop.puts((None, SEGMENT - 1, LATEST), (None, SEGMENT + 1, LATEST))
    shop.puts(("vp10", SEGMENT + 10, LATEST), (None, SEGMENT + 20, LATEST))

    assert shop.get("k") is None
    shop.finds((SEGMENT + 15, "vp10", SEGMENT + 10, SEGMENT + 20))
    shop.finds((SEGMENT - 5, "vn10", SEGMENT - 10, SEGMENT - 1))
    shop.finds_nothing_at(SEGMENT + 30, SEGMENT + 5, SEGMENT + 2, SEGMENT, SEGMENT - 1)
    shop.finds_nothing_at(SEGMENT - 15)


MOVED_VALUES = [
    ("vp20", SEGMENT + 20, LATEST),
    ("vp10", SEGMENT + 10, SEGMENT + 20),
    ("vn10", SEGMENT - 10, SEGMENT + 10),
    ("vn2", SEGMENT - 2, SEGMENT + 10),
    ("vn1", SEGMENT - 1, SEGMENT + 10),
    ("vp1", SEGMENT + 1, SEGMENT + 10),
]


def check_moved_values(shop: Shop) -> None:
    assert shop.get("k") == VersionedRecord("vp20", SEGMENT + 20)
    shop.finds((SEGMENT + 30, "vp20", SEGMENT + 20, LATEST))
    shop.finds((SEGMENT + 15, "vp10", SEGMENT + 10, SEGMENT + 20))
    shop.finds((SEGMENT + 5, "vp1", SEGMENT + 1, SEGMENT + 10))
    shop.finds((SEGMENT, "vn1", SEGMENT - 1, SEGMENT + 1))
    shop.finds((SEGMENT - 1, "vn1", SEGMENT - 1, SEGMENT + 1))
    shop.finds((SEGMENT - 2, "vn2", SEGMENT - 2, SEGMENT - 1))
    shop.finds((SEGMENT - 5, "vn10", SEGMENT - 10, SEGMENT - 2))


def test_put_moves_a_version_to_an_older_segment(shop: Shop) -> None:
    shop.puts(*MOVED_VALUES)

    check_moved_values(shop)


MOVED_TOMBSTONES = [
    (None, SEGMENT + 20, LATEST),
    (None, SEGMENT - 1, SEGMENT + 20),
    (None, SEGMENT + 1, SEGMENT + 20),
    (None, SEGMENT - 10, SEGMENT - 1),
    (None, SEGMENT + 10, SEGMENT + 20),
    ("vp5", SEGMENT + 5, SEGMENT + 10),
    ("vn5", SEGMENT - 5, SEGMENT - 1),
    ("vn6", SEGMENT - 6, SEGMENT - 5),
]


def check_moved_tombstones(shop: Shop) -> None:
    check_repeated_timestamps(shop)


def test_put_moves_a_tombstone_to_an_older_segment(shop: Shop) -> None:
    shop.puts(*MOVED_TOMBSTONES)

    check_moved_tombstones(shop)


def test_put_falls_through_to_an_older_segment_as_its_latest(shop: Shop) -> None:
    shop.puts((None, SEGMENT - 5, LATEST), ("vn6", SEGMENT - 6, SEGMENT - 5))
    shop.puts(("vp20", SEGMENT + 20, LATEST), (None, SEGMENT + 10, SEGMENT + 20))
    shop.puts((None, SEGMENT - 1, SEGMENT + 10), ("vn2", SEGMENT - 2, SEGMENT - 1))

    assert shop.get("k") == VersionedRecord("vp20", SEGMENT + 20)
    shop.finds((SEGMENT + 30, "vp20", SEGMENT + 20, LATEST))
    shop.finds((SEGMENT - 2, "vn2", SEGMENT - 2, SEGMENT - 1))
    shop.finds((SEGMENT - 6, "vn6", SEGMENT - 6, SEGMENT - 5))
    shop.finds_nothing_at(SEGMENT + 12, SEGMENT, SEGMENT - 1, SEGMENT - 5)


def test_put_tombstone_that_is_not_the_latest_into_a_new_segment(shop: Shop) -> None:
    shop.puts(("vp30", SEGMENT + 30, LATEST), (None, SEGMENT - 10, SEGMENT + 30))
    shop.puts(("vn5", SEGMENT - 5, SEGMENT + 30), ("vn1", SEGMENT - 1, SEGMENT + 30))
    shop.puts((None, SEGMENT - 2, SEGMENT - 1))

    assert shop.get("k") == VersionedRecord("vp30", SEGMENT + 30)
    shop.finds((SEGMENT + 10, "vn1", SEGMENT - 1, SEGMENT + 30))
    shop.finds((SEGMENT - 1, "vn1", SEGMENT - 1, SEGMENT + 30))
    shop.finds((SEGMENT - 5, "vn5", SEGMENT - 5, SEGMENT - 2))
    shop.finds_nothing_at(SEGMENT - 2, SEGMENT - 10)


def test_delete_returns_the_version_it_ends(shop: Shop) -> None:
    shop.puts(("vp20", SEGMENT + 20, LATEST), ("vp10", SEGMENT + 10, SEGMENT + 20))
    shop.puts(("vn10", SEGMENT - 10, SEGMENT + 10), ("vn2", SEGMENT - 2, SEGMENT + 10))

    assert shop.store.delete("k", SEGMENT - 5) == VersionedRecord("vn10", SEGMENT - 10, SEGMENT - 2)
    assert shop.store.delete("k", SEGMENT + 10) == VersionedRecord(
        "vp10", SEGMENT + 10, SEGMENT + 20
    )
    assert shop.store.delete("k", SEGMENT + 10) is None
    assert shop.store.delete("k", SEGMENT + 25) == VersionedRecord("vp20", SEGMENT + 20)
    assert shop.get("k") is None


def test_expired_put_is_dropped_and_counted(shop: Shop) -> None:
    assert shop.put("k", "v", RETENTION + 10) == LATEST
    assert shop.put("k1", "v1", RETENTION + 10 - GRACE) == LATEST
    assert shop.get("k1") == VersionedRecord("v1", RETENTION + 10 - GRACE)

    assert shop.put("k2", "v2", RETENTION + 9 - GRACE) == NOT_PUT
    assert shop.get("k2") is None
    assert shop.dropped == 1


def test_expired_delete_is_dropped_and_counted(shop: Shop) -> None:
    shop.put("k1", "v1", 1)
    shop.put("k2", "v2", 1)
    shop.put("other", "v", RETENTION + 10)

    assert shop.store.delete("k1", RETENTION + 10 - GRACE) == VersionedRecord("v1", 1)
    assert shop.get("k1") is None

    assert shop.store.delete("k2", RETENTION + 9 - GRACE) is None
    assert shop.get("k2") == VersionedRecord("v2", 1)
    assert shop.dropped == 1


def test_get_from_older_segments(shop: Shop) -> None:
    for segment in (1, 2, 3):
        shop.put("other", None, segment * SEGMENT - 10)
    shop.finds_nothing_at(SEGMENT - 20)

    shop.puts(("v", SEGMENT - 20, LATEST), (None, SEGMENT - 10, LATEST))

    shop.finds((SEGMENT - 15, "v", SEGMENT - 20, SEGMENT - 10))
    shop.finds_nothing_at(SEGMENT - 30, SEGMENT - 5)

    # A later segment with data makes no difference.
    shop.puts(("v2", 3 * SEGMENT - 20, LATEST), (None, 3 * SEGMENT - 10, LATEST))
    shop.finds((SEGMENT - 15, "v", SEGMENT - 20, SEGMENT - 10))
    shop.finds_nothing_at(SEGMENT - 30, SEGMENT - 5)


def test_get_of_an_expired_time_finds_nothing(shop: Shop) -> None:
    shop.puts(("old", 0, LATEST), ("v", SEGMENT - 10, LATEST))
    shop.finds((SEGMENT - 11, "old", 0, SEGMENT - 10))

    shop.put("other", "v", RETENTION + SEGMENT - 11)
    shop.finds((SEGMENT - 11, "old", 0, SEGMENT - 10))

    shop.put("other", "v", RETENTION + SEGMENT - 10)
    shop.finds_nothing_at(SEGMENT - 11)


def test_get_of_an_expired_time_finds_the_latest_version(shop: Shop) -> None:
    shop.put("k", "v", 1)
    shop.put("other", "old", 1)
    shop.put("other", "new", RETENTION + 12)

    shop.finds((10, "v", 1, LATEST))
    shop.finds_nothing_at(10, key="other")


def test_empty_is_not_null(shop: Shop) -> None:
    shop.puts((None, SEGMENT + 20, LATEST), (None, SEGMENT - 10, SEGMENT + 20))
    shop.puts((None, SEGMENT - 1, SEGMENT + 20), (None, SEGMENT + 1, SEGMENT + 20))
    shop.puts((None, SEGMENT + 10, SEGMENT + 20), ("", SEGMENT + 5, SEGMENT + 10))
    shop.puts(("", SEGMENT - 5, SEGMENT - 1), ("", SEGMENT - 6, SEGMENT - 5))

    assert shop.get("k") is None
    shop.finds_nothing_at(SEGMENT + 30, SEGMENT + 15, SEGMENT + 2, SEGMENT, SEGMENT - 1)
    shop.finds((SEGMENT + 6, "", SEGMENT + 5, SEGMENT + 10))
    shop.finds((SEGMENT - 5, "", SEGMENT - 5, SEGMENT - 1))
    shop.finds((SEGMENT - 6, "", SEGMENT - 6, SEGMENT - 5))
    shop.finds_nothing_at(SEGMENT - 8)


def test_range_of_versions_in_older_segments(shop: Shop) -> None:
    for segment in (1, 2, 3):
        shop.put("other", None, segment * SEGMENT - 10)
    shop.finds_between(SEGMENT - 20, SEGMENT)
    shop.puts(("v1", SEGMENT - 30, LATEST), ("v2", SEGMENT - 25, LATEST))
    shop.puts((None, SEGMENT - 20, LATEST), (None, SEGMENT - 15, LATEST))
    shop.puts(("v3", SEGMENT - 10, LATEST), ("v4", SEGMENT - 5, LATEST))
    v1 = ("v1", SEGMENT - 30, SEGMENT - 25)
    v2 = ("v2", SEGMENT - 25, SEGMENT - 20)
    v3 = ("v3", SEGMENT - 10, SEGMENT - 5)
    v4 = ("v4", SEGMENT - 5, LATEST)

    shop.finds_between(SEGMENT - 40, SEGMENT - 35)
    shop.finds_between(SEGMENT - 30, SEGMENT - 5, v4, v3, v2, v1)
    shop.finds_between(None, None, v4, v3, v2, v1)
    shop.finds_between(SEGMENT - 4, SEGMENT, v4)
    shop.finds_between(SEGMENT - 5, SEGMENT - 5, v4)
    shop.finds_between(SEGMENT - 4, SEGMENT - 4, v4)
    shop.finds_between(SEGMENT - 31, SEGMENT - 21, v2, v1)
    shop.finds_between(SEGMENT - 24, SEGMENT - 11, v2)
    shop.finds_between(SEGMENT - 11, SEGMENT - 4, v4, v3)
    shop.finds_between(SEGMENT - 26, SEGMENT - 5, v4, v3, v2, v1)
    shop.finds_between(SEGMENT - 15, SEGMENT - 10, v3)
    shop.finds_between(SEGMENT - 19, SEGMENT - 16)

    shop.puts(("v5", 3 * SEGMENT - 30, LATEST), (None, 3 * SEGMENT - 20, LATEST))
    shop.finds_between(SEGMENT - 40, SEGMENT - 35)
    shop.finds_between(SEGMENT - 30, SEGMENT - 26, v1)
    shop.finds_between(SEGMENT - 19, SEGMENT - 16)


def test_range_of_versions_in_ascending_order(shop: Shop) -> None:
    for value, back in (("v1", 30), ("v2", 25), ("v3", 10), ("v4", 5)):
        shop.put("k", value, SEGMENT - back)

    assert shop.versions("k", SEGMENT - 30, SEGMENT - 5) == [
        VersionedRecord("v1", SEGMENT - 30, SEGMENT - 25),
        VersionedRecord("v2", SEGMENT - 25, SEGMENT - 10),
        VersionedRecord("v3", SEGMENT - 10, SEGMENT - 5),
        VersionedRecord("v4", SEGMENT - 5),
    ]


def test_range_of_versions_over_several_segments_in_ascending_order(shop: Shop) -> None:
    times = [SEGMENT - 10, SEGMENT - 5, 2 * SEGMENT - 10, 2 * SEGMENT - 5]
    for number, timestamp in enumerate(times):
        shop.put("k", f"v{number}", timestamp)

    assert shop.versions("k") == [
        VersionedRecord(f"v{number}", timestamp, valid_to)
        for number, (timestamp, valid_to) in enumerate(zip(times, [*times[1:], None], strict=True))
    ]


def test_range_of_expired_versions_finds_nothing(shop: Shop) -> None:
    shop.puts(("old", 0, LATEST), ("v", SEGMENT - 10, LATEST))
    shop.finds_between(0, SEGMENT - 11, ("old", 0, SEGMENT - 10))

    shop.put("other", "v", RETENTION + SEGMENT - 11)
    shop.finds_between(0, SEGMENT - 11, ("old", 0, SEGMENT - 10))

    shop.put("other", "v", RETENTION + SEGMENT - 10)
    shop.finds_between(0, SEGMENT - 11)


def test_range_of_expired_times_finds_the_latest_version(shop: Shop) -> None:
    shop.put("k", "v", 1)
    shop.put("other", "old", 1)
    shop.put("other", "new", RETENTION + 12)

    shop.finds_between(0, 10, ("v", 1, LATEST))
    assert shop.versions("other", 0, 10) == []


def restore(shop: Shop, puts: Sequence[tuple[str | None, int, int]]) -> None:
    shop.restore(*[("k", value, timestamp) for value, timestamp, _ in puts])


def test_restore(shop: Shop) -> None:
    restore(shop, MOVED_VALUES)

    check_moved_values(shop)


def test_restore_with_nulls(shop: Shop) -> None:
    restore(shop, MOVED_TOMBSTONES)

    check_moved_tombstones(shop)


def test_restore_with_nulls_and_repeated_timestamps(shop: Shop) -> None:
    restore(shop, REPEATED_TIMESTAMPS)

    check_repeated_timestamps(shop)


def test_restore_several_batches(shop: Shop) -> None:
    shop.restore(("k", None, SEGMENT - 20), ("k", "vn10", SEGMENT - 10), ("k", None, SEGMENT - 1))
    shop.restore(("k", None, SEGMENT + 1), ("k", "vp10", SEGMENT + 10), ("k", None, SEGMENT + 20))

    assert shop.get("k") is None
    shop.finds((SEGMENT + 15, "vp10", SEGMENT + 10, SEGMENT + 20))
    shop.finds((SEGMENT - 5, "vn10", SEGMENT - 10, SEGMENT - 1))
    shop.finds_nothing_at(SEGMENT + 30, SEGMENT + 5, SEGMENT + 2, SEGMENT, SEGMENT - 1)
    shop.finds_nothing_at(SEGMENT - 15)


def test_expired_record_is_not_restored(shop: Shop) -> None:
    shop.restore(
        ("k", "v", RETENTION + 10),
        ("k1", "v1", RETENTION + 10 - GRACE),
        ("k2", "v2", RETENTION + 9 - GRACE),
    )

    assert shop.get("k") == VersionedRecord("v", RETENTION + 10)
    assert shop.get("k1") == VersionedRecord("v1", RETENTION + 10 - GRACE)
    assert shop.get("k2") is None
    assert shop.dropped == 0


def test_record_that_expires_within_its_batch_is_restored(shop: Shop) -> None:
    shop.restore(("k2", "v2", RETENTION - GRACE), ("k", "v", RETENTION + 10))

    assert shop.get("k2") == VersionedRecord("v2", RETENTION - GRACE)
    assert shop.get("k") == VersionedRecord("v", RETENTION + 10)


def test_history_retention_may_be_zero(engine: StoreEngine, tmp_path: Path) -> None:
    shop = Shop(tmp_path, versioned_spec(engine, 0))
    shop.puts(("v", BASE, LATEST))
    shop.finds((BASE, "v", BASE, LATEST), (BASE + 1, "v", BASE, LATEST))
    shop.puts(("updated", BASE, LATEST))
    shop.finds((BASE, "updated", BASE, LATEST))
    shop.puts(("v2", BASE + 2, LATEST))
    shop.finds((BASE + 2, "v2", BASE + 2, LATEST))
    shop.finds_nothing_at(BASE + 1)

    assert shop.store.delete("k", BASE + 3) == VersionedRecord("v2", BASE + 2)
    assert shop.get("k") is None
    assert shop.put("k2", "v", BASE + 2) == NOT_PUT
    assert shop.get("k2") is None
    assert shop.dropped == 1
    shop.store.close()


# Reads by isolation level, which came to Kafka's class with KIP-892 (KAFKA-20500).


def test_a_latest_version_that_waits_is_for_those_who_read_uncommitted(shop: Shop) -> None:
    shop.puts(("v", 10, LATEST))
    shop.commit()
    committed, uncommitted = views_of(shop)
    shop.puts(("v2", 20, LATEST))
    shop.put("new", "n", 20)

    assert committed.get("k") == VersionedRecord("v", 10)
    assert committed.get("new") is None
    assert uncommitted.get("k") == VersionedRecord("v2", 20)
    assert uncommitted.get("new") == VersionedRecord("n", 20)
    shop.commit()
    assert committed.get("k") == uncommitted.get("k") == VersionedRecord("v2", 20)


def test_a_version_in_the_past_that_waits_is_for_those_who_read_uncommitted(shop: Shop) -> None:
    shop.puts(("v", 10, LATEST), ("v3", 30, LATEST))
    shop.commit()
    committed, uncommitted = views_of(shop)
    shop.puts(("v2", 20, 30))

    for as_of in (15, 25):
        assert committed.get("k", as_of) == VersionedRecord("v", 10, 30)
    assert uncommitted.get("k", 15) == VersionedRecord("v", 10, 20)
    assert uncommitted.get("k", 25) == VersionedRecord("v2", 20, 30)
    shop.store.rollback()
    assert uncommitted.get("k", 25) == VersionedRecord("v", 10, 30)


@pytest.mark.parametrize("descending", [False, True])
def test_ranges_have_versions_that_wait_for_those_who_read_uncommitted(
    shop: Shop, *, descending: bool
) -> None:
    shop.puts(("v", 10, LATEST), ("v3", SEGMENT + 30, LATEST))
    shop.commit()
    committed, uncommitted = views_of(shop)
    shop.puts(("v2", SEGMENT + 20, SEGMENT + 30))

    found = [
        [(record.value, record.valid_to) for record in view.get_range("k", descending=descending)]
        for view in (committed, uncommitted)
    ]
    if descending:
        found = [versions[::-1] for versions in found]
    assert found == [
        [("v", SEGMENT + 30), ("v3", None)],
        [("v", SEGMENT + 20), ("v2", SEGMENT + 30), ("v3", None)],
    ]


def test_a_deletion_that_waits_is_for_those_who_read_uncommitted(shop: Shop) -> None:
    shop.puts(("v", 10, LATEST))
    shop.commit()
    committed, uncommitted = views_of(shop)
    shop.store.delete("k", 20)

    assert committed.get("k") == committed.get("k", 25) == VersionedRecord("v", 10)
    assert uncommitted.get("k") is uncommitted.get("k", 25) is None
    assert uncommitted.get("k", 15) == VersionedRecord("v", 10, 20)
    assert list(uncommitted.get_range("k", 20)) == []


def test_a_store_that_writes_through_answers_alike_at_either_isolation_level(
    engine: StoreEngine, tmp_path: Path
) -> None:
    shop = Shop(tmp_path, replace(versioned_spec(engine), transactional=False))
    shop.puts(("v", 10, LATEST))
    shop.commit()
    shop.puts(("v2", 20, LATEST))

    for view in views_of(shop):
        assert view.get("k") == VersionedRecord("v2", 20)
        assert view.get("k", 15) == VersionedRecord("v", 10, 20)
        assert [record.value for record in view.get_range("k")] == ["v", "v2"]
    shop.store.close()


def views_of(shop: Shop) -> tuple[Any, Any]:
    """The views of those who read committed and uncommitted."""
    committed, uncommitted = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
    return shop.store.read_only(committed), shop.store.read_only(uncommitted)


# --- Beyond Kafka's cases ------------------------------------------------------------------------


def test_tombstone_at_the_time_of_the_latest_value_ends_late_versions(shop: Shop) -> None:
    """Differs from Kafka, which forgets it: the late version would become the latest."""
    shop.puts(("v", 10, LATEST), (None, 10, LATEST), ("late", 5, 10))

    assert shop.get("k") is None
    shop.finds((9, "late", 5, 10))


def test_range_finds_a_version_that_ended_in_a_later_segment(shop: Shop) -> None:
    """Differs from Kafka, which looks into segments up to the end of the range only."""
    shop.puts(("v", 10, LATEST), ("v2", 2 * SEGMENT, LATEST))

    shop.finds_between(20, 30, ("v", 10, 2 * SEGMENT))


def test_tombstone_that_expires_within_its_batch_is_not_forgotten_too_soon(shop: Shop) -> None:
    """Differs from Kafka: there the late version, put after the tombstone, would be the latest."""
    puts = [("k", None, 100), ("k", "late", 50), ("other", "v", RETENTION + 5 * SEGMENT)]
    shop.restore(*puts)

    assert shop.get("k") is None


def test_one_put_is_logged_once_with_the_time_of_its_version(shop: Shop) -> None:
    shop.puts(("v", 10, LATEST), ("v2", SEGMENT + 10, LATEST), ("late", 5, 10))
    shop.store.delete("k", SEGMENT + 11)

    assert shop.logged() == [
        ("k", "v", 10),
        ("k", "v2", SEGMENT + 10),
        ("k", "late", 5),
        ("k", None, SEGMENT + 11),
    ]


def test_dropped_put_is_not_logged(shop: Shop) -> None:
    """Differs from Kafka: compaction could keep it in place of the value the store has."""
    shop.put("k", "v", RETENTION + 10)
    shop.put("k", "too late", 9)
    shop.store.delete("k", 9)

    assert shop.logged() == [("k", "v", RETENTION + 10)]


def test_dropped_puts_are_warned_of_once(shop: Shop) -> None:
    shop.put("k", "v", RETENTION + 10)
    with capture_logs() as logs:
        shop.put("k", "too late", 1)
        shop.put("k", "too late", 2)
        shop.store.delete("k", 3)

    assert [(entry["log_level"], entry["store"]) for entry in logs] == [("warning", "s")]
    assert shop.dropped == 3


def test_expired_reads_that_find_nothing_are_warned_of_once(shop: Shop) -> None:
    shop.puts(("v", 5, LATEST), ("v", RETENTION + 10, LATEST))
    with capture_logs() as logs:
        shop.finds_nothing_at(6, 7)

    assert [entry["time"] for entry in logs] == [6]


def test_an_expired_range_that_finds_nothing_is_warned_of_once(shop: Shop) -> None:
    shop.puts(("v", 5, LATEST), ("v", RETENTION + 10, LATEST))
    shop.put("old", "v", RETENTION + 10 - GRACE)
    with capture_logs() as logs:
        assert shop.versions("old", 0, 9) == []
        assert shop.versions("k", 0, 8) == shop.versions("k", 0, 7) == []

    assert [(entry["time"], entry["log_level"]) for entry in logs] == [(9, "warning")]


def test_an_expired_range_that_finds_the_latest_version_is_not_warned_of(shop: Shop) -> None:
    shop.puts(("v", 5, LATEST))
    shop.put("other", "v", RETENTION + 10)
    with capture_logs() as logs:
        assert shop.versions("k", 0, 9) == [VersionedRecord("v", 5)]

    assert logs == []


def test_expired_reads_of_all_views_are_warned_of_once(shop: Shop) -> None:
    shop.puts(("v", 5, LATEST), ("v", RETENTION + 10, LATEST))
    shop.commit()
    with capture_logs() as logs:
        for view in (*views_of(shop), *views_of(shop)):
            assert view.get("k", 6) is None
            assert list(view.get_range("k", 0, 7)) == []
    with capture_logs() as later:
        shop.finds_nothing_at(6)

    (entry,) = logs
    assert (entry["time"], entry["stream_time"]) == (6, RETENTION + 10)
    assert later == []


def test_negative_timestamp_is_refused(shop: Shop) -> None:
    with pytest.raises(StateStoreError, match="timestamps are 0 or more"):
        shop.put("k", "v", -1)
    assert shop.logged() == []


def test_range_that_ends_before_it_begins_is_refused(shop: Shop) -> None:
    with pytest.raises(ValueError, match="from_time 2 is after to_time 1"):
        shop.versions("k", 2, 1)


def test_rollback_takes_back_versions_and_stream_time(shop: Shop) -> None:
    shop.puts(("v", 10, LATEST))
    shop.commit()
    shop.puts(("v2", RETENTION + 5 * SEGMENT, LATEST))
    assert shop.put("k", "too late", 5) == NOT_PUT

    shop.store.rollback()

    assert shop.get("k") == VersionedRecord("v", 10)
    shop.puts(("late", 5, 10))
    shop.finds((5, "late", 5, 10))


def test_expired_segments_are_deleted_with_the_commit(shop: Shop) -> None:
    shop.puts(("v", 10, LATEST), ("v2", 20, LATEST))
    shop.commit()
    shop.puts(("v3", RETENTION + 2 * SEGMENT, LATEST))

    def stored_keys() -> list[str]:
        return [key.hex() for key, _ in shop.store._buffer.engine_range(None, None)]

    latest = "ff" * 8 + "6b"
    assert stored_keys() == ["00" * 8 + "6b", latest]
    shop.commit()
    assert stored_keys() == ["00" * 7 + "05" + "6b", latest]


def test_rows_are_kafkas_bytes(shop: Shop) -> None:
    shop.puts(("v", 1, LATEST), ("w", 3, LATEST))
    shop.commit()

    rows = [(key.hex(), row.hex()) for key, row in shop.store._buffer.engine_range(None, None)]
    bounds, entry = "0000000000000003" + "0000000000000001", "0000000000000001" + "00000001"
    assert rows == [
        ("00" * 8 + "6b", bounds + entry + "76"),
        ("ff" * 8 + "6b", "0000000000000003" + "77"),
    ]


def test_what_is_committed_outlives_the_store(tmp_path: Path) -> None:
    shop = Shop(tmp_path, versioned_spec(StoreEngine.ROCKSDB))
    shop.puts(*MOVED_VALUES)
    shop.commit()
    shop.put("k", "lost", 2 * SEGMENT)

    shop.reopen()

    check_moved_values(shop)
    shop.store.close()


def test_reopened_store_drops_what_it_would_have_dropped(tmp_path: Path) -> None:
    """Kafka starts without a stream time."""
    shop = Shop(tmp_path, versioned_spec(StoreEngine.ROCKSDB))
    newest = RETENTION + 5 * SEGMENT
    shop.puts(("v", newest, LATEST), ("v2", newest + 10, LATEST))
    shop.commit()
    shop.reopen()

    assert shop.put("other", "too late", newest + 10 - RETENTION - 1) == NOT_PUT
    assert shop.put("other", "late", newest + 10 - RETENTION) == LATEST
    shop.store.close()


def test_replaying_what_the_store_has_changes_nothing(shop: Shop) -> None:
    shop.restore(*[("k", value, timestamp) for value, timestamp, _ in REPEATED_TIMESTAMPS])
    shop.restore(*[("k", value, timestamp) for value, timestamp, _ in REPEATED_TIMESTAMPS])

    check_repeated_timestamps(shop)


def test_record_without_a_key_is_not_restored(shop: Shop) -> None:
    shop.restore(("k", "v", 5))
    shop.store.restore([Message(None, b"x", 1, 6)])

    assert shop.get("k") == VersionedRecord("v", 5)


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_views_read_by_isolation_level(shop: Shop, level: IsolationLevel) -> None:
    shop.puts(("v", 10, LATEST), ("v2", 20, LATEST))
    shop.commit()
    shop.puts(("v3", RETENTION + 20, LATEST))
    view = shop.store.read_only(level)

    if level is IsolationLevel.READ_COMMITTED:
        assert view.get("k") == VersionedRecord("v2", 20)
        assert view.get("k", 15) == VersionedRecord("v", 10, 20)
        assert [record.value for record in view.get_range("k")] == ["v", "v2"]
    else:
        assert view.get("k") == VersionedRecord("v3", RETENTION + 20)
        assert view.get("k", 15) is None
        assert [record.value for record in view.get_range("k", 20)] == ["v2", "v3"]


def test_closed_store_is_not_available(shop: Shop) -> None:
    shop.store.close()

    for use in (
        lambda: shop.get("k"),
        lambda: shop.get("k", 1),
        lambda: shop.versions("k"),
        lambda: shop.put("k", "v", 1),
        lambda: shop.store.delete("k", 1),
        lambda: shop.store.read_only(IsolationLevel.READ_COMMITTED),
    ):
        with pytest.raises(StoreNotAvailableError):
            use()


def test_value_that_does_not_fit_the_serde_is_refused(shop: Shop) -> None:
    with pytest.raises(SerializationError):
        shop.store.put("k", 1, 1)
    assert shop.logged() == []


def test_history_survives_the_move_of_a_key_space(shop: Shop) -> None:
    """Keys that are prefixes of one another have histories of their own."""
    for number, key in enumerate(("", "k", "kk", "k\x00")):
        shop.put(key, f"old {number}", 5)
        shop.put(key, f"new {number}", 10)

    for number, key in enumerate(("", "k", "kk", "k\x00")):
        assert [record.value for record in shop.store.get_range(key)] == [
            f"old {number}",
            f"new {number}",
        ]


def test_default_segment_intervals_are_kafkas() -> None:
    intervals = {
        retention: versioned_spec(StoreEngine.ROCKSDB, retention, None).retention
        for retention in (0, 60_000, 300_000, 3_600_000, 86_400_000)
    }

    assert [found and found.segment_interval_ms for found in intervals.values()] == [
        2_000,
        20_000,
        60_000,
        300_000,
        3_600_000,
    ]


def test_changelog_is_not_compacted_within_the_retention() -> None:
    for additional_retention_ms_of_windows in (0, 86_400_000):
        assert versioned_spec().changelog_defaults(additional_retention_ms_of_windows) == {
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": str(HISTORY_RETENTION_MS + 86_400_000),
        }


def test_caching_is_refused() -> None:
    supplier = Stores.persistent_versioned_key_value_store("s", 1)
    builder = Stores.versioned_key_value_store_builder(supplier, STRING, LONG)

    with pytest.raises(TopologyError, match="versioned stores can't be cached"):
        builder.with_caching_enabled()


@pytest.mark.parametrize("times", [(-1, None), (1, 0)])
def test_times_that_make_no_sense_are_refused(times: tuple[int, int | None]) -> None:
    with pytest.raises(TopologyError, match="must be"):
        Stores.persistent_versioned_key_value_store("s", *times)


def test_versioned_builder_needs_a_versioned_supplier() -> None:
    with pytest.raises(TopologyError, match="persistent_versioned_key_value_store"):
        Stores.versioned_key_value_store_builder(Stores.persistent_key_value_store("s"))


def test_builder_builds_a_versioned_store() -> None:
    supplier = Stores.in_memory_versioned_key_value_store("s", 1)
    store = Stores.versioned_key_value_store_builder(supplier).build()

    assert (supplier.kind, store.name, store.persistent) == (VERSIONED, "s", False)


def test_write_through_store_keeps_versions(tmp_path: Path) -> None:
    supplier = Stores.persistent_versioned_key_value_store("s", RETENTION, SEGMENT)
    builder = Stores.versioned_key_value_store_builder(supplier, STRING, STRING)
    shop = Shop(tmp_path, builder.with_transactional_disabled().spec)
    for number in range(300):
        shop.put("k", str(number), number)

    assert not build_store(shop.spec).transactional
    shop.finds((150, "150", 150, 151))
    assert shop.store.approximate_num_uncommitted_bytes() == 0
    shop.commit()
    shop.reopen()
    shop.finds((150, "150", 150, 151), (299, "299", 299, LATEST))
    shop.store.close()
