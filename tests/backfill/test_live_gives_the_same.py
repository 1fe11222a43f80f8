"""A backfill gives byte for byte the outputs and stores of a live run over the same history.

The topologies of the parity tests are compared by `test_history_task`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.backfill.in_process import Row, run
from tests.backfill.live import databases_in, live_run, outcome_of
from tests.backfill.sources.covered import (
    COMPARED,
    CONFIG,
    STORE_CASES,
    Case,
    spread,
    temporal_join,
    two_repartitions,
    with_event_times,
)
from tests.parity.topologies import TOPOLOGIES

COMPARED_HERE = {
    **{name: case for name, case in COMPARED.items() if name not in TOPOLOGIES},
    **STORE_CASES,
}
# Between the tasks of several partitions no live run promises an order.
COMPARED_HERE["two_repartitions"] = replace(
    COMPARED_HERE["two_repartitions"], build=partial(two_repartitions, 1, 1)
)


def in_one_partition(case: Case) -> list[Row]:
    """The history of a case, all of it in one partition a topic."""
    rows = spread(case.rows, 1)
    return rows if case.in_event_time is None else with_event_times(rows)


@pytest.mark.parametrize("name", COMPARED_HERE)
def test_outputs_and_stores_equal_those_of_a_live_run(name: str, tmp_path: Path) -> None:
    case = COMPARED_HERE[name]
    config = {**CONFIG, **case.config}
    rows = in_one_partition(case)
    counts = dict.fromkeys(case.num_partitions, 1)

    found = outcome_of(run(case.build(), config, rows, counts, tmp_path / "backfill"))
    live = live_run(case.build(), config, rows, tmp_path / "live")

    assert live.outputs
    assert live.states
    assert found == live
    assert databases_in(tmp_path / "backfill") == databases_in(tmp_path / "live")


def test_deletions_that_end_no_version_are_in_the_history_of_a_table(tmp_path: Path) -> None:
    """They end what comes late once the live application goes on."""
    history = [("a", b"x", 1_000), ("b", None, 2_000), ("a", None, 3_000), ("a", None, 9_000)]
    rows = [
        Row("right", 0, offset, timestamp, key.encode(), value)
        for offset, (key, value, timestamp) in enumerate(history)
    ]
    counts = {"left": 1, "right": 1, "joined": 1}

    results = run(temporal_join(), CONFIG, rows, counts, tmp_path)

    handed_over = outcome_of(results).states["history"]
    assert sorted(handed_over, key=lambda record: record[2]) == [
        (key.encode(), value, timestamp, ()) for key, value, timestamp in history
    ]
