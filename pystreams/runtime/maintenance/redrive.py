"""Writes dead letters back to the topics that their records came from, each letter once.

    queue:   letter 0  letter 1  letter 2  ...  mark: 0, 2
                |                   |             ^
                +---- orders -------+             |   one transaction
                      record 0, record 2 ---------+

A transaction has the records of some letters, and a mark in the queue which names these letters.
Who comes later has fenced whoever came before, so that nothing is left undecided, and reads all
marks first: a letter that one names is left alone, whatever was killed in between. Marks are
younger than their letters, and so are there for as long. Behind a transaction of others that is
open in the queue nothing can be read, marks included: its end is waited for.

A record keeps its key, value, timestamp and own headers. Where it first was, and how often it was
redriven, is in headers that it takes with it: into the queue again, if it fails again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from pystreams.errors import RetriableClientError, StreamsError, TaskMigratedError
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import Clock
from pystreams.record import ConsumedMessage, Headers, OutputBuffer
from pystreams.runtime.core.failures.dead_letters import (
    ERROR_HEADERS,
    HEADER_OFFSET,
    HEADER_OUTPUT_TOPIC,
    HEADER_PARTITION,
    HEADER_REDRIVEN,
    HEADER_TOPIC,
    error_headers,
)
from pystreams.runtime.maintenance.topic_records import records_of
from pystreams.runtime.ports import AdminPort, ProducerPort, RestoreConsumerPort

HEADER_REDRIVE_ID = "__pystreams.redrive.id"
"""Where the record first was: `topic-partition-offset`. The same however often it is redriven."""
HEADER_REDRIVE_ATTEMPT = "__pystreams.redrive.attempt"
"""How often it was redriven, from 1."""

_LETTERS_A_TRANSACTION = 500
_ATTEMPTS = 20
_ATTEMPT_DIGITS = 9
_STABLE_WITHIN_S = 60.0
_PAUSE_S = 0.5

Wait = Callable[[str, float], None]
"""Is told what is waited for, and lets some seconds pass."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """What came of a redrive.

    Attributes:
        written: How many letters were written back, by topic.
        before: How many were left alone because they were written back before.
        left: How many have no record that could be written back, by reason.
        unseen: How many were left because their topic is not there, or not to be seen, by topic:
            as the letter names it.
    """

    written: Counter[str] = field(default_factory=Counter)
    before: int = 0
    left: Counter[str] = field(default_factory=Counter)
    unseen: Counter[str] = field(default_factory=Counter)


class QueueReader:
    """What a queue holds, as it is when this is made.

    Args:
        admin: Tells where it begins and ends.
        make_consumer: Makes a consumer that reads what is committed.

    Raises:
        StreamsError: There is no such topic.
    """

    def __init__(
        self, queue: str, admin: AdminPort, make_consumer: Callable[[], RestoreConsumerPort]
    ) -> None:
        count = admin.partition_counts().get(queue)
        if count is None:
            raise StreamsError(
                f"there is no topic {queue!r}: `pystreams topics list` names all, and the queue of "
                "an application is its errors.dead.letter.queue.topic.name"
            )
        partitions = [TopicPartition(queue, number) for number in range(count)]
        self._admin = admin
        self._ranges = admin.offset_ranges(partitions)
        self._make_consumer = make_consumer

    def unread(self) -> str | None:
        """Return what can't be read yet, behind transactions that are open; None if all can."""
        return _open_transactions(
            {at: held.end for at, held in self._ranges.items() if held.end < held.high_watermark}
        )

    def wait_for_all(self, clock: Clock, wait: Wait) -> None:
        """Wait until all can be read that the queue held when this was made, and take in the rest.

        Raises:
            StreamsError: A transaction stays open; says where, and how to end it.
        """
        wanted = {at: held.high_watermark for at, held in self._ranges.items()}
        until_ms = clock.monotonic_ms() + _STABLE_WITHIN_S * 1000
        while behind := {
            at: held.end for at, held in self._ranges.items() if held.end < wanted[at]
        }:
            told = _open_transactions(behind) or ""
            if clock.monotonic_ms() >= until_ms:
                raise StreamsError(_still_open(told, behind))
            wait(told, _PAUSE_S)
            self._ranges = self._admin.offset_ranges(list(wanted))

    def letters(self) -> Generator[ConsumedMessage]:
        """Give the dead letters; no marks."""
        with closing(self._messages()) as messages:
            yield from (message for message in messages if redriven_by(message) is None)

    def redriven(self) -> dict[int, set[int]]:
        """Return the offsets of the letters that were redriven, by partition."""
        found: dict[int, set[int]] = {}
        with closing(self._messages()) as messages:
            for message in messages:
                found.setdefault(message.partition() or 0, set()).update(redriven_by(message) or ())
        return found

    def _messages(self) -> Generator[ConsumedMessage]:
        starts = {partition: held.beginning for partition, held in self._ranges.items()}
        ends = {partition: held.end for partition, held in self._ranges.items()}
        with closing(self._make_consumer()) as consumer:
            yield from records_of(consumer, starts, ends)


