"""`dlq redrive` writes each letter back once: killed at any step, behind open transactions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition
from pystreams.record import ConsumedMessage, OutputBuffer
from pystreams.runtime.core.failures.dead_letters import (
    HEADER_EXCEPTION,
    HEADER_OFFSET,
    HEADER_PARTITION,
    HEADER_TOPIC,
)
from pystreams.runtime.maintenance import redrive as redriving
from pystreams.testing.simulation import SimulatedBroker
from pystreams.testing.simulation.clients import SimulatedClients, SimulatedProducer
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


def no_wait(what: str, pause_s: float) -> None:
    raise AssertionError(f"waits {pause_s} s for {what}")


def run(
    broker: SimulatedBroker,
    lifeline: Lifeline,
    wait: Callable[[str, float], None] = no_wait,
    wanted: Callable[[ConsumedMessage], bool] = lambda _: True,
) -> redriving.Redriven:
    clients = SimulatedClients(broker, lifeline)
    return redriving.redrive(
        "dead",
        clients.admin(),
        lambda: clients.restore_consumer("redrive"),
        clients.producer("redrive", "redrive-dead"),
        wanted,
        broker.clock,
        wait,
    )


def open_transaction(app: Application) -> SimulatedProducer:
    """Let another application begin a transaction in a partition of the queue."""
    clients = SimulatedClients(app.broker, Lifeline("other", app.faults))
    other = clients.producer("other", "other")
    other.init_transactions()
    other.begin_transaction()
    output = OutputBuffer("dead", 1)
    output.records.append((b"open", b"v", 0, ((HEADER_TOPIC, b"in"), (HEADER_OFFSET, b"0"))))
    other.send(output)
    other.flush()
    return other


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
    asked = 0

    def is_meant(_: ConsumedMessage) -> bool:
        nonlocal asked
        asked += 1
        if asked == LETTERS - 1:
            run(app.broker, Lifeline("second", app.faults))
        return True

    with pytest.raises(StreamsError, match="another redrive of queue 'dead' has begun since"):
        run(app.broker, Lifeline("first", app.faults), wanted=is_meant)

    app.broker.transactions.complete_all()
    records = app.broker.committed_records("in")
    assert sorted(int(record.key() or b"") for record in records) == list(range(LETTERS))


def test_letters_redriven_behind_an_open_transaction_are_known_once_that_has_ended(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, partitions=2)
    dead_letters(app.broker)
    begins = app.broker.log(TopicPartition("dead", 1)).high_watermark
    opened: list[SimulatedProducer] = []

    def opens(_: object) -> bool:
        if not opened:
            opened.append(open_transaction(app))
        return True

    def ends_at_last(what: str, pause_s: float) -> None:
        assert what == f"open transactions in the queue: dead-1 from offset {begins} on"
        app.clock.advance_ms(pause_s * 1000)
        if app.clock.monotonic_ms() > 2000 and opened:
            opened.pop().abort_transaction()
            app.broker.settle()

    lifeline = Lifeline("redrive", app.faults)
    first = run(app.broker, lifeline, wanted=opens)
    again = run(app.broker, lifeline, ends_at_last)

    assert (first.written["in"], again.written["in"], again.before) == (LETTERS, 0, LETTERS)
    assert len(app.broker.committed_records("in")) == LETTERS


def test_a_redrive_refuses_behind_a_transaction_that_stays_open(tmp_path: Path) -> None:
    app = Application(tmp_path, partitions=2)
    dead_letters(app.broker)
    begins = app.broker.log(TopicPartition("dead", 1)).high_watermark
    open_transaction(app)

    with pytest.raises(StreamsError, match="nothing was written") as caught:
        run(
            app.broker,
            Lifeline("redrive", app.faults),
            lambda _, pause_s: app.clock.advance_ms(pause_s * 1000),
        )

    assert f"dead-1 from offset {begins} on" in str(caught.value)
    assert f"abort --topic dead --partition 1 --start-offset {begins}" in str(caught.value)
    assert app.broker.committed_records("in") == []
