"""A versioned store tells its database from one with other segments, and from other stores'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from pystreams import StateStoreError, StoreEngine, Stores, VersionedRecord
from pystreams.serdes import BYTES, LONG, STRING
from pystreams.stores.build import build_bulk_loaded_store
from pystreams.stores.files.metadata import pack_long
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.stores.kinds.versioned_support import VersionedHome, versioned_spec
from tests.stores.managed import opened as opened_manager
from tests.stores.support import CHANGELOG, Home, Message

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WITHIN = "rocksdb/s"
FOREIGN = "written by another kind of store"
Intervals = tuple[int, int]
"""History retention and segment interval (ms)."""


def versions_over(directory: Path, retention_ms: int, interval_ms: int | None = None) -> None:
    """Leave a store with two versions of each of fifty keys, a minute between two puts."""
    shop = VersionedHome(directory, spec_of(retention_ms, interval_ms))
    for number in range(50):
        time = NOW_MS + number * MINUTE_MS
        shop.put("k", str(number), time)
    shop.commit()
    shop.store.close()


def spec_of(retention_ms: int, interval_ms: int | None = None) -> Any:
    return versioned_spec(StoreEngine.ROCKSDB, retention_ms, interval_ms)


def offsets_of(directory: Path) -> tuple[Rdict, Rdict]:
    options = Options(raw_mode=True)
    database = Rdict(str(directory / WITHIN), options, {"offsets": options})
    return database, database.get_column_family("offsets")


def without_entry(directory: Path) -> None:
    """Make the database what Java, or pystreams before the entry, would have left."""
    database, offsets = offsets_of(directory)
    assert offsets[b"segment_interval_ms"]
    del offsets[b"segment_interval_ms"]
    offsets.close()
    database.close()


def left_by(builder: StoreSpecBuilder, directory: Path, *keys: Any) -> None:
    store: Any = Home(directory).open_builder(builder)
    for key in keys:
        store.put(key, 7)
    store.commit({CHANGELOG: 7})
    store.close()


@pytest.mark.parametrize(
    ("before_ms", "after_ms", "intervals"),
    [(HOUR_MS, DAY_MS, (300_000, HOUR_MS)), (DAY_MS, HOUR_MS, (HOUR_MS, 300_000))],
)
def test_a_changed_retention_is_refused_with_both_intervals(
    tmp_path: Path, before_ms: int, after_ms: int, intervals: Intervals
) -> None:
    versions_over(tmp_path, before_ms)

    written, given = intervals
    refusal = (
        f"written with segments of {written} ms, and is opened with segments of {given} ms.*"
        f"segment_interval_ms={written}, or delete the directory"
    )
    for _ in range(2):
        with pytest.raises(StateStoreError, match=refusal):
            VersionedHome(tmp_path, spec_of(after_ms))
    VersionedHome(tmp_path, spec_of(before_ms)).store.close()


def test_a_changed_retention_over_the_same_segments_keeps_all_versions(tmp_path: Path) -> None:
    versions_over(tmp_path, HOUR_MS)

    shop = VersionedHome(tmp_path, spec_of(DAY_MS, 300_000))

    assert [record.value for record in shop.store.get_range("k")] == list(map(str, range(50)))
    later = NOW_MS + 50 * MINUTE_MS
    assert shop.put("k", "more", later) == -1
    assert shop.get("k") == VersionedRecord("more", later)
    shop.store.close()


@pytest.mark.parametrize("logged", [True, False])
def test_an_application_with_a_changed_retention_stops_and_wipes_nothing(
    tmp_path: Path, *, logged: bool
) -> None:
    def builder(retention_ms: int) -> StoreSpecBuilder:
        supplier = Stores.persistent_versioned_key_value_store("s", retention_ms)
        made = Stores.versioned_key_value_store_builder(supplier, STRING, STRING)
        return made if logged else made.with_logging_disabled()

    manager = opened_manager(tmp_path, builder(HOUR_MS))
    manager.store("s").put("k", "v", NOW_MS)
    for output in manager.outputs():
        output.records.clear()
        output.last_offset = 0
    manager.commit()
    manager.close()

    with pytest.raises(StateStoreError, match="segments of 300000 ms"):
        opened_manager(tmp_path, builder(DAY_MS))
    manager = opened_manager(tmp_path, builder(HOUR_MS))
    assert manager.store("s").get("k") == VersionedRecord("v", NOW_MS)
    manager.close()


@pytest.mark.parametrize("transactional", [True, False])
def test_the_interval_is_written_before_the_first_row(
    tmp_path: Path, *, transactional: bool
) -> None:
    supplier = Stores.persistent_versioned_key_value_store("s", HOUR_MS)
    builder = Stores.versioned_key_value_store_builder(supplier, STRING, STRING)
    store = Home(tmp_path).open_builder(
        builder if transactional else builder.with_transactional_disabled()
    )
    store.close()

    database, offsets = offsets_of(tmp_path)
    assert offsets[b"segment_interval_ms"] == pack_long(300_000)
    offsets.close()
    database.close()


def test_a_store_that_is_not_logged_keeps_its_interval(tmp_path: Path) -> None:
    shop = VersionedHome(tmp_path, spec_of(HOUR_MS))
    shop.put("k", "v", 1)
    shop.store.commit({})
    shop.store.close()

    with pytest.raises(StateStoreError, match="segments of 300000 ms"):
        VersionedHome(tmp_path, spec_of(DAY_MS))


def test_a_store_loaded_in_bulk_has_its_interval(tmp_path: Path) -> None:
    store, _ = build_bulk_loaded_store(spec_of(HOUR_MS))
    store.init(Home(tmp_path).context())
    store.restore([Message(b"k", b"v", 0, NOW_MS)])
    store.close()

    with pytest.raises(StateStoreError, match="segments of 300000 ms"):
        VersionedHome(tmp_path, spec_of(DAY_MS))


def test_a_database_without_the_entry_is_taken_over_where_its_rows_fit(tmp_path: Path) -> None:
    versions_over(tmp_path, HOUR_MS)
    without_entry(tmp_path)

    shop = VersionedHome(tmp_path, spec_of(HOUR_MS))
    assert shop.get("k", NOW_MS) == VersionedRecord("0", NOW_MS, NOW_MS + MINUTE_MS)
    shop.store.close()

    with pytest.raises(StateStoreError, match="segments of 300000 ms"):
        VersionedHome(tmp_path, spec_of(DAY_MS))


@pytest.mark.parametrize(("before_ms", "after_ms"), [(HOUR_MS, DAY_MS), (DAY_MS, HOUR_MS)])
def test_a_database_without_the_entry_is_refused_where_its_rows_lie_in_other_segments(
    tmp_path: Path, before_ms: int, after_ms: int
) -> None:
    versions_over(tmp_path, before_ms)
    without_entry(tmp_path)

    with pytest.raises(StateStoreError, match="or with another history retention"):
        VersionedHome(tmp_path, spec_of(after_ms))


@pytest.mark.parametrize(
    "key",
    [b"", b"\x00", b"k", b"\xff", b"\x80" * 8, b"customer-17", b"\xfe" * 12, pack_long(5)],
    ids=repr,
)
def test_a_plain_stores_database_is_refused_by_a_versioned_store(
    tmp_path: Path, key: bytes
) -> None:
    left_by(
        Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), BYTES, LONG),
        tmp_path,
        key,
    )

    with pytest.raises(StateStoreError, match=FOREIGN):
        VersionedHome(tmp_path, spec_of(HOUR_MS))


@pytest.mark.parametrize("kind", ["plain", "timestamped"])
def test_a_versioned_stores_database_is_refused_by_key_value_stores(
    tmp_path: Path, kind: str
) -> None:
    versions_over(tmp_path, HOUR_MS)
    builder = (
        Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), STRING, LONG)
        if kind == "plain"
        else Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("s"), STRING, LONG
        )
    )

    with pytest.raises(StateStoreError, match="written by a versioned store"):
        Home(tmp_path).open_builder(builder)
