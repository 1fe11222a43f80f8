"""A kind of store from outside the package, over history, in an export and on the move."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pystreams import serdes
from pystreams.backfill.exports.columns import exported
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.plan.store_changelogs import StoreChangelog, changelogs_of
from pystreams.backfill.spark.changelog_state import current_state
from pystreams.kernel.partitioner import partition_of
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill import in_process
from tests.backfill.in_process import Row
from tests.backfill.live import live_run, outcome_of
from tests.backfill.logged_stores import frame
from tests.backfill.rescaling.test_rescale_rows import moved
from tests.backfill.sources.covered import CONFIG
from tests.backfill.spark.on_spark import run_on_spark
from tests.stores.scores import DAY_MS, noting_scores
from tests.stores.support import Message

PLAYERS = [f"player {number}" for number in range(8)]
PLAYED = [
    Row(
        "in", 0, number, number * DAY_MS // 10, player.encode(), serdes.LONG.serializer("in")(score)
    )
    for number, (player, score) in enumerate(
        (PLAYERS[number * 3 % 8], number * 37 % 101) for number in range(80)
    )
]


def changelog(num_partitions: int) -> StoreChangelog:
    plan = TopologyPlan(noting_scores(), "app")
    (found,) = changelogs_of(plan, {"in": 1, "app-scores-changelog": num_partitions})
    return found


def logged(player: str, day: int, score: int, offset: int) -> Message:
    key = player.encode() + (day * DAY_MS).to_bytes(8, "big")
    return Message(key, serdes.LONG.serializer("s")(score), offset, offset)


def test_a_backfill_hands_over_what_a_live_run_left(tmp_path: Path) -> None:
    topology = noting_scores()

    results = in_process.run(topology, CONFIG, PLAYED, {"in": 1}, tmp_path / "backfill")
    live = live_run(topology, CONFIG, PLAYED, tmp_path / "live")

    found = outcome_of(results)
    assert found == live
    assert len(found.states["scores"]) > len(PLAYERS)


def test_sparks_workers_give_what_the_same_tasks_give_in_one_process(
    spark: Any, tmp_path: Path
) -> None:
    expected = in_process.run(noting_scores(), CONFIG, PLAYED, {"in": 1}, tmp_path / "expected")

    _, found = run_on_spark(noting_scores(), CONFIG, PLAYED, {"in": 1}, tmp_path)

    assert sorted(found) == sorted(expected)


def test_an_export_has_its_columns(spark: Any) -> None:
    messages = [logged("ann", 0, 3, 0), logged("ann", 1, 5, 1), logged("ann", 0, 4, 2)]
    own = changelog(1)

    state = current_state(frame(spark, "scores", {0: messages}), own)
    rows = (
        exported(state, own, own.spec.key_serde, own.spec.value_serde).drop("timestamp").collect()
    )

    def day(number: int) -> datetime:
        return datetime.fromtimestamp(number * DAY_MS / 1000, UTC).replace(tzinfo=None)

    assert sorted((row.asDict() for row in rows), key=str) == [
        {"partition": 0, "key": "ann", "day": day(0), "value": 4},
        {"partition": 0, "key": "ann", "day": day(1), "value": 5},
    ]


def test_each_player_moves_as_a_whole_to_where_the_key_is(spark: Any) -> None:
    changelogs = {
        number: [
            logged(player, day, day, at)
            for at, (player, day) in enumerate(
                (player, day) for player in PLAYERS for day in (0, 1)
            )
            if partition_of(player.encode(), 2) == number
        ]
        for number in (0, 1)
    }

    rows = moved(spark, changelog(2), changelogs, 2, 3)

    places = [(row.key[:-8], row.task) for row in rows if row.kind is ResultKind.STATE and row.key]
    assert sorted(places) == sorted(
        2 * [(player.encode(), partition_of(player.encode(), 3)) for player in PLAYERS]
    )
