"""Joins of tables whose record caches send the last change of a key at a commit.

Whatever was changed on both sides in one commit, the rows of the join are those that the tables
make in the end, and what is counted below adds up.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    KStream,
    KTable,
    Materialized,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    serdes,
)
from tests.simulation.applications import Application
from tests.variants import first_of

pytestmark = pytest.mark.simulation

KINDS = ["join", "left_join", "outer_join"]
TYPES: Any = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}


def both(left: int | None, right: int | None) -> int:
    return (left or 0) * 100 + (right or 0)


def joining(
    kind: str, *, right_cached: bool = True, left_kept: Materialized[str, int] | None = None
) -> Topology:
    builder = StreamsBuilder()
    left = builder.table("in", **TYPES, materialized=left_kept or Materialized(name="left"))
    right = builder.table(
        "right", **TYPES, materialized=Materialized(name="right", caching=right_cached)
    )
    joined = getattr(left, kind)(right, both)
    joined.to_stream().to("out", **TYPES)
    counts = joined.group_by(lambda _, number: (str(number % 7), number), **TYPES).count()
    counts.to_stream().to("counts", **TYPES)
    return builder.build()


def model(kind: str, left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    keys = left.keys() & right.keys()
    if kind != "join":
        keys = keys | left.keys()
    if kind == "outer_join":
        keys = keys | right.keys()
    return {key: both(left.get(key), right.get(key)) for key in keys}


def rows_of(app: Application, topic: str) -> dict[str, int]:
    rows: dict[str, int] = {}
    unpack = serdes.LONG.deserializer("")
    for message in app.broker.committed_records(topic):
        key = (message.message_key or b"").decode()
        rows.pop(key, None)
        if message.message_value is not None:
            rows[key] = unpack(message.message_value)
    return rows


@pytest.mark.parametrize("right_cached", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", first_of(*range(4)))
def test_changes_of_both_sides_in_one_commit_end_with_the_rows_of_the_tables(
    kind: str, seed: int, right_cached: bool, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    app = Application(tmp_path, statestore_cache_max_bytes=10_000_000)
    app.broker.create_topic("right", 1)
    app.broker.create_topic("counts", 1)
    process = app.process(topology=joining(kind, right_cached=right_cached))
    process.start()
    tables: dict[str, dict[str, int]] = {"in": {}, "right": {}}
    pack = serdes.LONG.serializer("")
    for commit in range(12):
        for number in range(chance.randint(1, 12)):
            topic, key = chance.choice(["in", "right"]), chance.choice("abcd")
            value = chance.choice([None, chance.randint(1, 9)])
            tables[topic].pop(key, None)
            if value is not None:
                tables[topic][key] = value
            raw = None if value is None else pack(value)
            app.broker.produce(topic, key.encode(), raw, 1000 * commit + number)
        app.clock.advance_ms(150)
        for _ in range(40):
            process.step()
            app.broker.settle()
    expected = model(kind, tables["in"], tables["right"])

    assert rows_of(app, "out") == expected
    counted = Counter(str(number % 7) for number in expected.values())
    assert {key: count for key, count in rows_of(app, "counts").items() if count} == counted


TTL_MS = 3_000


@pytest.mark.parametrize(
    ("kept", "ttl_ms"),
    [
        (Materialized(name="left", ttl_ms=TTL_MS), TTL_MS),
        (Materialized(supplier=Stores.persistent_key_value_store("left")), None),
    ],
    ids=["rows that expire", "rows without their times"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_so_do_those_of_a_table_whose_store_the_user_has_chosen(
    kind: str, kept: Materialized[str, int], ttl_ms: int | None, tmp_path: Path
) -> None:
    chance = random.Random(kind)
    app = Application(tmp_path, statestore_cache_max_bytes=10_000_000)
    app.broker.create_topic("right", 1)
    app.broker.create_topic("counts", 1)
    process = app.process(topology=joining(kind, left_kept=kept))
    process.start()
    tables: dict[str, dict[str, int]] = {"in": {}, "right": {}}
    changed: dict[str, int] = {}
    pack = serdes.LONG.serializer("")
    for commit in range(12):
        for number in range(chance.randint(1, 12)):
            topic, key = chance.choice(["in", "right"]), chance.choice("abcdefghijk")
            value, time = chance.randint(1, 9), 1000 * commit + number
            tables[topic][key] = value
            if topic == "in":
                changed[key] = time
            app.broker.produce(topic, key.encode(), pack(value), time)
        app.clock.advance_ms(150)
        for _ in range(40):
            process.step()
            app.broker.settle()
    over = max(changed.values()) - (ttl_ms or 1_000_000)
    left = {key: value for key, value in tables["in"].items() if changed[key] >= over}
    expected = model(kind, left, tables["right"])

    assert len(left) < len(tables["in"]) or ttl_ms is None
    assert rows_of(app, "out") == expected
    counted = Counter(str(number % 7) for number in expected.values())
    assert {key: count for key, count in rows_of(app, "counts").items() if count} == counted


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_both_sides_that_are_deleted_in_one_commit_delete_the_row_of_the_join(
    kind: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, statestore_cache_max_bytes=10_000_000)
    app.broker.create_topic("right", 1)
    app.broker.create_topic("counts", 1)
    process = app.process(topology=joining(kind))
    process.start()
    pack = serdes.LONG.serializer("")
    for value in (pack(1), None):
        for topic in ("in", "right"):
            app.broker.produce(topic, b"a", value, 1000)
        app.clock.advance_ms(150)
        for _ in range(40):
            process.step()
            app.broker.settle()

    assert rows_of(app, "out") == {}
    assert not any(rows_of(app, "counts").values())
    values = [message.message_value for message in app.broker.committed_records("out")]
    assert values[-1] is None
    assert pack(101) in values


def latest(_before: int, value: int) -> int | None:
    return value or None


def windowed(stream: KStream[str, int], windows: str) -> KTable[Any, int]:
    grouped: Any = stream.group_by_key()
    if windows == "sessions":
        grouped = grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(5, 10_000))
    else:
        grouped = grouped.windowed_by(TimeWindows.of_size_and_grace(10, 10_000))
    table: KTable[Any, int] = grouped.reduce(latest)
    return table


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("windows", ["windows", "sessions"])
@pytest.mark.parametrize("seed", first_of(*range(3)))
def test_windows_of_both_sides_that_change_in_one_commit_end_as_without_a_cache(
    kind: str, windows: str, seed: int, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    left = windowed(builder.stream("in", **TYPES), windows)
    right = windowed(builder.stream("right", **TYPES), windows)
    joined = getattr(left, kind)(right, both)
    joined.to_stream(lambda key, _: f"{key.key}@{key.window.start}").to("out", **TYPES)
    regrouped = joined.group_by(lambda _, number: (str(number % 7), number), **TYPES)
    regrouped.count().to_stream().to("counts", **TYPES)
    topology = builder.build()

    results = []
    for cache_bytes in (0, 10_000_000):
        chance = random.Random(seed)
        app = Application(tmp_path / str(cache_bytes), statestore_cache_max_bytes=cache_bytes)
        app.broker.create_topic("right", 1)
        app.broker.create_topic("counts", 1)
        process = app.process(topology=topology)
        process.start()
        pack = serdes.LONG.serializer("")
        for _ in range(12):
            for _ in range(chance.randint(1, 12)):
                topic, key = chance.choice(["in", "right"]), chance.choice("ab")
                value, timestamp = chance.randint(0, 9), chance.choice([1000, 1010, 1013, 1030])
                app.broker.produce(topic, key.encode(), pack(value), timestamp)
            app.clock.advance_ms(150)
            for _ in range(40):
                process.step()
                app.broker.settle()
        counts = {key: count for key, count in rows_of(app, "counts").items() if count}
        results.append((rows_of(app, "out"), counts))

    assert results[0] == results[1]
    assert results[0][0]
