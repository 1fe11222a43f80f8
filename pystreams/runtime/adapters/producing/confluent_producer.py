"""Producers, on librdkafka.

How failed deliveries are noticed: `delivery_reports`, `implicit_acknowledgements`. What becomes of
records a topic does not take: `refused_records`. How large batches are: `batch_limits`; a refused
one costs a new client. So does a transaction that leaves doubts, see `lost_requests`: librdkafka
gives a client one epoch.
"""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore.

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from operator import length_hint
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from pystreams.errors import (
    RetriableClientError,
    StreamsError,
    TaskMigratedError,
    TransactionAbortableError,
)
from pystreams.ids import TopicPartition
from pystreams.record import OutputBuffer, ProducedRecord
from pystreams.runtime.adapters.connection.confluent import Producer, init_transactions, release
from pystreams.runtime.adapters.connection.confluent_errors import (
    CLIENT_EXCEPTIONS,
    REFUSED,
    UNFIT,
    error_of,
    translate,
)
from pystreams.runtime.adapters.connection.connections import (
    BrokerOutage,
    LibrdkafkaLog,
    make_client,
)
from pystreams.runtime.adapters.producing.batch_limits import BatchLimits, BatchSize
from pystreams.runtime.adapters.producing.commit_outcomes import CommitLimits, commit
from pystreams.runtime.adapters.producing.delivery_reports import DeliveryReports, LastSent
from pystreams.runtime.adapters.producing.implicit_acknowledgements import ImplicitAcknowledgements
from pystreams.runtime.adapters.producing.lost_requests import LostRequests
from pystreams.runtime.adapters.producing.refused_records import RefusedRecords, missing_topic
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.core.failures.error_handlers import ErrorHandler, log_and_fail

_ANY_PARTITION = -1
_ANSWER_TIMEOUT_S = 30.0
_INIT_TIMEOUT_S = 1.0
"""The client goes on initialising; in between other tasks get their turn, and a stop a hearing."""
_GLANCE_S = 0.5
_ROOM_WAIT_S = 0.05


