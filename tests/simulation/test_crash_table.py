"""A crash before and after every step of a commit, over every kind of store.

One run without trouble gives the list of steps: each call of a port and each write to a disk, from
joining the group to leaving it. Then one run a step dies there. After each, on the disk: every
store holds exactly what its changelog holds up to the store's own offset. After a restart: every
output once, every store equal to its changelog.

Spec: KIP-844 "Possible failure scenarios", KIP-892 "Proposed Changes", KIP-1035.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams.ids import TopicPartition
from pystreams.stores.segments import segment_id_of
from pystreams.stores.spec import StoreKind
from tests.every_store import BUILDERS, everywhere, replayed
from tests.simulation.applications import Application, running_tasks

pytestmark = pytest.mark.simulation

STEP_MS = 25_000
FIRST_MS = 1_000_000


class CrashRun:
    """One application whose stores get and expire segments while it runs."""

    def __init__(self, root: Path, guarantee: str, seed: int) -> None:
        self.app = Application(root, guarantee)
        self.app.faults.random.seed(seed)
        self.process = self.app.process(topology=everywhere("in", "out"))
        self.expected: dict[str, int] = {}
        self.time = FIRST_MS

    def feed_and_process(self) -> None:
        """Three commits' worth of records; stream time moves on by more than the retention."""
        for _ in range(3):
            for key in ("a", "b", "a"):
                self.time += STEP_MS
                self.app.broker.produce("in", key.encode(), b"x", self.time)
                self.expected[key] = self.expected.get(key, 0) + 1
            self.process_all()

    def process_all(self) -> None:
        for _ in range(400):
            if not self.process.running:
                return
            self.process.step()
            log = self.app.broker.log(TopicPartition("in", 0)).committed_records()
            if log[-1].message_offset < (self.app.committed() or 0):
                return
        raise AssertionError("\n".join(["input is left", *self.app.faults.trace[-40:]]))

    def until_running(self) -> None:
        for _ in range(400):
            if not self.process.running or running_tasks(self.process):
                return
            self.process.step()
        raise AssertionError("it does not start")

    def run(self) -> None:
        """All of it, until the process has stopped or died."""
        self.process.start()
        self.feed_and_process()
        if self.process.running:
            self.process.stop()

    # ------------------------------------------------------------------ checks

    def check_disk(self, *, up_to_the_end: bool = False) -> None:
        """Compare each store on the disk with its changelog, replayed up to the store's offset."""
        self.app.broker.settle()
        for _, name, files in self.process.disk.stores():
            changelog = TopicPartition(f"app-{name}-changelog", 0)
            packed = files.metadata.get(str(changelog).encode())
            offset = -1 if packed is None else int.from_bytes(packed, "big")
            logged = self.app.broker.log(changelog).committed_records()
            if up_to_the_end:
                assert offset >= logged[-1].message_offset, f"store {name} is behind"
            expected, oldest_live = replayed(
                name, [message for message in logged if message.message_offset <= offset]
            )
            held = {
                key: value
                for key, value in files.data.items()
                if oldest_live is None or not 0 <= segment_id_of(key) < oldest_live
            }
            assert held == expected, f"store {name} at offset {offset}"

    def check_outputs(self) -> None:
        """Each key's counts are 1, 2, ..., n: nothing lost, nothing twice."""
        counts: dict[str, list[int]] = {}
        for key, count in self.app.outputs():
            counts.setdefault(key, []).append(count)
        assert counts == {key: list(range(1, n + 1)) for key, n in self.expected.items()}


def steps_of(root: Path, guarantee: str) -> list[str]:
    """Return the steps of a run without trouble; each is a place to die."""
    run = CrashRun(root, guarantee, seed=0)
    run.run()
    own = f"{run.process.process_id} "
    return [line for line in run.app.faults.trace if line.startswith(own)]


def test_run_covers_every_kind_of_step(tmp_path: Path) -> None:
    """Otherwise the crashes below would miss what they are for."""
    steps = "\n".join(steps_of(tmp_path, "exactly_once"))
    for kind in ("send", "flush", "commit", "write ", "written ", "lock", "close"):
        assert kind in steps, f"no {kind!r} among the steps:\n{steps}"
    for name in BUILDERS:
        assert f"write {name}" in steps


def test_segments_come_and_go_while_it_runs(tmp_path: Path) -> None:
    run = CrashRun(tmp_path, "exactly_once", seed=0)
    run.run()
    for _, name, files in run.process.disk.stores():
        if BUILDERS[name].spec.kind is StoreKind.KEY_VALUE:
            continue
        segments = {segment_id_of(key) for key in files.data if segment_id_of(key) >= 0}
        first = FIRST_MS // 60_000
        assert segments, name
        assert min(segments) > first, f"{name}: nothing has expired"


GUARANTEES = ["exactly_once", "exactly_once_v2"]


def die_at_each_step(root: Path, guarantee: str, every: int, first: int = 0) -> int:
    """Run once a step and die there; return how often it died."""
    steps = len(steps_of(root / "reference", guarantee))
    deaths = 0
    for step in range(first, steps, every):
        run = CrashRun(root / f"step-{step}", guarantee, seed=step)
        run.process.start()
        run.process.crash_in(step)
        run.feed_and_process()
        if run.process.running:
            run.process.stop()
        deaths += run.process.crashes
        where = next((line for line in run.app.faults.trace if "CRASH" in line), "no crash")
        print(f"step {step}: {where}")
        run.check_disk()
        run.process.crash_in(None)
        if not run.process.running:
            run.process.start()
        run.until_running()
        run.process_all()
        run.process.stop()
        run.check_disk(up_to_the_end=True)
        run.check_outputs()
    return deaths


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_crash_at_a_step_leaves_every_store_with_what_its_offset_says(
    guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(tmp_path, guarantee, every=7) > 10


@pytest.mark.sweep
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_crash_at_every_single_step_leaves_every_store_with_what_its_offset_says(
    guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(tmp_path, guarantee, every=1) > 80
