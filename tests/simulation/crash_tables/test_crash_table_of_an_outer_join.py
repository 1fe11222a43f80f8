"""The crash table of an outer join of two streams: windows of duplicates, and lists that wait.

After each crash all three stores hold what their offsets say; after the restart each pair is
joined once, and each record that met none is joined with nothing, once.

`test_crash_table_of_an_outer_join_writing_through` does the same with stores that are not
transactional.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pystreams import JoinWindows, StreamsBuilder, Topology, serdes
from pystreams.stores.kinds.list.kind import LIST
from pystreams.stores.kinds.window.kind import WINDOW
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.simulation.crash_tables.crash_run import CrashRun, die_at_each_step, steps_of
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once")
FIRST_MS = 1_000_000
STEP_MS = 50
APART_MS = 20
GRACE_MS = 1_000

Fed = tuple[str, int, int]
"""Topic, number, time."""
ROUNDS: list[list[Fed]] = [
    [("in", 1, 0), ("in", 2, STEP_MS), ("others", 1, 10)],
    [("in", 3, 2 * STEP_MS), ("others", 3, 2 * STEP_MS - 10), ("others", 9, STEP_MS + 25)],
    [("in", 4, 3 * STEP_MS), ("others", 4, 3 * STEP_MS), ("others", 5, 3 * STEP_MS)],
]
PAIRS = [1001, 3003, 4004, 4005]
ALONE = [2000, 9]
LAST: Fed = ("in", 7, 10 * GRACE_MS)
"""Moves the time on, and waits itself."""


def joining(*, transactional: bool = True) -> Topology:
    builder = StreamsBuilder()
    types: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}
    left, right = builder.stream("in", **types), builder.stream("others", **types)
    joined = left.outer_join(
        right,
        lambda value, other: (value or 0) * 1000 + (other or 0),
        JoinWindows.of_time_difference_and_grace(APART_MS, GRACE_MS),
        transactional=transactional,
    )
    joined.to("out", **types)
    return builder.build()


BUILDERS = {
    name: builder
    for name, builder in joining().stores.items()
    if isinstance(builder, StoreSpecBuilder)
}
CONFIG = {"outer_join_emit_interval_ms": 0}


class OuterJoinRun(CrashRun):
    """Some rounds of records; then the time moves on, and those that met none are joined alone."""

    builders = BUILDERS
    config = CONFIG

    def topology(self, *, transactional: bool) -> Topology:
        return joining(transactional=transactional)

    def feed_and_process(self) -> None:
        self.rounds = list(ROUNDS)
        self.last_is_fed = False
        self.feed_rest()

    def feed_rest(self) -> None:
        while self.rounds and self.process.running:
            self.feed(self.rounds.pop(0))
            self.process_all()
        if self.process.running and not self.last_is_fed:
            self.last_is_fed = True
            self.feed([LAST])
            self.process_all()

    def feed(self, records: list[Fed]) -> None:
        pack = serdes.LONG.serializer("")
        for topic, number, time in records:
            self.app.broker.produce(topic, b"k", pack(number), FIRST_MS + time)

    def check_outputs(self) -> None:
        """The last record still waits."""
        assert sorted(number for _, number in self.app.outputs()) == sorted(PAIRS + ALONE)


def test_the_run_has_windows_and_lists_and_joins_all_but_the_last(tmp_path: Path) -> None:
    """Otherwise the crashes below would miss what they are for."""
    run = OuterJoinRun(tmp_path, "exactly_once", seed=0)
    steps = "\n".join(steps_of(run))

    kinds = [builder.spec.kind for builder in run.builders.values()]
    assert Counter(kinds) == {LIST: 1, WINDOW: 2}
    for name in run.builders:
        assert f"write {name}" in steps
    run.check_outputs()


@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_crash_at_a_step_joins_each_pair_and_each_single_record_once(
    guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(OuterJoinRun, tmp_path, guarantee, every=17) > 5


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_crash_at_every_single_step_joins_each_pair_and_each_single_record_once(
    guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(OuterJoinRun, tmp_path, guarantee, every=1) > 80
