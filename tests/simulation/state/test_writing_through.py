"""Stores that are not transactional count exactly once as well: they are rebuilt when in doubt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from pystreams import StreamsBuilder, Topology, serdes
from pystreams.stores.dirty_map import write_through
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.operations.counting import TOPOLOGIES, CountingSimulation, Scenario
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once", "at_least_once")


def count_directly(*, caching: bool) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    grouped = stream.group_by(
        lambda _, value: value, key_serde=serdes.STRING, value_serde=serdes.STRING
    )
    counts = grouped.count(name="counts", caching=caching, transactional=False)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


class WritingThrough(CountingSimulation):
    """A store here is ahead of its offset at times; only what comes of it is checked."""

    def check_disks(self, process: SimulatedProcess) -> None:
        pass


@pytest.fixture(autouse=True)
def _quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
@pytest.mark.parametrize("first_seed", first_of(*range(0, 600, 12)))
def test_counts_are_right_after_any_number_of_crashes_and_rebalances(
    first_seed: int, guarantee: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TOPOLOGIES, "count_directly", count_directly)
    monkeypatch.setattr(write_through, "_BATCH_RECORDS", 2)
    for seed in range(first_seed, first_seed + 12):
        scenario = replace(Scenario.drawn(seed, guarantee), topology="count_directly")
        simulation = WritingThrough(seed, scenario, tmp_path / str(seed))
        try:
            simulation.run()
        except BaseException as error:
            error.add_note(f"seed {seed}: {scenario}")
            raise
