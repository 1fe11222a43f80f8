"""The lag of tasks that rest: told within a second, and at a cost that does not grow with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import StreamsBuilder, TopicPartition, serdes
from pystreams.testing.simulation import (
    Faults,
    ManualClock,
    SimulatedBroker,
    SimulatedDisk,
    SimulatedProcess,
)
from pystreams.testing.simulation.clients import SimulatedClients
from pystreams.testing.simulation.consumers import SimulatedConsumer

pytestmark = pytest.mark.simulation

TASKS = 150
PUBLISHED_EVERY_MS = 100


class LaggingConsumer(SimulatedConsumer):
    """Knows of one record more in each partition, from when it is told so.

    Attributes:
        asked: How often it was asked.
    """

    lagging = False
    asked = 0

    def known_lag(self, partition: TopicPartition) -> int | None:
        LaggingConsumer.asked += 1
        known = super().known_lag(partition)
        return 1 if self.lagging else known


class LaggingClients(SimulatedClients):
    """Makes such consumers."""

    def consumer(self, client_id: str, group_instance_id: str) -> SimulatedConsumer:
        return LaggingConsumer(self._broker, self._lifeline, client_id, group_instance_id)


def _resting(
    tmp_path: Path, tasks: int = TASKS
) -> tuple[SimulatedProcess, ManualClock, SimulatedBroker]:
    """Return a process that runs many tasks for which nothing waits."""
    clock, faults = ManualClock(1_000_000), Faults(0)
    broker = SimulatedBroker(clock, faults, session_timeout_ms=10**9)
    broker.create_topic("in", tasks)
    broker.create_topic("out", tasks)
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
    process = SimulatedProcess(
        builder.build(),
        {"application.id": "app"},
        broker,
        SimulatedDisk(tmp_path, faults),
        make_clients=LaggingClients,
    )
    process.start()
    [thread] = process.threads
    while thread.statistics().tasks_running < tasks:
        process.step()
        clock.advance_ms(PUBLISHED_EVERY_MS)
    assert not thread.statistics().lag_records
    return process, clock, broker


def _metrics(process: SimulatedProcess, wanted: str) -> list[float]:
    [thread] = process.threads
    return [float(value) for name, value in thread.metrics().items() if name.name == wanted]


def _step_for_a_second(process: SimulatedProcess, clock: ManualClock) -> None:
    for _ in range(1000 // PUBLISHED_EVERY_MS):
        clock.advance_ms(PUBLISHED_EVERY_MS)
        process.step()


def test_lag_of_tasks_that_rest_is_told_within_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, clock, _ = _resting(tmp_path)
    [thread] = process.threads
    monkeypatch.setattr(LaggingConsumer, "lagging", True)
    _step_for_a_second(process, clock)

    assert thread.statistics().lag_records == TASKS
    assert _metrics(process, "records-lag") == [1] * TASKS
    process.stop()


@pytest.mark.parametrize("tasks", [150, 600])
def test_tasks_that_rest_are_asked_as_often_however_many_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    process, clock, _ = _resting(tmp_path, tasks)
    for _ in range(4):
        _step_for_a_second(process, clock)
    monkeypatch.setattr(LaggingConsumer, "asked", 0)
    _step_for_a_second(process, clock)

    assert 150 <= LaggingConsumer.asked <= 200
    process.stop()


def test_lag_of_very_many_tasks_that_rest_is_told_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, clock, _ = _resting(tmp_path, tasks=450)
    [thread] = process.threads
    monkeypatch.setattr(LaggingConsumer, "lagging", True)
    for _ in range(3):
        _step_for_a_second(process, clock)

    assert thread.statistics().lag_records == 450
    process.stop()


def test_what_has_not_come_yet_waits_since_it_is_known_however_long_the_tasks_rested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, clock, _ = _resting(tmp_path)
    clock.advance_ms(3_600_000)
    _step_for_a_second(process, clock)
    assert _metrics(process, "records-lag-time") == [0] * TASKS

    monkeypatch.setattr(LaggingConsumer, "lagging", True)
    began_ms = clock.now_ms()
    _step_for_a_second(process, clock)
    clock.advance_ms(5_000)

    lags_ms = _metrics(process, "records-lag-time")
    assert len(lags_ms) == TASKS
    assert 5_000 <= min(lags_ms) <= max(lags_ms) <= clock.now_ms() - began_ms
    process.stop()


def test_what_is_on_its_way_to_a_task_that_is_behind_is_as_old_as_what_it_processed_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, clock, broker = _resting(tmp_path)
    monkeypatch.setattr(LaggingConsumer, "lagging", True)
    broker.produce("in", b"k", b"x", clock.now_ms() - 600_000)
    _step_for_a_second(process, clock)

    longest_ms = max(_metrics(process, "records-lag-time"))
    assert 600_000 <= longest_ms < 700_000
    process.stop()


def test_that_nothing_waits_is_not_told_for_long_while_nobody_looks(tmp_path: Path) -> None:
    process, clock, _ = _resting(tmp_path)
    [thread] = process.threads
    _step_for_a_second(process, clock)
    clock.advance_ms(4_000)
    assert thread.statistics().lag_records == 0

    clock.advance_ms(2_000)
    assert thread.statistics().lag_records is None
    assert {task.lag_records for task in thread.metadata().active_tasks} == {None}
    assert not any(task.lag_by_topic for task in thread.metadata().active_tasks)
    assert _metrics(process, "records-lag") == _metrics(process, "records-lag-time") == []

    _step_for_a_second(process, clock)
    assert thread.statistics().lag_records == 0
    assert _metrics(process, "records-lag") == [0] * TASKS
    process.stop()


def test_what_waited_is_told_on_while_nobody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, clock, _ = _resting(tmp_path)
    [thread] = process.threads
    monkeypatch.setattr(LaggingConsumer, "lagging", True)
    _step_for_a_second(process, clock)
    clock.advance_ms(60_000)

    assert thread.statistics().lag_records == TASKS
    assert _metrics(process, "records-lag") == [1] * TASKS
    process.stop()
