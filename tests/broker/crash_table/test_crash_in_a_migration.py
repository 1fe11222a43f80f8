"""SIGKILL before and after each step that takes in what an older version left, on a real broker.

The state directory: each store's changelog offset in the task's one checkpoint file, its position
in a file beside it, as Kafka Streams had it before 4.3; and the timestamped key-value store was a
plain one. After the kill nothing of that is lost, in whichever place it is; after the restart
nothing is built anew, and all goes on where it was.

Spec: KIP-1035 "Upgrade"; Kafka RocksDBTimestampedStore. tests/stores/killed_migration.py kills at
each line.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams import Position, TopicPartition
from pystreams.broker import DevelopmentBroker
from pystreams.stores.files.checkpoint_file import read_checkpoint, write_checkpoint
from pystreams.stores.files.metadata import POSITION, pack_long
from tests.broker.crash_table.arena import (
    GUARANTEES,
    KEYS,
    RECORDS,
    Arena,
    Held,
    engine_of,
    stores_in,
)
from tests.every_store import BUILDERS

HALF = RECORDS // 2
KILLS = [
    "before:checkpoint file:1",
    "after:checkpoint file:1",
    "before:position file:1",
    "after:position file:4",
    "before:plain data:1",
    "after:plain data:1",
]
NO_TIMESTAMP = b"\xff" * 8

pytestmark = [pytest.mark.sweep, pytest.mark.timeout(600)]


def make_older(arena: Arena) -> Position:
    """Put offsets and positions of closed stores where an older version kept them.

    Returns:
        The position of all of them.
    """
    directory = arena.task_directory
    offsets: dict[TopicPartition, int | None] = {}
    positions = set()
    for name, held in stores_in(directory, plain=True).items():
        changelog = TopicPartition(f"{arena.name}-{name}-changelog", 0)
        offsets[changelog] = arena.offset_of(name, held)
        position = Position.deserialize(held.metadata[POSITION])
        positions.add(position.serialize())
        write_checkpoint(directory / f"{name}.position", dict(position.offsets))
        engine = engine_of(name, plain=True)
        engine.open(directory / "rocksdb" / name)
        engine.write({}, {str(changelog).encode(): None, POSITION: None})
        engine.close()
    assert len(offsets) == len(BUILDERS)
    write_checkpoint(directory / ".checkpoint", offsets)
    assert len(positions) == 1
    return Position.deserialize(positions.pop())


def position_of(name: str, held: Held, directory: Path) -> Position:
    """Return a store's position, from wherever it is now."""
    if POSITION in held.metadata:
        return Position.deserialize(held.metadata[POSITION])
    offsets = read_checkpoint(directory / f"{name}.position") or {}
    return Position({key: offset for key, offset in offsets.items() if offset is not None})


def with_offset(arena: Arena, name: str, held: Held, directory: Path) -> Held:
    """Return what a store holds, with the offset from the checkpoint file if it has none yet."""
    if arena.offset_of(name, held) >= 0:
        return held
    changelog = TopicPartition(f"{arena.name}-{name}-changelog", 0)
    offset = (read_checkpoint(directory / ".checkpoint") or {})[changelog]
    assert offset is not None
    return replace(held, metadata=held.metadata | {str(changelog).encode(): pack_long(offset)})


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("kill", KILLS)
def test_kill_while_an_older_layout_is_taken_in_loses_nothing_of_it(
    broker: DevelopmentBroker,
    admin: AdminClient,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
    kill: str,
) -> None:
    arena = Arena(broker, admin, unique_name, tmp_path, guarantee)
    arena.feed(HALF)
    arena.count_all(plain=True)
    before = stores_in(arena.task_directory, plain=True)
    position = make_older(arena)
    arena.feed(RECORDS - HALF)

    left = arena.die(kill)
    directory = arena.after_kill
    for name, held in left.items():
        assert position_of(name, held, directory) == position, name
        known = with_offset(arena, name, held, directory)
        assert arena.offset_of(name, known) == arena.offset_of(name, before[name]), name
        expected = before[name].entries
        if name == "timestamped":
            expected = {key: NO_TIMESTAMP + value for key, value in expected.items()}
        assert held.entries == expected, name
    assert left["plain"].entries.keys() == {f"k{key}".encode() for key in range(KEYS)}

    restarted = arena.count_all()
    assert not [line for line in restarted.lines() if "rebuilt" in line["message"]]
    assert list(arena.task_directory.glob("*.position")) == []
    assert not (arena.task_directory / ".checkpoint").exists()
    changelogs = arena.changelogs()
    arena.check_stores(stores_in(arena.task_directory), changelogs, whole=True)
    arena.check_outputs()