class ConfluentProducer:
    """Implements `ProducerPort`.

    Args:
        limits: What topics take; shared by a process's producers.
        topics: Those it will write to, as far as they are known.
        handler: Decides about records that can't be produced.
        commit_timeout_s: How long a commit is tried while the broker does not answer (s).

    Attributes:
        gives_up: See `ProducerPort`.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        outage: BrokerOutage,
        limits: BatchLimits,
        *,
        topics: Collection[str] = (),
        handler: ErrorHandler = log_and_fail,
        commit_timeout_s: float = 300.0,
    ) -> None:
        self._transactional_id: str | None = config.get("transactional.id")
        self._name = (
            f"producer {self._transactional_id!r}" if self._transactional_id else "producer"
        )
        self._config = {**config, **LostRequests.telling(config)}
        self._outage = outage
        self._connections = outage.refused(config)
        self._commit_timeout_s = commit_timeout_s
        self._transaction_timeout_s = config.get("transaction.timeout.ms", 60_000) / 1000
        self.gives_up: Callable[[float], bool] = lambda _: False
        self._in_transaction = False
        self._lost = LostRequests(LibrdkafkaLog(outage, self._connections), config)
        # Without a transaction a flush is tried again; in between a stop gets a hearing.
        self._flush_timeout_s = 3.0 if self._transactional_id is None else _ANSWER_TIMEOUT_S
        self._topics: set[str] = set()  # Those sent to since the last commit.
        self._limits = limits
        self._batch_size = BatchSize(config, limits, topics)
        self._refused = RefusedRecords(handler, self._batch_size)
        self._reports = DeliveryReports(ImplicitAcknowledgements(self._lost))
        self._keeps_all_failures = self._transactional_id is None and handler is not log_and_fail
        self._client: Producer | None = None
        self._initialized = False
        self._make_client()

    # ------------------------------------------------------------------ records

    def send(self, output: OutputBuffer) -> None:
        """Hand all waiting records of a buffer to the client and clear it."""
        self._refused.know(output)
        if output.topic in self._batch_size.limited:  # Before they spoil a batch or transaction.
            self._refused.sift(output)
        if output.records:
            self._send(output)
        self._refused.send_dead_letters(self.send)

    def _send(self, output: OutputBuffer) -> None:
        records = output.records
        self._topics.add(output.topic)
        partition = _ANY_PARTITION if output.partition is None else output.partition
        if output.is_changelog:
            last = records.pop()
            try:
                self._produce(output, records, partition)
            finally:
                records.append(last)
            last_sent = self._reports.of_last(output)
            self._produce_one(output, partition, last, last_sent)
        else:
            self._produce(output, records, partition)
        records.clear()
        self._serve(0)

    def _produce(self, output: OutputBuffer, records: list[ProducedRecord], partition: int) -> None:
        """Produce and remove records; what an error leaves in the list was not produced."""
        produce = self._open.produce
        topic = output.topic
        waiting = iter(records)
        try:
            for key, value, timestamp, headers in waiting:
                try:
                    # To librdkafka a timestamp of 0 means "now"; 1 is the nearest it can send.
                    if headers:
                        some: Any = list(headers)
                        produce(topic, value, key, partition, None, None, timestamp or 1, some)
                    else:
                        produce(topic, value, key, partition, None, None, timestamp or 1)
                except (BufferError, KafkaException, *UNFIT):
                    self._produce_one(output, partition, (key, value, timestamp, headers), None)
        except StreamsError:
            del records[: len(records) - length_hint(waiting) - 1]
            raise
        records.clear()

    def _produce_one(
        self,
        output: OutputBuffer,
        partition: int,
        record: ProducedRecord,
        last_sent: LastSent | None,
    ) -> None:
        """Produce one record with patience: waits for room, asks the handler about refusals."""
        topic = output.topic
        key, value, timestamp, given = record
        headers: Any = list(given or ()) or None
        begun_s = time.monotonic()
        while True:
            try:
                self._open.produce(
                    topic, value, key, partition, last_sent, None, timestamp or 1, headers
                )
            except BufferError as full:
                waited_s = time.monotonic() - begun_s
                if waited_s > _ANSWER_TIMEOUT_S or self.gives_up(waited_s):
                    message = f"{self._name}: the client's queue is full, brokers take nothing"
                    raise RetriableClientError(message) from full
                self._serve(_ROOM_WAIT_S)
                continue
            except KafkaException as raised:
                error = error_of(raised)
                if error.code() not in REFUSED:
                    raise self._error(error, f"sending to topic {topic!r}") from raised
                self._refused.decide(error, topic, output.partition, record, output)
            except UNFIT as raised:
                self._refused.decide_unfit(raised, topic, output.partition, record, output)
            return

    def _serve(self, timeout_s: float) -> None:
        """Run delivery callbacks."""
        try:
            self._open.poll(timeout_s)
        except CLIENT_EXCEPTIONS as error:
            raise self._error(error_of(error), "sending") from error

    def flush(self) -> None:
        """Wait until the broker has acknowledged everything sent; set `last_offset` of buffers."""
        outstanding = len(self._open)
        remaining = self._wait_until_acknowledged()
        self._reports.refuse_implicit(self._name)
        if self._transactional_id is None and self._reports.any_failed:
            self._judge(remaining)
            if self._refused.send_dead_letters(self.send):
                self.flush()
                return
        if remaining:
            message = f"{self._name}: {remaining} records are not acknowledged yet"
            raise RetriableClientError(message)
        if outstanding:
            self._outage.ends()
            self._connections.accept()
        self._reports.acknowledge()
        if self._transactional_id is None:
            self._refused.delivered()
            self._batch_size.widen()
            self._renew_client()

    def _wait_until_acknowledged(self) -> int:
        """Return how many records are not acknowledged after the time there is."""
        begun_s = progress_s = time.monotonic()
        least = len(self._open)
        try:
            while remaining := self._open.flush(_GLANCE_S):
                self._connections.check()
                now_s = time.monotonic()
                if remaining < least:
                    least, progress_s = remaining, now_s
                if now_s - begun_s > self._flush_timeout_s or self.gives_up(now_s - progress_s):
                    break
                failed = self._cause() if self._in_transaction else None
                if failed is not None:  # Then nothing more is sent.
                    raise self._error(failed, "flushing")
        except CLIENT_EXCEPTIONS as error:
            raise self._error(error_of(error), "flushing") from error
        return remaining

    def _judge(self, remaining: int) -> None:
        """Decide about records whose delivery failed, outside of transactions; once about each."""
        failures = self._reports.failures()
        if remaining and self._refused.for_neighbours(failures):
            return  # What is on its way would arrive behind what the next client sends.
        self._reports.forget_failures()
        try:
            self._refused.judge(failures)
        finally:
            self._renew_client()

    # ------------------------------------------------------------------ transactions

    def init_transactions(self) -> None:
        """Fence older producers of the same transactional id and abort what they left open.

        Called again, between two transactions, it fences what this one has sent before.
        """
        if self._initialized:
            self._make_client()
        try:
            init_transactions(self._open, self._batch_size.topics, _INIT_TIMEOUT_S)
        except KafkaException as raised:
            error = self._error(error_of(raised), "initialising transactions")
            if isinstance(error, RetriableClientError):
                self._serve(0)
                self._connections.check()
                if self._connections.told:
                    self._make_client()  # This one keeps a repeated refusal to itself for 30 s.
            raise error from raised
        self._connections.accept()
        self._initialized = True
        self._lost.noticed = False

    @property
    def in_doubt(self) -> bool:
        """Whether the broker may still meet a request of a transaction that has ended."""
        return self._lost.noticed

    def begin_transaction(self) -> None:
        """Open a transaction."""
        self._renew_client()
        if not self._initialized:
            self.init_transactions()
        self._serve(0)
        self._lost.noticed = False
        try:
            self._open.begin_transaction()
        except KafkaException as error:
            raise self._error(error_of(error), "beginning a transaction") from error
        self._in_transaction = True

    def commit_transaction(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group_metadata: Any
    ) -> None:
        """Add the offsets to the open transaction and commit it.

        After any error but `FatalStreamsError` and `TaskMigratedError` the transaction is still
        open: abort it, or close the producer. These leave it unknown; the next start learns it.
        """
        client = self._open
        limits = CommitLimits(self._transaction_timeout_s, self._commit_timeout_s, self.gives_up)
        commit(client, offsets, group_metadata, self._error, limits)
        self._transaction_ended()
        self._lost.hear(client)
        self._batch_size.widen()

    def abort_transaction(self, timeout_s: float = 5.0) -> None:
        """Abort the open transaction and forget what was sent in it."""
        self._reports.forget_sent()
        try:
            self._open.abort_transaction(timeout_s)
        except CLIENT_EXCEPTIONS as error:
            raise self._error(error_of(error), "aborting") from error
        self._transaction_ended()
        self._lost.noticed = True  # Whatever made it fail may still be on its way.

    def _transaction_ended(self) -> None:
        self._in_transaction = False
        self._topics.clear()
        self._reports.forget_failures()
        self._refused.delivered()

    def _abortable(self, error: KafkaError, doing: str) -> StreamsError:
        """Translate an error that ends the transaction."""
        if error.code() in REFUSED:
            with contextlib.suppress(*CLIENT_EXCEPTIONS):
                self._open.poll(_ROOM_WAIT_S)
            failures = self._reports.failures()
            return self._refused.judge_transaction(error, failures, self._topics)
        translated = translate(error, f"{self._name}: {doing}")
        if error.code() == KafkaError._INCONSISTENT:
            return missing_topic(self._open, self._topics) or translated
        return translated

    # ------------------------------------------------------------------ the end

    def forget_sent(self) -> None:
        """Forget what became of records that no flush has acknowledged."""
        self._reports.forget_sent()

    def close(self, timeout_s: float = 3.0) -> bool:
        """Release the client; abort what is open, in time (s); return whether nothing is left."""
        client, self._client = self._client, None
        if client is None:
            return True
        return release(client, abort_timeout_s=timeout_s if self._in_transaction else None)

    # ------------------------------------------------------------------ inside

    def _renew_client(self) -> None:
        if self._batch_size.outdated:
            self._make_client()

    def _make_client(self) -> None:
        """Put a client in place of the one there is, with batches of the size that suits now."""
        self.close()
        self._initialized = False
        self._reports.forget()
        own = self._config | self._batch_size.settings() | self._reporting()
        self._client = make_client(Producer, own, self._outage, self._reports.implicit)

    def _reporting(self) -> dict[str, Callable[..., Any]]:
        """Return the setting for the callback of every record; see `delivery_reports`."""
        if self._keeps_all_failures:
            return {"on_delivery": self._reports.note}
        if self._transactional_id is None or self._limits.refused:
            return {"on_delivery": self._reports.first_failures.setdefault}
        return {}

    @property
    def _open(self) -> Producer:
        assert self._client is not None, "the producer was closed"
        return self._client

    def _cause(self) -> KafkaError | None:
        """Return why the transaction has failed, if it has: told to whoever would begin one."""
        try:
            self._open.begin_transaction()
        except KafkaException as raised:
            error = error_of(raised)
            return error if error.fatal() or error.txn_requires_abort() else None
        return None

    def _error(self, error: KafkaError, doing: str) -> StreamsError:
        """Translate an error; `_FATAL` and `_STATE` of a produce hide their cause."""
        self._lost.noticed = True
        failed = error.code() == KafkaError._STATE and self._in_transaction
        if failed or error.code() == KafkaError._FATAL:
            try:
                self._open.poll(0)
                if self._transactional_id is not None:
                    error = self._cause() or error
            except CLIENT_EXCEPTIONS as cause:
                error = error_of(cause)
        if error.txn_requires_abort():
            return self._abortable(error, doing)
        if error.code() == KafkaError._STATE and self._in_transaction:
            message = f"{self._name}: {doing}: the transaction has failed before"
            return TransactionAbortableError(message)
        translated = translate(error, f"{self._name}: {doing}")
        if isinstance(translated, TaskMigratedError) and self._in_transaction:
            # Its time limit may have passed while the records of a missing topic waited.
            return missing_topic(self._open, self._topics) or translated
        return translated
