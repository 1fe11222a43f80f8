"""Requests of a transaction that reach the broker once more, when the next one has begun."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import structlog

from pystreams import TopicPartition
from pystreams.errors import TaskMigratedError
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.testing.simulation import (
    NO_FAULTS,
    Faults,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
)
from pystreams.testing.simulation.clients import SimulatedProducer
from tests.simulation.applications import Application
from tests.simulation.operations.counting import simulate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulation

EOS = ["exactly_once", "exactly_once_v2"]
LATE_AT_ONCE = replace(NO_FAULTS, background=1)
IN, OUT = TopicPartition("in", 0), TopicPartition("out", 0)
RECORD = (b"k", b"v", 0, ())


class KeepsItsEpoch(SimulatedProducer):
    """The planted bug: it goes on with the epoch it has, whatever may still be on its way."""

    def init_transactions(self) -> None:
        if not self.in_doubt:
            super().init_transactions()


class ClientsThatKeepTheirEpoch(SimulatedClients):
    def producer(
        self,
        client_id: str,
        transactional_id: str | None,
        topics: Collection[str] = (),
        sharing: int = 1,
    ) -> SimulatedProducer:
        return KeepsItsEpoch(self._broker, self._lifeline, client_id, transactional_id)


# ------------------------------------------------------------------ the broker


def broker_with_an_open_transaction() -> tuple[SimulatedBroker, int]:
    """Return a broker, and the epoch of a producer that has committed and begun anew."""
    broker = SimulatedBroker(ManualClock(), Faults(0))
    broker.create_topic("out", 1)
    epoch = broker.transactions.init("id")
    broker.append("out", 0, [RECORD], ("id", epoch))
    broker.transactions.end("id", epoch, commit=True)
    broker.append("out", 0, [RECORD], ("id", epoch))
    assert len(broker.log(OUT).committed_records()) == 1
    return broker, epoch


@pytest.mark.parametrize(("commit", "seen"), [(True, 2), (False, 1)])
def test_a_late_end_ends_whatever_transaction_its_epoch_has_open(commit: bool, seen: int) -> None:
    broker, epoch = broker_with_an_open_transaction()
    broker.transactions.end_late("id", epoch, commit=commit)

    broker.faults.rates = LATE_AT_ONCE
    broker.transactions.maybe_deliver_late()
    broker.settle()

    assert not broker.transactions.open_ids()
    assert len(broker.log(OUT).committed_records()) == seen


def test_late_offsets_take_the_place_of_newer_ones() -> None:
    broker, epoch = broker_with_an_open_transaction()
    broker.transactions.add_offsets("id", epoch, {IN: CommittedOffset(9, "")})
    broker.transactions.add_offsets_late("id", epoch, {IN: CommittedOffset(5, "")})

    broker.faults.rates = LATE_AT_ONCE
    broker.transactions.maybe_deliver_late()
    broker.transactions.end("id", epoch, commit=True)
    broker.settle()

    assert broker.group.offsets[IN].next_offset == 5


def test_a_new_epoch_keeps_late_requests_out() -> None:
    broker, epoch = broker_with_an_open_transaction()
    newer = broker.transactions.init("id")
    broker.append("out", 0, [RECORD], ("id", newer))
    broker.transactions.end_late("id", epoch, commit=True)
    broker.transactions.add_offsets_late("id", epoch, {IN: CommittedOffset(5, "")})

    broker.faults.rates = LATE_AT_ONCE
    broker.transactions.maybe_deliver_late()
    broker.transactions.maybe_deliver_late()

    assert broker.transactions.open_ids() == ["id"]
    assert not broker.transactions.pending_offsets()
    with pytest.raises(TaskMigratedError, match="fenced"):
        broker.transactions.end("id", epoch, commit=True)


# ------------------------------------------------------------------ the runtime


@pytest.mark.parametrize("guarantee", EOS)
def test_the_transaction_after_a_repeated_request_has_an_epoch_of_its_own(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process()
    process.start()

    def initialised() -> int:
        return sum(line.endswith("init_transactions") for line in app.faults.trace)

    app.feed("a")
    app.run_until_processed(process)
    app.feed("a")
    app.run_until_processed(process)
    assert initialised() == 1, "nothing was repeated"
    app.faults.rates = replace(NO_FAULTS, repeated=1)
    app.feed("a")
    app.run_until_processed(process)
    app.faults.rates = NO_FAULTS
    app.feed("a", "b")
    app.run_until_processed(process)
    assert initialised() == 2
    app.feed("b")
    app.run_until_processed(process)
    assert initialised() == 2
    process.stop()

    assert app.outputs() == [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 1), ("b", 2)]


@pytest.mark.parametrize("guarantee", EOS)
def test_the_simulation_finds_producers_that_keep_their_epoch(
    guarantee: str, tmp_path: Path
) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))

    def simulate_all() -> None:
        for seed in range(30):
            simulate(seed, guarantee, tmp_path / str(seed), ClientsThatKeepTheirEpoch)

    with pytest.raises(AssertionError):
        simulate_all()
