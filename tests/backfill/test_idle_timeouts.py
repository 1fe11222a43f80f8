"""Idle timeouts and a history, which does not say when the input was silent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pystreams import (
    EmitStrategy,
    JoinWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyError,
    aggregations,
    serdes,
)
from pystreams.backfill import ArchiveSource, run
from tests.backfill import in_process
from tests.backfill.live import live_run, outcome_of
from tests.backfill.sources.covered import CONFIG, TEXT, made_up

IGNORING = {**CONFIG, "backfill.ignore.idle.timeouts": True}
NAMES = {"left": 1, "right": 1, "counts": 1}


def waiting(idle_timeout_ms: int | None) -> Topology:
    builder = StreamsBuilder(idle_timeout_ms=idle_timeout_ms)
    left, right = builder.stream("left", **TEXT), builder.stream("right", **TEXT)
    windows = TimeWindows.of_size_and_grace(7_000, 3_000)
    closing = left.group_by_key().windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    closing.count(node_name="closing").to_stream().to("counts", value_serde=serdes.LONG)
    closing.aggregate(aggregations.count(), node_name="ready")
    near = JoinWindows.of_time_difference_and_grace(7_000, 3_000)
    left.outer_join(right, lambda one, two: f"{one}{two}", near).to("joined", **TEXT)
    return builder.build()


def test_backfill_with_idle_timeouts_is_refused_before_spark_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)

    told = r"OUTERTHIS-\d+, closing, ready: idle_timeout_ms.*backfill.ignore.idle.timeouts=true"
    with pytest.raises(TopologyError, match=told):
        run(waiting(1000), CONFIG, source=ArchiveSource("x"), output=tmp_path / "staged")
    with pytest.raises(Exception, match="pyspark"):
        run(waiting(1000), IGNORING, source=ArchiveSource("x"), output=tmp_path / "staged")
    with pytest.raises(Exception, match="pyspark"):
        run(waiting(None), CONFIG, source=ArchiveSource("x"), output=tmp_path / "staged")


def test_backfill_that_ignores_them_gives_what_a_replay_gives(tmp_path: Path) -> None:
    rows = made_up("left", 1, 300, num_partitions=1) + made_up("right", 2, 300, num_partitions=1)

    ignoring = outcome_of(
        in_process.run(waiting(1000), IGNORING, rows, NAMES, tmp_path / "ignoring")
    )

    without = in_process.run(waiting(None), CONFIG, rows, NAMES, tmp_path / "without")
    assert ignoring.outputs
    assert ignoring == outcome_of(without)
    assert ignoring == live_run(waiting(1000), CONFIG, rows, tmp_path / "replay")
