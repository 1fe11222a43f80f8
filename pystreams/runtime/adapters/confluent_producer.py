"""Producers, on librdkafka.

How failed deliveries are noticed, at the least cost a record:

- In a transaction, librdkafka itself remembers any failure and refuses the commit. No callback.
- Without one, every record carries the producer's callback. When the first error ends it all
  anyway, the callback is the C method `dict.setdefault`, keyed by the error (None when all is
  well): 0.1 us a record; a Python function costs 0.25.
- The last record of each send to a changelog carries a callback of its own, which learns the
  offset. Records of a partition are acknowledged in order, so it speaks for those before it.

Differs from Kafka: a changelog record that is refused is always an error, whatever the production
handler says; dropping it would make the store and its changelog differ.
"""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore.

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from operator import length_hint
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException

from pystreams.errors import (
    FatalStreamsError,
    ProductionError,
    RetriableClientError,
    StreamsError,
    TransactionAbortableError,
)
from pystreams.ids import TopicPartition
from pystreams.record import OutputBuffer, ProducedRecord
from pystreams.runtime.adapters.confluent import Message, Producer
from pystreams.runtime.adapters.confluent_errors import (
    CLIENT_EXCEPTIONS,
    PURGED,
    REFUSED,
    BrokerOutage,
    error_of,
    make_client,
    refusal,
    translate,
)
from pystreams.runtime.adapters.kafka_partitions import offsets_to_commit
from pystreams.runtime.core.error_handlers import (
    ErrorContext,
    ErrorHandler,
    ErrorResponse,
    log_and_fail,
)
from pystreams.runtime.core.offsets import CommittedOffset

_log = structlog.get_logger("pystreams.producer")

_ANY_PARTITION = -1
_ANSWER_TIMEOUT_S = 30.0
_CLOSE_TIMEOUT_S = 3.0
_ROOM_WAIT_S = 0.05


class _LastSent:
    """Delivery callback of the last record of a send; learns the offset."""

    __slots__ = ("failures", "offset")

    def __init__(self, failures: list[tuple[KafkaError, Message]]) -> None:
        self.failures = failures
        self.offset: int | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.offset = message.offset()
        else:
            self.failures.append((error, message))


