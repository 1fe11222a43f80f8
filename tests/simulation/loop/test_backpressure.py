"""Input that comes faster than it can be processed: what waits stays within its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pystreams import JoinWindows, StreamsBuilder, Topology, serdes
from pystreams.errors import RetriableClientError
from pystreams.metrics import MetricName, MetricValue
from pystreams.metrics.definitions import TASK_GROUP
from pystreams.runtime.core.queues.waiting_bytes import OVERHEAD_BYTES
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import Application

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulation

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
POLLED_RECORDS = 10
LIMIT_RECORDS = 20
RECORD_BYTES = 10_000
WAITING_BYTES = OVERHEAD_BYTES + len(b"k") + RECORD_BYTES
LIMIT_BYTES = 200_000


async def shouted(value: str) -> str:
    return value.upper()


def calling() -> Topology:
    """Calls of which every other one stays without an answer until a commit waits for it."""
    builder = StreamsBuilder()
    answers = builder.stream("in", **TEXT).map_values_async(shouted, max_in_flight=2)
    answers.to("out", **TEXT)
    return builder.build()


def copying() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", **TEXT).to("out", **TEXT)
    return builder.build()


def joined() -> Topology:
    builder = StreamsBuilder()
    left, right = builder.stream("in", **TEXT), builder.stream("other", **TEXT)
    windows = JoinWindows.of_time_difference_with_no_grace(1000)
    left.join(right, lambda one, two: one + two, windows).to("out", **TEXT)
    return builder.build()


class Flooded:
    """An application with more input than it gets through."""

    def __init__(self, root: Path, topology: Topology, **config: Any) -> None:
        self.app = Application(
            root, **{"commit_interval_ms": 4_000, "max_poll_records": POLLED_RECORDS, **config}
        )
        self.app.broker.create_topic("other", 1)
        self.process: SimulatedProcess = self.app.process(topology=topology)
        self.process.start()

    def feed(self, records: int, *, topic: str = "in", size: int = 1, timestamp: int = 0) -> None:
        for _ in range(records):
            self.app.broker.produce(topic, b"k", b"x" * size, timestamp)

    def highest_over(self, steps: int, metric: str) -> float:
        """Return the highest value of a metric of the task, while the loop goes on."""
        return max(self.after_a_step(metric) for _ in range(steps))

    def after_a_step(self, metric: str) -> float:
        self.process.step()
        return task_metric(self.process, metric)

    def waiting_outputs(self) -> int:
        """Return how many records tasks have written that no producer has taken."""
        [thread] = self.process.threads
        outputs = (output for task in thread._manager.running() for output in task.outputs())
        return sum(len(output.records) for output in outputs)

    def process_all(self, outputs: int) -> None:
        """Let the loop go on, in time, until so many results are committed."""
        for _ in range(1000):
            self.process.step()
            self.app.clock.advance_ms(300)
            if len(self.outputs()) >= outputs:
                return
        raise AssertionError(f"{len(self.outputs())} of {outputs} results")

    def outputs(self) -> list[bytes | None]:
        return [message.message_value for message in self.app.broker.committed_records("out")]


def task_metric(process: SimulatedProcess, name: str) -> float:
    found: dict[MetricName, MetricValue] = {}
    for thread in process.threads:
        found.update(thread.metrics())
    return sum(
        float(value)
        for metric, value in found.items()
        if (metric.group, metric.name) == (TASK_GROUP, name)
    )


def test_while_calls_are_not_answered_no_more_is_read_than_may_wait(tmp_path: Path) -> None:
    flooded = Flooded(tmp_path, calling(), buffered_records_per_partition=LIMIT_RECORDS)
    flooded.feed(60)

    highest = flooded.highest_over(30, "active-buffer-count")

    assert LIMIT_RECORDS < highest <= LIMIT_RECORDS + POLLED_RECORDS
    flooded.process_all(60)
    assert flooded.outputs() == [b"X"] * 60
    flooded.process.stop()


def test_large_records_are_paused_by_their_bytes(tmp_path: Path) -> None:
    """The left of a join waits for the right, which is known to have more."""
    flooded = Flooded(
        tmp_path,
        joined(),
        buffered_records_per_partition=100_000,
        input_buffer_max_bytes=2 * LIMIT_BYTES,
        max_task_idle_ms=3_600_000,
    )
    flooded.feed(400, size=RECORD_BYTES)

    highest = flooded.highest_over(100, "input-buffer-bytes-total")

    assert LIMIT_BYTES < highest <= LIMIT_BYTES + POLLED_RECORDS * WAITING_BYTES
    flooded.feed(1, topic="other")
    flooded.feed(1, topic="other", timestamp=5000)
    flooded.feed(1, timestamp=5000)
    flooded.process_all(400)
    flooded.process.stop()


def test_two_inputs_that_are_too_large_together_are_both_read_to_their_ends(
    tmp_path: Path,
) -> None:
    """Whatever is paused, the partition that a task waits for is not."""
    flooded = Flooded(tmp_path, joined(), input_buffer_max_bytes=4 * RECORD_BYTES)
    for number in range(60):
        timestamp = 10_000 * number
        flooded.feed(1, size=RECORD_BYTES, timestamp=timestamp)
        flooded.feed(1, topic="other", size=RECORD_BYTES, timestamp=timestamp)

    flooded.process_all(60)

    flooded.process.stop()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_what_a_full_producer_does_not_take_is_sent_before_more_is_processed(
    tmp_path: Path, guarantee: str
) -> None:
    flooded = Flooded(tmp_path, copying(), guarantee=guarantee)
    flooded.feed(400)
    for _ in range(1000):
        full = RetriableClientError("the client's queue is full (simulated)")
        flooded.app.faults.fail_next("send", full)

    highest = flooded.highest_over(60, "process-total")

    assert flooded.waiting_outputs() <= POLLED_RECORDS
    assert highest
    flooded.app.faults.forget_scripted("send")
    flooded.process_all(400)
    assert flooded.outputs() == [b"x"] * 400
    flooded.process.stop()
