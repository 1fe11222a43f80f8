"""Producer, admin client and the factory that makes all clients of one simulated process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from pystreams.errors import (
    RetriableClientError,
    TaskMigratedError,
    TransactionAbortableError,
)
from pystreams.ids import TopicPartition
from pystreams.record import OutputBuffer, ProducedRecord
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.testing.simulation.admin import SimulatedAdmin
from pystreams.testing.simulation.broker import SimulatedBroker
from pystreams.testing.simulation.consumers import SimulatedConsumer, SimulatedRestoreConsumer
from pystreams.testing.simulation.faults import Lifeline
from pystreams.testing.simulation.group import GroupMetadata

_LINGER_MS = 50


class SimulatedProducer:
    """Implements `ProducerPort`: records wait in a queue and reach the broker in order.

    Outside of transactions nothing fences the records of somebody who is no longer the owner, so
    they do not wait for long: as in the real client they are delivered even if nobody calls.

    After a `TransactionAbortableError` every call but an abort fails, as in the real client. So is
    a request that ends a transaction, or sends its offsets, sometimes sent twice.

    Args:
        transactional_id: Makes it transactional.

    Attributes:
        gives_up: See `ProducerPort`; heeded where a commit waits for the broker.
        in_doubt: Whether the broker may still meet a request of a transaction that has ended.
    """

    def __init__(
        self,
        broker: SimulatedBroker,
        lifeline: Lifeline,
        client_id: str,
        transactional_id: str | None,
    ) -> None:
        self._broker = broker
        self._faults = broker.faults
        self._lifeline = lifeline
        self._client_id = client_id
        self._transactional_id = transactional_id
        self._identity: tuple[str, int] | None = None
        self._queue: list[tuple[OutputBuffer, list[ProducedRecord]]] = []
        self._sent_ms = 0.0
        self._acknowledged: dict[OutputBuffer, int] = {}
        self._in_transaction = False
        self._broken = False
        self._closed = False
        self.gives_up: Callable[[float], bool] = lambda _: False
        self.in_doubt = False
        if transactional_id is None:
            broker.in_background(self._deliver_late)

    # ------------------------------------------------------------------ records

    def send(self, output: OutputBuffer) -> None:
        """Queue what waits in a buffer; some of the queue may reach the broker."""
        self._pulse(f"send {output.topic} {len(output.records)}")
        self._refuse_if_broken()
        if self._transactional_id is not None:
            assert self._in_transaction, "send outside of a transaction"
        if not output.records:
            return
        self._maybe_fail("send")
        self._broker.maybe_no_answer("send")
        if self._transactional_id is not None:
            self._maybe_break("send")
        self._sent_ms = self._broker.clock.monotonic_ms()
        self._queue.append((output, list(output.records)))
        output.records.clear()
        while (
            self._queue
            and not self._broker.away
            and self._faults.happens(self._faults.rates.background)
        ):
            self._deliver_first()

    def flush(self) -> None:
        """Deliver everything."""
        self._pulse("flush")
        self._refuse_if_broken()
        self._maybe_fail("flush")
        if self._queue and self._broker.gives_no_answer():
            if not self._broker.away:
                self._deliver_first()
            raise RetriableClientError("flush: not all was acknowledged in time (simulated)")
        if self._queue:
            self._maybe_break("flush")
        while self._queue:
            self._deliver_first()
        for output, offset in self._acknowledged.items():
            output.last_offset = offset
        self._acknowledged.clear()

    def _deliver_late(self) -> None:
        late = self._broker.clock.monotonic_ms() - self._sent_ms >= _LINGER_MS
        late = late and not self._broker.away
        while self._lifeline.alive and late and self._queue:
            self._deliver(*self._queue.pop(0))

    def _deliver_first(self) -> None:
        output, records = self._queue.pop(0)
        self._lifeline.pulse(f"{self._client_id} deliver {output.topic} {len(records)}")
        self._deliver(output, records)

    def _deliver(self, output: OutputBuffer, records: list[ProducedRecord]) -> None:
        last = self._broker.append(output.topic, output.partition, records, self._identity)
        if output.is_changelog and last is not None:
            self._acknowledged[output] = last

    # ------------------------------------------------------------------ transactions

    def init_transactions(self) -> None:
        """Fence older producers."""
        self._pulse("init_transactions")
        self._maybe_fail("init_transactions")
        self._maybe_no_answer("init_transactions")
        name = self._transactional_id
        assert name is not None, "not transactional"
        self._identity = (name, self._broker.transactions.init(name))
        self.in_doubt = False
        self._pulse("initialized")

    def begin_transaction(self) -> None:
        """Open a transaction; the broker learns of it with the first record."""
        self._pulse("begin_transaction")
        assert self._identity is not None, "init_transactions comes first"
        assert not self._in_transaction, "a transaction is open"
        self._in_transaction = True

    def commit_transaction(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group_metadata: GroupMetadata
    ) -> None:
        """Commit; the process may die before or after the decision."""
        listed = " ".join(f"{part}@{offset.next_offset}" for part, offset in offsets.items())
        self._pulse(f"commit_transaction {listed}")
        assert self._in_transaction, "no transaction is open"
        self._refuse_if_broken()
        identity = self._identity
        assert identity is not None, "a transaction was begun"
        if self._broker.transactions_away:  # It is asked again until there is an answer.
            self.in_doubt = True
            if not self._broker.wait_for_transactions(gives_up=self.gives_up):
                raise TaskMigratedError("commit_transaction: given up (simulated)")
        while self._queue:
            self._deliver_first()
        self._maybe_fail("commit_transaction")
        self._maybe_break("commit_transaction")
        transactions = self._broker.transactions
        if offsets:
            try:
                self._broker.group.check(group_metadata)
            except TaskMigratedError as error:
                self._broken = True
                raise TransactionAbortableError(str(error)) from error
            if self._is_repeated("add_offsets"):
                transactions.begin_late(*identity)
            transactions.add_offsets(*identity, offsets)
            if self._is_repeated("send_offsets"):
                transactions.add_offsets_late(*identity, offsets)
        self._pulse("offsets added")
        transactions.end(*identity, commit=True)
        if self._is_repeated("commit"):
            transactions.end_late(*identity, commit=True)
        self._pulse("committed")
        self._in_transaction = False

    def abort_transaction(self, timeout_s: float = 5.0) -> None:
        """Abort what was sent."""
        self._pulse("abort_transaction")
        assert self._in_transaction, "no transaction is open"
        self._maybe_fail("abort_transaction")
        self._broker.wait_for_transactions(timeout_s)
        self._maybe_no_answer("abort_transaction")
        self._queue.clear()
        self._acknowledged.clear()
        assert self._identity is not None, "a transaction was begun"
        self._broker.transactions.end(*self._identity, commit=False)
        if self._is_repeated("abort"):
            self._broker.transactions.end_late(*self._identity, commit=False)
        self._in_transaction = self._broken = False
        self.in_doubt = True
        self._pulse("aborted")

    def forget_sent(self) -> None:
        """Forget where changelog records went; what is queued may still be delivered."""
        self._acknowledged.clear()
        self._queue = [(OutputBuffer(old.topic, old.partition), sent) for old, sent in self._queue]

    def close(self, timeout_s: float = 3.0) -> bool:
        """Throw away what was not delivered; abort, unless the broker does not answer."""
        self._lifeline.pulse(f"{self._client_id} close")
        if self._closed:
            return True
        self._closed = True
        self._queue.clear()
        if not self._in_transaction:
            return True
        if not self._broker.wait_for_transactions(timeout_s) or self._broker.gives_no_answer():
            return False
        with suppress(TaskMigratedError):
            assert self._identity is not None, "a transaction was begun"
            self._broker.transactions.end(*self._identity, commit=False)
        return True

    # ------------------------------------------------------------------ trouble

    def _pulse(self, call: str) -> None:
        self._lifeline.pulse(f"{self._client_id} {call}")
        assert not self._closed, f"{call} of a closed producer"

    def _maybe_no_answer(self, call: str) -> None:
        if self._broker.transactions_away:
            raise RetriableClientError(f"{call}: the coordinator gives no answer (simulated)")
        self._broker.maybe_no_answer(call)

    def _refuse_if_broken(self) -> None:
        if self._broken:
            raise TransactionAbortableError("the transaction must be aborted")

    def _maybe_fail(self, call: str) -> None:
        error = self._faults.scripted(call)
        if error is not None:
            self._broken = self._transactional_id is not None and isinstance(
                error, TransactionAbortableError
            )
            raise error

    def _maybe_break(self, call: str) -> None:
        if not self._faults.happens(self._faults.rates.abort):
            return
        # Without transactions nothing stays broken, but what was queued is lost.
        self._broken = self._transactional_id is not None
        self._queue.clear()
        self._acknowledged.clear()
        raise TransactionAbortableError(f"{call}: records were lost (simulated)")

    def _is_repeated(self, request: str) -> bool:
        repeated = self._faults.happens(self._faults.rates.repeated)
        if repeated:
            self._faults.note(f"{self._client_id} repeats {request}")
            self.in_doubt = True
        return repeated


class SimulatedClients:
    """Implements `ClientFactory` for one process.

    Attributes:
        restore_consumers: Those it made; they know how much was restored.
    """

    def __init__(self, broker: SimulatedBroker, lifeline: Lifeline) -> None:
        self.restore_consumers: list[SimulatedRestoreConsumer] = []
        self._broker = broker
        self._lifeline = lifeline

    def consumer(self, client_id: str, group_instance_id: str) -> SimulatedConsumer:
        """Make a group consumer; a static member if it has an instance id."""
        instance_id = group_instance_id or None
        return SimulatedConsumer(self._broker, self._lifeline, client_id, instance_id)

    def restore_consumer(self, client_id: str) -> SimulatedRestoreConsumer:
        """Make a restore consumer."""
        made = SimulatedRestoreConsumer(self._broker, self._lifeline, client_id)
        self.restore_consumers.append(made)
        return made

    def global_consumer(self, client_id: str) -> SimulatedRestoreConsumer:
        """Make the consumer of global topics."""
        return SimulatedRestoreConsumer(self._broker, self._lifeline, client_id)

    def producer(
        self,
        client_id: str,
        transactional_id: str | None,
        topics: Collection[str] = (),
        sharing: int = 1,
    ) -> SimulatedProducer:
        """Make a producer."""
        return SimulatedProducer(self._broker, self._lifeline, client_id, transactional_id)

    def admin(self, stopping: Callable[[], bool] = lambda: False) -> SimulatedAdmin:
        """Make an admin client, which waits for nothing."""
        del stopping
        return SimulatedAdmin(self._broker, self._lifeline)
