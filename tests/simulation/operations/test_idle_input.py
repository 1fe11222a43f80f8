"""A silent input on the simulated broker: what silence closes, comes once, over restarts as well.

Whatever lies in the log is read before: neither a stop nor a process that is behind makes it late.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    EmitStrategy,
    JoinWindows,
    Materialized,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    TopicPartition,
    Topology,
    serdes,
)
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import Application

pytestmark = pytest.mark.simulation

TIMEOUT_MS = 10_000
SIZE_MS = 1000
TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
BOTH_GUARANTEES = pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])


def windowed(windows: TimeWindows | SlidingWindows, *, repartitioned: bool = False) -> Topology:
    builder = StreamsBuilder(idle_timeout_ms=TIMEOUT_MS)
    stream = builder.stream("in", **TEXT)
    groups = stream.group_by(lambda key, _: key, **TEXT) if repartitioned else stream.group_by_key()
    counts = groups.windowed_by(windows).emit_strategy(EmitStrategy.on_window_close()).count()
    counts.to_stream(lambda key, _: f"{key.key}@{key.window.start}").to(
        "out", key_serde=serdes.STRING, value_serde=serdes.LONG
    )
    return builder.build()


def tumbling() -> Topology:
    return windowed(TimeWindows.of_size_and_grace(SIZE_MS, 100))


def sliding() -> Topology:
    return windowed(SlidingWindows.of_time_difference_and_grace(SIZE_MS, 100))


def joined() -> Topology:
    builder = StreamsBuilder(idle_timeout_ms=TIMEOUT_MS)
    left, right = builder.stream("in", **TEXT), builder.stream("other", **TEXT)
    windows = JoinWindows.of_time_difference_and_grace(SIZE_MS, 100)
    left.outer_join(right, lambda one, two: f"{one}+{two}", windows).to("out", **TEXT)
    return builder.build()


def with_grace() -> Topology:
    builder = StreamsBuilder(idle_timeout_ms=TIMEOUT_MS)
    history = Materialized[str, str](name="history", history_retention_ms=600_000)
    table = builder.table("other", materialized=history, **TEXT)
    joined = builder.stream("in", **TEXT).left_join(
        table, lambda value, row: f"{value}{row}", grace_period_ms=SIZE_MS
    )
    joined.to("out", **TEXT)
    return builder.build()


class Silent:
    """An application whose input falls silent."""

    def __init__(self, root: Path, topology: Topology, guarantee: str = "exactly_once") -> None:
        self.app = Application(root, guarantee)
        self.app.broker.create_topic("other", 1)
        self.process: SimulatedProcess = self.app.process(topology=topology)
        self.process.start()

    def produce(self, key: str, timestamp: int, *, topic: str = "in") -> None:
        self.app.broker.produce(topic, key.encode(), b"x", timestamp)

    def steps(self, steps: int = 12) -> None:
        """Let the loop run for so many iterations, while the clock stands still."""
        for _ in range(steps):
            self.process.step()

    def silence(self, duration_ms: int) -> None:
        """Let the wall clock move on by at least so much, while the loop goes on."""
        for _ in range(duration_ms // 500):
            self.app.clock.advance_ms(500)
            self.process.step()
        self.app.clock.advance_ms(200)
        self.steps(3)

    def restart(self, *, crash: bool = False) -> None:
        if crash:
            self.process.crash()
        else:
            self.process.stop()
        self.process.start()
        self.steps(20)

    def out(self) -> list[str]:
        """The keys that readers of committed records have seen, and their values of the join."""
        return [
            (message.message_key or b"").decode()
            for message in self.app.broker.committed_records("out")
        ]

    def dropped(self) -> int:
        [thread] = self.process.threads
        return sum(task.counts.dropped for task in thread._manager.tasks.values())


@BOTH_GUARANTEES
@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (tumbling, ["a@0", "b@0"]),
        (sliding, ["a@0", "b@0"]),
        (joined, ["a", "b"]),
        (with_grace, ["a", "b"]),
    ],
)
def test_what_silence_closes_comes_once_and_no_restart_sends_it_again(
    tmp_path: Path, guarantee: str, topology: Callable[[], Topology], expected: list[str]
) -> None:
    silent = Silent(tmp_path, topology(), guarantee)
    silent.produce("a", 400)
    silent.produce("b", 500)
    silent.steps()
    assert silent.out() == []

    silent.silence(TIMEOUT_MS + 4000)
    assert sorted(silent.out()) == expected
    silent.restart()
    silent.silence(TIMEOUT_MS + 4000)
    silent.restart(crash=True)
    silent.silence(TIMEOUT_MS + 4000)

    assert sorted(silent.out()) == expected


@BOTH_GUARANTEES
@pytest.mark.parametrize("topology", [tumbling, sliding, joined])
@pytest.mark.parametrize("restart", [None, False, True], ids=["no restart", "stop", "crash"])
def test_what_is_late_before_a_restart_is_late_after_it(
    tmp_path: Path, guarantee: str, topology: Callable[[], Topology], restart: bool | None
) -> None:
    silent = Silent(tmp_path, topology(), guarantee)
    silent.produce("a", 1500)
    silent.steps()
    silent.silence(TIMEOUT_MS + 6000)
    sent = silent.out()

    if restart is not None:
        silent.restart(crash=restart)
    before = silent.dropped()
    silent.produce("a", 450)
    silent.steps()

    assert silent.dropped() == before + 1
    assert silent.out() == sent


@pytest.mark.parametrize("restart", [False, True], ids=["stop", "crash"])
def test_a_join_with_grace_knows_after_a_restart_where_silence_has_got_to(
    tmp_path: Path, restart: bool
) -> None:
    silent = Silent(tmp_path, with_grace())
    silent.produce("a", 1500)
    silent.steps()
    silent.silence(TIMEOUT_MS + 6000)
    assert silent.out() == ["a"]

    silent.restart(crash=restart)
    # Behind where the last record has left: joined at once.
    silent.produce("b", 1400)
    silent.steps()

    assert silent.out() == ["a", "b"]


def test_time_during_a_stop_is_no_silence(tmp_path: Path) -> None:
    silent = Silent(tmp_path, tumbling())
    silent.produce("a", 400)
    silent.steps()
    silent.process.stop()
    silent.produce("a", 450)
    silent.app.clock.advance_ms(10**7)

    silent.process.start()
    silent.steps(20)
    silent.silence(TIMEOUT_MS // 2)
    assert silent.out() == []
    silent.produce("a", 460)
    silent.steps()
    silent.silence(TIMEOUT_MS + 3000)

    [message] = silent.app.broker.committed_records("out")
    assert serdes.LONG.deserializer("out")(message.message_value or b"") == 3
    assert silent.dropped() == 0


def test_one_partition_that_is_not_silent_keeps_the_task_awake(tmp_path: Path) -> None:
    silent = Silent(tmp_path, joined())
    silent.produce("a", 400)
    silent.steps()

    for number in range(8):
        silent.produce(f"other{number}", 300, topic="other")
        silent.silence(TIMEOUT_MS // 2)
    assert "a" not in silent.out()

    silent.silence(TIMEOUT_MS + 3000)
    assert "a" in silent.out()


def test_records_at_the_broker_that_are_not_read_are_no_silence(tmp_path: Path) -> None:
    silent = Silent(tmp_path, tumbling())
    silent.produce("a", 400)
    silent.steps()
    # What is written from now on is at the broker, and no poll brings it.
    [thread] = silent.process.threads
    consumer = thread._consumer
    consumer.pause([TopicPartition("in", 0)])
    silent.produce("a", 450)

    silent.silence(10 * TIMEOUT_MS)
    assert silent.out() == []

    consumer.resume([TopicPartition("in", 0)])
    silent.steps()
    silent.silence(TIMEOUT_MS + 3000)
    assert silent.out() == ["a@0"]
    assert silent.dropped() == 0


def test_behind_a_repartition_silence_begins_with_the_first_record_after_a_start(
    tmp_path: Path,
) -> None:
    silent = Silent(
        tmp_path, windowed(TimeWindows.of_size_and_grace(SIZE_MS, 100), repartitioned=True)
    )
    silent.produce("a", 400)
    silent.steps(20)
    silent.restart()
    silent.silence(3 * TIMEOUT_MS)
    assert silent.out() == []

    silent.produce("a", 450)
    silent.steps(20)
    silent.silence(TIMEOUT_MS + 3000)
    assert silent.out() == ["a@0"]
