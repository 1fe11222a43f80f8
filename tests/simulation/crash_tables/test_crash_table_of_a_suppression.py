"""The crash table of a suppression: changes that wait, on disk and in memory, by time and by room.

After each crash the buffer holds what its offset says, in order of time too, and knows how much
that is; after the restart each change goes on once, as without the crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pystreams import BufferConfig, StoreEngine, StreamsBuilder, Suppressed, Topology, serdes
from pystreams.stores.files.metadata import BUFFERED_BYTES, BUFFERED_RECORDS
from pystreams.stores.kinds.suppress.buffered_change import counted_bytes
from pystreams.stores.kinds.suppress.kind import SUPPRESS
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.testing import TopologyTestDriver
from pystreams.testing.simulation.disk import StoreFiles
from tests.simulation.crash_tables.crash_run import CrashRun, die_at_each_step, steps_of
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once")
TYPES: Any = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}
FIRST_MS = 1_000_000
WAIT_MS = 25
BATCHES = (
    [("a", 1, 0), ("b", 2, 3), ("a", 3, 5), ("c", 4, 9)],
    [("b", 5, 20), ("late", 6, 12), ("a", 7, 26), ("d", 8, 30)],
    [("e", 9, 31), ("b", 10, 60), ("c", 11, 61), ("f", 12, 62), ("g", 13, 63)],
)
"""Key, value and time; each is committed before the next one comes."""


def suppressing(engine: StoreEngine, *, transactional: bool = True) -> Topology:
    """The second buffer waits for ever, and lets the earliest go when it is full."""
    builder = StreamsBuilder()
    table = builder.table("in", **TYPES)
    config = BufferConfig.unbounded(store_type=engine)
    timed = table.suppress(Suppressed.until_time_limit(WAIT_MS, config).with_name("timed"))
    timed.to_stream().to("out", **TYPES)
    few = BufferConfig.max_records(2, store_type=engine)
    full = table.suppress(Suppressed.until_time_limit(10**12, few).with_name("full"))
    full.to_stream().map_values(lambda value: -value).to("out", **TYPES)
    return builder.build()


def stores_of(topology: Topology) -> Mapping[str, StoreSpecBuilder]:
    return {
        name: builder
        for name, builder in topology.stores.items()
        if isinstance(builder, StoreSpecBuilder)
    }


def without_a_crash() -> list[tuple[str, int]]:
    with TopologyTestDriver(suppressing(StoreEngine.IN_MEMORY)) as driver:
        topic = driver.create_input_topic("in", serdes.STRING, serdes.LONG)
        for key, value, time in (record for batch in BATCHES for record in batch):
            topic.pipe_input(key, value, timestamp=FIRST_MS + time)
        output = driver.create_output_topic("out", serdes.STRING, serdes.LONG)
        return [(found.key, found.value) for found in output.read_records()]


class SuppressRun(CrashRun):
    """Three commits' worth of records; some come later than others of a later time."""

    engine = StoreEngine.ROCKSDB
    builders = stores_of(suppressing(engine))

    def topology(self, *, transactional: bool) -> Topology:
        return suppressing(self.engine)

    def feed_and_process(self) -> None:
        self.batches = list(BATCHES)
        self.feed_rest()

    def feed_rest(self) -> None:
        pack = serdes.LONG.serializer("")
        while self.batches and self.process.running:
            for key, value, time in self.batches.pop(0):
                self.app.broker.produce("in", key.encode(), pack(value), FIRST_MS + time)
            self.process_all()

    def check_stores(self, **how: Any) -> None:
        super().check_stores(**how)
        for name, files in self.stores():
            if self.builders[name].spec.kind == SUPPRESS:
                check_totals(files)

    def check_outputs(self) -> None:
        assert self.app.outputs() == without_a_crash()


class SuppressRunInMemory(SuppressRun):
    engine = StoreEngine.IN_MEMORY
    builders = stores_of(suppressing(engine))


def check_totals(files: StoreFiles) -> None:
    """Compare what is said beside a buffer's data with the data."""
    held = {key[1:]: value for key, value in files.data.items() if key[:1] == b"\x01"}
    in_order = [key for key in files.data if key[:1] == b"\x00"]
    totals = [
        int.from_bytes(files.metadata.get(name, b""), "big")
        for name in (BUFFERED_RECORDS, BUFFERED_BYTES)
    ]
    counted = sum(counted_bytes(key, value) for key, value in held.items())
    assert totals == [len(held), counted]
    assert len(in_order) == len(held)


@pytest.mark.parametrize("kind", [SuppressRun, SuppressRunInMemory])
def test_the_run_lets_changes_go_and_ends_with_some_that_wait(
    kind: type[SuppressRun], tmp_path: Path
) -> None:
    """Otherwise the crashes below would miss what they are for."""
    run = kind(tmp_path, "exactly_once", seed=0)
    run.process.start()
    run.feed_and_process()
    run.app.broker.settle()
    run.check_outputs()
    run.check_stores(up_to_the_end=True)
    held = {name: len(files.data) for name, files in run.stores() if name.endswith("-store")}
    run.process.stop()

    assert len(without_a_crash()) > 10
    assert held == {"timed-store": 2 * 4, "full-store": 2 * 2}


@pytest.mark.parametrize("kind", [SuppressRun, SuppressRunInMemory])
@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_crash_at_a_step_lets_each_change_go_once(
    guarantee: str, kind: type[SuppressRun], tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=11) > 5


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [SuppressRun, SuppressRunInMemory])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_crash_at_every_single_step_lets_each_change_go_once(
    guarantee: str, kind: type[SuppressRun], tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=1) > 60


def test_steps_write_both_buffers(tmp_path: Path) -> None:
    steps = "\n".join(steps_of(SuppressRun(tmp_path, "exactly_once_v2", seed=0)))

    for name in ("timed-store", "full-store"):
        assert f"write {name}" in steps
