"""A store that is empty believes no file of an older layout: what it tells of is not here.

Kafka Streams before 4.3 kept offsets in `.checkpoint` and positions in `<store>.position`; its
windows and sessions lie in directories that no store of ours opens.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from pystreams import (
    Position,
    StoreEngine,
    TopicPartition,
    ValueAndTimestamp,
    VersionedRecord,
    Window,
    Windowed,
    serdes,
)
from pystreams.record import StaticMessage
from pystreams.stores.files.checkpoint_file import write_checkpoint
from pystreams.stores.kinds.buffer.kind import BUFFER
from pystreams.stores.kinds.list.kind import LIST
from pystreams.stores.kinds.session.keys import session_key
from pystreams.stores.kinds.versioned.reader import LATEST_PREFIX, pack_latest
from pystreams.stores.kinds.window.keys import window_key
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.contract.every_kind import KINDS, Slots
from tests.every_store import BUILDERS
from tests.stores.managed import changelog, opened
from tests.stores.support import spec_of

EITHER = pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly"])
EVERY = BUILDERS | {
    kind.name: StoreSpecBuilder(spec_of(name=kind.name, kind=kind)) for kind in (LIST, BUFFER)
}
ORDERS = TopicPartition("orders", 0)
START_MS = 60_000
pack = struct.Struct(">q").pack


def files_of_an_older_layout(task_directory: Path, **offsets: int) -> None:
    """Write what a Java application says of its stores, by their names."""
    task_directory.mkdir(exist_ok=True)
    write_checkpoint(
        task_directory / ".checkpoint", {changelog(name): at for name, at in offsets.items()}
    )
    for name in offsets:
        write_checkpoint(task_directory / f"{name}.position", {ORDERS: 77})


def java_database(directory: Path, entries: dict[bytes, bytes]) -> None:
    """Make a database as Java had it, with one column family."""
    directory.mkdir(parents=True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    database = Rdict(str(directory), options)
    for key, value in entries.items():
        database[key] = value
    database.close()


def java_entries(directory: Path) -> dict[Any, Any]:
    database = Rdict(str(directory), Options(raw_mode=True))
    entries = dict(database.items())
    database.close()
    return entries


@EITHER
@pytest.mark.parametrize("name", EVERY)
def test_a_store_of_any_kind_that_is_made_now_takes_nothing_in(
    tmp_path: Path, name: str, exactly_once: bool
) -> None:
    files_of_an_older_layout(tmp_path, **{name: 500})

    for _ in range(2):
        manager = opened(tmp_path, EVERY[name], exactly_once=exactly_once)
        assert manager.restore_positions() == {changelog(name): None}
        assert manager.stores()[name].position == Position()
        assert not list(tmp_path.glob(".checkpoint")) + list(tmp_path.glob("*.position"))
        manager.close()


@pytest.mark.parametrize("name", ["plain", "window"])
def test_a_store_that_a_kill_left_empty_beside_the_files_takes_nothing_in(
    tmp_path: Path, name: str
) -> None:
    """Killed after the stores were made, and before the files were looked at."""
    opened(tmp_path, EVERY[name]).close()
    files_of_an_older_layout(tmp_path, **{name: 500})

    manager = opened(tmp_path, EVERY[name])

    assert manager.restore_positions() == {changelog(name): None}
    assert manager.stores()[name].position == Position()
    manager.close()


@EITHER
def test_windows_and_sessions_of_java_are_left_alone_and_restored_from_their_changelogs(
    tmp_path: Path, exactly_once: bool
) -> None:
    window = window_key(b"tea", START_MS)
    session = session_key(b"tea", START_MS, START_MS + 5)
    in_java = {
        "plain": (tmp_path / "rocksdb" / "plain", b"tea"),
        "window": (tmp_path / "window" / f"window.{START_MS}", window),
        "session": (tmp_path / "session" / f"session.{START_MS}", session),
    }
    for directory, key in in_java.values():
        java_database(directory, {key: pack(3)})
    files_of_an_older_layout(tmp_path, plain=500, window=500, session=500)

    manager = opened(tmp_path, *(EVERY[name] for name in in_java), exactly_once=exactly_once)

    assert manager.restore_positions() == {
        changelog("plain"): 501,
        changelog("window"): None,
        changelog("session"): None,
    }
    assert manager.store("plain").get("tea") == 3
    for name in ("window", "session"):
        topic, partition = changelog(name)
        key = in_java[name][1]
        message = StaticMessage(topic, partition, 500, key, pack(3), START_MS)
        manager.restore(changelog(name), [message])
        assert java_entries(in_java[name][0]) == {key: pack(3)}
    assert list(manager.store("window").fetch("tea", 0, START_MS)) == [(START_MS, 3)]
    assert list(manager.store("session").fetch("tea")) == [
        (Windowed("tea", Window(START_MS, START_MS + 5)), 3)
    ]
    manager.close()


def test_a_versioned_store_of_an_older_layout_is_taken_in(tmp_path: Path) -> None:
    rows = {LATEST_PREFIX + b"tea": pack_latest(pack(3), START_MS)}
    java_database(tmp_path / "rocksdb" / "versioned", rows)
    files_of_an_older_layout(tmp_path, versioned=500)

    manager = opened(tmp_path, EVERY["versioned"])

    assert manager.restore_positions() == {changelog("versioned"): 501}
    assert manager.stores()["versioned"].position == Position({ORDERS: 77})
    assert manager.store("versioned").get("tea") == VersionedRecord(3, START_MS)
    manager.close()


@pytest.mark.parametrize("name", KINDS)
def test_a_store_of_every_kind_says_whether_it_holds_data(tmp_path: Path, name: str) -> None:
    slots = Slots(tmp_path, KINDS[name], StoreEngine.ROCKSDB)
    assert slots.store.holds_data() is False

    slots.put({0: 1, 1: 2})
    assert slots.store.holds_data() is False  # Not for good.
    slots.commit()
    assert slots.store.holds_data() is True
    slots.store.close()
    slots.open()
    assert slots.store.holds_data() is True
    slots.store.destroy()
    slots.open()
    assert slots.store.holds_data() is False
    slots.store.close()


def test_data_that_rocksdb_counts_as_none_are_seen(tmp_path: Path) -> None:
    """Each deletion counts against two entries, whether or not there was anything to delete."""
    builder = StoreSpecBuilder(replace(EVERY["plain"].spec, key_serde=serdes.LONG))
    manager = opened(tmp_path, builder)
    store: Any = manager.stores()["plain"]
    store.put(0, 1)
    for number in range(1, 10):
        store.put(number, None)
    store.commit({})
    assert store.approximate_num_entries() == 0
    manager.close()

    again = opened(tmp_path, builder, exactly_once=True)

    assert list(again.store("plain").all()) == []  # Data without an offset: wiped, to be restored.
    again.close()


def test_a_timestamped_store_that_holds_plain_data_takes_their_offset_in(tmp_path: Path) -> None:
    java_database(tmp_path / "rocksdb" / "timestamped", {b"tea": pack(3)})
    files_of_an_older_layout(tmp_path, timestamped=500)

    manager = opened(tmp_path, EVERY["timestamped"])

    assert manager.restore_positions() == {changelog("timestamped"): 501}
    assert manager.store("timestamped").get("tea") == ValueAndTimestamp(3, -1)
    manager.close()
