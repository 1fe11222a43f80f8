"""The crash table of sessions that merge and of sliding windows, sent on update and on close.

After each crash the stores hold what their offsets say; after the restart the last changes, and the
final results, are those of a run without a crash, which other tests compare with plain models.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    EmitStrategy,
    KTable,
    SessionWindows,
    SlidingWindows,
    StoreEngine,
    StreamsBuilder,
    Topology,
    Windowed,
    serdes,
)
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.testing import TopologyTestDriver
from tests.simulation.crash_tables.crash_run import FIRST_MS, CrashRun, die_at_each_step, steps_of
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once")
TYPES: Any = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}
ON_CLOSE = EmitStrategy.on_window_close()
SESSIONS = SessionWindows.of_inactivity_gap_and_grace(10_000, 5_000)
SLIDING = SlidingWindows.of_time_difference_and_grace(10_000, 15_000)
FINAL = ("final-sessions", "final-sliding")
Fed = tuple[str, int, int]
"""Key, number and time."""
# The second begins with a record between two sessions of the first, and one that is late.
BATCHES: list[list[Fed]] = [
    [("a", 1, 0), ("b", 2, 5_000), ("a", 3, 18_000), ("b", 4, 12_000), ("a", 5, 18_000)],
    [("a", 6, 9_000), ("b", 7, 60_000), ("a", 8, 1_000), ("b", 9, 52_000), ("a", 10, 71_000)],
    [("b", 11, 400_000), ("a", 12, 399_000), ("a", 13, 100_000), ("a", 14, 405_000)],
]


def windowing(engine: StoreEngine) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", **TYPES).group_by_key()

    def send(table: KTable[Windowed[str], int], result: str) -> None:
        named = table.to_stream(lambda key, _: f"{result} {key.key} {key.window}")
        named.to("out", **TYPES)

    def add(total: int, number: int) -> int:
        return total + number

    sessions, sliding = grouped.windowed_by(SESSIONS), grouped.windowed_by(SLIDING)
    send(sessions.reduce(add, name="sessions", store_type=engine), "sessions")
    send(sliding.reduce(add, name="sliding", store_type=engine), "sliding")
    final_sessions = sessions.emit_strategy(ON_CLOSE)
    send(final_sessions.reduce(add, name="final-sessions", store_type=engine), "final-sessions")
    final_sliding = sliding.emit_strategy(ON_CLOSE)
    send(final_sliding.reduce(add, name="final-sliding", store_type=engine), "final-sliding")
    return builder.build()


def stores_of(topology: Topology) -> Mapping[str, StoreSpecBuilder]:
    return {
        name: builder
        for name, builder in topology.stores.items()
        if isinstance(builder, StoreSpecBuilder)
    }


def without_a_crash() -> list[tuple[str, int | None]]:
    config = {"window.emit.interval.ms": 0, "statestore.cache.max.bytes": 0}
    with TopologyTestDriver(windowing(StoreEngine.IN_MEMORY), config) as driver:
        topic = driver.create_input_topic("in", serdes.STRING, serdes.LONG)
        for key, number, time in (record for batch in BATCHES for record in batch):
            topic.pipe_input(key, number, timestamp=FIRST_MS + time)
        output = driver.create_output_topic("out", serdes.STRING, serdes.LONG)
        return [(found.key, found.value) for found in output.read_records()]


class WindowsRun(CrashRun):
    """Three commits' worth of records, some of them late; the last closes nearly all."""

    engine = StoreEngine.ROCKSDB
    builders = stores_of(windowing(engine))
    config: Mapping[str, Any] = {"window_emit_interval_ms": 0}

    def topology(self, *, transactional: bool) -> Topology:
        return windowing(self.engine)

    def feed_and_process(self) -> None:
        self.batches = list(BATCHES)
        self.feed_rest()

    def feed_rest(self) -> None:
        pack = serdes.LONG.serializer("")
        while self.batches and self.process.running:
            for key, number, time in self.batches.pop(0):
                self.app.broker.produce("in", key.encode(), pack(number), FIRST_MS + time)
            self.process_all()

    def results(self) -> list[tuple[str, int | None]]:
        unpack = serdes.LONG.deserializer("")
        found: list[tuple[str, int | None]] = []
        for message in self.app.broker.committed_records("out"):
            key, value = (message.message_key or b"").decode(), message.message_value
            found.append((key, None if value is None else unpack(value)))
        return found

    def check_outputs(self) -> None:
        """Nothing lost, nothing twice, all in order: without a cache that is so of updates, too."""
        assert self.results() == without_a_crash()


class InMemoryRun(WindowsRun):
    """All is restored from the changelogs."""

    engine = StoreEngine.IN_MEMORY
    builders = stores_of(windowing(engine))


class CachedRun(WindowsRun):
    """Updates wait for the commit, and are sent on then; final results wait for nothing."""

    config: Mapping[str, Any] = {
        "window_emit_interval_ms": 0,
        "statestore_cache_max_bytes": 1 << 20,
    }

    def check_outputs(self) -> None:
        """The last change of each window is the same, and each final result is there once."""
        found, wanted = self.results(), without_a_crash()
        assert {k: v for k, v in dict(found).items() if v is not None} == {
            k: v for k, v in dict(wanted).items() if v is not None
        }
        assert [row for row in found if row[0].startswith(FINAL)] == [
            row for row in wanted if row[0].startswith(FINAL)
        ]


KINDS = [WindowsRun, InMemoryRun, CachedRun]


@pytest.mark.parametrize("kind", KINDS)
def test_the_run_merges_sessions_drops_late_records_and_sends_final_results(
    kind: type[WindowsRun], tmp_path: Path
) -> None:
    """Otherwise the crashes below would miss what they are for."""
    run = kind(tmp_path, "exactly_once", seed=0)
    steps = "\n".join(steps_of(run))
    run.app.broker.settle()

    run.check_outputs()
    sent = dict(without_a_crash())
    assert any(value is None for value in sent.values()), "a session was merged into another one"
    for result in FINAL:
        assert sum(row.startswith(result) for row in sent) > 4
    if kind.engine is StoreEngine.ROCKSDB:
        for name in run.builders:
            assert f"write {name}" in steps


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_crash_at_a_step_changes_no_result(
    kind: type[WindowsRun], guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=29) > 3


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_crash_at_every_single_step_changes_no_result(
    kind: type[WindowsRun], guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=1) > 60
