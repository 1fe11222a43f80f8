"""What became of the records a producer has sent, noticed at the least cost a record.

- In a transaction librdkafka itself remembers any failure and refuses the commit: no report, until
  a batch was refused once.
- Without one every record carries a callback. When the first error ends it all anyway, or when it
  is one of a transaction, the callback is the C method `dict.setdefault`, keyed by the error (None
  when all is well): 0.1 us a record; a Python function costs 0.25.
- The last record of each send to a changelog carries a callback of its own, which learns the
  offset. Records of a partition are acknowledged in order, so it speaks for those before it.
- That librdkafka reports what no broker has said is told by its log: `implicit_acknowledgements`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError

from pystreams.errors import TransactionAbortableError
from pystreams.record import OutputBuffer, ProducedRecord
from pystreams.runtime.adapters.connection.confluent import Message
from pystreams.runtime.adapters.connection.confluent_errors import PURGED
from pystreams.runtime.adapters.producing.implicit_acknowledgements import ImplicitAcknowledgements


class Failure(NamedTuple):
    """A record that was not delivered, and why; its timestamp is -1 when the client forgot it."""

    error: KafkaError
    topic: str
    partition: int | None
    record: ProducedRecord


class LastSent:
    """Delivery callback of the last record of a send; learns the offset."""

    __slots__ = ("failures", "offset")

    def __init__(self, failures: list[tuple[KafkaError, Message]]) -> None:
        self.failures = failures
        self.offset: int | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take the report."""
        if error is None:
            self.offset = message.offset()
        else:
            self.failures.append((error, message))


class DeliveryReports:
    """The delivery reports of one producer since they were last forgotten.

    Attributes:
        implicit: Hears of those that no broker has made.
        first_failures: The first failure by its error; None stands for success and is of no
            interest. Its `setdefault` is the callback that costs least.
    """

    def __init__(self, implicit: ImplicitAcknowledgements) -> None:
        self.implicit = implicit
        self.first_failures: dict[KafkaError | None, Message | None] = {None: None}
        self._failures: list[tuple[KafkaError, Message]] = []
        self._last_sent: dict[OutputBuffer, LastSent] = {}

    def note(self, error: KafkaError | None, message: Message) -> None:
        """Take the report of one record: the callback that keeps every failure."""
        if error is not None:
            self._failures.append((error, message))

    def of_last(self, output: OutputBuffer) -> LastSent:
        """Return the callback of the last record of a send to a changelog."""
        last_sent = self._last_sent[output] = LastSent(self._failures)
        return last_sent

    @property
    def any_failed(self) -> bool:
        """Whether there are failures."""
        return bool(self._failures) or len(self.first_failures) > 1

    def failures(self) -> list[Failure]:
        """Return what is known to have failed, but for what was thrown away in an abort."""
        found = [*self._failures]
        for error, message in self.first_failures.items():
            if error is not None and message is not None:
                found.append((error, message))
        return [_failure(error, message) for error, message in found if error.code() not in PURGED]

    def refuse_implicit(self, producer: str) -> None:
        """Return if what was reported can be believed; else all is sent again, and judged then.

        Args:
            producer: Its name.

        Raises:
            TransactionAbortableError: Records may be lost.
        """
        try:
            self.implicit.refuse(producer)
        except TransactionAbortableError:
            self.forget_failures()
            raise

    def acknowledge(self) -> None:
        """Set `last_offset` of the changelogs' buffers."""
        for output, last_sent in self._last_sent.items():
            if last_sent.offset is not None:
                output.last_offset = last_sent.offset
        self._last_sent.clear()

    def forget(self) -> None:
        """Forget all."""
        self.forget_failures()
        self.forget_sent()

    def forget_failures(self) -> None:
        """Forget what has failed."""
        self._failures.clear()
        self.first_failures.clear()
        self.first_failures[None] = None

    def forget_sent(self) -> None:
        """Forget what was sent and is not to be committed: its offsets, and what may be lost."""
        self._last_sent.clear()
        self.implicit.forget()


def _failure(error: KafkaError, message: Message) -> Failure:
    headers: Any = tuple(message.headers() or ())
    known, timestamp = message.timestamp()
    sent = timestamp if known != TIMESTAMP_NOT_AVAILABLE else -1
    record = (message.key(), message.value(), sent, headers)
    return Failure(error, message.topic() or "", message.partition(), record)
