"""What a sub-topology has made for itself never comes to it before what it was made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pystreams import StreamsBuilder, Topology
from pystreams.record import ProducedRecord
from tests.backfill.in_process import Row, run
from tests.backfill.live import live_run, outcome_of
from tests.backfill.own_topics.own_topologies import (
    held_back,
    read_again_before,
    read_again_behind,
    read_twice,
    repartitioned,
    through_another,
)
from tests.backfill.sources.covered import CONFIG
from tests.backfill.table_topologies import TEXT

COUNTS = dict.fromkeys(("orders", "alerts", "b-alerts", "z-alerts", "middle", "numbered"), 1)
BUILDS = (
    held_back,
    read_again_before,
    read_again_behind,
    read_twice,
    repartitioned,
    through_another,
)
IN_ORDER = [(b"tea", 1000), (b"ale", 1001), (b"tea", 1002), (b"tea", 1003), (b"ale", 1004)]
LATE = [(b"ale", 1010), (b"tea", 1005), (b"ale", 1020), (b"tea", 1015), (b"ale", 1030)]


def orders(given: Sequence[tuple[bytes, int]]) -> list[Row]:
    return [Row("orders", 0, at, time, b"ada", value) for at, (value, time) in enumerate(given)]


def numbers(records: Sequence[ProducedRecord]) -> list[str]:
    return [str(value, "utf-8") for _, value, *_ in records if value is not None]


@pytest.mark.parametrize("history", [IN_ORDER, LATE], ids=["in order", "late"])
@pytest.mark.parametrize("application_id", ["app", "shop"])
@pytest.mark.parametrize("build", [build for build in BUILDS if build is not repartitioned])
def test_own_records_come_behind_what_they_were_made_of(
    build: Callable[[], Topology],
    application_id: str,
    history: Sequence[tuple[bytes, int]],
    tmp_path: Path,
) -> None:
    config = {**CONFIG, "application.id": application_id}
    rows = orders(history)

    found = outcome_of(run(build(), config, rows, COUNTS, tmp_path / "backfill"))

    assert found == live_run(build(), config, rows, tmp_path / "live")


@pytest.mark.parametrize("application_id", ["app", "shop"])
def test_repartitioned_records_come_behind_what_they_were_made_of(
    application_id: str, tmp_path: Path
) -> None:
    config = {**CONFIG, "application.id": application_id}
    rows = orders(IN_ORDER)

    found = outcome_of(run(repartitioned(), config, rows, COUNTS, tmp_path / "backfill"))

    assert found == live_run(repartitioned(), config, rows, tmp_path / "live")


@pytest.mark.parametrize("application_id", ["app", "shop"])
def test_late_record_is_taken_before_what_was_made_at_the_time_it_waited_for(
    application_id: str, tmp_path: Path
) -> None:
    config = {**CONFIG, "application.id": application_id}

    found = outcome_of(run(repartitioned(), config, orders(LATE), COUNTS, tmp_path))

    told = ["ALE: 2", "TEA: 2", "ALE: 4", "TEA: 4", "ALE: 5"]
    assert numbers(found.outputs["numbered"]) == told


@pytest.mark.parametrize("build", BUILDS)
def test_order_is_the_same_however_many_records_come_at_a_time(
    build: Callable[[], Topology], tmp_path: Path
) -> None:
    rows = orders([(value, time + 100 * turn) for turn in range(9) for value, time in LATE])
    whole = run(build(), CONFIG, rows, COUNTS, tmp_path / "whole")

    one_by_one = run(
        build(), CONFIG, rows, COUNTS, tmp_path / "one", run_records=1, rows_at_a_time=1
    )

    assert outcome_of(one_by_one) == outcome_of(whole)


def test_own_records_of_a_topic_stand_behind_its_history(tmp_path: Path) -> None:
    old = [Row("alerts", 0, at, 1000, b"ada", b"old", (("h", b"1"),) * at) for at in range(3)]
    rows = [*orders(LATE), *old]

    found = outcome_of(run(read_again_before(), CONFIG, rows, COUNTS, tmp_path))

    assert numbers(found.outputs["numbered"]) == ["tea: 2", "tea: 4"]
    assert numbers(found.outputs["alerts"]) == ["tea", "tea"]


def test_headers_of_own_records_come_through(tmp_path: Path) -> None:
    rows = [Row("orders", 0, 0, 1000, b"ada", b"tea", (("h", b"1"), ("h", None)))]

    found = outcome_of(run(read_again_before(), CONFIG, rows, COUNTS, tmp_path))

    assert found.outputs["numbered"] == [(b"ada", b"tea: 1", 1000, (("h", b"1"), ("h", None)))]


def test_what_a_record_cache_lets_go_is_taken_at_its_own_time(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    orders_, rates = builder.stream("orders", **TEXT), builder.table("rates", **TEXT)
    orders_.join(rates, lambda value, rate: f"{value} at {rate}").to("alerts", **TEXT)
    latest = orders_.group_by_key(**TEXT).reduce(lambda _, new: new, name="latest")
    latest.to_stream().to("middle", **TEXT)
    again = builder.stream("middle", **TEXT)
    again.join(rates, lambda value, rate: f"{value} at {rate}").to("numbered", **TEXT)
    rates_then = [Row("rates", 0, at, 1000 * at, b"ada", b"%d" % at) for at in range(1, 4)]
    rows = [*orders([(b"tea", 1500), (b"ale", 1600)]), *rates_then]
    config = {**CONFIG, "statestore.cache.max.bytes": 10 << 20}

    found = outcome_of(run(builder.build(), config, rows, {**COUNTS, "rates": 1}, tmp_path))

    assert numbers(found.outputs["numbered"]) == ["ale at 1"]
