"""Counting under trouble: what the simulations of this folder share.

`CountingSimulation` feeds records, steps stream threads in random order, crashes and restarts
processes, moves partitions about, and at the end lets everything come to rest. Then it checks
what the design promises. All choices come from the seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

from pystreams import StreamsBuilder, TopicPartition, Topology, serdes
from pystreams.testing.simulation import (
    NO_FAULTS,
    FaultRates,
    Faults,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
    SimulatedDisk,
    SimulatedProcess,
)
from pystreams.topology.plan.partition_plan import plan_partitions

APPLICATION = "app"
EOS = ("exactly_once", "exactly_once_v2")
TIMESTAMP_BYTES = 8
STEPS_TO_REST = 4000


def count_by_key(*, caching: bool) -> Topology:
    """One sub-topology."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = stream.group_by_key().count(name="counts", caching=caching)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def count_by_value(*, caching: bool) -> Topology:
    """Two sub-topologies, with a repartition topic between them."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    grouped = stream.group_by(
        lambda _, value: value, key_serde=serdes.STRING, value_serde=serdes.STRING
    )
    counts = grouped.count(name="counts", caching=caching)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def count_twice(*, caching: bool) -> Topology:
    """Three sub-topologies: counts by value, and how often each of those counts was reached."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    grouped = stream.group_by(
        lambda _, value: value, key_serde=serdes.STRING, value_serde=serdes.STRING
    )
    counts = grouped.count(name="counts", caching=caching)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    reached = counts.to_stream().group_by(
        lambda _, count: f"n{count % 3}", key_serde=serdes.STRING, value_serde=serdes.LONG
    )
    table = reached.count(name="reached", caching=False)
    table.to_stream().to("reached-out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def count_merged(*, caching: bool) -> Topology:
    """One sub-topology whose tasks read two partitions each, in order of time."""
    builder = StreamsBuilder()
    stream = builder.stream(["in", "more"], key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = stream.group_by_key().count(name="counts", caching=caching)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


TOPOLOGIES: dict[str, Callable[..., Topology]] = {
    "count_by_key": count_by_key,
    "count_by_value": count_by_value,
    "count_merged": count_merged,
    "count_twice": count_twice,
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """What one simulation is about."""

    topology: str
    guarantee: str
    processes: int
    threads: int
    partitions: int
    caching: bool
    incremental: bool
    uncommitted_max_bytes: int
    max_task_idle_ms: int
    steps: int = 250

    @classmethod
    def drawn(cls, seed: int, guarantee: str) -> Scenario:
        random = Random(f"scenario {seed}")
        return cls(
            topology=random.choice(list(TOPOLOGIES)),
            guarantee=guarantee,
            processes=random.randint(1, 3),
            threads=random.randint(1, 2),
            partitions=random.randint(1, 4),
            caching=random.random() < 0.5,
            incremental=random.random() < 0.5,
            uncommitted_max_bytes=random.choice([-1, 0, 100, 1000]),
            max_task_idle_ms=random.choice([-1, 0, 200]),
        )


class CountingSimulation:
    """One run of a scenario; `run` does all of it."""

    def __init__(
        self,
        seed: int,
        scenario: Scenario,
        root: Path,
        make_clients: Callable[[SimulatedBroker, Lifeline], SimulatedClients] = SimulatedClients,
    ) -> None:
        self.scenario = scenario
        self.faults = Faults(seed)
        self.random = self.faults.random
        self.clock = ManualClock(1_000_000)
        self.broker = SimulatedBroker(
            self.clock,
            self.faults,
            session_timeout_ms=3000,
            transaction_timeout_ms=3000,
            incremental=scenario.incremental,
        )
        for topic in ("in", "more", "out", "reached-out"):
            self.broker.create_topic(topic, scenario.partitions)
        topology = TOPOLOGIES[scenario.topology](caching=scenario.caching)
        self.processes = [
            SimulatedProcess(
                topology,
                self._config(),
                self.broker,
                SimulatedDisk(root / f"disk-{number}", self.faults),
                f"p{number}",
                make_clients=make_clients,
            )
            for number in range(scenario.processes)
        ]
        self.frozen: dict[int, int] = {}
        self.expected: Counter[str] = Counter()
        self.checked_commits = 0

    def _config(self) -> dict[str, object]:
        scenario = self.scenario
        return {
            "application.id": APPLICATION,
            "processing.guarantee": scenario.guarantee,
            "num.stream.threads": scenario.threads,
            "group.protocol": "consumer" if scenario.incremental else "classic",
            "commit.interval.ms": 100,
            "statestore.cache.max.bytes": 2000 if scenario.caching else 0,
            "statestore.uncommitted.max.bytes": scenario.uncommitted_max_bytes,
            "max.task.idle.ms": scenario.max_task_idle_ms,
            "max.poll.records": 20,
            "buffered.records.per.partition": 10,
            "repartition.purge.interval.ms": 500,
            "log.summary.interval.ms": 0,
        }

    # ------------------------------------------------------------------ running

    def run(self) -> None:
        """Make trouble, come to rest, check."""
        self.faults.rates = FaultRates()
        for process in self.processes:
            process.start()
        for _ in range(self.scenario.steps):
            self.act()
        self.rest()
        self.stop()
        self.check()

    def act(self) -> None:
        """Do one thing, most often a step of a thread."""
        kind = self.random.random()
        index = self.random.randrange(len(self.processes))
        process = self.processes[index]
        if kind < 0.15:
            self.feed(self.random.randint(1, 10))
        elif kind < 0.18:
            self.broker.group.rebalance(rotate=True)
        elif kind < 0.22:
            process.crash_in(self.random.randint(0, 60))
        elif kind < 0.23:
            self.frozen[index] = self.random.randint(2, 40)
            self.clock.advance_ms(self.random.choice([0, 0, 4000]))
        elif kind < 0.25:
            self.clock.advance_ms(self.random.choice([10, 100, 1000, 2000]))
        elif kind < 0.26 and process.running:
            process.stop()
        elif kind < 0.28:
            self.compact()
        elif not process.running:
            process.start()
        elif self.frozen.get(index, 0) > 0:
            self.frozen[index] -= 1
        else:
            process.step(self.random.randrange(len(process.threads)))
        self.check_disks(process)

    def feed(self, records: int) -> None:
        """Write input."""
        for _ in range(records):
            number = min(self.random.randrange(8), self.random.randrange(8))
            self.clock.advance_ms(1)
            key = value = f"k{number}"
            topic = "in"
            if self.scenario.topology == "count_merged":
                topic = self.random.choice(["in", "more"])
            elif self.scenario.topology != "count_by_key":
                key = f"other{self.random.randrange(5)}"
            self.broker.produce(topic, key.encode(), value.encode(), self.clock.now_ms())
            self.expected[value] += 1

    def compact(self) -> None:
        """Compact all changelogs."""
        for topic in self.broker.partition_counts():
            if topic.endswith("-changelog"):
                self.broker.compact(topic)

    def rest(self) -> None:
        """No more trouble: let everything be processed and committed."""
        self.faults.rates = NO_FAULTS
        self.frozen.clear()
        for process in self.processes:
            process.crash_in(None)
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
        left: dict[str, int] = {}
        committed = self.broker.group.offsets
        for topic, count in self.broker.partition_counts().items():
            if topic not in {"in", "more"} and not topic.endswith("-repartition"):
                continue
            for number in range(count):
                partition = TopicPartition(topic, number)
                records = self.broker.log(partition).committed_records()
                next_offset = committed[partition].next_offset if partition in committed else 0
                if records and records[-1].message_offset >= next_offset:
                    left[str(partition)] = records[-1].message_offset + 1 - next_offset
        for name in self.broker.transactions.open_ids():
            left[f"transaction {name}"] = 1
        return left

    def stop(self) -> None:
        """Stop all processes in order."""
        for process in self.processes:
            process.stop()
        self.broker.settle()

    # ------------------------------------------------------------------ checks

    def check(self) -> None:
        """Check output and stores."""
        if self.scenario.guarantee in EOS:
            self.check_outputs_are_exact()
            self.check_stores_equal_changelogs()
        else:
            self.check_nothing_is_lost()

    def outputs(self, topic: str) -> dict[str, list[int]]:
        """Return the counts that readers of committed records saw for each key, in order."""
        found: dict[str, list[int]] = {}
        deserialize = serdes.LONG.deserializer(topic)
        for message in self.broker.committed_records(topic):
            assert message.message_key is not None
            assert message.message_value is not None
            counts = found.setdefault(message.message_key.decode(), [])
            counts.append(deserialize(message.message_value))
        return found

    def check_outputs_are_exact(self) -> None:
        """Counts are 1 to n without gap or repeat; with a cache they only rise, up to n."""
        found = self.outputs("out")
        assert found.keys() == self.expected.keys()
        for key, total in self.expected.items():
            if self.scenario.caching:
                assert all(left < right for left, right in pairwise(found[key])), found[key]
                assert found[key][-1] == total, (key, found[key], total)
            else:
                assert found[key] == list(range(1, total + 1)), (key, found[key], total)
        for key, counts in self.outputs("reached-out").items():
            assert counts == list(range(1, len(counts) + 1)), (key, counts)
        if self.scenario.topology == "count_twice":
            seen = sum(map(len, found.values()))
            reached = sum(map(len, self.outputs("reached-out").values()))
            assert reached == seen, "every count was counted once"

    def check_nothing_is_lost(self) -> None:
        """Counts reach at least n, but for partitions that a process went on with that it had lost.

        Without transactions nothing fences what it still logs: it lands behind what the new owner
        has logged, and a later restore takes the older count for the newer one. Kafka Streams'
        at-least-once is like that; KIP-129 is the cure.
        """
        found = self.outputs("out")
        logged_late = {partition.partition for partition in self.broker.group.refused}
        for key, total in self.expected.items():
            assert key in found
            if self._partition_of(key) not in logged_late:
                assert max(found[key]) >= total, (key, found[key], total)

    def _partition_of(self, key: str) -> int | None:
        """Return where the changelog has a key's count; None where nothing of it is left."""
        name = f"{APPLICATION}-counts-changelog"
        for number in range(self.broker.partition_counts()[name]):
            records = self.broker.log(TopicPartition(name, number)).committed_records()
            if any(record.message_key == key.encode() for record in records):
                return number
        return None

    def check_disks(self, process: SimulatedProcess) -> None:
        """Each store holds what its changelog held at its offset: behind it, never ahead."""
        if self.scenario.guarantee not in EOS:
            return
        for task_id, store, files in process.disk.stores():
            changelog = TopicPartition(f"{APPLICATION}-{store}-changelog", task_id.partition)
            packed = files.metadata.get(str(changelog).encode())
            if packed is None:
                assert not files.data, f"{process.process_id} {changelog}: data without an offset"
                continue
            log = self.broker.log(changelog)
            if int.from_bytes(packed, "big") >= log.stable_end:
                continue  # The markers of its last transaction are not written yet.
            held = {key: value[TIMESTAMP_BYTES:] for key, value in files.data.items()}
            compacted = log.compacted(int.from_bytes(packed, "big") + 1)
            if held != compacted:
                # A compaction since then may have removed what the store still knows.
                later = log.compacted()
                differing = {key for key in held if held[key] != compacted.get(key)}
                explained = differing <= later.keys() and held.items() >= compacted.items()
                assert explained, f"{process.process_id} {changelog}: {held}, log {compacted}"

    def check_stores_equal_changelogs(self) -> None:
        """The store of each task's last owner equals its compacted changelog."""
        for topic, count in self.broker.partition_counts().items():
            if not topic.endswith("-changelog"):
                continue
            for number in range(count):
                changelog = TopicPartition(topic, number)
                log = self.broker.log(changelog)
                records = log.committed_records()
                if not records:
                    continue
                held = self.newest_store(changelog)
                assert held == log.compacted(), f"{changelog}: {held} != {log.compacted()}"

    def newest_store(self, changelog: TopicPartition) -> dict[bytes, bytes]:
        """Return the plain values of the store with the highest changelog offset on any disk."""
        newest: tuple[int, dict[bytes, bytes]] = (-1, {})
        for process in self.processes:
            for task_id, store, files in process.disk.stores():
                if changelog != (f"{APPLICATION}-{store}-changelog", task_id.partition):
                    continue
                packed = files.metadata.get(str(changelog).encode())
                offset = -1 if packed is None else int.from_bytes(packed, "big")
                if offset > newest[0]:
                    newest = (offset, files.data)
        return {key: value[TIMESTAMP_BYTES:] for key, value in newest[1].items()}


def simulate(
    seed: int,
    guarantee: str,
    root: Path,
    make_clients: Callable[[SimulatedBroker, Lifeline], SimulatedClients] = SimulatedClients,
) -> CountingSimulation:
    """Run the scenario of a seed; a failure names the seed and shows the end of the trace."""
    scenario = Scenario.drawn(seed, guarantee)
    simulation = CountingSimulation(seed, scenario, root, make_clients)
    try:
        simulation.run()
    except BaseException as error:
        trace = "\n".join(simulation.faults.trace[-60:])
        error.add_note(f"seed {seed}: {scenario}\n{trace}")
        raise
    return simulation
