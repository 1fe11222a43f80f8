"""Transactions of a publisher, by producers that have fenced their predecessors.

What goes wrong on the way is mended like a crash: a new producer, which fences the one before and
aborts what that left open, and the work goes on from what is committed. So is a transaction that
was open for longer than its time limit: the broker ends it, and fences its producer as another
publisher would.

Who was fenced sooner was fenced by somebody, and ends. It must not fence back: two that do, and
read a task's rows again each time, would keep each other from ever committing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pystreams.backfill.broker_waiting import ATTEMPTS, Waiting
from pystreams.errors import RetriableClientError, TaskMigratedError, TransactionAbortableError
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.record import OutputBuffer
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.ports import ClientFactory, ConsumerPort, ProducerPort

_log = get_logger("pystreams.backfill")


@dataclass
class PublisherTransactions:
    """The transactions of one publisher. Commits are of one thread.

    Attributes:
        group: The group, which transactional ids begin with.
        waiting: How it waits, and how long the broker lets a transaction be open.
        refuse_taken_over: Raises if somebody else has published, or runs; asked when fenced, and
            after fencing.
    """

    group: str
    clients: ClientFactory
    waiting: Waiting
    refuse_taken_over: Callable[[], None]
    committed: int = field(default=0, init=False)
    _begun_ms: float | None = field(default=None, init=False)

    def commit(
        self,
        producer: ProducerPort,
        outputs: Sequence[OutputBuffer],
        offsets: Mapping[TopicPartition, CommittedOffset],
        consumer: ConsumerPort,
    ) -> None:
        """Write records and commit them with offsets, in one transaction."""
        if producer.in_doubt:
            self.waiting.until_answered(producer.init_transactions)
            self.refuse_taken_over()  # It may be somebody else whom that has fenced.
        self._begun_ms = self.waiting.clock.monotonic_ms()
        producer.begin_transaction()
        for output in outputs:
            producer.send(output)
        producer.flush()
        producer.commit_transaction(offsets, consumer.group_metadata())
        self._begun_ms = None
        self.committed += 1

    def with_producer(self, name: str, work: Callable[[ProducerPort], None]) -> None:
        """Do something with a producer that has fenced its predecessors; again after trouble.

        Args:
            name: What its transactional id ends with.
            work: Goes on from what is committed, whenever it is called.

        Raises:
            TaskMigratedError: Somebody has fenced it.
            RetriableClientError: The broker stays unreachable.
            TransactionAbortableError: No transaction comes to its end.
        """
        left = ATTEMPTS
        while True:
            before = self.committed
            transactional_id = f"{self.group}-{name}"
            producer = self.clients.producer(f"{transactional_id}-publisher", transactional_id)
            try:
                self.waiting.until_answered(producer.init_transactions)
                work(producer)
                return
            except (RetriableClientError, TransactionAbortableError, TaskMigratedError) as error:
                was_ended = self._was_ended_by_its_limit()
                left = ATTEMPTS if self.committed > before else left - 1
                if left == 0:
                    raise
                self.waiting.before_retry()
                if isinstance(error, TaskMigratedError):
                    self.refuse_taken_over()
                    if not was_ended:
                        raise
                _log.warning("publishing again from the last mark", of=name, why=str(error))
            finally:
                producer.close()

    def _was_ended_by_its_limit(self) -> bool:
        """Return whether the broker may have ended the transaction that failed.

        It does so only when that was open for longer than its limit, and not before we began it.
        """
        begun_ms, self._begun_ms = self._begun_ms, None
        if begun_ms is None:
            return False
        open_ms = self.waiting.clock.monotonic_ms() - begun_ms
        return open_ms >= self.waiting.transaction_timeout_ms
