"""Stores of windows and sessions that the DSL makes are exported with what they hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from pystreams.backfill.exports.columns import exported
from pystreams.backfill.plan.store_changelogs import changelogs_of
from pystreams.backfill.spark.changelog_state import current_state
from pystreams.testing import TopologyTestDriver
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.logged_stores import frame
from tests.backfill.sources.covered import CONFIG, LEFT, TEXT
from tests.stores.support import Message

FINAL = EmitStrategy.on_window_close()
BEGIN = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def windows() -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("left", **TEXT).group_by_key()
    tumbling = groups.windowed_by(TimeWindows.of_size_and_grace(10_000, 5_000))
    sliding = groups.windowed_by(SlidingWindows.of_time_difference_and_grace(7_000, 3_000))
    sessions = groups.windowed_by(SessionWindows.of_inactivity_gap_and_grace(7_000, 3_000))
    tumbling.count(name="tumbling")
    tumbling.emit_strategy(FINAL).count(name="final-tumbling")
    sliding.count(name="sliding")
    sliding.emit_strategy(FINAL).count(name="final-sliding")
    sessions.count(name="sessions")
    sessions.emit_strategy(FINAL).count(name="final-sessions")
    return builder.build()


def at(ms: int) -> datetime:
    return BEGIN + timedelta(milliseconds=ms)


def value_of(stored: Any) -> int:
    """The value, without the timestamp that some stores keep beside it."""
    return int(stored[0] if isinstance(stored, tuple) else stored)


@pytest.mark.parametrize("kind", ["tumbling", "sliding", "sessions"])
@pytest.mark.parametrize("prefix", ["", "final-"])
def test_exported_rows_are_those_of_the_store(
    kind: str, prefix: str, spark: Any, tmp_path: Path
) -> None:
    store, topology = f"{prefix}{kind}", windows()
    topic = f"app-{store}-changelog"
    (changelog,) = changelogs_of(TopologyPlan(topology, "app"), {topic: 1}, [store])
    with TopologyTestDriver(topology, CONFIG, state_directory=tmp_path) as driver:
        for row in LEFT[:200]:
            driver.pipe_raw("left", row.key, row.value, row.timestamp)
        logged = [
            Message(key, value, offset, timestamp)
            for offset, (key, value, timestamp, _) in enumerate(driver.produced_raw(topic))
        ]
        held: Any = driver.get_all_state_stores()[store]
        entries = held.fetch_range(None, None) if kind == "sessions" else held.all()
        expected = {
            (windowed.key, at(windowed.window.start), at(windowed.window.end)): value_of(value)
            for windowed, value in entries
        }

    state = current_state(frame(spark, store, {0: logged}), changelog)
    spec = changelog.spec
    rows = exported(state, changelog, spec.key_serde, spec.value_serde).collect()

    found = {(row.key, row.window_start, row.window_end): row.value for row in rows}
    assert expected
    assert expected.items() <= found.items()
    # A segment goes as a whole: what is left of it beyond the retention is exported, too.
    assert spec.retention is not None
    age = timedelta(milliseconds=spec.retention.retention_ms)
    times = {row: row[2] if kind == "sessions" else row[1] for row in found}
    assert all(times[row] <= max(times.values()) - age for row in found.keys() - expected.keys())
