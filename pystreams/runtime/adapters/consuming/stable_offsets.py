"""Committed offsets, which wait for those that are pending in somebody's transaction.

Where some are, as after the death of a member, librdkafka asks again and again until the call's
time is up. Meanwhile a poll of the same client waits, too (measured with 2.16): for one task that
can't begin, all tasks of the thread would stand still. So the group's client is asked for a moment
only. What has no answer by then is asked for by a client that is in no group, on other threads;
whoever wants the offsets comes again for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from confluent_kafka import KafkaException

from pystreams.errors import RetriableClientError
from pystreams.ids import TopicPartition
from pystreams.kernel.pools import begin_call
from pystreams.runtime.adapters.connection.confluent import Consumer
from pystreams.runtime.adapters.connection.confluent_errors import error_of, translate
from pystreams.runtime.adapters.connection.kafka_partitions import committed_offset, ours, theirs
from pystreams.runtime.cluster.committed_offsets import CommittedOffset

_GLANCE_S = 0.3
"""Longer than an answer takes where all wait for a processor: the other client is to connect first,
which takes it half a second and more."""
_ANSWER_TIMEOUT_S = 1.0
_FRESH_S = 1.0
"""How long an answer holds for who asked for it; nobody else commits these offsets meanwhile."""
_MAX_SIDE_BY_SIDE = 8

_Offsets = dict[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a client that is in no group was told, and when (s)."""

    offsets: _Offsets
    at_s: float


class StableOffsets:
    """The committed offsets of a group, for one consumer; owned by its thread.

    Args:
        client: The group's client.
        make_other: Makes the one that is in no group, when it is first needed.
        doing: The start of an error's message.
    """

    def __init__(self, client: Consumer, make_other: Callable[[], Consumer], doing: str) -> None:
        self._client = client
        self._make_other = make_other
        self._doing = doing
        self._other: Consumer | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._asked: dict[frozenset[TopicPartition], Future[_Answer]] = {}
        self._sent: list[Future[_Answer]] = []  # Those asked for no more included.
        self._last_error = ""

    def committed(self, partitions: Sequence[TopicPartition]) -> _Offsets:
        """Return stable committed offsets; partitions without one are left out.

        Raises:
            RetriableClientError: No answer yet: ask again for the same partitions.
        """
        wanted = frozenset(partitions)
        asked = self._asked.pop(wanted, None)
        if asked is None and not self._asked:
            try:
                return self._answer(self._client, partitions, _GLANCE_S)
            except RetriableClientError:
                self._asked[wanted] = self._ask_other(partitions)
                raise
        if asked is not None and asked.done():
            answer = asked.result()
            if time.monotonic() - answer.at_s <= _FRESH_S:
                self._retire()
                return answer.offsets
            asked = None
        self._asked[wanted] = asked or self._ask_other(partitions)
        message = f"{self._doing}: no answer yet, some may be pending in a transaction"
        if self._last_error:
            message += f"; the last try: {self._last_error}"
        raise RetriableClientError(message)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop what was asked for partitions that are given up."""
        gone = set(partitions)
        for wanted in [wanted for wanted in self._asked if not wanted.isdisjoint(gone)]:
            del self._asked[wanted]

    def close(self) -> None:
        """Release the other client, if there is one: once its last answers have come."""
        if self._pool is not None and self._other is not None:
            self._pool.shutdown(cancel_futures=True)
            self._other.close()
        self._pool = self._other = None

    def _retire(self) -> None:
        """Let go of the other client when all is answered; never under a question."""
        pool, other = self._pool, self._other
        if pool is None or other is None or not all(sent.done() for sent in self._sent):
            return
        self._pool = self._other = None
        self._sent.clear()
        begin_call(pool, other.close)
        pool.shutdown(wait=False)

    def _ask_other(self, partitions: Sequence[TopicPartition]) -> Future[_Answer]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_MAX_SIDE_BY_SIDE, thread_name_prefix="offsets")
        other = self._other = self._other or self._make_other()

        def ask() -> _Answer:
            found = self._answer(other, partitions, _ANSWER_TIMEOUT_S)
            return _Answer(found, time.monotonic())

        sent = begin_call(self._pool, ask)
        self._sent.append(sent)
        return sent

    def _answer(
        self, client: Consumer, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> _Offsets:
        wanted = [theirs(partition) for partition in partitions]
        try:
            found = client.committed(wanted, timeout=timeout_s)
        except KafkaException as raised:
            error = error_of(raised)
            self._last_error = f"{error.str()} ({error.name()})"
            raise translate(error, self._doing) from raised
        for partition in found:
            if partition.error is not None:
                raise translate(partition.error, self._doing)
        self._last_error = ""
        return {
            ours(partition): committed_offset(partition)
            for partition in found
            if partition.offset >= 0
        }
