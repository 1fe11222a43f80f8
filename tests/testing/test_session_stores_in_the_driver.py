"""Session stores and stores of limited size in the test driver, in memory and on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pystreams import Processor, ProcessorContext, Record, Stores, Topology, Window, Windowed
from pystreams.serdes import LONG, STRING
from pystreams.testing import TopologyTestDriver

if TYPE_CHECKING:
    from pathlib import Path

GAP_MS = 10
RETENTION_MS = 60_000


class CountSessions(Processor[str, str, str, int]):
    """Counts the records of each session, and of the last two keys overall."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context
        self.sessions: Any = context.get_state_store("sessions")
        self.latest: Any = context.get_state_store("latest")

    def process(self, record: Record[str, str]) -> None:
        key, time = record.key, record.timestamp
        count, start, end = 1, time, time
        for session, found in list(self.sessions.find_sessions(key, time - GAP_MS, time + GAP_MS)):
            count += found
            start, end = min(start, session.window.start), max(end, session.window.end)
            self.sessions.remove(session)
        self.sessions.put(Windowed(key, Window(start, end)), count)
        self.latest.put(key, (self.latest.get(key) or 0) + 1)
        self.context.forward(Record(f"{key}@{start}/{end}", count, time))


def sessions_of_keys() -> Topology:
    topology = Topology()
    topology.add_source("source", "in", key_serde=STRING, value_serde=STRING)
    topology.add_processor("count", CountSessions, "source")
    supplier = Stores.persistent_session_store("sessions", RETENTION_MS)
    topology.add_state_store(Stores.session_store_builder(supplier, STRING, LONG), "count")
    latest = Stores.lru_map("latest", 2)
    topology.add_state_store(Stores.key_value_store_builder(latest, STRING, LONG), "count")
    topology.add_sink("sink", "out", "count", key_serde=STRING, value_serde=LONG)
    return topology


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_processor_merges_sessions_and_old_ones_are_forgotten(
    tmp_path: Path, *, on_disk: bool
) -> None:
    directory = tmp_path if on_disk else None
    with TopologyTestDriver(sessions_of_keys(), state_directory=directory) as driver:
        source = driver.create_input_topic("in", STRING, STRING)
        counts = driver.create_output_topic("out", STRING, LONG)
        for key, time in [("a", 0), ("b", 5), ("a", 20), ("a", 10), ("b", 200_000), ("a", 30)]:
            source.pipe_input(key, "x", time)

        assert counts.read_key_values() == [
            ("a@0/0", 1),
            ("b@5/5", 1),
            ("a@20/20", 1),
            ("a@0/20", 3),
            ("b@200000/200000", 1),
            ("a@30/30", 1),
        ]
        store = driver.get_state_store("sessions")
        assert list(store.fetch_range(None, None)) == [(Windowed("b", Window(200_000, 200_000)), 1)]
        assert list(driver.get_key_value_store("latest").all()) == [("a", 4), ("b", 2)]
        (task,) = driver._tasks
        assert task.counts.dropped == 1
