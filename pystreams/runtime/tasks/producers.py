"""Which producer sends for which task, and whether a transaction is open on it.

- `at_least_once`: one plain producer a thread.
- `exactly_once`: a transactional producer a task, `transactional.id = <app>-<task id>`. The id
  is stable, so that a restart aborts at once what a crash left open. Spec: KIP-129.
- `exactly_once_v2`: one transactional producer a thread,
  `transactional.id = <app>-<process id>-<thread index>`; in place of the process id the user's
  `group.instance.id`, where the group knows the process by it. Spec: KIP-447.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from pystreams.config import ProcessingGuarantee
from pystreams.errors import RetriableClientError, StreamsError
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.pools import begin_call
from pystreams.record import OutputBuffer
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.ports import ProducerPort
from pystreams.runtime.tasks.concurrent_calls import ConcurrentCalls
from pystreams.runtime.tasks.standstill_guard import Membership
from pystreams.runtime.tasks.stop_order import StopOrder
from pystreams.runtime.tasks.thread_parts import ThreadParts
from pystreams.topology.plan.partition_plan import partitions_of_tasks

_log = get_logger("pystreams.tasks")


class StreamsProducer:
    """A producer and the state of its transaction; one owner at a time.

    Args:
        transactional_id: Makes it transactional.
        stop: Says how long it may wait for a broker.

    Attributes:
        transactional: Whether it sends in transactions.
        in_transaction: Whether a transaction is open.
        initialized: Whether it may send: it has no transactions, or has fenced its predecessor.
    """

    def __init__(self, port: ProducerPort, transactional_id: str | None, stop: StopOrder) -> None:
        self.port = port
        self.transactional = transactional_id is not None
        if self.transactional:
            port.gives_up = stop.gives_up
        self.in_transaction = False
        self.initialized = not self.transactional
        self._transactional_id = transactional_id
        self._stop = stop
        self._doomed = False
        self._preparing: Future[None] | None = None

    def prepare(self, pool: Executor) -> None:
        """Begin to initialize on another thread: it takes the broker a moment, a second at most."""
        if not self.initialized and self._preparing is None:
            self._preparing = begin_call(pool, self.port.init_transactions)

    def initialize(self) -> None:
        """Fence older producers of the same id and abort what they left open; once.

        Raises:
            RetriableClientError: No answer in time; call again.
        """
        if not self.initialized:
            preparing, self._preparing = self._preparing, None
            if preparing is None or preparing.exception() is not None:
                self.port.init_transactions()
            self.initialized = True

    def try_initialize(self) -> StreamsError | None:
        """Do the same; return why it was not possible, if it was not."""
        try:
            self.initialize()
        except StreamsError as error:
            return error
        return None

    def begin(self) -> None:
        """Open a transaction unless one is open or the producer has none.

        It gets an epoch of its own when a request of an earlier one may still be on its way. That
        a former owner of a task may take a new epoch, too, does no harm: the group refuses offsets
        that are not of its own.
        Spec: KIP-890 "Motivation"; librdkafka's producer has the same epoch for all of them.
        """
        self.abort_doomed()
        if self.transactional and not self.in_transaction:
            if self.port.in_doubt:
                self.port.init_transactions()
            self.port.begin_transaction()
            self.in_transaction = True

    def send(self, outputs: Sequence[OutputBuffer]) -> None:
        """Hand everything that waits in the buffers to the client."""
        for output in outputs:
            if output.records:
                self.begin()
                waiting = len(output.records)
                try:
                    self.port.send(output)
                finally:
                    output.sent_records += waiting - len(output.records)
        for origin in {output.origin for output in outputs}:
            if origin is not None:
                origin.sent()

    def abort(self) -> None:
        """Let go of what was sent since the last commit: abort the open transaction, if any.

        To be called when tasks go back to that commit. Without transactions what was sent stays,
        and no changelog gets the offset of a record that its store does not hold any more.

        Raises:
            RetriableClientError: No answer for some seconds; call again, and it goes on.
        """
        if self.in_transaction:
            timeout_s = self._stop.abort_s
            if not timeout_s:
                raise RetriableClientError("a stop has no time left for an abort")
            self.port.abort_transaction(timeout_s)
            self.in_transaction = self._doomed = False
        elif not self.transactional:
            self.port.forget_sent()

    def try_abort(self) -> StreamsError | None:
        """Do the same; return why it was not possible, if it was not."""
        try:
            self.abort()
        except StreamsError as error:
            return error
        return None

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset], metadata: Any) -> None:
        """Commit the open transaction, with offsets of the group's member that metadata tells."""
        self.port.commit_transaction(offsets, metadata)
        self.in_transaction = False
        self._stop.note_answer()

    def doom(self) -> None:
        """Let nothing of the open transaction, if any, be committed.

        It is aborted before anything else is sent: nobody who shares the producer has records in
        it, or gets any into it.
        """
        self._doomed = self.in_transaction

    def refuse_if_too_late(self) -> None:
        """Refuse a commit that a stop has no time left for.

        Raises:
            RetriableClientError: Brokers are silent.
        """
        if self.transactional and self._stop.has_no_time_left:
            raise RetriableClientError("brokers are silent, and a stop has no time left for a try")

    def abort_doomed(self) -> None:
        """Abort the open transaction if it is doomed.

        Raises:
            RetriableClientError: No answer in time; it stays doomed.
        """
        if self._doomed:
            self.abort()

    def close(self) -> None:
        """Release the client; say so if a transaction is left open."""
        if self._preparing is not None:
            self._preparing.exception()  # A client is used by one thread at a time.
        if not self.port.close(self._stop.release_s):
            self._stop.note_silence()
            _log.warning(
                "a transaction is left open: its coordinator gives no answer",
                transactional_id=self._transactional_id,
                ends="with the next producer of this id, or by its time limit",
            )