def redriven_by(message: ConsumedMessage) -> list[int] | None:
    """Return the offsets of the letters that a mark names; None of a letter.

    They are of the mark's partition. A letter may have such a header too, of its record.
    """
    headers = dict(message.headers() or ())
    told = headers.get(HEADER_REDRIVEN)
    if told is None or not ERROR_HEADERS.isdisjoint(headers):
        return None
    try:
        offsets = [int(offset) for offset in told.split(b",")]
    except ValueError:
        return None
    is_mark = (message.key(), message.value()) == _mark(offsets)
    return offsets if is_mark and max(offsets) < (message.offset() or 0) else None


def _mark(offsets: Sequence[int]) -> tuple[bytes, bytes]:
    """Return key and value of a mark.

    The key is the mark's own, and there is a value: compaction leaves it alone.
    """
    return b"redriven-%d" % offsets[0], b",".join(b"%d" % offset for offset in offsets)


def redrive_attempts(message: ConsumedMessage) -> int:
    """Return how often a letter's record had been redriven when it failed; 0 if it says no number.

    Anybody may write such a header.
    """
    told = dict(message.headers() or ()).get(HEADER_REDRIVE_ATTEMPT) or b""
    return int(told) if told.isdigit() and len(told) <= _ATTEMPT_DIGITS else 0


def redrive(
    queue: str,
    admin: AdminPort,
    make_consumer: Callable[[], RestoreConsumerPort],
    producer: ProducerPort | None,
    wanted: Callable[[ConsumedMessage], bool],
    clock: Clock,
    wait: Wait,
) -> Redriven:
    """Write letters back; tell what was done.

    Args:
        admin: Tells which topics there are.
        make_consumer: Makes a consumer that reads what is committed.
        producer: Writes; its transactional id is that of all redrives of the queue, and its owner
            closes it. None writes nothing, and tells what would be.
        wanted: Says of a letter whether it is meant.
        clock: Tells the time of marks, which are to be kept for as long as letters are; and how
            long the end of an open transaction was waited for.
        wait: Lets time pass meanwhile.

    Raises:
        StreamsError: The queue does not exist, or can't be read to its end, as somebody's
            transaction stays open; or a transaction failed, as when another redrive took over:
            what the ones before it have written stays, and a redrive that is begun again does the
            rest.
    """
    if producer is not None:
        _fence(producer)
    reader = QueueReader(queue, admin, make_consumer)
    reader.wait_for_all(clock, wait)
    done, counts = reader.redriven(), admin.partition_counts()
    written, left, unseen, before = Counter[str](), Counter[str](), Counter[str](), 0
    transaction = _Transaction(queue, producer, clock.now_ms())
    with closing(reader.letters()) as letters:
        for message in letters:
            if not wanted(message):
                continue
            if message.offset() in done.get(message.partition() or 0, ()):
                before += 1
                continue
            target = _target(message, counts)
            if isinstance(target, str):
                left[target] += 1
                continue
            if target[0] not in counts:
                unseen[target[0]] += 1
                continue
            written[target[0]] += 1
            transaction.add(message, *target)
            if len(transaction) >= _LETTERS_A_TRANSACTION:
                transaction.commit()
    transaction.commit()
    return Redriven(written, before, left, unseen)


