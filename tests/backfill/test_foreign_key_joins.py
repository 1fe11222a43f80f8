"""A backfill of a join by a foreign key ends at the rows of a live run, however late rows come."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from pystreams import Headers, StreamsBuilder, TopicPartition, Topology, serdes
from pystreams.backfill.plan.turns import turn_in, with_turn
from pystreams.backfill.tasks.task_input import messages_in_order
from pystreams.errors import StreamsError
from pystreams.record import ProducedRecord
from tests.backfill.in_process import Row, batch_of, run
from tests.backfill.live import live_run, outcome_of
from tests.backfill.sources.covered import CACHE, CASES, CONFIG, spread
from tests.backfill.table_topologies import chained_foreign_keys, foreign_key_joins
from tests.variants import first_of, swept

ROWS = {
    topic: [row for row in CASES["foreign_keys_of_late_rows"].rows if row.topic == topic][:120]
    for topic in ("left", "right")
}
NAMED, CHAINED = ("named", "all-named"), ("itself", "first", "second", "back")
JOINS = [
    (foreign_key_joins, NAMED, (3, 5)),
    (chained_foreign_keys, CHAINED, (2, 3)),
    *swept((foreign_key_joins, NAMED, (1, 1)), (foreign_key_joins, NAMED, (4, 1))),
]
each_cache = pytest.mark.parametrize("cache", first_of(CACHE, {}), ids=["a cache", "no cache"])


def values_in(records: list[ProducedRecord]) -> dict[bytes | None, bytes | None]:
    """The value of each row, behind its timestamp."""
    return {key: value for key, value, *_ in records}


@each_cache
@pytest.mark.parametrize(("build", "stores", "num_partitions"), JOINS)
def test_rows_are_those_of_a_live_run(
    build: Callable[[], Topology],
    stores: Sequence[str],
    num_partitions: tuple[int, int],
    cache: Mapping[str, object],
    tmp_path: Path,
) -> None:
    left, right = num_partitions
    own = {"left": left, "right": right}
    rows = [row for topic, count in own.items() for row in spread(ROWS[topic], count)]
    found = outcome_of(run(build(), {**CONFIG, **cache}, rows, own, tmp_path / "backfill"))
    in_one = [row for topic in own for row in spread([r for r in rows if r.topic == topic], 1)]
    live = live_run(build(), CONFIG, in_one, tmp_path / "live")

    for store in stores:
        assert values_in(found.states[store]) == values_in(live.states[store])


@pytest.mark.parametrize("seed", [33, 63, 71, 83, 101, 112])
def test_rows_that_change_at_one_time_have_the_results_of_both_tables(
    seed: int, tmp_path: Path
) -> None:
    """A foreign row goes while a row that names it changes, or a row changes twice."""
    chance = random.Random(seed)
    tables: dict[str, dict[bytes, bytes]] = {"left": {}, "right": {}}
    rows: list[Row] = []
    for timestamp in sorted(chance.randrange(4) * 1000 for _ in range(40)):
        topic = chance.choice(["left", "left", "right"])
        key = b"k%d" % chance.randrange(3)
        values = [b"v0", b"v1", b"v1", b"v2", b"v9"] if topic == "left" else [b"r1", b"r2"]
        value = chance.choice([None, *values])
        tables[topic].pop(key, None)
        if value is not None:
            tables[topic][key] = value
        rows.append(Row(topic, 0, 0, timestamp, key, value, ()))
    partitions = {"left": chance.choice([1, 2]), "right": chance.choice([1, 3])}
    placed = [
        row
        for topic, count in partitions.items()
        for row in spread([row for row in rows if row.topic == topic], count)
    ]
    found = outcome_of(run(foreign_key_joins(), CONFIG, placed, partitions, tmp_path))

    told = values_in(found.states.get("named", []))
    assert {key for key, value in told.items() if value is not None} == {
        key
        for key, value in tables["left"].items()
        if value != b"v0" and b"k" + value[1:] in tables["right"]
    }


@pytest.mark.parametrize("own", [(), (("h", b"1"),)], ids=["no other header", "another header"])
def test_turn_is_a_header_that_tasks_do_not_see(own: Headers) -> None:
    headers = [with_turn((b"k", b"v", 7, own), turn_ms)[3] for turn_ms in (900, 1000, 1000)]
    rows = batch_of([Row("t", 0, at, 7, b"k", b"v", given) for at, given in enumerate(headers)])

    messages = messages_in_order(TopicPartition("t", 0), rows.slice(1), [4, 6], in_turn=True)

    assert [turn_in(given) for given in headers] == [900, 1000, 1000]
    assert headers[1] == (*own, ("pystreams-turn", bytes.fromhex("00000000000003e8")))
    assert [message.headers() for message in messages] == [list(own) or None] * 2
    assert [(message.place, message.turn_ms) for message in messages] == [(4, 1000), (6, 1000)]


@pytest.mark.parametrize("headers", [(), (("h", b"12345678"),)], ids=["none", "another"])
def test_record_without_a_turn_is_refused(headers: Headers) -> None:
    good = with_turn((b"k", b"v", 7, ()), 900)[3]
    rows = batch_of(
        [Row("t", 0, at, 7, b"k", b"v", given) for at, given in enumerate([good, headers])]
    )

    with pytest.raises(StreamsError, match="run the backfill in another directory"):
        messages_in_order(TopicPartition("t", 0), rows, [0, 1], in_turn=True)


@each_cache
@pytest.mark.parametrize(("build", "stores", "num_partitions"), JOINS)
def test_results_are_the_same_however_many_rows_come_at_a_time(
    build: Callable[[], Topology],
    stores: Sequence[str],
    num_partitions: tuple[int, int],
    cache: Mapping[str, object],
    tmp_path: Path,
) -> None:
    own = dict(zip(("left", "right"), num_partitions, strict=True))
    rows = [row for topic, count in own.items() for row in spread(ROWS[topic], count)]
    config = {**CONFIG, **cache}

    found = [
        run(build(), config, rows, own, tmp_path / str(count), rows_at_a_time=count)
        for count in (1, 7, 1000)
    ]

    assert found[0]
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_rows_and_answers_that_alternate_are_taken_many_at_a_time(tmp_path: Path) -> None:
    """They are read before the first of them is joined; one by one costs five times as much."""
    told: list[str] = []

    def read(data: bytes) -> str:
        told.append("read")
        return data.decode()

    def join(left: str, right: str) -> str:
        told.append("joined")
        return left + right

    builder = StreamsBuilder()
    serde = serdes.serde_of(str.encode, read)
    left = builder.table("left", value_serde=serdes.STRING)
    right = builder.table("right", value_serde=serde)
    left.join(right, join, foreign_key=lambda value: value[:1]).to_stream().to("out")
    rows = [Row("right", 0, 0, 0, b"r", b"row")]
    rows += [Row("left", 0, at, 10 + at, b"k", b"r%d" % at) for at in range(20)]

    outcome = outcome_of(
        run(builder.build(), CONFIG, rows, {"left": 1, "right": 1}, tmp_path, rows_at_a_time=1000)
    )

    assert [value for _, value, *_ in outcome.outputs["out"]] == [
        b"r%drow" % at for at in range(20)
    ]
    assert [part for part, _ in groupby(told)][-2:] == ["read", "joined"]
    assert told[-20:] == ["joined"] * 20
