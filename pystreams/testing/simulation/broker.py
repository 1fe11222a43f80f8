"""A Kafka broker in memory: a stream thread can't tell it from a real one.

Topics with partitions and offsets, transactions with markers that take offsets and come late,
one consumer group with generations, timeouts of sessions and transactions, deletion and compaction
of records. It may be away for a while, as in a restart. Nothing happens by itself: `tick` does a
little of what a broker does in the background, and every poll of a consumer ticks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from pystreams.errors import RetriableClientError
from pystreams.ids import TopicPartition
from pystreams.kernel.partitioner import partition_of
from pystreams.record import Headers, ProducedRecord, StaticMessage
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.testing.simulation.clock import ManualClock
from pystreams.testing.simulation.faults import Faults
from pystreams.testing.simulation.group import GroupCoordinator
from pystreams.testing.simulation.partition_log import PartitionLog
from pystreams.testing.simulation.transactions import TransactionCoordinator

_TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "min.compaction.lag.ms": "0",
    "retention.ms": str(7 * 24 * 3600 * 1000),
}
_LOOK_MS = 500


class SimulatedBroker:
    """Topics, transactions and one consumer group.

    Args:
        session_timeout_ms: After so long without a poll a member of the group is out (ms).
        transaction_timeout_ms: After so long an open transaction is aborted (ms).
        incremental: Whether the group speaks the incremental protocol (KIP-848) instead of the
            eager one.

    Attributes:
        clock: For timeouts.
        faults: Decides what happens in the background.
        topic_settings: The settings of each topic. They are kept and shown, and not followed.
        fetched_in_vain: Partitions of which no fetch has an answer.
        ends_in_vain: Partitions of which it does not say where they end, asked for that alone.
    """

    def __init__(
        self,
        clock: ManualClock,
        faults: Faults,
        *,
        session_timeout_ms: int = 10_000,
        transaction_timeout_ms: int = 10_000,
        incremental: bool = False,
    ) -> None:
        self.clock = clock
        self.faults = faults
        self._topics: dict[str, list[PartitionLog]] = {}
        self._topic_ids: dict[str, str] = {}
        self.fetched_in_vain: set[TopicPartition] = set()
        self.ends_in_vain: set[TopicPartition] = set()
        self.topic_settings: dict[str, dict[str, str]] = {}
        self._created = 0
        self._back_ms = self._transactions_back_ms = 0.0
        self._was_away = False
        self._background: list[Callable[[], None]] = []
        self.group = GroupCoordinator(
            lambda topic: len(self._topics.get(topic, ())),
            clock,
            session_timeout_ms=session_timeout_ms,
            incremental=incremental,
        )
        self.transactions = TransactionCoordinator(
            self.log, self.group.commit, clock, faults, transaction_timeout_ms
        )

    # ------------------------------------------------------------------ topics

    def create_topic(
        self, topic: str, partitions: int, settings: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic, unless it exists."""
        if topic not in self._topics:
            self.topic_settings[topic] = {**_TOPIC_DEFAULTS, **(settings or {})}
            self._created += 1
            self._topic_ids[topic] = f"topic {self._created}"
            self._topics[topic] = [
                PartitionLog(TopicPartition(topic, number)) for number in range(partitions)
            ]

    def add_partitions(self, topic: str, count: int) -> None:
        """Let a topic have more partitions, so many in all."""
        logs = self._topics[topic]
        new = range(len(logs), count)
        logs += [PartitionLog(TopicPartition(topic, number)) for number in new]

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and all it holds, and with it what the group has committed of it."""
        self.group.forget_topic(topic)
        self.transactions.forget_topic(topic)
        del self._topics[topic], self._topic_ids[topic], self.topic_settings[topic]

    def topic_ids(self) -> dict[str, str]:
        """Return what identifies each topic; one that is created again has another id."""
        return dict(self._topic_ids)

    def partition_counts(self) -> dict[str, int]:
        """Return the partition count of each topic."""
        return {topic: len(logs) for topic, logs in self._topics.items()}

    def log(self, partition: TopicPartition) -> PartitionLog:
        """Return the log of a partition."""
        return self._topics[partition.topic][partition.partition]

    def offset_range(self, partition: TopicPartition) -> OffsetRange:
        """Return what a partition holds."""
        log = self.log(partition)
        return OffsetRange(log.beginning, log.stable_end, log.high_watermark)

    def partition_for(self, topic: str, key: bytes | None) -> TopicPartition:
        """Return the partition a key belongs to, as Kafka has it; a random one without a key."""
        count = len(self._topics[topic])
        if key is None:
            return TopicPartition(topic, self.faults.random.randrange(count))
        return TopicPartition(topic, partition_of(key, count))

    def append(
        self,
        topic: str,
        partition: int | None,
        records: Iterable[ProducedRecord],
        producer: tuple[str, int] | None = None,
    ) -> int | None:
        """Append records.

        Args:
            partition: The partition; None lets each record's key choose.
            producer: Transactional id and epoch; None outside of transactions.

        Returns:
            The last record's offset.

        Raises:
            TaskMigratedError: The producer is fenced; nothing was appended.
        """
        last: int | None = None
        for record in records:
            key, *_ = record
            place = (
                self.partition_for(topic, key)
                if partition is None
                else TopicPartition(topic, partition)
            )
            number = None
            if producer is not None:
                number = self.transactions.add_partition(*producer, place)
            last = self.log(place).append([record], number)
            self.transactions.maybe_deliver_late()
        return last

    # ------------------------------------------------------------------ for tests

    def produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers = (),
    ) -> None:
        """Append one record, as a producer outside of the application would."""
        self.append(topic, None, [(key, value, timestamp, headers)])

    def committed_records(self, topic: str) -> list[StaticMessage]:
        """Return all committed records of a topic, partition by partition."""
        return [message for log in self._topics[topic] for message in log.committed_records()]

    def compact(self, topic: str) -> int:
        """Compact all partitions of a topic; return how many entries went."""
        return sum(log.compact() for log in self._topics[topic])

    # ------------------------------------------------------------------ absence

    def go_away(self, duration_ms: float, *, transactions_only: bool = False) -> None:
        """Answer nothing for a while: a restart, or coordinators that move.

        Args:
            transactions_only: Whether all but the coordinator of transactions answers.
        """
        self._transactions_back_ms = self.clock.monotonic_ms() + duration_ms
        if not transactions_only:
            self._back_ms = self._transactions_back_ms
            self._was_away = True

    @property
    def away(self) -> bool:
        """Whether it answers nothing now."""
        return self.clock.monotonic_ms() < self._back_ms

    @property
    def transactions_away(self) -> bool:
        """Whether it answers nothing about transactions now."""
        return self.clock.monotonic_ms() < self._transactions_back_ms

    def wait_for_transactions(
        self, timeout_s: float = math.inf, gives_up: Callable[[float], bool] = lambda _: False
    ) -> bool:
        """Let time pass until it answers about transactions again; return whether it does.

        Args:
            timeout_s: How much of it at most (s).
            gives_up: Whether to wait no longer; asked every half a second.
        """
        begun_ms = self.clock.monotonic_ms()
        until_ms = min(begun_ms + timeout_s * 1000, self._transactions_back_ms)
        while (left_ms := until_ms - (now_ms := self.clock.monotonic_ms())) > 0:
            if gives_up((now_ms - begun_ms) / 1000):
                break
            self.clock.advance_ms(min(left_ms, _LOOK_MS))
        return not self.transactions_away

    def gives_no_answer(self) -> bool:
        """Return whether a request gets none in time: it is away, or the draw says so."""
        return self.away or self.faults.happens(self.faults.rates.no_answer)

    def maybe_no_answer(self, call: str) -> None:
        """Raise what a client does whose call gets no answer, if it gets none."""
        if self.gives_no_answer():
            raise RetriableClientError(f"{call}: no answer in time (simulated)")

    # ------------------------------------------------------------------ what happens by itself

    def in_background(self, action: Callable[[], None]) -> None:
        """Let every tick run what a client does on a thread of its own."""
        self._background.append(action)

    def tick(self) -> None:
        """Do a little of what brokers and clients do in the background."""
        if self.away:
            return
        if self._was_away:  # Coordinators that have just begun give every member a whole session.
            self._was_away = False
            self.group.touch_all()
        for action in self._background:
            action()
        if self.faults.happens(self.faults.rates.background):
            self.transactions.write_a_marker()
        self.transactions.maybe_deliver_late()
        self.transactions.expire()
        for member_id in self.group.expire():
            self.faults.note(f"broker member {member_id} timed out")

    def settle(self) -> None:
        """Write all markers of decided transactions."""
        self.transactions.complete_all()
