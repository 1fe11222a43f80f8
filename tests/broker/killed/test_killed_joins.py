"""SIGKILL at seeded random moments over joins of tables: in the end the model's rows, no others.

`pytest -m sweep tests/broker/killed` kills 20 times, at moments of a new seed each time. The seed
is printed; `KILL_SEED=... pytest ...` draws the same moments again.

With and without record caches, and with tables that are restored from changelogs or their topics:
all give these rows.

Each result on the way is of rows that the tables have had, as in upstream's relational scenario.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.exactly_once.killing import moments, seeded_draws
from tests.broker.killed import joined_app
from tests.broker.killed.arena import Arena
from tests.broker.killed.joined_app import (
    INPUTS,
    NAMES,
    NOBODY,
    TABLES,
    both,
    name_in,
    remainder_of,
)
from tests.broker.reading import (
    long,
    read_all,
)
from tests.broker.waiting import wait_until
from tests.broker.writing import Feed, Writer

KILLS = 2
PARTITIONS = 2
KEYS = 60
DELETED_OF_TEN = 2
CHANGES_PER_S = 1000
BATCH_EVERY_S = 0.02
CI_SEED = 17
ALL_READ_S = 300.0
"""The changes of many kills are some hundred thousand, and are read again and again."""

Table = dict[str, int]


class ChangingTables(Feed):
    """Changes and deletes rows of the inputs until the block ends, and keeps what is left.

    Attributes:
        tables: The rows of each input.
        changes: How many there were.
        written: Each number that a row of an input has ever had.
    """

    def __init__(self, servers: str, name: str, seed: int) -> None:
        self.tables: dict[str, Table] = {topic: {} for topic in INPUTS}
        self.changes = 0
        self.written: dict[str, set[tuple[str, int]]] = {topic: set() for topic in INPUTS}
        self._name = name
        self._draw = random.Random(seed)
        writer = Writer(servers, {"partitioner": "murmur2_random"})
        super().__init__(writer, batch_every_s=BATCH_EVERY_S)

    def write_batch(self) -> None:
        for _ in range(round(CHANGES_PER_S * BATCH_EVERY_S)):
            self._change()

    def _change(self) -> None:
        draw = self._draw
        topic = draw.choices(INPUTS, [5, 4, 1])[0]
        key = f"named {draw.randrange(NAMES)}"
        if topic != "named":
            key = f"key {draw.randrange(KEYS)}"
        number = draw.randrange(900)
        table = self.tables[topic]
        value = None
        if draw.randrange(10) < DELETED_OF_TEN:
            table.pop(key, None)
        else:
            table[key] = number
            self.written[topic].add((key, number))
            value = number.to_bytes(8, "big")
        self._writer.write(f"{self._name}-{topic}", value, key.encode())
        self.changes += 1


class JoinsArena(Arena):
    """One joining application with topics and a directory of its own."""

    app: ClassVar = joined_app
    topics: ClassVar = {
        **dict.fromkeys(INPUTS, PARTITIONS),
        **dict.fromkeys(TABLES, 1),
    }
    output: ClassVar = "foreign"

    def tables(self) -> dict[str, Table]:
        """Return the rows of each output that a read_committed reader is left with."""
        return {table: self.table(table) for table in TABLES}

    def table(self, table: str) -> Table:
        rows: Table = {}
        for message in read_all(self.servers, f"{self.name}-{table}"):
            key, value = (message.key() or b"").decode(), message.value()
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = long(value)
        return {key: number for key, number in rows.items() if table != "counts" or number}


def impossible(
    arena: JoinsArena, table: str, written: dict[str, set[tuple[str, int]]]
) -> list[tuple[str, int]]:
    """Return what a join has sent on that no rows of its tables, at whatever time, have made."""
    found = []
    for message in read_all(arena.servers, f"{arena.name}-{table}"):
        if message.value() is None:
            continue
        key, (number, other) = (message.key() or b"").decode(), divmod(long(message.value()), 1000)
        named = key if table == "joined" else name_in(number)
        alone = table == "foreign-left" and other == NOBODY
        beside = written["right" if table == "joined" else "named"]
        if (key, number) not in written["left"] or not (alone or (named, other) in beside):
            found.append((key, long(message.value())))
    return found


def model(inputs: dict[str, Table]) -> dict[str, Table]:
    """Return the rows that the joins of these tables have."""
    left, right, named = (inputs[topic] for topic in INPUTS)
    joined = {key: both(left[key], right[key]) for key in left.keys() & right.keys()}
    found = {key: named.get(name_in(number) or "") for key, number in left.items()}
    return {
        "joined": joined,
        "counts": dict(Counter(remainder_of(number) for number in joined.values())),
        "foreign": {key: both(left[key], n) for key, n in found.items() if n is not None},
        "foreign-left": {key: both(left[key], n) for key, n in found.items()},
    }


@pytest.fixture
def arena(
    broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path
) -> JoinsArena:
    return JoinsArena.made(admin, broker.bootstrap_servers, unique_name, tmp_path)


many = [pytest.mark.sweep, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("guarantee", "kills", "cache_bytes", "optimization"),
    [
        pytest.param("exactly_once", KILLS, 10_000_000, "all", id="v1-few"),
        pytest.param("exactly_once", 20, 0, "none", id="v1", marks=many),
        pytest.param("exactly_once_v2", 20, 10_000_000, "all", id="v2", marks=many),
    ],
)
def test_killed_application_ends_with_the_rows_of_the_joined_tables(
    arena: JoinsArena, guarantee: str, kills: int, cache_bytes: int, optimization: str
) -> None:
    began = time.monotonic()
    draw = seeded_draws(CI_SEED if kills == KILLS else None)
    settings = {"statestore.cache.max.bytes": cache_bytes}
    with arena.application(guarantee, settings, KILLED_OPTIMIZATION=optimization) as application:
        with ChangingTables(arena.servers, arena.name, draw.getrandbits(32)) as inputs:
            for moment in moments(kills, draw):
                print(moment)
                running = application.start()
                moment.wait(running, arena.written)
                running.kill()
        wanted = model(inputs.tables)
        last = application.start()

        def difference() -> str:
            found = arena.tables()
            rows = {
                table: found[table].items() ^ wanted[table].items()
                for table in TABLES
                if found[table] != wanted[table]
            }
            return f"rows of one alone: {rows}\n{last.tail()}"

        wait_until(
            lambda: arena.tables() == wanted,
            "the model's rows",
            deadline_s=ALL_READ_S,
            told=difference,
        )
        last.stop()

        assert arena.tables() == wanted
        for table in ("joined", "foreign", "foreign-left"):
            assert not impossible(arena, table, inputs.written), table
    print(
        f"{kills} kills, {inputs.changes} changes, {sum(map(len, wanted.values()))} rows: "
        f"{time.monotonic() - began:.1f} s"
    )
