"""One application with every kind of store, run from its first call to its last, and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pystreams.ids import TopicPartition
from pystreams.stores.segments import segment_id_of
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.testing.simulation.disk import StoreFiles
from pystreams.topology.topology import Topology
from tests.every_store import BUILDERS, everywhere, replayed
from tests.simulation.applications import Application, running_tasks

STEP_MS = 25_000
FIRST_MS = 1_000_000


class CrashRun:
    """One application whose stores get and expire segments while it runs.

    Args:
        root: An empty directory.
        guarantee: The processing guarantee.
        seed: Decides what happens in the background.
        transactional: Whether the stores wait for the commit.
    """

    builders: Mapping[str, StoreSpecBuilder] = BUILDERS
    config: Mapping[str, Any] = {}

    def __init__(
        self, root: Path, guarantee: str, seed: int, *, transactional: bool = True
    ) -> None:
        self.app = Application(root, guarantee, **self.config)
        self.app.faults.random.seed(seed)
        self.process = self.app.process(topology=self.topology(transactional=transactional))
        for topic in self.process.plan.source_topics():
            if topic not in self.app.broker.partition_counts():
                self.app.broker.create_topic(topic, 1)
        self.dropped_early = 0
        """Live entries that were found dropped, which expire with what comes next."""
        self.expected: dict[str, int] = {}
        self.time = FIRST_MS

    def topology(self, *, transactional: bool) -> Topology:
        return everywhere("in", "out", transactional=transactional)

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
            if all(self.is_committed(topic) for topic in self.process.plan.source_topics()):
                return
        raise AssertionError("\n".join(["input is left", *self.app.faults.trace[-40:]]))

    def is_committed(self, topic: str) -> bool:
        partition = TopicPartition(topic, 0)
        written = self.app.broker.log(partition).committed_records()
        offset = self.app.broker.group.offsets.get(partition)
        reached = 0 if offset is None else offset.next_offset
        return not written or written[-1].message_offset < reached

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

    def die_at(self, step: int) -> None:
        """Run, and die at a step."""
        self.process.start()
        self.process.crash_in(step)
        self.feed_and_process()
        if self.process.running:
            self.process.stop()
        where = next((line for line in self.app.faults.trace if "CRASH" in line), "no crash")
        print(f"step {step}: {where}")

    def feed_rest(self) -> None:
        """Feed and process what a run that died had not fed yet; here there is nothing."""

    def go_on(self) -> None:
        """Start again, process what is left and what was not fed yet, and stop in order."""
        self.process.crash_in(None)
        if not self.process.running:
            self.process.start()
        self.until_running()
        self.process_all()
        self.feed_rest()
        self.process.stop()

    # ------------------------------------------------------------------ checks

    def check_disk(
        self,
        *,
        up_to_the_end: bool = False,
        trusted: Callable[[StoreFiles], bool] = lambda _: True,
    ) -> None:
        """Compare each store on the disk with its changelog, replayed up to the store's offset.

        What was dropped for good may be live by that offset, if it has expired by all that is
        committed.

        Args:
            up_to_the_end: Whether the offset must be that of the changelog's last record.
            trusted: Which stores are held to it.
        """
        self.app.broker.settle()
        for _, name, files in self.process.disk.stores():
            if not trusted(files):
                continue
            offset = offset_of(name, files)
            changelog = TopicPartition(f"app-{name}-changelog", 0)
            logged = self.app.broker.log(changelog).committed_records()
            if up_to_the_end:
                assert offset >= logged[-1].message_offset, f"store {name} is behind"
            known = [message for message in logged if message.message_offset <= offset]
            expected, oldest_live = replayed(name, known, self.builders)
            dropped = {key for key in expected.keys() - files.data.keys() if is_dropped(key, files)}
            if dropped:
                _, oldest_by_now = replayed(name, logged, self.builders)
                assert oldest_by_now is not None
                assert max(map(segment_id_of, dropped)) < oldest_by_now, f"store {name}"
                self.dropped_early += len(dropped)
            left = {key: value for key, value in expected.items() if key not in dropped}
            assert live(files, oldest_live) == left, f"store {name} at offset {offset}"

    def check_outputs(self) -> None:
        """Each key's counts are 1, 2, ..., n: nothing lost, nothing twice."""
        assert self.counted() == {key: list(range(1, n + 1)) for key, n in self.expected.items()}

    def check_outputs_at_least_once(self) -> None:
        """Each record was counted, some perhaps more than once."""
        counted = self.counted()
        assert counted.keys() == self.expected.keys()
        for key, counts in counted.items():
            assert len(counts) >= self.expected[key]
            assert counts[-1] >= self.expected[key]

    def counted(self) -> dict[str, list[int]]:
        """Return the counts that were written of each key, in order."""
        counts: dict[str, list[int]] = {}
        for key, count in self.app.outputs():
            counts.setdefault(key, []).append(count)
        return counts


def offset_of(store: str, files: StoreFiles) -> int:
    """Return the changelog offset a store says it is at; -1 for none."""
    packed = files.metadata.get(f"app-{store}-changelog-0".encode())
    return -1 if packed is None else int.from_bytes(packed, "big")


def is_dropped(key: bytes, files: StoreFiles) -> bool:
    """Return whether a key is in a segment that was dropped."""
    return segment_id_of(key) >= 0 and key < files.dropped_below


def live(files: StoreFiles, oldest_live: int | None) -> dict[bytes, bytes]:
    """Return the entries of a store that are in no expired segment."""
    return {
        key: value
        for key, value in files.data.items()
        if oldest_live is None or not 0 <= segment_id_of(key) < oldest_live
    }


def steps_of(run: CrashRun) -> list[str]:
    """Return the steps of a run without trouble; each is a place to die."""
    run.run()
    own = f"{run.process.process_id} "
    return [line for line in run.app.faults.trace if line.startswith(own)]


def die_at_each_step(kind: type[CrashRun], root: Path, guarantee: str, every: int) -> int:
    """Run once a step and die there; check what is left and what comes of it.

    Returns:
        How often it died.
    """
    steps = len(steps_of(kind(root / "reference", guarantee, seed=0)))
    deaths = 0
    for step in range(0, steps, every):
        run = kind(root / f"step-{step}", guarantee, seed=step)
        run.die_at(step)
        deaths += run.process.crashes
        run.check_disk()
        run.go_on()
        run.check_disk(up_to_the_end=True)
        if guarantee == "at_least_once":
            run.check_outputs_at_least_once()
        else:
            run.check_outputs()
    return deaths
