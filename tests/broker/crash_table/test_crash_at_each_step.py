"""SIGKILL before and after each step of a commit, with every kind of store, on a real broker.

After each, on the disk: every store holds exactly what its changelog holds up to the store's own
offset. After a restart: every count once and in order, or at least once, and every store equal to
its whole changelog. tests/simulation/crash_tables/test_crash_table.py does the same for every
single call, without a broker; test_crash_in_a_migration.py for what an older version left.

Spec: KIP-844 "Possible failure scenarios", KIP-892 "Proposed Changes", KIP-1035.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.crash_table.arena import GUARANTEES, RECORDS, Arena, stores_in
from tests.broker.crash_table.everywhere_app import (
    CLOSE,
    CLOSED,
    FLUSH,
    FLUSHED_EXPIRY,
    RESTORED,
    STEPS,
)

NUMBERS = (1, 4, 30)
"""There are forty commits by volume, about, and more of every other step but closing."""
SOME = [
    ("exactly_once", "before:store batch:30"),
    ("at_least_once", "after:segment creation:12"),
    ("exactly_once", "before:segment expiry:3"),
]
ALL = [
    f"{moment}:{step}:{number}"
    for step in STEPS
    for moment in ("before", "after")
    for number in NUMBERS
    if (step, number) != ("store close", 30)
]
WRITING_THROUGH = [
    f"{moment}:{step}:{number}"
    for step, number in (("store batch", 30), ("segment creation", 12), ("segment expiry", 3))
    for moment in ("before", "after")
]
IN_MEMORY_ALL = [  # Late enough for every store to have committed something.
    f"{moment}:{step}:{number}"
    for step, number in (
        ("send", 5000),
        ("producer flush", 4),
        ("kafka commit", 4),
        ("store batch", 30),
        (CLOSE, 4),
    )
    for moment in ("before", "after")
]

MakeArena = Callable[..., Arena]

sweep = pytest.mark.sweep
each_guarantee = pytest.mark.parametrize("guarantee", GUARANTEES)


@pytest.fixture
def make_arena(
    broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path
) -> MakeArena:
    """Make the one arena of a test, of a guarantee."""

    def make(guarantee: str, **stores: bool) -> Arena:
        return Arena(broker, admin, unique_name, tmp_path, guarantee, **stores)

    return make


@dataclass(frozen=True)
class Left:
    """What a kill left on the disk.

    Attributes:
        flushed: How many stores have an offset.
        dropped: How many segments were dropped for good by a batch that died with the process.
    """

    flushed: int
    dropped: int


def check_kill(
    arena: Arena, kill: str, *, setter: str = "small_memtables", trusted: bool = True
) -> Left:
    """Let it die and go on, and see that all is right.

    Args:
        arena: What is tried.
        kill: Where it dies.
        setter: Which function sets the options of RocksDB until then.
        trusted: Whether the stores must hold what their offsets say when it has died.
    """
    arena.feed(RECORDS)
    left = arena.die(kill, setter)
    arena.count_all()

    changelogs = arena.changelogs()
    dropped = arena.check_stores(left, changelogs) if trusted else 0
    arena.check_stores(stores_in(arena.task_directory), changelogs, whole=True)
    arena.check_outputs()
    flushed = sum(arena.offset_of(name, held) >= 0 for name, held in left.items())
    return Left(flushed, dropped)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("guarantee", "kill"), SOME)
def test_kill_leaves_every_store_with_what_its_offset_says(
    make_arena: MakeArena, guarantee: str, kill: str
) -> None:
    check_kill(make_arena(guarantee), kill)


@sweep
@pytest.mark.timeout(600)
@each_guarantee
@pytest.mark.parametrize("kill", ALL)
def test_kill_at_each_step_leaves_every_store_with_what_its_offset_says(
    make_arena: MakeArena, guarantee: str, kill: str
) -> None:
    check_kill(make_arena(guarantee), kill)


@sweep
@pytest.mark.timeout(600)
@each_guarantee
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_kill_at_a_flush_leaves_every_store_with_what_its_offset_says(
    make_arena: MakeArena, guarantee: str, moment: str, number: int
) -> None:
    kill = f"{moment}:{FLUSH}:{number}"
    left = check_kill(make_arena(guarantee), kill, setter="hardly_any_memtables")
    # The first flush may be of what the stores wrote when they were opened.
    assert left.flushed > 0 or number == 1


@sweep
@pytest.mark.timeout(600)
@each_guarantee
@pytest.mark.parametrize("number", NUMBERS)
def test_segments_dropped_for_good_before_their_batch_expire_again_with_it(
    make_arena: MakeArena, guarantee: str, number: int
) -> None:
    kill = f"after:{FLUSHED_EXPIRY}:{number}"
    left = check_kill(make_arena(guarantee), kill, setter="hardly_any_memtables")
    assert left.dropped > 0


@sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
@pytest.mark.parametrize("kill", WRITING_THROUGH)
def test_kill_rebuilds_stores_that_write_through(
    make_arena: MakeArena, guarantee: str, kill: str
) -> None:
    """What they held at the kill is not to be trusted; after the restart all is right again."""
    check_kill(make_arena(guarantee, transactional=False), kill, trusted=False)


# Stores in memory


def check_kill_in_memory(arena: Arena, kill: str) -> None:
    """Let it die and go on, and see that all was restored that had been committed, and no more."""
    arena.feed(RECORDS)
    assert arena.die(kill) == {}
    assert [file.name for file in arena.after_kill.rglob("*") if file.is_file()] == [".lock"]
    committed = arena.changelogs()
    arena.count_all()

    changelogs = arena.changelogs()
    restored = arena.kept(RESTORED)
    arena.check_stores(restored, changelogs)
    for name, logged in committed.items():
        assert logged, f"nothing was committed to {name} when it was killed"
        assert arena.offset_of(name, restored[name]) >= logged[-1].offset(), name
    arena.check_stores(arena.kept(CLOSED), changelogs, whole=True)
    arena.check_outputs()


@pytest.mark.timeout(600)
def test_kill_leaves_nothing_of_stores_in_memory_and_all_is_restored(
    make_arena: MakeArena,
) -> None:
    check_kill_in_memory(make_arena("exactly_once", in_memory=True), "before:store batch:30")


@sweep
@pytest.mark.timeout(600)
@each_guarantee
@pytest.mark.parametrize("kill", IN_MEMORY_ALL)
def test_kill_at_each_step_leaves_nothing_of_stores_in_memory_and_all_is_restored(
    make_arena: MakeArena, guarantee: str, kill: str
) -> None:
    check_kill_in_memory(make_arena(guarantee, in_memory=True), kill)
