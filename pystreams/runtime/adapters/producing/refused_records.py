"""What becomes of a record that a topic does not take: the production handler decides.

It is not asked where the topic takes nothing from us at all, as without the right to write: that is
about no record, and all would be dropped, in silence or into a queue.

When a batch is refused, nothing of it was written and later ones may have been: sending its records
again would put them behind those. So what is not committed is processed again, with smaller
batches, under at-least-once as in a transaction; see `batch_limits`.

Differs from Kafka:

- A changelog record that is refused is always an error, whatever the handler says; dropping it
  would make the store and its changelog differ.
- So is a dead letter that is refused, and a record that would be a dead letter of its own topic.
- RETRY brings nothing for a record that is wrong, and is taken as FAIL, as in Kafka. While a topic
  is missing it means going on from the last commit (Kafka: `TaskCorruptedException`, which also
  wipes the stores).

Spec: KIP-210. Source: Kafka Streams' `RecordCollectorImpl.recordSendError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException

from pystreams.errors import (
    FatalStreamsError,
    ProductionError,
    StreamsError,
    TransactionAbortableError,
)
from pystreams.ids import TaskId
from pystreams.kernel.loggers import get_logger
from pystreams.origin import Origin
from pystreams.record import OutputBuffer, ProducedRecord
from pystreams.runtime.adapters.connection.confluent import Producer
from pystreams.runtime.adapters.connection.confluent_errors import (
    FORBIDDEN,
    MISSING_TOPIC,
    REFUSED,
    cure_of,
    refusal,
)
from pystreams.runtime.adapters.producing.batch_limits import BatchSize
from pystreams.runtime.adapters.producing.delivery_reports import Failure
from pystreams.runtime.core.failures.dead_letters import DeadLetterRecord
from pystreams.runtime.core.failures.error_context import ErrorContext
from pystreams.runtime.core.failures.error_handlers import ErrorHandler, ErrorResponse, ask

_log = get_logger("pystreams.producer")

_NEIGHBOUR_IS_WRONG = KafkaError._INVALID_DIFFERENT_RECORD  # noqa: SLF001 - librdkafka's name.


class RefusedRecords:
    """Decides about the refused records of one producer.

    Args:
        batch_size: How large the producer's batches are.
    """

    def __init__(self, handler: ErrorHandler, batch_size: BatchSize) -> None:
        self._handler = handler
        self._batch_size = batch_size
        # Topics whose records may not be dropped.
        self._changelogs: set[str] = set()
        # Which tasks write to a topic, by the partition where they name one, and what was on its
        # way there lately is made of.
        self._writers: dict[tuple[str, int | None], dict[TaskId, Origin]] = {}
        self._noted: set[Origin] = set()
        self._dead_letters: list[DeadLetterRecord] = []
        self._dead_letter_topics: set[str] = set()

    def know(self, output: OutputBuffer) -> None:
        """Remember whose records a buffer holds, which is about to be sent."""
        if output.is_changelog:
            self._changelogs.add(output.topic)
        if output.task_id is not None:
            writers = self._writers.setdefault((output.topic, output.partition), {})
            origin = writers.get(output.task_id)
            if origin is None:
                origin = writers[output.task_id] = Origin()
            if output.origin is not None:
                origin.add(output.origin)
                self._noted.add(origin)

    def delivered(self) -> None:
        """Learn that all that was sent has arrived, or was aborted: none of it can be refused."""
        self._dead_letters.clear()
        for origin in self._noted:
            origin.clear()
        self._noted.clear()

    def send_dead_letters(self, send: Callable[[OutputBuffer], None]) -> bool:
        """Send those of records that were dropped here; return whether there were any."""
        letters, self._dead_letters = self._dead_letters, []
        outputs: dict[str, OutputBuffer] = {}
        for topic, key, value, timestamp, headers in letters:
            output = outputs.setdefault(topic, OutputBuffer(topic))
            output.records.append((key, value, timestamp, headers))
        self._dead_letter_topics |= outputs.keys()
        for output in outputs.values():
            send(output)
        return bool(letters)

    def sift(self, output: OutputBuffer) -> None:
        """Ask about the waiting records that are too large for certain; take the dropped ones out.

        Raises:
            ProductionError: The handler, or the topic being a changelog, says to fail.
        """
        topic, fitting = output.topic, []
        if not self._batch_size.any_suspect(topic, output.records):
            return
        for record in output.records:
            limit = self._batch_size.oversized(topic, record)
            if limit is None:
                fitting.append(record)
                continue
            text = f"Message size too large: the topic takes {limit} bytes (max.message.bytes)"
            error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, text)
            self.decide(error, topic, output.partition, record, output)
        output.records[:] = fitting

    def for_neighbours(self, failures: Iterable[Failure]) -> Failure | None:
        """Return the first record that may have been refused because of others in its batch."""
        for failure in failures:
            if self._batch_size.had_neighbours(failure.error.code(), failure.record):
                return failure
        return None

    def judge(self, failures: Sequence[Failure]) -> None:
        """Decide about records whose delivery failed outside of transactions.

        Raises:
            TransactionAbortableError: Nothing but going on from the last commit brings them back
                in order: some were lost to a timeout, or may be refused for their neighbours.
            ProductionError: One was refused, and the handler says to fail.
        """
        for error, topic, _, _ in failures:
            if error.code() not in REFUSED:
                text = f"a record for {topic!r} was not delivered: {error.str()}"
                raise TransactionAbortableError(text)
        unclear = self.for_neighbours(failures)
        if unclear is not None:
            raise self._with_smaller_batches(unclear)
        for error, topic, partition, record in failures:
            self.decide(error, topic, partition, record)

    def judge_transaction(
        self, error: KafkaError, failures: Sequence[Failure], topics: Iterable[str]
    ) -> StreamsError:
        """Return what becomes of a transaction that has lost records.

        The handler is not asked: librdkafka does not commit such a transaction. Which record it
        was is learnt by processing them again, if need be.
        """
        if self._batch_size.outdated:
            return TransactionAbortableError(f"{error.str()}: processed again")
        # What is only said of the neighbours of a wrong record comes last.
        wrong = sorted(failures, key=lambda failure: failure.error.code() == _NEIGHBOUR_IS_WRONG)
        if not wrong and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            names = ", ".join(repr(topic) for topic in sorted(topics))
            return FatalStreamsError(
                f"one of the topics {names} may not be written to: {error.str()} "
                f"({error.name()}): grant WRITE on each of these topics"
            )
        if not wrong:
            self._batch_size.look_closer(topics)
            text = f"{error.str()}: processed again, to learn which record it was"
            return TransactionAbortableError(text)
        if self._batch_size.had_neighbours(wrong[0].error.code(), wrong[0].record):
            return self._with_smaller_batches(wrong[0])
        _, topic, partition, _ = wrong[0]
        return self._failure(*wrong[0], self._writers_of(topic, partition))

    def _with_smaller_batches(self, failure: Failure) -> TransactionAbortableError:
        error, topic, _, _ = failure
        self._batch_size.narrow(error.code(), topic)
        return TransactionAbortableError(
            f"topic {topic!r} does not take a batch of records: {error.str()} ({error.name()}); "
            "processed again in smaller batches"
        )

    def _failure(
        self,
        error: KafkaError,
        topic: str,
        partition: int | None,
        record: ProducedRecord,
        writers: Mapping[TaskId, Origin],
    ) -> ProductionError:
        """Return the error for a record, with its task, or those it may be of."""
        origin = _all_of(writers.values())
        whose = ""
        if writers:
            told = ", ".join(map(str, sorted(writers)))
            whose = f"task {told}: " if len(writers) == 1 else f"one of the tasks {told}: "
        made, is_changelog = origin.in_words(), topic in self._changelogs
        failed = refusal(error, topic, partition, record, made=made, is_changelog=is_changelog)
        only = next(iter(writers)) if len(writers) == 1 else None
        return ProductionError(
            f"{whose}{failed}", topic=topic, task_id=only, made_of=origin.ranges()
        )

    def _writers_of(self, topic: str, partition: int | None) -> dict[TaskId, Origin]:
        """Return which tasks may have made a record, and of what."""
        places = ((topic, None), (topic, partition))
        writers: dict[TaskId, Origin] = {}
        for place in dict.fromkeys(places):
            for task_id, origin in self._writers.get(place, {}).items():
                writers.setdefault(task_id, Origin()).add(origin)
        return writers

    def decide_unfit(
        self,
        raised: Exception,
        topic: str,
        partition: int | None,
        record: ProducedRecord,
        output: OutputBuffer,
    ) -> None:
        """Return when a record is dropped that the client did not take.

        Handlers and errors get its key and value where they are bytes, and no headers.

        Args:
            raised: What it said.

        Raises:
            ProductionError: As `decide` does, and so with all others.
        """
        key, value, timestamp, _ = record
        key = key if isinstance(key, bytes) else None
        value = value if isinstance(value, bytes) else None
        timestamp = timestamp if type(timestamp) is int else -1
        error = KafkaError(KafkaError._INVALID_ARG, f"{raised}")  # noqa: SLF001 - librdkafka's name.
        self.decide(error, topic, partition, (key, value, timestamp, ()), output)

    def decide(
        self,
        error: KafkaError,
        topic: str,
        partition: int | None,
        record: ProducedRecord,
        output: OutputBuffer | None = None,
    ) -> None:
        """Return when the record is dropped.

        Args:
            partition: The partition, or None when none was chosen yet.
            record: The record; its timestamp is -1 when that is not known any more.
            output: The buffer it was sent from, if that is known.

        Raises:
            ProductionError: The handler, or the topic being a changelog or forbidden, says to fail.
            ProcessingError: The handler itself raised.
            TransactionAbortableError: The handler says to try again, and that may help.
        """
        writers = self._writers_of(topic, partition)
        if output is not None and output.task_id is not None:
            writers = {output.task_id: output.origin or Origin()}
        failure = self._failure(error, topic, partition, record, writers)
        if topic in self._changelogs or error.code() in FORBIDDEN:
            raise failure
        key, value, timestamp, headers = record
        source = _all_of(writers.values()).source()
        context = ErrorContext(
            stage="production",
            task_id=failure.task_id,
            topic=source.topic,
            partition=source.partition,
            offset=source.offset,
            key=key,
            value=value,
            timestamp=None if timestamp < 0 else timestamp,
            headers=headers,
            output_topic=topic,
            output_partition=partition,
            made_of=failure.made_of,
        )
        response = ask(self._handler, context, failure)
        if response.result is ErrorResponse.CONTINUE:
            letters = response.dead_letter_queue_records
            if topic in {*self._dead_letter_topics, *(letter.topic for letter in letters)}:
                raise failure  # Or it would be refused as its own dead letter, again and again.
            self._dead_letters += letters
            return
        if response.result is ErrorResponse.RETRY:
            if error.code() in MISSING_TOPIC:
                raise TransactionAbortableError(str(failure)) from failure
            _log.warning("RETRY is taken as FAIL: the record would be refused again", topic=topic)
        raise failure


def _all_of(origins: Iterable[Origin]) -> Origin:
    together = Origin()
    for origin in origins:
        together.add(origin)
    return together


def missing_topic(client: Producer, topics: AbstractSet[str]) -> ProductionError | None:
    """Return the error of one of the topics that is not there; None where all are, or may be."""
    with suppress(KafkaException):
        known = client.list_topics(timeout=5).topics
        for topic in sorted(topics - known.keys()):
            cure = cure_of(KafkaError.UNKNOWN_TOPIC_OR_PART, topic)
            return ProductionError(f"topic {topic!r} does not exist: {cure}", topic=topic)
    return None
