"""`dlq redrive` that is killed at any step and run again: each letter is written back once."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import StreamsError
from pystreams.record import ConsumedMessage
from pystreams.runtime.core.failures.dead_letters import (
    HEADER_EXCEPTION,
    HEADER_OFFSET,
    HEADER_PARTITION,
    HEADER_TOPIC,
)
from pystreams.runtime.maintenance import redrive as redriving
from pystreams.testing.simulation import SimulatedBroker
from pystreams.testing.simulation.clients import SimulatedClients
from pystreams.testing.simulation.faults import Lifeline, SimulatedCrash
from tests.simulation.applications import Application

pytestmark = pytest.mark.simulation

LETTERS = 1200


def dead_letters(broker: SimulatedBroker) -> None:
    """Fill a queue of two partitions with letters of both partitions of `in`."""
    broker.create_topic("dead", 2)
    for number in range(LETTERS):
        headers = (
            (HEADER_EXCEPTION, b"TimeoutError"),
            (HEADER_TOPIC, b"in"),
            (HEADER_PARTITION, b"%d" % (number % 2)),
            (HEADER_OFFSET, b"%d" % number),
        )
        broker.produce("dead", b"%d" % number, b"v", number, headers)


def run(broker: SimulatedBroker, lifeline: Lifeline) -> redriving.Redriven:
    clients = SimulatedClients(broker, lifeline)
    return redriving.redrive(
        "dead",
        clients.admin(),
        lambda: clients.restore_consumer("redrive"),
        clients.producer("redrive", "redrive-dead"),
        lambda _: True,
        now_ms=LETTERS,
    )


def test_redrive_killed_at_any_step_and_run_again_writes_each_letter_back_once(
    tmp_path: Path,
) -> None:
    cut_off = 0
    for steps in range(1, 100):
        app = Application(tmp_path / str(steps), partitions=2)
        dead_letters(app.broker)
        lifeline = Lifeline("killed", app.faults)
        lifeline.crash_in(steps)
        try:
            run(app.broker, lifeline)
        except SimulatedCrash:
            cut_off += 1
        else:
            break
        run(app.broker, Lifeline("again", app.faults))
        app.broker.transactions.complete_all()

        records = app.broker.committed_records("in")
        assert sorted(int(record.key() or b"") for record in records) == list(range(LETTERS))
        assert all(record.partition() == int(record.key() or b"") % 2 for record in records)
    assert cut_off > 10


def test_a_redrive_that_another_took_over_says_so_and_the_other_writes_the_rest(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, partitions=2)
    dead_letters(app.broker)
    clients = SimulatedClients(app.broker, Lifeline("first", app.faults))
    asked = 0

    def is_meant(_: ConsumedMessage) -> bool:
        nonlocal asked
        asked += 1
        if asked == LETTERS - 1:
            run(app.broker, Lifeline("second", app.faults))
        return True

    with pytest.raises(StreamsError, match="another redrive of queue 'dead' has begun since"):
        redriving.redrive(
            "dead",
            clients.admin(),
            lambda: clients.restore_consumer("redrive"),
            clients.producer("redrive", "redrive-dead"),
            is_meant,
            now_ms=LETTERS,
        )

    app.broker.transactions.complete_all()
    records = app.broker.committed_records("in")
    assert sorted(int(record.key() or b"") for record in records) == list(range(LETTERS))
