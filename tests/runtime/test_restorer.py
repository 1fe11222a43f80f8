"""What a thread's restorer says of its speed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from structlog.testing import capture_logs

from pystreams import StoreEnvironment, Stores, TaskId, TopicPartition
from pystreams.record import StaticMessage
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.runtime.tasks.restoring.restorer import Restorer
from pystreams.serdes import STRING
from pystreams.testing.simulation.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pystreams.runtime.ports import AdminPort, RestoreConsumerPort

RECORDS_PER_POLL = 100


class Changelogs:
    """Stands in for the admin client and the restore consumer: gives 100 records a poll."""

    def __init__(self, end_offset: int) -> None:
        self.end_offset = end_offset
        self.asked_ids: list[list[str]] = []
        self._next: dict[TopicPartition, int] = {}

    def offset_ranges(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetRange]:
        return {
            partition: OffsetRange(0, self.end_offset, self.end_offset) for partition in partitions
        }

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        self.asked_ids.append(list(topics))
        return {}

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._next = dict(positions)

    def poll(self, _records: int, _timeout_s: float) -> list[Any]:
        found = []
        for changelog, begin in self._next.items():
            end = self._next[changelog] = begin + RECORDS_PER_POLL
            messages = [
                StaticMessage(*changelog, at, b"k", b"v", 0, ()) for at in range(begin, end)
            ]
            found.append((changelog, messages, None))
        return found


def state_with_nothing(
    number: int, directory: Path, changelog: str = "app-s-changelog"
) -> ProcessorStateManager:
    """Return the state of a task with one store that has nothing yet."""
    store = Stores.in_memory_key_value_store("s")
    builder = Stores.key_value_store_builder(store, STRING, STRING)
    manager = ProcessorStateManager(
        TaskId(0, number),
        [(builder, changelog, True)],
        StoreSettings(StoreEnvironment(application_id="app")),
    )
    manager.open(directory)
    return manager


def test_the_rate_told_is_that_of_the_restore_that_goes_on(tmp_path: Path) -> None:
    """Not of what the thread has restored hours before."""
    changelogs, clock = Changelogs(end_offset=5000), ManualClock()
    admin, consumer = cast("AdminPort", changelogs), cast("RestoreConsumerPort", changelogs)
    restorer = Restorer(lambda: consumer, admin, clock)
    told: list[list[tuple[int, int]]] = []
    for number in range(2):
        restorer.begin(state_with_nothing(number, tmp_path))
        with capture_logs() as lines:
            while restorer.active:
                clock.advance_ms(1000)
                restorer.poll(0.0)
        progress = [line for line in lines if line["event"] == "still restoring"]
        told.append([(line["records_per_s"], line["seconds_left"]) for line in progress])
        clock.advance_ms(3_600_000)

    assert told[0] == told[1]
    assert told[0][:2] == [(100, 40), (100, 30)]


def test_the_ids_of_changelogs_are_asked_once_for_all_tasks_that_begin_together(
    tmp_path: Path,
) -> None:
    """However many they are; and again for those that begin later."""
    changelogs = Changelogs(end_offset=5000)
    admin, consumer = cast("AdminPort", changelogs), cast("RestoreConsumerPort", changelogs)
    restorer = Restorer(lambda: consumer, admin, ManualClock())
    states = [
        state_with_nothing(number, tmp_path, f"app-{number % 2}-changelog") for number in range(6)
    ]
    both = ["app-0-changelog", "app-1-changelog"]
    for expected in (states[:4], states[4:]):
        restorer.expect(expected)
        for state in expected:
            restorer.begin(state)
    assert changelogs.asked_ids == [both, both]
