"""A backfill of a join by a foreign key ends at the rows of a live run, however late rows come."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from pystreams import Topology
from pystreams.backfill.plan.rows import HistoryMessage
from pystreams.backfill.plan.turns import turn_in, with_turn, without_turn
from pystreams.errors import StreamsError
from pystreams.record import ProducedRecord
from tests.backfill.covered import CACHE, CASES, CONFIG, spread
from tests.backfill.in_process import Row, run
from tests.backfill.live import live_run, outcome_of
from tests.backfill.table_topologies import chained_foreign_keys, foreign_key_joins

ROWS = CASES["foreign_keys_of_late_rows"].rows
NAMED, CHAINED = ("named", "all-named"), ("itself", "first", "second", "back")
JOINS = [
    (foreign_key_joins, NAMED, (1, 1)),
    (foreign_key_joins, NAMED, (4, 1)),
    (foreign_key_joins, NAMED, (3, 5)),
    (chained_foreign_keys, CHAINED, (2, 3)),
]


def values_in(records: list[ProducedRecord]) -> dict[bytes | None, bytes | None]:
    """The value of each row, behind its timestamp."""
    return {key: value for key, value, *_ in records}


@pytest.mark.parametrize("cache", [{}, CACHE], ids=["no cache", "a cache"])
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
    rows = [
        row
        for topic, count in own.items()
        for row in spread([row for row in ROWS if row.topic == topic], count)
    ]
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


def test_turn_is_a_header_that_tasks_do_not_see() -> None:
    record = with_turn((b"k", b"v", 7, (("h", b"1"),)), 1000)
    headers = list(record[3])
    message = HistoryMessage("t", 0, 0, 7, b"k", b"v", headers)

    assert turn_in(headers) == 1000
    assert headers[-1] == ("pystreams-turn", bytes.fromhex("00000000000003e8"))
    assert without_turn(message).headers() == [("h", b"1")]


def test_record_without_a_turn_is_refused() -> None:
    with pytest.raises(StreamsError, match="run the backfill in another directory"):
        turn_in(None)