class _Transaction:
    """Records and marks that are written together, or not at all."""

    def __init__(self, queue: str, producer: ProducerPort | None, now_ms: int) -> None:
        self._queue = queue
        self._producer = producer
        self._newest_ms = now_ms
        self._outputs: dict[tuple[str, int | None], OutputBuffer] = {}
        self._offsets: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._offsets.values()))

    def add(self, message: ConsumedMessage, topic: str, partition: int | None) -> None:
        """Add a letter, to be written to a partition; None lets its key choose."""
        record = (message.key(), message.value(), message.timestamp()[1], _headers(message))
        self._newest_ms = max(self._newest_ms, record[2])
        self._output(topic, partition).records.append(record)
        self._offsets.setdefault(message.partition() or 0, []).append(message.offset() or 0)

    def commit(self) -> None:
        """Write what was added; nothing if that is nothing, or nothing is to be written."""
        if self._offsets and self._producer is not None:
            for partition, offsets in self._offsets.items():
                key, told = _mark(offsets)
                mark = (key, told, self._newest_ms, ((HEADER_REDRIVEN, told),))
                self._output(self._queue, partition).records.append(mark)
            try:
                self._producer.begin_transaction()
                for output in self._outputs.values():
                    self._producer.send(output)
                self._producer.flush()
                self._producer.commit_transaction({}, None)
                if self._producer.in_doubt:
                    _fence(self._producer)
            except TaskMigratedError as error:
                raise StreamsError(
                    f"another redrive of queue {self._queue!r} has begun since, and this one ends "
                    "(or the broker has ended a transaction of it that took too long). What it has "
                    "written stays, and no letter is written back twice: let the other one end, "
                    "and begin again for what is left"
                ) from error
        self._outputs.clear()
        self._offsets.clear()

    def _output(self, topic: str, partition: int | None) -> OutputBuffer:
        key = (topic, partition)
        if key not in self._outputs:
            self._outputs[key] = OutputBuffer(topic, partition)
        return self._outputs[key]


def _fence(producer: ProducerPort) -> None:
    """Abort what another redrive of the queue has left open, waiting for the broker."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            producer.init_transactions()
        except RetriableClientError:
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _open_transactions(begun: Mapping[TopicPartition, int]) -> str | None:
    """Return where transactions are open, by the offsets at which they begin; None for none."""
    places = ", ".join(f"{at} from offset {offset} on" for at, offset in begun.items())
    return f"open transactions in the queue: {places}" if places else None


def _still_open(told: str, begun: Mapping[TopicPartition, int]) -> str:
    (topic, partition), offset = next(iter(begun.items()))
    where = f"--topic {topic} --partition {partition}"
    return (
        f"{told}. They were not over within {_STABLE_WITHIN_S:.0f} s, and behind them may stand "
        "which letters were redriven: nothing was written. An application that runs ends its "
        "transaction with its next commit, and that of one which was killed ends by its "
        "transaction.timeout.ms: run this again then. Kafka's kafka-transactions.sh, with "
        f"--bootstrap-server, shows whose it is (describe-producers {where}), and ends one that "
        "nobody else ends "
        f"(abort {where} --start-offset {offset})"
    )


def _target(message: ConsumedMessage, counts: dict[str, int]) -> tuple[str, int | None] | str:
    """Return topic and partition that a letter came from, or why it can't go back there."""
    told = error_headers(message.headers() or ())
    if told.get(HEADER_OUTPUT_TOPIC) is not None:
        return "a result that its topic refused, not the record it was made of"
    topic = _text(told.get(HEADER_TOPIC))
    if topic is None or _text(told.get(HEADER_OFFSET)) in {None, "-1"}:
        return "no source record: of a punctuation, or of a record cache"
    partition = told.get(HEADER_PARTITION) or b""
    known = partition in {b"%d" % number for number in range(counts.get(topic, 0))}
    return topic, int(partition) if known else None


def _headers(message: ConsumedMessage) -> Headers:
    """Return the record's own headers, and what tells of the redrive."""
    given = message.headers() or ()
    told = {name: _text(data) for name, data in given}
    first = told.get(HEADER_REDRIVE_ID) or "-".join(
        str(told.get(name)) for name in (HEADER_TOPIC, HEADER_PARTITION, HEADER_OFFSET)
    )
    ours = {*ERROR_HEADERS, HEADER_REDRIVE_ID, HEADER_REDRIVE_ATTEMPT}
    return (
        *((name, data) for name, data in given if name not in ours),
        (HEADER_REDRIVE_ID, first.encode()),
        (HEADER_REDRIVE_ATTEMPT, b"%d" % (redrive_attempts(message) + 1)),
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")
