"""Outer joins over crashes: each result once, whatever step of a transaction the crash hits.

Kafka's KStreamKStreamOuterJoinTransactionalStoreIntegrationTest, as a simulation: the store of what
has no match is written, read and deleted while an iterator runs over it, all in one transaction.
Stores that are not transactional are rebuilt instead, and each result comes once as well.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from pystreams import JoinWindows, StreamsBuilder, TopicPartition, Topology, serdes
from pystreams.stores.dirty_map import write_through
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import Application

pytestmark = pytest.mark.simulation

PATIENCE = 3000
SPAN_MS = 100
"""All records lie in one window, so that what meets what does not depend on who is read first."""
SIDES = ("left", "right")
Results = Counter[tuple[str, str]]


def outer_join(*, transactional: bool = True) -> Topology:
    builder = StreamsBuilder()
    left = builder.stream("left", key_serde=serdes.STRING, value_serde=serdes.STRING)
    right = builder.stream("right", key_serde=serdes.STRING, value_serde=serdes.STRING)
    windows = JoinWindows.of_time_difference_and_grace(SPAN_MS, 50)
    joined = left.outer_join(
        right, lambda value, other: f"{value}+{other}", windows, transactional=transactional
    )
    joined.to("out", value_serde=serdes.STRING)
    return builder.build()


class JoinUnderTrouble:
    """An application that joins two topics and crashes now and then; all choices from the seed."""

    def __init__(
        self, seed: int, guarantee: str, root: Path, *, transactional: bool = True
    ) -> None:
        self.random = Random(seed)
        self.app = Application(
            root,
            guarantee,
            outer_join_emit_interval_ms=self.random.choice([0, 1000]),
            statestore_uncommitted_max_bytes=self.random.choice([-1, 300]),
        )
        self.app.faults.random.seed(seed)
        for side in SIDES:
            self.app.broker.create_topic(side, 1)
        self.process: SimulatedProcess = self.app.process(
            topology=outer_join(transactional=transactional)
        )
        self.fed: dict[str, list[tuple[str, str]]] = {side: [] for side in SIDES}
        self.last_time = SPAN_MS

    def feed(self, records: int) -> None:
        """Write records of a few keys to both topics, at random times."""
        for number in range(records):
            side = self.random.choice(SIDES)
            key = f"k{self.random.randrange(records)}"
            value = f"{side[0]}{len(self.fed[side])}"
            self.fed[side].append((key, value))
            self.produce(side, key, value, self.random.randint(0, SPAN_MS))
            if number % 5 == 0:
                self.step()

    def produce(self, side: str, key: str, value: str, timestamp: int) -> None:
        self.app.broker.produce(side, key.encode(), value.encode(), timestamp)

    def step(self) -> None:
        """One iteration of a process that may crash in it, and then starts again."""
        if not self.process.running:
            self.process.start()
            if self.random.random() < 0.7:
                self.process.crash_in(self.random.randint(1, 120))
        self.process.step()

    def run_until_processed(self) -> None:
        """Come to the end of the input, over a crash if the process was running well."""
        if self.process.running:
            self.process.crash_in(self.random.randint(1, 40))
        for _ in range(PATIENCE):
            self.step()
            if all(self.committed(side) for side in SIDES) and self.process.running:
                return
        raise AssertionError("\n".join(["input is left", *self.app.faults.trace[-40:]]))

    def committed(self, side: str) -> bool:
        """Whether all records of a topic are committed."""
        partition = TopicPartition(side, 0)
        records = self.app.broker.log(partition).committed_records()
        offset = self.app.broker.group.offsets.get(partition)
        done = 0 if offset is None else offset.next_offset
        return not records or records[-1].message_offset < done

    def let_go(self) -> None:
        """Move stream time beyond all windows, as often as it takes to look for what waits."""
        for side in SIDES * 2:
            self.last_time += 1000
            self.app.clock.advance_ms(1500)
            self.produce(side, f"end{self.last_time}", "end", self.last_time)
            self.run_until_processed()

    def results(self) -> Results:
        """What a reader of committed records has seen of the keys that were fed."""
        found = Results()
        for message in self.app.broker.committed_records("out"):
            assert message.message_key is not None
            assert message.message_value is not None
            key = message.message_key.decode()
            if key.startswith("k"):
                found[key, message.message_value.decode()] += 1
        return found

    def expected(self) -> Results:
        """Each pair of a key, and each record whose key the other side has not."""
        found = Results()
        keys = {side: {key for key, _ in records} for side, records in self.fed.items()}
        for key, mine in self.fed["left"]:
            for other_key, other in self.fed["right"]:
                if key == other_key:
                    found[key, f"{mine}+{other}"] += 1
            if key not in keys["right"]:
                found[key, f"{mine}+None"] += 1
        for key, other in self.fed["right"]:
            if key not in keys["left"]:
                found[key, f"None+{other}"] += 1
        return found


def join_over_crashes(trouble: JoinUnderTrouble, records: int) -> None:
    for _ in range(3):
        trouble.feed(records)
        trouble.run_until_processed()
    trouble.let_go()


each_guarantee = pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
few_seeds = pytest.mark.parametrize("seed", range(4))
many_seeds = pytest.mark.parametrize("seed", range(100, 250))


@each_guarantee
@few_seeds
def test_each_result_of_an_outer_join_comes_once_over_crashes(
    seed: int, guarantee: str, tmp_path: Path
) -> None:
    trouble = JoinUnderTrouble(seed, guarantee, tmp_path)
    join_over_crashes(trouble, records=30)

    assert trouble.results() == trouble.expected()


@pytest.mark.sweep
@each_guarantee
@many_seeds
def test_each_result_of_an_outer_join_comes_once_over_many_more_crashes(
    seed: int, guarantee: str, tmp_path: Path
) -> None:
    trouble = JoinUnderTrouble(seed, guarantee, tmp_path)
    join_over_crashes(trouble, records=40)

    assert trouble.results() == trouble.expected()


@each_guarantee
@few_seeds
def test_each_result_of_an_outer_join_that_writes_through_comes_once_over_crashes(
    seed: int, guarantee: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_through, "_BATCH_RECORDS", 2)
    trouble = JoinUnderTrouble(seed, guarantee, tmp_path, transactional=False)
    join_over_crashes(trouble, records=30)

    assert trouble.results() == trouble.expected()


@pytest.mark.sweep
@each_guarantee
@many_seeds
def test_each_result_of_an_outer_join_that_writes_through_comes_once_over_many_more_crashes(
    seed: int, guarantee: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_through, "_BATCH_RECORDS", 2)
    trouble = JoinUnderTrouble(seed, guarantee, tmp_path, transactional=False)
    join_over_crashes(trouble, records=40)

    assert trouble.results() == trouble.expected()


@few_seeds
def test_without_transactions_every_pair_of_an_outer_join_comes_over_crashes(
    seed: int, tmp_path: Path
) -> None:
    """A result without a match may not: its deletion may be logged, and the result not sent."""
    trouble = JoinUnderTrouble(seed, "at_least_once", tmp_path)
    join_over_crashes(trouble, records=30)

    pairs = {result for result in trouble.expected() if "None" not in result[1]}
    assert pairs
    assert pairs <= set(trouble.results())
