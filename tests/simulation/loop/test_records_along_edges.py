"""What is counted of the records that nodes give each other, at DEBUG."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import JoinWindows, StreamsBuilder, Topology, serdes
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import Application

pytestmark = pytest.mark.simulation

RECORDS = 5


def joining_and_merging() -> Topology:
    """Return one with two joins, and with a count behind a cache, before nodes that merge."""
    builder = StreamsBuilder()
    left, right = (
        builder.stream(topic, key_serde=serdes.STRING, value_serde=serdes.STRING)
        for topic in ("in", "right")
    )
    windows = JoinWindows.of_time_difference_with_no_grace(3_600_000)
    pairs = left.join(right, lambda one, other: one + other, windows, name="paired")
    counted = left.group_by_key().count(name="counts", caching=True).to_stream(name="counted")
    texts = counted.map_values(str, name="as-text")
    merged = pairs.merge(texts, name="merged")
    merged.to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
    return builder.build()


def started(root: Path, level: str) -> tuple[Application, SimulatedProcess]:
    config = {"metrics.recording.level": level, "statestore.cache.max.bytes": 1 << 20}
    app = Application(root)
    app.broker.create_topic("right", 1)
    process = app.process(topology=joining_and_merging(), config=config)
    process.start()
    return app, process


def edges_of(app: Application, process: SimulatedProcess) -> dict[tuple[str, str], int]:
    for number in range(RECORDS):
        app.broker.produce("in", b"k%d" % number, b"x", app.clock.now_ms())
    app.run_until_processed(process)
    app.clock.advance_ms(1)
    for number in range(RECORDS - 1):
        app.broker.produce("right", b"k%d" % number, b"y", app.clock.now_ms())
    [thread] = process.threads
    while thread.statistics().processed_records < 2 * RECORDS - 1:
        process.step()
        app.clock.advance_ms(100)
    app.feed("k0")
    app.run_until_processed(process)
    [task] = thread.metadata().active_tasks
    return dict(task.records_by_edge)


def test_each_way_into_a_node_behind_several_is_counted(tmp_path: Path) -> None:
    edges = edges_of(*started(tmp_path, "DEBUG"))

    into_the_join = {
        giver: records for (giver, node), records in edges.items() if "paired-merge" in node
    }
    assert into_the_join == {"paired-this-join": 1, "paired-other-join": RECORDS - 1}
    into_the_merge = {
        giver: records for (giver, node), records in edges.items() if node == "merged"
    }
    assert into_the_merge == {"paired-merge": RECORDS, "as-text": RECORDS + 1}


def test_at_info_none_is_counted(tmp_path: Path) -> None:
    assert edges_of(*started(tmp_path, "INFO")) == {}
