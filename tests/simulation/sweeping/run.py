"""One run of a sweep: a seed's application, its trouble, its rest, and what must be true then."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from itertools import accumulate
from pathlib import Path

from pystreams import StateStoreError, TopicPartition
from pystreams.testing.simulation import (
    NO_FAULTS,
    FaultRates,
    Faults,
    ManualClock,
    SimulatedBroker,
    SimulatedDisk,
    SimulatedProcess,
)
from pystreams.topology.plan.partition_plan import plan_partitions
from tests.simulation.sweeping.appending import (
    HANDED,
    appending,
)
from tests.simulation.sweeping.oracle import Oracle
from tests.simulation.sweeping.scenario import Scenario

STEPS = 75
STEPS_TO_REST = 3000
TROUBLE = {
    "rotate": 3,
    "crash_soon": 3,
    "freeze": 1,
    "stand_still": 2,
    "let_time_pass": 2,
    "jump": 1,
    "stop_or_start": 2,
    "move": 2,
    "compact": 1,
    "fence": 0.7,
    "go_away": 1,
    "fill_disk": 0.7,
    "damage": 0.7,
}
"""How often each kind of trouble comes, by its method: parts of about a hundred."""
_LOOKS = 0.3
"""After how many of the steps the disk of a process is compared with the changelogs."""


class _DiskFullError(StateStoreError):
    """What a full disk raises here: a new one each time, since an error keeps its last frames."""

    def __init__(self) -> None:
        super().__init__("some", "the disk is full (simulated)")


class SweepRun:
    """One run; `run` does all of it.

    Args:
        seed: Decides everything.
        root: An empty directory.
        steps: How many things happen before all comes to rest.
        without: Kinds of trouble, by their methods' names, in whose place a thread goes on.
    """

    def __init__(
        self, seed: int, root: Path, steps: int = STEPS, without: Collection[str] = ()
    ) -> None:
        self.scenario = scenario = Scenario.drawn(seed, steps)
        self.faults = Faults(seed)
        self.random = self.faults.random
        self.clock = ManualClock(1_000_000)
        self.broker = SimulatedBroker(
            self.clock,
            self.faults,
            session_timeout_ms=3000,
            transaction_timeout_ms=scenario.transaction_timeout_ms,
            incremental=scenario.incremental,
        )
        for topic in ("in", "out", "counts"):
            self.broker.create_topic(topic, scenario.partitions)
        topology = appending(
            [store.builder() for store in scenario.stores],
            counts=scenario.counts,
            caching=scenario.caching,
        )
        self.processes = [
            SimulatedProcess(
                topology,
                scenario.config(),
                self.broker,
                SimulatedDisk(root / f"disk-{number}", self.faults),
                f"p{number}",
            )
            for number in range(scenario.processes)
        ]
        for process in self.processes:
            process.newcomer = True
        self.oracle = Oracle(self.broker, scenario)
        self.frozen: dict[int, int] = {}
        self._standing: set[int] = set()
        self._moves = 0
        self._without = without

    # ------------------------------------------------------------------ running

    def run(self) -> None:
        """Make trouble, come to rest, check."""
        calm = self.scenario.calm
        self.faults.rates = FaultRates(
            no_answer=0.02 / calm, abort=0.02 / calm, repeated=0.3 / calm
        )
        for process in self.processes[:2]:
            process.start()
        acts, weights = zip(*self._weighted_acts(), strict=True)
        sums = list(accumulate(weights))
        for _ in range(self.scenario.steps):
            [act] = self.random.choices(acts, cum_weights=sums)
            index = self.random.randrange(len(self.processes))
            if act.__name__ in self._without:
                act = self.step
            act(index)
            if self.random.random() < _LOOKS:
                self.oracle.check_disk(self.processes[index])
        self.rest()
        self.stop()
        self.oracle.check(self.processes)

    def _weighted_acts(self) -> list[tuple[Callable[[int], None], float]]:
        calm = self.scenario.calm
        trouble = [(getattr(self, kind), rate / calm) for kind, rate in TROUBLE.items()]
        return [(self.feed, 10), (self.step, 72), *trouble]

    def rest(self) -> None:
        """No more trouble: let everything be processed and committed."""
        self.faults.rates = NO_FAULTS
        self.faults.forget_scripted("write")
        self.broker.wait_for_transactions()
        self.frozen.clear()
        for process in self.processes:
            process.crash_in(None)
            process.stand_still(0, None)
        for _ in range(STEPS_TO_REST):
            for process in self.processes:
                if not process.running:
                    process.start()
                for index in range(len(process.threads)):
                    if process.running:
                        process.step(index)
            if self.at_rest():
                return
        raise AssertionError(f"no rest after {STEPS_TO_REST} rounds: {self._unfinished()}")

    def at_rest(self) -> bool:
        """Return whether all input is processed and committed."""
        plan = self.processes[0].plan
        tasks = plan_partitions(plan, self.broker.partition_counts()).task_ids()
        running = sum(
            len(thread._manager.running())
            for process in self.processes
            for thread in process.threads
        )
        return running == len(tasks) and not self._unfinished()

    def _unfinished(self) -> dict[str, int]:
        left = {f"transaction {name}": 1 for name in self.broker.transactions.open_ids()}
        committed = self.broker.group.offsets
        for topic in ("in", HANDED):
            for number in range(self.scenario.partitions):
                partition = TopicPartition(topic, number)
                last_offset = self.broker.log(partition).last_committed_offset()
                next_offset = committed[partition].next_offset if partition in committed else 0
                if last_offset is not None and last_offset >= next_offset:
                    left[str(partition)] = last_offset + 1 - next_offset
        return left

    def stop(self) -> None:
        """Stop all processes in order."""
        for process in self.processes:
            process.stop()
        self.broker.settle()

    # ------------------------------------------------------------------ what happens

    def step(self, index: int) -> None:
        """Let one thread go on; a process that does not run starts."""
        process = self.processes[index]
        if self.frozen.get(index, 0) > 0:
            self.frozen[index] -= 1
        elif process.running:
            with contextlib.suppress(_DiskFullError):
                process.step(self.random.randrange(len(process.threads)))
        elif not self.broker.away:
            process.start()

    def feed(self, _: int) -> None:
        """Write input."""
        for _record in range(self.random.randint(1, 8)):
            self.clock.advance_ms(1)
            key, name = self.oracle.next_input(f"k{self.random.randrange(6)}")
            self.broker.produce("in", key.encode(), name.encode(), self.clock.now_ms())

    def rotate(self, _: int) -> None:
        """Give everybody somebody else's partitions."""
        self.broker.group.rebalance(rotate=True)

    def crash_soon(self, index: int) -> None:
        """Let a process die at some call from here."""
        self.processes[index].crash_in(self.random.randint(0, 60))

    def freeze(self, index: int) -> None:
        """Stop a process for a while, perhaps for longer than its session (SIGSTOP)."""
        self.frozen[index] = self.random.randint(2, 40)
        self.clock.advance_ms(self.random.choice([0, 0, 4000]))

    def stand_still(self, index: int) -> None:
        """Stop a process in the middle of a call, while others go on and may take its tasks."""
        steps, passing_ms = self.random.randint(1, 40), self.random.choice([0, 1000, 4000])

        def meanwhile() -> None:
            self._standing.add(index)
            self.clock.advance_ms(passing_ms)
            others = [other for other in range(len(self.processes)) if other not in self._standing]
            for _ in range(steps if others else 0):
                self.step(self.random.choice(others))
            self._standing.discard(index)

        self.processes[index].stand_still(self.random.randint(0, 60), meanwhile)

    def let_time_pass(self, _: int) -> None:
        self.clock.advance_ms(self.random.choice([10, 100, 1000, 2000]))

    def jump(self, _: int) -> None:
        """Put the wall clock forward or back."""
        self.clock.jump_ms(self.random.choice([-100_000, -500, 500, 100_000]))

    def stop_or_start(self, index: int) -> None:
        """Let a member go, or come."""
        process = self.processes[index]
        if process.running:
            process.stop()
        elif not self.broker.away:
            process.start()

    def move(self, index: int) -> None:
        """Let a process come back on another machine: without its disk, so as somebody else."""
        process = self.processes[index]
        if process.running:
            process.crash()
        process.disk.wipe()
        process.newcomer = True
        self._moves += 1
        process.process_id = f"p{index}-{self._moves}"

    def compact(self, _: int) -> None:
        """Compact all changelogs."""
        for topic in self.broker.partition_counts():
            if topic.endswith("-changelog"):
                self.broker.compact(topic)

    def fence(self, _: int) -> None:
        """Let somebody take the transactional id of a producer."""
        ids = self.broker.transactions.ids()
        if ids:
            self.broker.transactions.fence(self.random.choice(ids))

    def go_away(self, _: int) -> None:
        """Restart the broker, or move its coordinators."""
        self.broker.go_away(self.random.choice([50, 300, 1000, 2500]))

    def fill_disk(self, _: int) -> None:
        """Let one of the next writes to a store fail."""
        if not self.faults.forget_scripted("write"):
            self.faults.fail_next("write", _DiskFullError(), after=self.random.randint(0, 3))

    def damage(self, index: int) -> None:
        """Damage one store of a process."""
        found = [files for _, _, files in self.processes[index].disk.stores() if files.is_open]
        if found:
            self.random.choice(found).damaged = True


def simulate(seed: int, root: Path, steps: int = STEPS, without: Collection[str] = ()) -> SweepRun:
    """Run a seed; a failure shows its scenario and the end of its trace."""
    run = SweepRun(seed, root, steps, without)
    try:
        run.run()
    except BaseException as error:
        trace = "\n".join(run.faults.trace[-60:])
        error.add_note(f"seed {seed}: {run.scenario}\n{trace}")
        raise
    return run
