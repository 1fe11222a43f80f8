"""The crash table of tables whose rows expire, a portion at a time, and of changing how long.

After each crash a store holds what its offset says; after the restart each row that is over was
told to be gone once, in order, as without the crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    IsolationLevel,
    Materialized,
    StoreEngine,
    StreamsBuilder,
    TopicPartition,
    Topology,
    serdes,
)
from pystreams.stores.kinds.expiring import rows as expiring_rows
from pystreams.testing import TopologyTestDriver
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.crash_tables.crash_run import FIRST_MS, CrashRun, die_at_each_step, steps_of
from tests.simulation.crash_tables.test_crash_table_of_a_suppression import stores_of
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once")
TYPES: Any = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}
TTL_MS = 100
PORTION = 2
BATCHES = (
    [*((f"k{number}", 1 << number, number) for number in range(7)), ("k1", 256, 20)],
    [("k5", 512, 500), ("k6", 1024, 510)],
    [("k5", 2048, 520), ("late", 1, 3), ("k6", 4096, 615), ("k1", 8192, 2000)],
)
"""Key, value and time; each is committed before the next one comes."""


def expiring(engine: StoreEngine, ttl_ms: int | None = TTL_MS) -> Topology:
    """Each change of a table; 0 for a row that is gone."""
    builder = StreamsBuilder()
    kept: Any = Materialized(name="kept", ttl_ms=ttl_ms, store_type=engine, caching=False)
    table = builder.table("in", materialized=kept, **TYPES)
    table.to_stream().map_values(lambda value: value or 0).to("out", **TYPES)
    return builder.build()


def without_a_crash() -> list[tuple[str, int]]:
    with TopologyTestDriver(expiring(StoreEngine.IN_MEMORY)) as driver:
        topic = driver.create_input_topic("in", serdes.STRING, serdes.LONG)
        for key, value, time in (record for batch in BATCHES for record in batch):
            topic.pipe_input(key, value, timestamp=FIRST_MS + time)
        output = driver.create_output_topic("out", serdes.STRING, serdes.LONG)
        return [(found.key, found.value) for found in output.read_records()]


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiring_rows, "PORTION_BYTES", PORTION * 1024)


class ExpiringRun(CrashRun):
    """Stores may hold so little that each portion makes a commit due."""

    engine = StoreEngine.ROCKSDB
    builders = stores_of(expiring(engine))
    config: Mapping[str, Any] = {"statestore_uncommitted_max_bytes": 64}

    def topology(self, *, transactional: bool) -> Topology:
        return expiring(self.engine)

    def feed_and_process(self) -> None:
        self.batches = list(BATCHES)
        self.feed_rest()

    def feed_rest(self) -> None:
        while self.batches and self.process.running:
            self.feed(self.batches.pop(0))
            self.process_all()

    def feed(self, batch: list[tuple[str, int, int]]) -> None:
        pack = serdes.LONG.serializer("")
        for key, value, time in batch:
            self.app.broker.produce("in", key.encode(), pack(value), FIRST_MS + time)

    def process_all(self) -> None:
        """Until what was read is committed, and nothing is left."""
        super().process_all()
        for _ in range(400):
            left = [task for task in self.tasks() if task.unfinished or task.needs_commit()]
            if not self.process.running or not left:
                return
            self.step()
        raise AssertionError("something is left")

    def check_outputs(self) -> None:
        assert self.app.outputs() == without_a_crash()


class ExpiringRunInMemory(ExpiringRun):
    engine = StoreEngine.IN_MEMORY
    builders = stores_of(expiring(engine))


def test_the_run_expires_rows_in_portions_that_are_committed_one_by_one(tmp_path: Path) -> None:
    """Otherwise the crashes below would miss what they are for."""
    run = ExpiringRun(tmp_path, "exactly_once_v2", seed=0)
    run.process.start()
    run.batches = list(BATCHES[:2])
    run.feed_rest()
    writes = [line for line in run.app.faults.trace if "write kept" in line]
    run.process.stop()

    assert len(writes) > 1 + len(BATCHES[0]) // PORTION
    assert [value for _, value in without_a_crash()].count(0) > 7


@pytest.mark.parametrize("kind", [ExpiringRun, ExpiringRunInMemory])
@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_crash_at_a_step_tells_each_row_to_be_gone_once(
    guarantee: str, kind: type[ExpiringRun], tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=11) > 5


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [ExpiringRun, ExpiringRunInMemory])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_crash_at_every_single_step_tells_each_row_to_be_gone_once(
    guarantee: str, kind: type[ExpiringRun], tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=1) > 60


def test_steps_write_the_store(tmp_path: Path) -> None:
    steps = "\n".join(steps_of(ExpiringRun(tmp_path, "exactly_once_v2", seed=0)))

    assert "write kept" in steps


# ---------------------------------------------------------------------- a second deploy


class Deploys:
    """One application, deployed anew on the same disk."""

    def __init__(self, root: Path, ttl_ms: int | None) -> None:
        self.run = ExpiringRun(root, "exactly_once_v2", seed=0)
        self.run.process = self.process(ttl_ms)
        self.run.process.start()

    def process(self, ttl_ms: int | None) -> SimulatedProcess:
        topology = expiring(StoreEngine.ROCKSDB, ttl_ms)
        return self.run.app.process(topology=topology, disk=self.run.process.disk)

    def again(self, ttl_ms: int | None) -> None:
        self.run.process.stop()
        self.run.process = self.process(ttl_ms)
        self.run.process.start()
        self.run.until_running()
        self.run.process_all()

    def pipe(self, *batch: tuple[str, int, int]) -> None:
        self.run.feed(list(batch))
        self.run.process_all()

    def rows(self) -> dict[str, int]:
        [task] = self.run.tasks()
        store = task.state_manager.stores()["kept"]
        view = store.read_only(IsolationLevel.READ_COMMITTED)
        return {key: row.value for key, row in view.all()}

    def rebuilt(self) -> bool:
        """Whether the store was read from the beginning of its changelog by the last deploy."""
        [task] = self.run.tasks()
        return task.state_manager.restored_records > 0

    def live_in_changelog(self) -> set[bytes | None]:
        self.run.app.broker.settle()
        partition = TopicPartition("app-kept-changelog", 0)
        last = {
            message.message_key: message.message_value
            for message in self.run.app.broker.log(partition).committed_records()
        }
        return {key for key, value in last.items() if value is not None}


OLD, MIDDLE, NEW = ("old", 1, 0), ("middle", 2, 400), ("new", 3, 450)


@pytest.mark.parametrize(
    ("before", "after", "left", "rebuilt"),
    [
        (1000, 100, {"middle", "new"}, False),
        (460, 1000, {"old", "middle", "new"}, False),
        (None, 100, {"middle", "new"}, True),
        (460, None, {"old", "middle", "new"}, True),
    ],
    ids=["shorter", "longer", "from now on", "no more"],
)
def test_another_time_to_live_counts_for_rows_that_are_there(
    before: int | None, after: int | None, left: set[str], rebuilt: bool, tmp_path: Path
) -> None:
    """What has no index by time is made anew from the changelog, and so is what has one too many.

    Without a further record: what is over goes at the start.
    """
    deploys = Deploys(tmp_path, before)
    deploys.pipe(OLD, MIDDLE, NEW)

    deploys.again(after)

    assert deploys.rows().keys() == left
    assert deploys.rebuilt() == rebuilt
    assert deploys.live_in_changelog() == {key.encode() for key in left}
    deploys.run.process.stop()
