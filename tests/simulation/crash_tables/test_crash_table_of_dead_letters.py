"""The crash table of dead letters: wherever the process dies, each is in the queue once.

Records that can't be read are met when a batch is decoded, before those in front of them are
processed; records that can't be processed, when it is their turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pystreams import Processor, ProcessorContext, Record, StreamsBuilder, Topology, serdes
from pystreams.runtime.core.failures.dead_letters import HEADER_EXCEPTION, HEADER_OFFSET
from tests.simulation.crash_tables.crash_run import CrashRun, die_at_each_step, steps_of
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once")
UNREADABLE, ZERO = b"\xff", b"0"
ROUNDS = [[b"1", ZERO, UNREADABLE, b"2", UNREADABLE], [UNREADABLE], [b"5", UNREADABLE, b"10", ZERO]]
READ = ["10", "5", "2", "1"]
DEAD = [(ZERO, 1), (ZERO, 9), *((UNREADABLE, offset) for offset in (2, 4, 5, 7))]


def divide(value: str) -> str:
    return str(10 // int(value))


class Committing(Processor[str, str, str, str]):
    """Asks for a commit after each record: between those that were decoded in one batch."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)
        self.context.commit()


class DeadLettersRun(CrashRun):
    """Some rounds of records, the last of a batch among those that can't be read."""

    builders: Mapping[str, Any] = {}
    config: Mapping[str, Any] = {
        "deserialization_exception_handler": "continue",
        "processing_exception_handler": "continue",
        "errors_dead_letter_queue_topic_name": "dead",
        "max_poll_records": 3,
    }

    def __init__(
        self, root: Path, guarantee: str, seed: int, *, transactional: bool = True
    ) -> None:
        super().__init__(root, guarantee, seed, transactional=transactional)
        self.app.broker.create_topic("dead", 1)
        self.rounds = list(ROUNDS)

    def topology(self, *, transactional: bool) -> Topology:
        builder = StreamsBuilder()
        strings: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
        builder.stream("in", **strings).map_values(divide).process(Committing).to("out", **strings)
        return builder.build()

    def feed_and_process(self) -> None:
        self.feed_rest()

    def feed_rest(self) -> None:
        while self.rounds and self.process.running:
            self.time += 1
            for value in self.rounds.pop(0):
                self.app.broker.produce("in", b"k", value, self.time)
            self.process_all()

    def dead(self) -> list[tuple[bytes | None, int]]:
        """Return the value of each dead letter, and the offset that its headers tell."""
        self.app.broker.transactions.complete_all()
        return sorted(
            (letter.value(), int(dict(letter.message_headers)[HEADER_OFFSET] or b""))
            for letter in self.app.broker.committed_records("dead")
        )

    def check_outputs(self) -> None:
        assert self.dead() == DEAD
        found = [record.value() for record in self.app.broker.committed_records("out")]
        assert found == [value.encode() for value in READ]

    def check_outputs_at_least_once(self) -> None:
        assert set(self.dead()) == set(DEAD)


def test_the_run_meets_both_kinds_of_bad_records(tmp_path: Path) -> None:
    run = DeadLettersRun(tmp_path, "exactly_once", seed=0)
    steps_of(run)

    run.check_outputs()
    errors = Counter(
        dict(letter.message_headers)[HEADER_EXCEPTION]
        for letter in run.app.broker.committed_records("dead")
    )
    assert errors == {b"UnicodeDecodeError": 4, b"ZeroDivisionError": 2}


@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES, "at_least_once"))
def test_crash_at_a_step_loses_no_dead_letter_and_repeats_none(
    guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(DeadLettersRun, tmp_path, guarantee, every=1) > 5
