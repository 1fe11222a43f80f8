"""State directories of Java applications, older and newer, and the checkpoint files in them."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, OFFSET_STORED
from rocksdict import Options, Rdict
from structlog.testing import capture_logs

from pystreams import (
    Position,
    StateStoreCorruptedError,
    StateStoreError,
    StoreBuilder,
    Stores,
    TopicPartition,
    ValueAndTimestamp,
    serdes,
)
from pystreams.stores.engines.rocksdb import RocksDBEngine
from pystreams.stores.files.checkpoint_file import read_checkpoint, write_checkpoint
from pystreams.stores.files.metadata import pack_long
from tests.archives import unpack
from tests.stores.killed_migration import builders, kill_at_each_line, look
from tests.stores.managed import changelog, commit, in_another_process, manager_of, opened

GOLDEN = Path(__file__).parent.parent / "parity" / "golden" / "stores"
NAMES = changelog("names", "shop")
TOTALS = changelog("totals", "shop")
JavaState = Callable[[str], Path]
UNKNOWN = [-4, OFFSET_END, OFFSET_BEGINNING, OFFSET_STORED, OFFSET_INVALID, -2000, -2005]
"""Kafka Streams' sign, and librdkafka's: the last two are "so many before the end"."""


@pytest.fixture
def java_state(tmp_path: Path) -> JavaState:
    """Unpack one of the directories a Java application left; return its task's."""

    def left(which: str) -> Path:
        unpack(GOLDEN / "java-state.tar.gz", tmp_path / "java")
        return tmp_path / "java" / which / "shop" / "0_0"

    return left


@pytest.fixture(scope="module")
def golden() -> Any:
    return json.loads((GOLDEN / "java-state.json").read_text("utf-8"))


def shop() -> list[StoreBuilder]:
    names = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("names"), serdes.STRING, serdes.STRING
    )
    totals = Stores.timestamped_key_value_store_builder(
        Stores.persistent_timestamped_key_value_store("totals"), serdes.STRING, serdes.LONG
    )
    return [names, totals]


def golden_entries(golden: Any, which: str, store: str, family: str) -> dict[bytes, bytes]:
    pairs = (line.split(" ") for line in golden[which][store]["families"][family])
    return {bytes.fromhex(key[1:]): bytes.fromhex(value[1:]) for key, value in pairs}


def raw(directory: Path, store: str, *, timestamped: bool = False) -> dict[bytes, bytes]:
    engine = RocksDBEngine(store, timestamped=timestamped)
    engine.open(directory / "rocksdb" / store)
    try:
        return engine.metadata()
    finally:
        engine.close()


def write_metadata(directory: Path, store: str, entries: dict[bytes, bytes | None]) -> None:
    engine = RocksDBEngine(store, timestamped=False)
    engine.open(directory / "rocksdb" / store)
    engine.write({b"key": b"value"}, entries)
    engine.close()


@pytest.mark.parity
def test_directory_of_a_java_application_is_opened_where_it_was_closed(
    java_state: JavaState, golden: Any
) -> None:
    directory = java_state("clean")
    manager = opened(directory, *shop(), application="shop", exactly_once=True)

    assert manager.restore_positions() == {NAMES: 100, TOTALS: 100}
    names = golden_entries(golden, "clean", "names", "default")
    totals = golden_entries(golden, "clean", "totals", "keyValueWithTimestamp")
    assert dict(manager.store("names").all()) == {
        key.decode(): value.decode() for key, value in names.items()
    }
    assert dict(manager.store("totals").all()) == {
        key.decode(): ValueAndTimestamp(*reversed(struct.unpack(">qq", value)))
        for key, value in totals.items()
    }
    manager.close()
    position = raw(directory, "names")[b"position"]
    assert Position.deserialize(position) == Position({TopicPartition("orders", 0): 99})


@pytest.mark.parity
def test_directory_of_a_killed_java_application_is_gone_on_from_at_least_once(
    java_state: JavaState,
) -> None:
    manager = opened(java_state("killed"), *shop(), application="shop")

    positions = manager.restore_positions()
    assert all(offset is not None and offset > 1000 for offset in positions.values())
    assert len(list(manager.store("names").all())) > 200
    manager.close()


