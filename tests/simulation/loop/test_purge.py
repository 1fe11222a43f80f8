"""When records of repartition topics are deleted: after commits, also while input never pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pystreams import StreamsBuilder, TopicPartition, serdes
from pystreams.errors import RetriableClientError
from tests.simulation.applications import PATIENCE, Application

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams import Topology
    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

BETWEEN = TopicPartition("app-counts-repartition", 0)
INTERVAL_MS = 500
STEP_MS = 20

each_guarantee = pytest.mark.parametrize(
    "guarantee", ["at_least_once", "exactly_once", "exactly_once_v2"]
)


def regrouped() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    grouped = stream.group_by(lambda key, _: key[0], key_serde=serdes.STRING)
    grouped.count(name="counts").to_stream().to("out", value_serde=serdes.LONG)
    return builder.build()


class Regrouping:
    """An application that is given new records before each iteration of its loop."""

    def __init__(self, root: Path, guarantee: str) -> None:
        self.app = Application(root, guarantee, repartition_purge_interval_ms=INTERVAL_MS)
        self.process: SimulatedProcess = self.app.process(topology=regrouped())
        self.process.start()

    def step(self) -> None:
        self.app.feed("a1", "b1")
        self.app.clock.advance_ms(STEP_MS)
        self.process.step()

    def run_until_purged(self, times: int) -> None:
        for _ in range(PATIENCE):
            if self.purges() >= times:
                return
            self.step()
        raise AssertionError(f"{self.purges()} purges, not {times}")

    def purges(self) -> int:
        return sum("delete_records" in call for call in self.app.faults.trace)

    def beginning(self) -> int:
        return self.app.broker.log(BETWEEN).beginning

    def committed(self) -> int:
        offset = self.app.broker.group.offsets.get(BETWEEN)
        return 0 if offset is None else offset.next_offset


@each_guarantee
def test_repartition_topics_are_purged_once_an_interval_while_input_never_pauses(
    guarantee: str, tmp_path: Path
) -> None:
    regrouping = Regrouping(tmp_path, guarantee)
    regrouping.run_until_purged(1)
    clock = regrouping.app.clock
    started_ms = clock.monotonic_ms()
    for _ in range(10 * INTERVAL_MS // STEP_MS):
        regrouping.step()
    intervals = (clock.monotonic_ms() - started_ms) / INTERVAL_MS

    assert intervals / 2 <= regrouping.purges() - 1 <= intervals


@each_guarantee
def test_a_purge_deletes_all_that_is_committed_and_nothing_else(
    guarantee: str, tmp_path: Path
) -> None:
    regrouping = Regrouping(tmp_path, guarantee)
    for times in range(1, 6):
        regrouping.run_until_purged(times)
        # What is decided: markers and offsets of a transaction follow in the background.
        regrouping.app.broker.settle()

        assert 0 < regrouping.beginning() == regrouping.committed()


@each_guarantee
def test_a_purge_that_failed_is_tried_again_after_an_interval(
    guarantee: str, tmp_path: Path
) -> None:
    regrouping = Regrouping(tmp_path, guarantee)
    regrouping.app.faults.fail_next("delete_records", RetriableClientError("no answer"))
    regrouping.run_until_purged(1)
    assert regrouping.beginning() == 0
    regrouping.run_until_purged(2)

    assert regrouping.beginning() > 0


def test_what_a_failed_commit_would_cover_is_not_purged(tmp_path: Path) -> None:
    regrouping = Regrouping(tmp_path, "at_least_once")
    regrouping.run_until_purged(1)
    committed = regrouping.committed()
    for _ in range(PATIENCE):
        regrouping.app.faults.fail_next("commit", RetriableClientError("no answer"))
    for _ in range(2 * INTERVAL_MS // STEP_MS):
        regrouping.step()

    assert (regrouping.committed(), regrouping.beginning()) == (committed, committed)
    assert regrouping.purges() == 1
