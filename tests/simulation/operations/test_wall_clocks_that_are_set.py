"""A wall clock that is set neither puts off what waits for a time nor hurries it.

Punctuations on the wall clock, and silence (ADR 9), do go by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pystreams import (
    EmitStrategy,
    JoinWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    serdes,
)
from tests.simulation.applications import Application, running_tasks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

AN_HOUR_MS = 3_600_000
set_back_or_forward = pytest.mark.parametrize("jump_ms", [-AN_HOUR_MS, AN_HOUR_MS])
STRING = serdes.STRING


def two_topics() -> Topology:
    builder = StreamsBuilder()
    builder.stream(["in", "more"], key_serde=STRING, value_serde=STRING).to("out")
    return builder.build()


def outer_join() -> Topology:
    builder = StreamsBuilder()
    one, other = (
        builder.stream(topic, key_serde=STRING, value_serde=STRING) for topic in ("in", "more")
    )
    windows = JoinWindows.of_time_difference_with_no_grace(10)
    one.outer_join(other, lambda value, found: f"{value}+{found}", windows).to(
        "out", value_serde=STRING
    )
    return builder.build()


def final_counts() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    windows = TimeWindows.of_size_with_no_grace(10)
    grouped = stream.group_by_key().windowed_by(windows)
    counts = grouped.emit_strategy(EmitStrategy.on_window_close()).count(name="counts")
    counts.to_stream().map(lambda window, count: (window.key, str(count))).to(
        "out", key_serde=STRING, value_serde=STRING
    )
    return builder.build()


def started(app: Application, topology: Topology) -> SimulatedProcess:
    app.broker.create_topic("more", 1)
    process = app.process(topology=topology)
    process.start()
    while not running_tasks(process):
        process.step()
    return process


def waited_ms(app: Application, process: SimulatedProcess, results: int) -> float:
    """Return how long (ms) it takes until there are so many results; 5 s is given up after."""
    began_ms = app.clock.monotonic_ms()
    while len(app.broker.committed_records("out")) < results:
        if (waited := app.clock.monotonic_ms() - began_ms) > 5000:
            return waited
        app.broker.produce("in", b"later", b"x", 1000 + int(app.clock.monotonic_ms()))
        app.clock.advance_ms(50)
        process.step()
    return app.clock.monotonic_ms() - began_ms


@set_back_or_forward
def test_records_wait_for_those_of_another_topic_for_as_long_as_is_said(
    jump_ms: int, tmp_path: Path
) -> None:
    app = Application(tmp_path, max_task_idle_ms=1000)
    process = started(app, two_topics())
    app.feed("a")
    process.step()
    began_ms = app.clock.monotonic_ms()
    app.clock.jump_ms(jump_ms)
    while not process.step() and app.clock.monotonic_ms() - began_ms < 5000:
        pass

    assert 800 <= app.clock.monotonic_ms() - began_ms <= 1200


@pytest.mark.parametrize("make", [outer_join, final_counts])
@set_back_or_forward
def test_results_of_closed_windows_are_looked_for_as_often_as_is_said(
    make: Callable[[], Topology], jump_ms: int, tmp_path: Path
) -> None:
    interval_ms: dict[str, Any] = {
        "outer_join_emit_interval_ms": 2000,
        "window_emit_interval_ms": 2000,
    }
    app = Application(tmp_path, "exactly_once_v2", **interval_ms)
    process = started(app, make())
    app.broker.produce("in", b"first", b"x", 0)
    waited_ms(app, process, 1)
    app.clock.jump_ms(jump_ms)
    before = len(app.broker.committed_records("out"))

    assert 1500 <= waited_ms(app, process, before + 1) <= 2500