class ConfluentProducer:
    """Implements `ProducerPort`.

    Args:
        config: librdkafka's configuration.
        outage: Told when brokers can't be reached.
        handler: Decides about records that can't be produced.
        commit_timeout_s: How long a commit is tried while the broker does not answer (s).
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        outage: BrokerOutage,
        handler: ErrorHandler = log_and_fail,
        commit_timeout_s: float = 300.0,
    ) -> None:
        self._transactional_id: str | None = config.get("transactional.id")
        self._outage = outage
        self._handler = handler
        self._commit_timeout_s = commit_timeout_s
        self._in_transaction = False
        # Without a transaction a flush is simply tried again; in between a stop gets a hearing.
        self._flush_timeout_s = 3.0 if self._transactional_id is None else _ANSWER_TIMEOUT_S
        # Topics sent to since the last commit, changelogs among them.
        self._topics: set[str] = set()
        self._changelogs: set[str] = set()
        self._last_sent: dict[OutputBuffer, _LastSent] = {}
        self._failures: list[tuple[KafkaError, Message]] = []
        # The first failure by its error; None stands for success and is of no interest.
        self._first_failures: dict[KafkaError | None, Message | None] = {None: None}
        own = dict(config)
        if self._transactional_id is None:
            custom = handler is not log_and_fail
            own["on_delivery"] = self._on_delivery if custom else self._first_failures.setdefault
        self._client: Producer | None = make_client(Producer, own, outage)

    # ------------------------------------------------------------------ records

    def send(self, output: OutputBuffer) -> None:
        """Hand all waiting records of a buffer to the client and clear it."""
        records = output.records
        if not records:
            return
        self._topics.add(output.topic)
        if output.partition is None:
            self._produce(output, records, _ANY_PARTITION)
        else:
            self._changelogs.add(output.topic)
            last = records.pop()
            try:
                self._produce(output, records, output.partition)
            finally:
                records.append(last)
            last_sent = _LastSent(self._failures)
            self._produce_one(output.topic, output.partition, last, last_sent)
            self._last_sent[output] = last_sent
        records.clear()
        self._serve(0)

    def _produce(self, output: OutputBuffer, records: list[ProducedRecord], partition: int) -> None:
        """Produce and remove records; what an error leaves in the list was not produced."""
        produce = self._open.produce
        topic = output.topic
        waiting = iter(records)
        try:
            for value, key, timestamp, headers in waiting:
                try:
                    # To librdkafka a timestamp of 0 means "now"; 1 is the nearest it can send.
                    if headers:
                        some: Any = list(headers)
                        produce(topic, value, key, partition, None, None, timestamp or 1, some)
                    else:
                        produce(topic, value, key, partition, None, None, timestamp or 1)
                except (BufferError, KafkaException):
                    self._produce_one(topic, partition, (value, key, timestamp, headers), None)
        except StreamsError:
            del records[: len(records) - length_hint(waiting) - 1]
            raise
        records.clear()

    def _produce_one(
        self,
        topic: str,
        partition: int,
        record: ProducedRecord,
        callback: _LastSent | None,
    ) -> None:
        """Produce one record with patience: waits for room, asks the handler about refusals."""
        value, key, timestamp, given = record
        headers: Any = list(given) or None
        deadline_s = time.monotonic() + _ANSWER_TIMEOUT_S
        while True:
            try:
                self._open.produce(
                    topic, value, key, partition, callback, None, timestamp or 1, headers
                )
                return
            except BufferError as full:
                if time.monotonic() > deadline_s:
                    message = f"{self._name}: the client's queue is full, brokers take nothing"
                    raise RetriableClientError(message) from full
                self._serve(_ROOM_WAIT_S)
            except KafkaException as raised:
                error = error_of(raised)
                if error.code() not in REFUSED:
                    raise self._error(error, f"sending to topic {topic!r}") from raised
                if self._respond(error, topic, partition, record) is ErrorResponse.CONTINUE:
                    return

    def _serve(self, timeout_s: float) -> None:
        """Run delivery callbacks."""
        try:
            self._open.poll(timeout_s)
        except CLIENT_EXCEPTIONS as error:
            raise self._error(error_of(error), "sending") from error

    def _respond(
        self, error: KafkaError, topic: str, partition: int | None, record: ProducedRecord
    ) -> ErrorResponse:
        """Ask the handler about a refused record.

        Raises:
            ProductionError: The handler, or the topic being a changelog, says to fail.
        """
        failure = refusal(error, topic)
        if topic in self._changelogs:
            raise failure
        value, key, timestamp, headers = record
        context = ErrorContext(
            stage="production",
            topic=topic,
            partition=None if partition == _ANY_PARTITION else partition,
            timestamp=timestamp,
            key=key,
            value=value,
            headers=headers,
        )
        response = self._handler(context, failure)
        if response is ErrorResponse.FAIL:
            raise failure
        return response

    def flush(self) -> None:
        """Wait until the broker has acknowledged everything sent; set `last_offset` of buffers."""
        outstanding = len(self._open)
        try:
            remaining = self._open.flush(self._flush_timeout_s)
        except CLIENT_EXCEPTIONS as error:
            raise self._error(error_of(error), "flushing") from error
        if self._failures or len(self._first_failures) > 1:
            self._judge_failures()
        if remaining:
            message = f"{self._name}: {remaining} records are not acknowledged yet"
            raise RetriableClientError(message)
        if outstanding and self._outage.lasting:
            self._outage.ends()
        for output, last_sent in self._last_sent.items():
            if last_sent.offset is not None:
                output.last_offset = last_sent.offset
        self._last_sent.clear()

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append((error, message))

    def _judge_failures(self) -> None:
        """Decide about records whose delivery failed.

        Raises:
            TransactionAbortableError: Some were lost to a timeout: nothing but going on from the
                last commit brings them back in order.
            ProductionError: One was refused, and the handler says to fail.
        """
        failures = [*self._failures]
        for error, message in self._first_failures.items():
            if error is not None and message is not None:
                failures.append((error, message))
        self._forget_failures()
        for error, message in failures:
            if error.code() in PURGED or self._transactional_id is not None:
                continue  # The commit tells.
            topic = message.topic() or ""
            if error.code() not in REFUSED:
                text = f"{self._name}: a record for {topic!r} was not delivered: {error.str()}"
                raise TransactionAbortableError(text)
            headers: Any = tuple(message.headers() or ())
            record = (message.value(), message.key(), max(message.timestamp()[1], 0), headers)
            response = self._respond(error, topic, message.partition(), record)
            if response is ErrorResponse.RETRY:
                self._produce_one(topic, _ANY_PARTITION, record, None)

    # ------------------------------------------------------------------ transactions

    def init_transactions(self) -> None:
        """Fence older producers of the same transactional id and abort what they left open."""
        try:
            self._open.init_transactions(_ANSWER_TIMEOUT_S)
        except KafkaException as error:
            raise self._error(error_of(error), "initialising transactions") from error

    def begin_transaction(self) -> None:
        """Open a transaction."""
        try:
            self._open.begin_transaction()
        except KafkaException as error:
            raise self._error(error_of(error), "beginning a transaction") from error
        self._in_transaction = True

    def commit_transaction(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group_metadata: Any
    ) -> None:
        """Add the offsets to the open transaction and commit it.

        After any error but `FatalStreamsError` the transaction is still open: abort it, or close
        the producer. A `FatalStreamsError` may leave its outcome unknown; the next start learns it.
        """
        client = self._open
        if offsets:
            positions = offsets_to_commit(offsets)
            self._until_answered(
                lambda timeout_s: client.send_offsets_to_transaction(
                    positions, group_metadata, timeout_s
                ),
                "sending offsets to the transaction",
            )
        self._until_answered(client.commit_transaction, "committing")
        self._in_transaction = False
        self._topics.clear()
        self._forget_failures()

    def abort_transaction(self) -> None:
        """Abort the open transaction and forget what was sent in it."""
        self._last_sent.clear()
        self._topics.clear()
        try:
            self._open.abort_transaction(_ANSWER_TIMEOUT_S)
        except CLIENT_EXCEPTIONS as error:
            raise self._error(error_of(error), "aborting") from error
        self._in_transaction = False
        self._forget_failures()

    def _until_answered(self, call: Callable[[float], None], doing: str) -> None:
        """Repeat a step of a commit until it has an outcome: rolling back might undo a success."""
        deadline_s = time.monotonic() + self._commit_timeout_s
        while True:
            try:
                call(_ANSWER_TIMEOUT_S)
                return
            except CLIENT_EXCEPTIONS as raised:
                error = error_of(raised)
                if error.txn_requires_abort():
                    raise self._abortable(error, doing) from raised
                translated = self._error(error, doing)
                if not isinstance(translated, RetriableClientError):
                    raise translated from raised
                if time.monotonic() > deadline_s:
                    message = f"{translated}; gave up after {self._commit_timeout_s:.0f} s"
                    raise FatalStreamsError(message) from raised
                # Usually librdkafka has waited; some errors come back at once.
                time.sleep(_ROOM_WAIT_S)

    def _abortable(self, error: KafkaError, doing: str) -> StreamsError:
        """Translate an error that ends the transaction; a refused record would be refused again."""
        if error.code() in REFUSED:
            return ProductionError(f"{self._name}: {error.str()}", topic="")
        if error.code() == KafkaError._INCONSISTENT:
            with contextlib.suppress(KafkaException):
                known = self._open.list_topics(timeout=5).topics
                for topic in sorted(self._topics - known.keys()):
                    message = f"topic {topic!r} does not exist: create it"
                    return ProductionError(message, topic=topic)
        return self._error(error, doing)

    # ------------------------------------------------------------------ the end

    def close(self) -> None:
        """Release the client at once; an open transaction is aborted."""
        client, self._client = self._client, None
        if client is None:
            return
        # The client's own `close` would wait for the broker for ever. Dropping the last reference
        # frees it; what was not sent is thrown away first.
        with contextlib.suppress(*CLIENT_EXCEPTIONS):
            if self._in_transaction:
                client.abort_transaction(_CLOSE_TIMEOUT_S)
        with contextlib.suppress(*CLIENT_EXCEPTIONS):
            client.purge()
            client.flush(0)

    # ------------------------------------------------------------------ inside

    @property
    def _open(self) -> Producer:
        assert self._client is not None, "the producer was closed"
        return self._client

    @property
    def _name(self) -> str:
        return f"producer {self._transactional_id!r}" if self._transactional_id else "producer"

    def _forget_failures(self) -> None:
        self._failures.clear()
        self._first_failures.clear()
        self._first_failures[None] = None

    def _error(self, error: KafkaError, doing: str) -> StreamsError:
        """Translate an error; `_FATAL` and `_STATE` of a produce hide their cause."""
        if error.code() == KafkaError._FATAL:
            try:
                self._open.poll(0)
                if self._transactional_id is not None:
                    self._open.begin_transaction()
            except CLIENT_EXCEPTIONS as cause:
                error = error_of(cause)
        if error.code() == KafkaError._STATE and self._in_transaction:
            message = f"{self._name}: {doing}: the transaction has failed before"
            return TransactionAbortableError(message)
        return translate(error, f"{self._name}: {doing}")
