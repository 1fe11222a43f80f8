"""The crash table of what one record sets off and is done in portions, with commits between them.

One record makes everything due that a suppression holds back: more than leaves at once. Wherever
the application dies, between two portions above all, each change goes on once, in order, and what
is left goes on without another record.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pystreams import BufferConfig, StoreEngine, StreamsBuilder, Suppressed, Topology, serdes
from pystreams.stores.kinds.suppress import store as suppression_buffer
from pystreams.testing import TopologyTestDriver
from tests.simulation.crash_tables.crash_run import CrashRun, die_at_each_step, steps_of
from tests.simulation.crash_tables.test_crash_table_of_a_suppression import FIRST_MS, stores_of
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once")
TYPES: Any = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}
WAITING = 15
PORTION = 2
BATCHES = (
    [(f"k{number}", number, number) for number in range(WAITING)],
    [("closing", 100, 1000)],
    [("k1", 101, 1001), ("last", 102, 3000)],
)
RESULTS = [*((f"k{n}", n) for n in range(WAITING)), ("closing", 100), ("k1", 101)]


def suppressing(engine: StoreEngine) -> Topology:
    builder = StreamsBuilder()
    config = BufferConfig.unbounded(store_type=engine)
    table = builder.table("in", **TYPES).suppress(
        Suppressed.until_time_limit(900, config).with_name("timed")
    )
    table.to_stream().to("out", **TYPES)
    return builder.build()


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suppression_buffer, "PORTION_BYTES", PORTION * 1024)


class PortionsRun(CrashRun):
    """Stores may hold so little that each portion makes a commit due."""

    engine = StoreEngine.ROCKSDB
    builders = stores_of(suppressing(engine))
    config: Mapping[str, Any] = {"statestore_uncommitted_max_bytes": 64}

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

    def process_all(self) -> None:
        """Until what was read is committed, and nothing is left."""
        super().process_all()
        for _ in range(400):
            running = [task for task in self.tasks() if task.unfinished or task.needs_commit()]
            if not self.process.running or not running:
                return
            self.step()
        raise AssertionError("something is left")

    def check_outputs(self) -> None:
        assert self.app.outputs() == RESULTS


class PortionsRunInMemory(PortionsRun):
    engine = StoreEngine.IN_MEMORY
    builders = stores_of(suppressing(engine))


def test_the_results_are_those_without_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suppression_buffer, "PORTION_BYTES", 1 << 30)
    with TopologyTestDriver(suppressing(StoreEngine.IN_MEMORY)) as driver:
        topic = driver.create_input_topic("in", serdes.STRING, serdes.LONG)
        for key, value, time in (record for batch in BATCHES for record in batch):
            topic.pipe_input(key, value, timestamp=FIRST_MS + time)
        output = driver.create_output_topic("out", serdes.STRING, serdes.LONG)
        assert [(found.key, found.value) for found in output.read_records()] == RESULTS


def test_a_driver_has_all_results_of_a_record_before_the_next_one() -> None:
    with TopologyTestDriver(suppressing(StoreEngine.IN_MEMORY)) as driver:
        topic = driver.create_input_topic("in", serdes.STRING, serdes.LONG)
        output = driver.create_output_topic("out", serdes.STRING, serdes.LONG)
        for key, value, time in (*BATCHES[0], *BATCHES[1]):
            topic.pipe_input(key, value, timestamp=FIRST_MS + time)
        assert [(found.key, found.value) for found in output.read_records()] == RESULTS[:WAITING]


def test_portions_of_one_record_are_committed_one_after_the_other(tmp_path: Path) -> None:
    """Otherwise no crash below would fall between two of them."""
    run = PortionsRun(tmp_path, "exactly_once_v2", seed=0)
    run.process.start()
    run.batches = list(BATCHES[:2])
    run.feed_rest()
    commits = [line for line in run.app.faults.trace if "write timed-store" in line]
    run.process.stop()

    assert len(commits) > 1 + WAITING // PORTION


def test_what_is_left_goes_on_after_a_restart_without_another_record(tmp_path: Path) -> None:
    run = PortionsRun(tmp_path, "exactly_once_v2", seed=0)
    run.process.start()
    run.batches = list(BATCHES[:1])
    run.feed_rest()
    run.app.broker.produce("in", b"closing", serdes.LONG.serializer("")(100), FIRST_MS + 1000)
    while not run.app.outputs():
        run.step()
    run.process.stop()
    run.app.broker.settle()
    assert 0 < len(run.app.outputs()) < WAITING

    run.process.start()
    run.until_running()
    run.process_all()
    run.process.stop()
    run.app.broker.settle()
    assert run.app.outputs() == RESULTS[:WAITING]


@pytest.mark.parametrize("kind", [PortionsRun, PortionsRunInMemory])
@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_crash_at_a_step_lets_each_change_go_once(
    guarantee: str, kind: type[PortionsRun], tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=11) > 5


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [PortionsRun, PortionsRunInMemory])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_crash_at_every_single_step_lets_each_change_go_once(
    guarantee: str, kind: type[PortionsRun], tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=1) > 60


def test_steps_write_the_buffer(tmp_path: Path) -> None:
    steps = "\n".join(steps_of(PortionsRun(tmp_path, "exactly_once_v2", seed=0)))

    assert "write timed-store" in steps
