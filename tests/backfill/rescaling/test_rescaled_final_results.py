"""Final results of windows go on when partitions become one, or one becomes several.

None is lost. Where partitions become one, results that one of them has sent may come again, as they
were; where one becomes several, each comes once.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pystreams import EmitStrategy, StreamsBuilder, TimeWindows, TopicPartition, Topology, serdes
from pystreams.backfill.publishing.publication import PartitionHistory
from pystreams.backfill.rescaling.move_plan import begins, plan_move
from pystreams.kernel.partitioner import partition_of
from pystreams.record import ProducedRecord, StaticMessage
from pystreams.runtime.cluster.committed_offsets import encode_partition_time, with_numbers
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.runtime.running_task import IN, RunningTask

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
KEYS = [f"k{number}" for number in range(12)]
TOPIC, STORE = "app-final-changelog", "final"

Records = Sequence[tuple[str, str | None, int]]


def final_counts() -> Topology:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace(1000, 500)
    windowed = builder.stream(IN, **TEXT).group_by_key().windowed_by(windows)
    counts = windowed.emit_strategy(EmitStrategy.on_window_close()).count(name=STORE)
    counts.to_stream().to("out", value_serde=serdes.LONG)
    return builder.build()


class Application:
    """The tasks of one application, each for one partition.

    Attributes:
        sent: The final results, in order.
    """

    def __init__(self, tasks: Sequence[RunningTask]) -> None:
        self.tasks = tasks
        self.sent: list[ProducedRecord] = []

    @classmethod
    def begun(cls, directory: Path, num_tasks: int) -> Application:
        """A new one."""
        return cls(
            [
                RunningTask(final_counts(), partition=number, directory=directory / str(number))
                for number in range(num_tasks)
            ]
        )

    def process(self, records: Records) -> None:
        """Process records, each where its key belongs, a second of the clock between them."""
        for record in records:
            running = self.tasks[partition_of(record[0].encode(), len(self.tasks))]
            running.task.time.go_on(running.task.time.now_ms + 1000)
            running.run(record)
        for running in self.tasks:
            self.sent += [
                record
                for output in running.task.outputs()
                if output.topic == "out"
                for record in output.records
            ]
            running.commit()

    def moved(self, directory: Path, num_tasks: int) -> Application:
        """Its state in another number of tasks, as `pystreams rescale` moves it."""
        old = len(self.tasks)
        counts = {IN: num_tasks, TOPIC: old, "new-final-changelog": num_tasks}
        plan = plan_move(
            TopologyPlan(final_counts(), "app"), TopologyPlan(final_counts(), "new"), counts
        )
        offsets = {
            partition: offset
            for running in self.tasks
            for partition, offset in running.task.offsets_to_commit().items()
        }
        beginnings = {TopicPartition(IN, number): 0 for number in range(num_tasks)}
        histories = begins(plan, offsets, beginnings)
        state = [
            record
            for running in self.tasks
            for record in running.task.state_manager.stores()[STORE].changelog_records()
        ]
        return Application(
            [
                went_on(
                    directory / str(number),
                    histories[TopicPartition(IN, number)],
                    state,
                    number,
                    num_tasks,
                )
                for number in range(num_tasks)
            ]
        )


def went_on(
    directory: Path, has: PartitionHistory, state: Iterable[ProducedRecord], number: int, count: int
) -> RunningTask:
    """One of so many tasks, with what is its own of a state, restored before it starts."""
    changelog = TopicPartition(TOPIC, number)
    return RunningTask(
        final_counts(),
        partition=number,
        directory=directory,
        committed=has.next_offset,
        metadata=encode_partition_time(has.partition_time, with_numbers(b"", has.numbers)),
        restored={changelog: messages(state, changelog, count)},
    )


def messages(
    state: Iterable[ProducedRecord], changelog: TopicPartition, num_tasks: int
) -> list[StaticMessage]:
    """What the new changelog of one task has: its rows are in the order of their keys."""
    own = sorted(
        (key, value, timestamp)
        for key, value, timestamp, _ in state
        if key is not None and partition_of(key[:-12], num_tasks) == changelog.partition
    )
    return [
        StaticMessage(*changelog, at, key, value, timestamp)
        for at, (key, value, timestamp) in enumerate(own)
    ]


def history(seed: int, count: int, first_ms: int, of: Sequence[str] = KEYS) -> Records:
    chance = random.Random(seed)
    return [
        (chance.choice(of), "v", first_ms + 40 * number + chance.randint(0, 300))
        for number in range(count)
    ]


def results(sent: Iterable[ProducedRecord]) -> dict[bytes | None, set[bytes | None]]:
    """The values that were sent for each key and window."""
    found: dict[bytes | None, set[bytes | None]] = {}
    for key, value, *_ in sent:
        found.setdefault(key, set()).add(value)
    return found


def test_windows_of_a_partition_that_was_far_behind_are_not_kept(tmp_path: Path) -> None:
    """What is older than retention and a segment (here 1.5 s and a minute) is not restored."""
    first, second = (
        next(key for key in KEYS if partition_of(key.encode(), 2) == number) for number in (1, 0)
    )
    before = Application.begun(tmp_path / "old", 2)
    before.process([(first, "v", 1_000_000), (second, "v", 10_000)])

    after = before.moved(tmp_path / "new", 1)
    after.process([(first, "v", 2_000_000)])

    sent = results([*before.sent, *after.sent])
    assert {(key or b"")[:-8].decode() for key in sent} == {first}


@pytest.mark.parametrize(("old", "new"), [(4, 1), (3, 2), (2, 1), (1, 4), (2, 4)])
def test_no_final_result_is_lost(old: int, new: int, tmp_path: Path) -> None:
    ahead = [key for key in KEYS if partition_of(key.encode(), old) == 0]
    first, later = [*history(1, 300, 0), *history(2, 20, 11_600, ahead)], history(3, 200, 14_000)
    closing = [(key, "v", 90_000) for key in KEYS]
    before = Application.begun(tmp_path / "old", old)
    before.process(first)
    after = before.moved(tmp_path / "new", new)
    after.process([*later, *closing])
    expected: dict[bytes | None, set[bytes | None]] = {}
    for key in KEYS:  # Each as if it were alone: no key closes the window of another one.
        alone = Application.begun(tmp_path / key, 1)
        alone.process([record for record in (*first, *later, *closing) if record[0] == key])
        expected |= results(alone.sent)

    assert results([*before.sent, *after.sent]) == expected
    if new % old == 0:
        assert len(before.sent) + len(after.sent) == len(expected)
