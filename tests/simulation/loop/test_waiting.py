"""When a thread waits for input, and when it must not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from pystreams import StreamsBuilder, serdes
from pystreams.errors import RetriableClientError
from tests.simulation.applications import Application, running_tasks

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams import Topology

pytestmark = pytest.mark.simulation


def merging() -> Topology:
    """A task with two partitions."""
    builder = StreamsBuilder()
    stream = builder.stream(["in", "more"], key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = stream.group_by_key().count(name="counts", caching=False)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


@pytest.mark.parametrize("idle_ms", [10, 30, 500])
def test_a_task_that_waits_for_its_other_partition_lets_the_thread_wait_in_poll(
    idle_ms: int, tmp_path: Path
) -> None:
    """The time passes in polls, not in thousands of turns; and hardly more than asked for."""
    app = Application(tmp_path, max_task_idle_ms=idle_ms, commit_interval_ms=5000)
    app.broker.create_topic("more", 1)
    process = app.process(topology=merging())
    process.start()
    while not running_tasks(process):
        process.step()
    app.feed("a")
    started_ms = app.clock.monotonic_ms()
    steps = 0
    while not process.step():
        steps += 1
        assert steps < 20

    waited_ms = app.clock.monotonic_ms() - started_ms
    assert idle_ms <= waited_ms <= idle_ms + 100


def test_a_thread_with_records_to_process_does_not_wait(tmp_path: Path) -> None:
    app = Application(tmp_path, commit_interval_ms=5000)
    process = app.process()
    process.start()
    while not running_tasks(process):
        process.step()
    app.feed("a")
    started_ms = app.clock.monotonic_ms()

    assert process.step() == 1
    assert app.clock.monotonic_ms() == started_ms


def test_an_idle_thread_waits_no_longer_than_to_the_next_commit(tmp_path: Path) -> None:
    app = Application(tmp_path, "at_least_once", commit_interval_ms=60, poll_ms=1000)
    process = app.process()
    process.start()
    while not running_tasks(process):
        process.step()
    app.feed("a")
    process.step()
    started_ms = app.clock.monotonic_ms()
    process.step()

    assert app.clock.monotonic_ms() - started_ms <= 61
    assert app.committed() == 1


def test_a_task_that_waits_for_the_broker_is_told_at_once_and_then_now_and_then(
    tmp_path: Path,
) -> None:
    """It asks five times a second; an outage of minutes must not fill the log."""
    app = Application(tmp_path)
    for _ in range(100):
        app.faults.fail_next("committed", RetriableClientError("no coordinator"))
    process = app.process()
    process.start()
    with capture_logs() as logs:
        while not running_tasks(process):
            process.step()

    waited_ms = app.clock.monotonic_ms()
    waiting = [line for line in logs if line["event"] == "task waits for the broker"]
    assert all((line["task"], line["why"]) == ("0_0", "no coordinator") for line in waiting)
    assert 2 <= len(waiting) <= 1 + waited_ms // 10_000
