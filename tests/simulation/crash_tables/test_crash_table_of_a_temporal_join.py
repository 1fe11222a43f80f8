"""The crash table of a join whose records wait in a buffer: a versioned table with a grace period.

After each crash the buffer and the table's history hold what their offsets say; after the restart
each order is joined once, with the rate of its own time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pystreams import Materialized, StreamsBuilder, Topology, serdes
from pystreams.stores.kinds.buffer.kind import BUFFER
from pystreams.stores.kinds.versioned.kind import VERSIONED
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.simulation.crash_tables.crash_run import CrashRun, die_at_each_step, steps_of
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once")
FIRST_MS = 1_000_000
RATE_MS = 100
"""A rate holds for so long."""
GRACE_MS = 25
ORDERS = 6


def converting() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.LONG)
    rates = builder.table(
        "rates",
        key_serde=serdes.STRING,
        value_serde=serdes.LONG,
        materialized=Materialized(name="rates", history_retention_ms=60_000),
    )
    converted = orders.join(rates, lambda order, rate: order * rate, grace_period_ms=GRACE_MS)
    converted.to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def stores_of(topology: Topology) -> Mapping[str, StoreSpecBuilder]:
    return {
        name: builder
        for name, builder in topology.stores.items()
        if isinstance(builder, StoreSpecBuilder)
    }


class JoinRun(CrashRun):
    """Rates first; then orders, each held back until the next ones have moved the time on."""

    builders = stores_of(converting())

    def topology(self, *, transactional: bool) -> Topology:
        return converting()

    def feed_and_process(self) -> None:
        pack = serdes.LONG.serializer("")
        for number in range(3):
            time = FIRST_MS + number * RATE_MS
            self.app.broker.produce("rates", b"k", pack(10 + number), time)
        self.orders = list(range(ORDERS))
        self.process_all()
        self.feed_rest()

    def feed_rest(self) -> None:
        """Feed what is left, two by two; a rate must be there before the orders of its time."""
        pack = serdes.LONG.serializer("")
        while self.orders and self.process.running:
            for number in self.orders[:2]:
                time = FIRST_MS + number * RATE_MS // 2
                self.app.broker.produce("in", b"k", pack(1 + number), time)
            del self.orders[:2]
            self.process_all()

    def check_outputs(self) -> None:
        """The last order is still held back."""
        times = range(ORDERS - 1)
        assert [number for _, number in self.app.outputs()] == [
            (1 + number) * (10 + number // 2) for number in times
        ]


def test_the_run_has_a_buffer_and_a_history_and_joins_all_but_the_last(tmp_path: Path) -> None:
    """Otherwise the crashes below would miss what they are for."""
    run = JoinRun(tmp_path, "exactly_once", seed=0)
    steps = "\n".join(steps_of(run))
    run.app.broker.settle()

    kinds = {builder.spec.kind: name for name, builder in run.builders.items()}
    assert kinds.keys() == {BUFFER, VERSIONED}
    for name in kinds.values():
        assert f"write {name}" in steps
    run.check_outputs()
    held = {name: files.data for _, name, files in run.process.disk.stores()}
    assert len(held[kinds[BUFFER]]) == 1


@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_crash_at_a_step_joins_each_order_once_with_the_rate_of_its_time(
    guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(JoinRun, tmp_path, guarantee, every=13) > 5


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_crash_at_every_single_step_joins_each_order_once_with_the_rate_of_its_time(
    guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(JoinRun, tmp_path, guarantee, every=1) > 60
