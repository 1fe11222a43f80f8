"""The crash table of final results: windows in order of time, and how far was sent on.

After each crash the store holds what its offset says; after the restart each window that has closed
was sent once, with all its records, and records that were late before it are late after it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pystreams import EmitStrategy, StoreEngine, StreamsBuilder, TimeWindows, Topology, serdes
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.simulation.crash_tables.crash_run import FIRST_MS, CrashRun, die_at_each_step, steps_of
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once")
AT_ONCE = {"window_emit_interval_ms": 0}
ONE_A_SECOND = {"window_emit_interval_ms": 1000}
SIZE_MS, GRACE_MS, ADVANCE_MS = 30_000, 5_000, 15_000
WINDOWS = TimeWindows.of_size_and_grace(SIZE_MS, GRACE_MS).advance_by(ADVANCE_MS)
Fed = tuple[str, int]
"""Key and time."""
# The second begins with a record that only the stream time tells to be late, not the store.
ROUNDS: list[list[Fed]] = [
    [("a", 0), ("b", 10_000), ("a", 31_000), ("a", 1_000)],
    [("a", 1_500), ("b", 70_000), ("a", 40_500), ("b", 66_000), ("a", 2_000)],
    [("a", 400_000), ("b", 399_000), ("b", 100_000)],
]


def closing(engine: StoreEngine, *, transactional: bool = True) -> Topology:
    builder = StreamsBuilder()
    types: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.BYTES}
    grouped = builder.stream("in", **types).group_by_key()
    final = grouped.windowed_by(WINDOWS).emit_strategy(EmitStrategy.on_window_close())
    counts = final.count(name="counts", store_type=engine, transactional=transactional)
    named = counts.to_stream(lambda windowed, _: f"{windowed.key}{windowed.window.start}")
    named.to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def builders_of(topology: Topology) -> dict[str, StoreSpecBuilder]:
    stores = topology.stores.items()
    return {name: builder for name, builder in stores if isinstance(builder, StoreSpecBuilder)}


def model() -> Counter[tuple[str, int]]:
    """Return each final result, once."""
    counts: Counter[tuple[str, int]] = Counter()
    stream_time = 0
    for key, time in [record for records in ROUNDS for record in records]:
        stream_time = max(stream_time, FIRST_MS + time)
        for window in WINDOWS.windows_for(FIRST_MS + time):
            if window.end > stream_time - GRACE_MS:
                counts[key, window.start] += 1
    closed = stream_time - GRACE_MS - SIZE_MS
    return Counter(
        (f"{key}{start}", count) for (key, start), count in counts.items() if start <= closed
    )


class FinalResultsRun(CrashRun):
    """Some rounds of records, some of them late; the last closes nearly all."""

    engine = StoreEngine.ROCKSDB
    builders = builders_of(closing(engine))
    config = AT_ONCE

    def topology(self, *, transactional: bool) -> Topology:
        return closing(self.engine, transactional=transactional)

    def feed_and_process(self) -> None:
        self.rounds = list(ROUNDS)
        self.feed_rest()

    def feed_rest(self) -> None:
        while self.rounds and self.process.running:
            for key, time in self.rounds.pop(0):
                self.app.broker.produce("in", key.encode(), b"x", FIRST_MS + time)
            self.process_all()

    def check_outputs(self) -> None:
        assert Counter(self.app.outputs()) == model()


class InMemoryRun(FinalResultsRun):
    """All is restored from the changelog."""

    engine = StoreEngine.IN_MEMORY
    builders = builders_of(closing(engine))


class WaitingRun(FinalResultsRun):
    """Results wait for the clock, over commits and crashes."""

    config = ONE_A_SECOND

    def check_outputs(self) -> None:
        """What has closed may wait still: for the next record after the clock's second."""
        sent = Counter(self.app.outputs())
        assert sent <= model()


KINDS = [FinalResultsRun, InMemoryRun, WaitingRun]


@pytest.mark.parametrize("kind", KINDS)
def test_the_run_sends_final_results_in_several_commits(
    kind: type[FinalResultsRun], tmp_path: Path
) -> None:
    """Otherwise the crashes below would miss what they are for."""
    run = kind(tmp_path, "exactly_once", seed=0)
    steps_of(run)
    run.app.broker.settle()

    assert len(model()) > 5
    run.check_outputs()
    assert run.app.outputs()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_crash_at_a_step_sends_each_final_result_once(
    kind: type[FinalResultsRun], guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=11) > 5


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_crash_at_every_single_step_sends_each_final_result_once(
    kind: type[FinalResultsRun], guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=1) > 50
