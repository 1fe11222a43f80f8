"""What aggregations of sessions commit with the offsets, and know after a restart."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from pathlib import Path
from typing import Any

from pystreams import (
    EmitStrategy,
    KTable,
    SessionWindows,
    StreamsBuilder,
    Topology,
    Window,
    Windowed,
    session_windowed_serde,
)
from pystreams.serdes import LONG, STRING
from tests.runtime.running_task import RunningTask

WINDOWS = SessionWindows.of_inactivity_gap_with_no_grace(10)


def written(table: KTable[Windowed[str], int], builder: StreamsBuilder) -> Topology:
    key_serde = session_windowed_serde(STRING)
    table.to_stream().to("out", key_serde=key_serde, value_serde=LONG)
    return builder.build()


def cogrouped() -> Topology:
    """Two streams of one topic: values that start with "1", and others."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    first = stream.filter(lambda key, value: value.startswith("1")).group_by_key()
    other = stream.filter_not(lambda key, value: value.startswith("1")).group_by_key()
    cogroup = first.cogroup(lambda key, value, count: count + 1).cogroup(
        other, lambda key, value, count: count + 1
    )
    table = cogroup.windowed_by(WINDOWS).aggregate(
        int, lambda key, count, more: count + more, value_serde=LONG, caching=False
    )
    return written(table, builder)


def final() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    sessions = stream.group_by_key().windowed_by(WINDOWS)
    return written(sessions.emit_strategy(EmitStrategy.on_window_close()).count(), builder)


def out_of(running: RunningTask) -> list[tuple[Any, ...]]:
    """Return what waits for the topic "out"."""
    return [
        record
        for output in running.task.outputs()
        if output.topic == "out"
        for record in output.records
    ]


def committed_metadata(running: RunningTask) -> str:
    """Commit; return what was committed with the offset."""
    metadata = running.task.offsets_to_commit()[running.input].metadata
    running.commit()
    return metadata


def test_each_stream_of_a_cogroup_has_the_stream_time_it_had_before_a_restart(
    tmp_path: Path,
) -> None:
    """Though another one has written later sessions to the same store."""
    first, then = (("a", "1", 1000), ("a", "2", 5)), (("b", "2", 6), ("b", "1", 7))
    found = []
    for restarts in (False, True):
        running = RunningTask(cogrouped(), directory=tmp_path / str(restarts))
        running.run(*first)
        metadata = committed_metadata(running)
        if restarts:
            running.restart(2, metadata)
        running.run(*then)
        found.append((out_of(running), running.task.counts.dropped))

    assert found[0][1] == 1  # What came on the stream that is ahead.
    assert found[0][0]
    assert found[1] == found[0]


def test_a_final_result_that_was_committed_is_not_sent_again_after_a_restart(
    tmp_path: Path,
) -> None:
    running = RunningTask(final(), directory=tmp_path)
    running.run(("a", "x", 0), ("z", "x", 11))
    assert len(out_of(running)) == 0  # It is looked for once a second.
    running.task.time.go_on(1000)
    running.run(("z", "x", 12))
    assert len(out_of(running)) == 1

    running.restart(3, committed_metadata(running))
    running.run(("y", "x", 30))
    running.task.time.go_on(3000)
    running.run(("y", "x", 31))

    assert [key for key, *_ in out_of(running)] == [
        session_windowed_serde(STRING).serializer("")(Windowed("z", Window(11, 12)))
    ]
