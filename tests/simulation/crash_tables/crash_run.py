"""One application with every kind of store, run from its first call to its last, and checked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from pystreams import StoreEngine, StreamsError, TopicPartition, Topology
from pystreams.record import StaticMessage
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.core.task import StreamTask
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.stores.time_segments.segments import segment_id_of
from pystreams.testing.simulation.disk import StoreFiles
from tests.every_store import (
    BUILDERS,
    WriteEverywhere,
    everywhere,
    replayed,
    without_stale_entries,
)
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
    write: type[WriteEverywhere] = WriteEverywhere
    config: Mapping[str, Any] = {}
    left_out: Collection[str] = ()
    """Stores that are not compared with their changelogs."""

    def __init__(
        self, root: Path, guarantee: str, seed: int, *, transactional: bool = True
    ) -> None:
        self.app = Application(root, guarantee, **self.config)
        self.app.faults.random.seed(seed)
        self.transactional = transactional
        self.exact = transactional or guarantee != "at_least_once"
        """Whether a store that was restored, or that all is committed to, equals its changelog."""
        self.watched = False
        """Whether all stores are checked after each step."""
        self.process = self.app.process(topology=self.topology(transactional=transactional))
        for topic in self.process.plan.source_topics():
            if topic not in self.app.broker.partition_counts():
                self.app.broker.create_topic(topic, 1)
        self.dropped_early = 0
        """Live entries that were found dropped, which expire with what comes next."""
        self.expected: dict[str, int] = {}
        self.time = FIRST_MS

    def topology(self, *, transactional: bool) -> Topology:
        return everywhere(
            "in", "out", transactional=transactional, builders=self.builders, write=self.write
        )

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
            self.step()
            if all(self.is_committed(topic) for topic in self.process.plan.source_topics()):
                return
        raise AssertionError("\n".join(["input is left", *self.app.faults.trace[-40:]]))

    def step(self) -> None:
        self.process.step()
        if self.watched:
            self.check_stores()
            self.check_nothing_is_uncommitted_while_it_restores()

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
            self.step()
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

    def fail_at(self, call: str, number: int, error: StreamsError) -> bool:
        """Run until one call of a client or a disk fails, and on, unless that is the end.

        Stores that are transactional are checked after each step.

        Returns:
            Whether it came to that call.
        """
        self.watched = self.transactional
        self.process.start()
        self.app.faults.fail_next(call, error, after=number)
        with contextlib.suppress(type(error)):
            self.feed_and_process()
        if self.process.running:
            self.check_open_stores()
            self.process.stop()
        return self.app.faults.forget_scripted(call) == 0

    def feed_rest(self) -> None:
        """Feed and process what a run that died had not fed yet; here there is nothing."""

    def go_on(self) -> None:
        """Start again, process what is left and what was not fed yet, and stop in order."""
        self.process.crash_in(None)
        if not self.process.running:
            self.process.start()
        self.until_running()
        self.check_open_stores()
        self.process_all()
        self.feed_rest()
        self.check_open_stores()
        self.process.stop()

    # ------------------------------------------------------------------ checks

    def stores(self) -> Iterator[tuple[str, StoreFiles]]:
        """Iterate over (name, what it holds) of stores on the disk, and of open ones in memory."""
        for _, name, files in self.process.disk.stores():
            assert self.builders[name].spec.engine is StoreEngine.ROCKSDB, f"{name} is on the disk"
            yield name, files
        for task in self.tasks():
            for name, store in task.state_manager.stores().items():
                if not store.persistent and store.is_open:
                    yield name, held_in_memory(store)

    def tasks(self) -> list[StreamTask]:
        return [task for thread in self.process.threads for task in thread._manager.tasks.values()]

    def check_stores(
        self,
        *,
        up_to_the_end: bool = False,
        trusted: Callable[[StoreFiles], bool] = lambda _: True,
    ) -> None:
        """Compare what each store has committed with its changelog, up to the store's offset.

        What was dropped for good may be live by that offset, if it has expired by all that is
        committed.

        Args:
            up_to_the_end: Whether the offset must be that of the changelog's last record.
            trusted: Which stores are held to it.
        """
        self.app.broker.settle()
        for name, files in self.stores():
            if name in self.left_out or not trusted(files):
                continue
            offset = offset_of(self.changelog_of(name), files)
            logged = self.logged(name)
            if up_to_the_end and logged:
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
            spec = self.builders[name].spec
            held = without_stale_entries(spec, live(files, oldest_live))
            assert held == without_stale_entries(spec, left), f"store {name} at offset {offset}"

    def logged(self, store: str) -> list[StaticMessage]:
        """Return the committed records of a store's changelog."""
        return self.app.broker.log(self.changelog_of(store)).committed_records()

    def changelog_of(self, store: str) -> TopicPartition:
        """Return what a store is restored from."""
        return TopicPartition(f"app-{store}-changelog", 0)

    def check_open_stores(self) -> None:
        """See that stores that were restored, or that all is committed to, are so."""
        if self.exact:
            self.check_stores(up_to_the_end=True)

    def check_nothing_is_uncommitted_while_it_restores(self) -> None:
        for task in self.tasks():
            if task.state is not TaskState.RUNNING:
                assert task.state_manager.uncommitted_bytes() == 0

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


def held_in_memory(store: Any) -> StoreFiles:
    """Return what a store in memory has committed, as if it were on a disk."""
    held = StoreFiles()
    held.data = dict(store._buffer.engine_range(None, None))
    held.metadata = store._buffer._engine.metadata()
    return held


def offset_of(changelog: TopicPartition, files: StoreFiles) -> int:
    """Return the changelog offset a store says it is at; -1 for none."""
    packed = files.metadata.get(str(changelog).encode())
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
        run.check_stores()
        run.go_on()
        run.check_stores(up_to_the_end=True)
        if guarantee == "at_least_once":
            run.check_outputs_at_least_once()
        else:
            run.check_outputs()
    return deaths
