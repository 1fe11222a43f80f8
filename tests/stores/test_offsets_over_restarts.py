"""Offsets that stores keep themselves: over clean restarts, and when what they say is damaged.

The cases of Kafka's SelfManagedOffsetLifecycleIntegrationTest and
SelfManagedOffsetRecoveryIntegrationTest, without a broker: what is committed, and from where the
runtime would restore.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pystreams.stores.engines.rocksdb import RocksDBEngine
from pystreams.stores.files.metadata import OPEN, STATUS, pack_long
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.stores.engines.test_non_transactional_stores import builder, direct, rebuilt
from tests.stores.managed import changelog, commit, opened

Make = Callable[[str], StoreSpecBuilder]

each_guarantee = pytest.mark.parametrize(
    "exactly_once", [False, True], ids=["at_least_once", "exactly_once"]
)
each_make = pytest.mark.parametrize("make", [builder, direct], ids=["transactional", "direct"])


def write_metadata(directory: Path, store: str, **entries: bytes | None) -> None:
    """Write entries of a closed store's column family `offsets`; None deletes one."""
    names = {"status": STATUS, "offset": str(changelog(store)).encode()}
    engine = RocksDBEngine(store, timestamped=False)
    engine.open(directory / "rocksdb" / store)
    engine.write({}, {names[name]: value for name, value in entries.items()})
    engine.close()


def committed(directory: Path, *makes: StoreSpecBuilder, exactly_once: bool) -> None:
    """Open stores, commit a record into each, and close them."""
    manager = opened(directory, *makes, exactly_once=exactly_once)
    for made in makes:
        manager.store(made.name).put("kept", b"1")
    commit(manager, **{made.name: 5 for made in makes})
    manager.close()


@each_guarantee
@each_make
def test_restarts_in_order_go_on_from_what_was_committed(
    tmp_path: Path, make: Make, *, exactly_once: bool
) -> None:
    for round_ in range(3):
        with capture_logs() as logs:
            manager = opened(tmp_path, make("s"), exactly_once=exactly_once)
        assert rebuilt(logs) == []
        assert manager.restore_positions() == {changelog("s"): 2 * round_ or None}
        store = manager.store("s")
        for key in ("always", f"only {round_}"):
            store.put(key, (store.get(key) or b"") + b"+")
        commit(manager, s=2 * round_)
        manager.close()

    manager = opened(tmp_path, make("s"), exactly_once=exactly_once)
    assert list(manager.store("s").all()) == [
        ("always", b"+++"),
        *((f"only {round_}", b"+") for round_ in range(3)),
    ]
    manager.close()


@each_guarantee
@each_make
def test_a_restart_before_any_record_is_trusted(
    tmp_path: Path, make: Make, *, exactly_once: bool
) -> None:
    opened(tmp_path, make("s"), exactly_once=exactly_once).close()

    with capture_logs() as logs:
        manager = opened(tmp_path, make("s"), exactly_once=exactly_once)

    assert logs == []
    assert manager.restore_positions() == {changelog("s"): None}
    manager.store("s").put("first", b"1")
    commit(manager, s=0)
    assert manager.restore_positions() == {changelog("s"): 1}
    manager.close()


@each_guarantee
@each_make
def test_without_its_offset_a_store_is_restored_from_the_beginning(
    tmp_path: Path, make: Make, *, exactly_once: bool
) -> None:
    """Under exactly-once nothing of it is trusted; else the changelog is put on top of it."""
    committed(tmp_path, make("s"), exactly_once=exactly_once)
    write_metadata(tmp_path, "s", offset=None)

    with capture_logs() as logs:
        manager = opened(tmp_path, make("s"), exactly_once=exactly_once)

    assert rebuilt(logs) == (["s"] if exactly_once else [])
    assert manager.restore_positions() == {changelog("s"): None}
    assert list(manager.store("s").all()) == ([] if exactly_once else [("kept", b"1")])
    manager.close()


@each_guarantee
def test_not_closed_and_without_its_offset_a_store_is_rebuilt_once(
    tmp_path: Path, *, exactly_once: bool
) -> None:
    committed(tmp_path, direct("s"), exactly_once=exactly_once)
    write_metadata(tmp_path, "s", status=pack_long(OPEN), offset=None)

    with capture_logs() as logs:
        manager = opened(tmp_path, direct("s"), exactly_once=exactly_once)

    assert rebuilt(logs) == (["s"] if exactly_once else [])
    assert manager.restore_positions() == {changelog("s"): None}
    manager.store("s").put("again", b"1")
    commit(manager, s=0)
    manager.close()
    with capture_logs() as logs:
        opened(tmp_path, direct("s"), exactly_once=exactly_once).close()
    assert rebuilt(logs) == []


def test_only_the_store_that_was_not_closed_is_rebuilt(tmp_path: Path) -> None:
    committed(tmp_path, direct("bad"), direct("good"), builder("safe"), exactly_once=True)
    write_metadata(tmp_path, "bad", status=pack_long(OPEN))

    with capture_logs() as logs:
        manager = opened(
            tmp_path, direct("bad"), direct("good"), builder("safe"), exactly_once=True
        )

    assert rebuilt(logs) == ["bad"]
    assert manager.restore_positions() == {
        changelog("bad"): None,
        changelog("good"): 6,
        changelog("safe"): 6,
    }
    assert list(manager.store("bad").all()) == []
    for store in ("good", "safe"):
        assert list(manager.store(store).all()) == [("kept", b"1")]
    manager.close()