class TaskProducers:
    """The producers of one thread.

    Args:
        membership: Tells when nothing may be sent.
        stop: Says how long producers may wait for brokers.
        concurrent: Initialises, aborts and releases several at once.
    """

    def __init__(
        self,
        parts: ThreadParts,
        *,
        thread_index: int,
        client_id: str,
        membership: Membership,
        stop: StopOrder,
        concurrent: ConcurrentCalls,
    ) -> None:
        self.membership = membership
        self._stop = stop
        self._concurrent = concurrent
        self._parts = parts
        self._topics = parts.plan.output_topics()
        self._guarantee = parts.settings.guarantee
        self._application_id = parts.plan.application_id
        self._thread_transactional_id = f"{parts.identity.transactional_id}-{thread_index}"
        self._client_id = client_id
        self._made: dict[TaskId | None, StreamsProducer] = {}

    def of_task(self, task_id: TaskId) -> StreamsProducer:
        """Return the producer that sends for a task, making it when there is none yet."""
        has_its_own = self._guarantee is ProcessingGuarantee.EXACTLY_ONCE
        return self._get(task_id if has_its_own else None)

    def prepare(self) -> None:
        """Begin what can be done before the thread has tasks: to initialize its one producer."""
        if self._guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2:
            pool = self._parts.make_waiting_pool()
            self._get(None).prepare(pool)
            pool.shutdown(wait=False)

    def initialize(self, task_ids: Iterable[TaskId]) -> list[StreamsError | None]:
        """Fence the predecessors of tasks' producers; return what came of it for each task."""
        producers = [self.of_task(task_id) for task_id in task_ids]
        new = [producer for producer in dict.fromkeys(producers) if not producer.initialized]
        failed = dict(
            zip(new, self._concurrent.run(StreamsProducer.try_initialize, new), strict=True)
        )
        return [failed.get(producer) for producer in producers]

    def all(self) -> list[StreamsProducer]:
        """Return the producers that exist."""
        return list(self._made.values())

    def abort(self, producers: Iterable[StreamsProducer]) -> dict[StreamsProducer, StreamsError]:
        """Abort what is open; return the producers for which that was not possible, and why."""
        distinct = list(dict.fromkeys(producers))
        errors = self._concurrent.run(StreamsProducer.try_abort, distinct)
        return {each: error for each, error in zip(distinct, errors, strict=True) if error}

    def release_tasks(self, task_ids: Iterable[TaskId]) -> None:
        """Close the producers of tasks that have one of their own."""
        self._close(task_id for task_id in task_ids if task_id in self._made)

    def close(self) -> None:
        """Close all producers."""
        self._close(self._made)

    def _close(self, of: Iterable[TaskId | None]) -> None:
        # Each may abort what it has open, and wait for a broker for seconds.
        self._concurrent.run(StreamsProducer.close, [self._made.pop(key) for key in list(of)])

    def _get(self, task_id: TaskId | None) -> StreamsProducer:
        """Return the producer of a task; None for the one of the thread."""
        producer = self._made.get(task_id)
        if producer is None:
            transactional_id, client_id = None, f"{self._client_id}-producer"
            if task_id is not None:
                transactional_id = f"{self._application_id}-{task_id}"
                client_id = f"{self._client_id}-{task_id}-producer"
            elif self._guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2:
                transactional_id = self._thread_transactional_id
            port = self._parts.clients.producer(
                client_id, transactional_id, self._topics, self._sharing()
            )
            producer = StreamsProducer(port, transactional_id, self._stop)
            self._made[task_id] = producer
        return producer

    def _sharing(self) -> int:
        """Return how many producers a process may have: with one a task, it may get all tasks."""
        if self._guarantee is not ProcessingGuarantee.EXACTLY_ONCE:
            return self._parts.settings.threads
        return len(partitions_of_tasks(self._parts.plan, self._parts.partition_counts(())))