@pytest.mark.parity
def test_directory_of_a_killed_java_application_is_rebuilt_exactly_once(
    java_state: JavaState,
) -> None:
    with capture_logs() as logs:
        manager = opened(java_state("killed"), *shop(), application="shop", exactly_once=True)

    assert manager.restore_positions() == {NAMES: None, TOTALS: None}
    assert list(manager.store("names").all()) == []
    assert [line["store"] for line in logs if "was not closed" in str(line.get("reason"))] == [
        "names",
        "totals",
    ]
    manager.close()


@pytest.mark.parity
@pytest.mark.parametrize("exactly_once", [False, True])
def test_checkpoint_and_position_files_of_an_older_layout_are_taken_in(
    java_state: JavaState, exactly_once: bool
) -> None:
    directory = java_state("older")
    manager = opened(directory, *builders(), application="shop", exactly_once=exactly_once)

    assert manager.restore_positions() == {NAMES: 100, TOTALS: 42}
    assert manager.store("names").get("key7") == b"old\x07"
    assert manager.store("totals").get("key7").value == b"old\x07"
    manager.close()
    assert not (directory / ".checkpoint").exists()
    assert not (directory / "names.position").exists()
    position = Position({TopicPartition("orders", 0): 77, TopicPartition("payments", 0): 5})
    assert raw(directory, "names")[b"position"] == position.serialize()


@pytest.mark.parity
@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("harm", ["deleted", "damaged"])
def test_a_store_whose_directory_is_deleted_or_damaged_takes_nothing_of_the_files_in(
    java_state: JavaState, harm: str, exactly_once: bool
) -> None:
    directory = java_state("older")
    if harm == "deleted":
        shutil.rmtree(directory / "rocksdb" / "names")
    else:
        (directory / "rocksdb" / "names" / "CURRENT").write_bytes(b"not a manifest")

    manager = opened(directory, *builders(), application="shop", exactly_once=exactly_once)

    assert manager.restore_positions() == {NAMES: None, TOTALS: 42}
    assert list(manager.store("names").all()) == []
    assert len(list(manager.store("totals").all())) == 20
    manager.close()
    assert not (directory / ".checkpoint").exists()
    assert b"position" not in raw(directory, "names")


@pytest.mark.parity
def test_a_kill_between_any_two_steps_of_the_migration_loses_nothing(
    java_state: JavaState, tmp_path: Path
) -> None:
    older = java_state("older")
    (older / "totals.position").unlink()
    position = Position({TopicPartition("orders", 0): 77, TopicPartition("payments", 0): 5})

    outcomes = in_another_process(kill_at_each_line, older, tmp_path / "scratch")

    assert len(outcomes) > 20
    for outcome in outcomes:
        assert outcome == {
            "next": {NAMES.topic: 100},
            "entries": {"names": 20},
            "metadata": {"names": position.serialize().hex()},
            "files": [],
        }


def test_a_store_that_has_an_offset_keeps_it(tmp_path: Path) -> None:
    manager = opened(tmp_path, *builders(), application="shop")
    manager.store("names").put("key", b"value")
    commit(manager, names=7)
    manager.close()
    write_checkpoint(tmp_path / ".checkpoint", {NAMES: 3})

    seen = look(tmp_path)

    assert seen["next"] == {NAMES.topic: 8, TOTALS.topic: None}
    assert seen["files"] == []


def test_a_position_the_store_has_is_not_replaced_by_an_older_file(tmp_path: Path) -> None:
    kept = Position({TopicPartition("orders", 0): 9}).serialize()
    write_metadata(tmp_path, "names", {b"position": kept})
    write_checkpoint(tmp_path / "names.position", {TopicPartition("orders", 0): 3})

    seen = look(tmp_path)

    assert seen["metadata"]["names"] == kept.hex()
    assert seen["files"] == []


@pytest.mark.parametrize("offset", UNKNOWN)
def test_an_unknown_offset_is_restored_from_the_beginning(tmp_path: Path, offset: int) -> None:
    write_metadata(tmp_path, "names", {str(NAMES).encode(): pack_long(offset)})
    (tmp_path / ".checkpoint").write_text(f"0\n1\n{TOTALS.topic} 0 {offset}\n")

    assert look(tmp_path)["next"] == {NAMES.topic: None, TOTALS.topic: None}


def test_a_checkpoint_that_can_not_be_read_is_told_and_dropped(tmp_path: Path) -> None:
    (tmp_path / ".checkpoint").write_text("7\nwhatever\n")

    with capture_logs() as logs:
        manager = opened(tmp_path, *builders(), application="shop")

    assert manager.restore_positions() == {NAMES: None, TOTALS: None}
    assert any("checkpoint can't be read" in line["event"] for line in logs)
    assert not (tmp_path / ".checkpoint").exists()
    manager.close()


def test_data_of_a_killed_exactly_once_application_of_an_older_layout_is_not_trusted(
    java_state: JavaState,
) -> None:
    """Without its checkpoint file, the sign of a clean end: it may hold aborted writes."""
    directory = java_state("older")
    (directory / ".checkpoint").unlink()

    manager = opened(directory, *builders(), application="shop", exactly_once=True)

    assert manager.restore_positions() == {NAMES: None, TOTALS: None}
    assert list(manager.store("names").all()) == []
    manager.close()


def test_an_offset_of_the_wrong_size_is_refused_by_name_and_its_store_rebuilt(
    tmp_path: Path,
) -> None:
    write_metadata(tmp_path, "names", {str(NAMES).encode(): b"\x01\x02"})

    with capture_logs() as logs:
        manager = opened(tmp_path, *builders(), application="shop")

    assert manager.store("names").get("key") is None
    assert manager.restore_positions() == {NAMES: None, TOTALS: None}
    [told] = [line for line in logs if line["log_level"] == "warning"]
    assert told["store"] == "names"
    assert "'shop-names-changelog-0'" in told["reason"]
    assert "2 bytes instead of 8" in told["reason"]
    manager.close()


def test_an_offset_of_the_wrong_size_is_an_error_where_there_is_no_changelog(
    tmp_path: Path,
) -> None:
    write_metadata(tmp_path, "names", {str(NAMES).encode(): b"\x01\x02"})
    unlogged = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("names"), serdes.STRING, serdes.BYTES
    ).with_logging_disabled()

    with pytest.raises(StateStoreCorruptedError, match=r"'names'.*2 bytes instead of 8"):
        opened(tmp_path, unlogged)
    with pytest.raises(StateStoreCorruptedError):
        opened(tmp_path, unlogged)  # The refusal left nothing open.


def test_a_column_family_of_another_kind_of_store_is_refused_by_name(
    java_state: JavaState,
) -> None:
    plain = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("totals"), serdes.STRING, serdes.BYTES
    )
    manager = manager_of(plain, application="shop")

    with pytest.raises(StateStoreError, match=r"'totals'.*'keyValueWithTimestamp'"):
        manager.open(java_state("clean"))


def test_a_directory_taken_in_once_has_nothing_to_take_in_again(
    java_state: JavaState, tmp_path: Path
) -> None:
    directory = java_state("older")
    look(directory)
    moved = tmp_path / "moved"
    shutil.copytree(directory, moved)

    with capture_logs() as logs:
        assert look(moved)["next"] == {NAMES.topic: 100, TOTALS.topic: 42}
    assert [line for line in logs if "taken into" in line["event"]] == []


def test_checkpoint_files_are_kafkas_format(tmp_path: Path) -> None:
    file = tmp_path / ".checkpoint"
    write_checkpoint(file, {NAMES: 41, TOTALS: None})

    assert file.read_text() == "0\n2\nshop-names-changelog 0 41\nshop-totals-changelog 0 -4\n"
    assert read_checkpoint(file) == {NAMES: 41, TOTALS: None}
    assert [path.name for path in tmp_path.iterdir()] == [".checkpoint"]


def test_an_older_version_can_not_open_an_upgraded_store(tmp_path: Path) -> None:
    """It knows no column family of offsets, and RocksDB opens a database with all it has only."""
    manager = opened(tmp_path, *builders())
    manager.close()
    directory = str(tmp_path / "rocksdb" / "names")

    with pytest.raises(Exception, match="Column families not opened: offsets"):
        Rdict(
            directory, Options(raw_mode=True), column_families={"default": Options(raw_mode=True)}
        )
