"""Moves of a client's partitions to other offsets, which may have to wait.

A fetcher that is still starting or stopping can't be moved. Mostly that is over in milliseconds.
Where it lasts, the partition stays paused in the client, and each poll tries again: where it goes
on is forgotten by nobody but who moves it elsewhere or gives it up.
"""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore.

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from confluent_kafka import KafkaError, KafkaException

from pystreams.errors import RetriableClientError
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import Clock, SystemClock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.connection.confluent import Consumer
from pystreams.runtime.adapters.connection.confluent_errors import error_of, translate
from pystreams.runtime.adapters.connection.kafka_partitions import theirs

_log = get_logger("pystreams.consumer")

_ATTEMPTS = 100
_FEW_ATTEMPTS = 10
_PAUSE_S = 0.005
_LONG_MS = 5_000
_TOLD_EVERY_MS = 60_000

_NOT_READY = frozenset({KafkaError._STATE, KafkaError._PREV_IN_PROGRESS, KafkaError._OUTDATED})
"""A fetcher is still starting or stopping, or has been started while the seek was on its way.

Source: librdkafka's `rd_kafka_assignment_serve_pending` and `rd_kafka_toppar_op_serve`.
"""


class PartitionMoves:
    """Stops and moves the partitions of one consumer; belongs to its thread.

    Attributes:
        stopped: Partitions paused in the client, and where they go on; to be read.
        waiting: Those of them that go on as soon as they can be moved; to be read. What comes of
            them until then is of nobody's position.
    """

    def __init__(self, client: Consumer, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._stopped: dict[TopicPartition, int] = {}
        # Since when (ms).
        self._waiting: dict[TopicPartition, float] = {}
        self._told_ms: float | None = None
        self.stopped: Mapping[TopicPartition, int] = MappingProxyType(self._stopped)
        self.waiting: Mapping[TopicPartition, float] = MappingProxyType(self._waiting)

    def stop(self, partition: TopicPartition, position: int) -> None:
        """Pause a partition in the client, unless it is; it is to go on at this offset."""
        if partition not in self._stopped:
            self._stopped[partition] = position
            self._client.pause([theirs(partition)])

    def let_go(self, partition: TopicPartition) -> None:
        """Let the client fetch a partition again, if it was stopped, from where that was."""
        if partition in self._stopped:
            self.start({partition: self._stopped[partition]})

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Move partitions and let the client fetch them."""
        attempts = self._attempts()
        for partition, position in positions.items():
            self._remember(partition, position)
        self._start(positions, attempts)

    def move(self, positions: Mapping[TopicPartition, int]) -> None:
        """Move partitions that the client fetches."""
        attempts = self._attempts()
        for partition, position in positions.items():
            why = self._seek(partition, position, attempts)
            if why is not None:
                attempts = 1
                self._remember(partition, position)
                self._client.pause([theirs(partition)])

    def try_again(self) -> None:
        """Try the moves that wait, without waiting for them; tell of those that last."""
        if self._waiting:
            waiting = {partition: self._stopped[partition] for partition in self._waiting}
            if (why := self._start(waiting, 1)) is not None:
                self._tell(why)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that are given up."""
        for partition in partitions:
            self._done(partition)

    def _attempts(self) -> int:
        """Return how often to try: where others wait already, the client is not ready for long."""
        return 1 if self._waiting else _ATTEMPTS

    def _remember(self, partition: TopicPartition, position: int) -> None:
        self._stopped[partition] = position
        self._waiting.setdefault(partition, self._clock.monotonic_ms())

    def _done(self, partition: TopicPartition) -> None:
        self._stopped.pop(partition, None)
        self._waiting.pop(partition, None)
        if not self._waiting:
            self._told_ms = None

    def _start(
        self, positions: Mapping[TopicPartition, int], attempts: int
    ) -> RetriableClientError | None:
        """Move partitions that wait; return why some wait still."""
        still: RetriableClientError | None = None
        moved = []
        for partition, position in positions.items():
            why = self._seek(partition, position, attempts)
            if why is None:
                moved.append(partition)
            else:
                still, attempts = why, 1
                self._client.pause([theirs(partition)])
        if moved:
            self._client.resume([theirs(partition) for partition in moved])
        attempts = _FEW_ATTEMPTS  # They were ready a moment ago.
        for partition in moved:
            why = self._seek(partition, positions[partition], attempts)
            if why is None:
                self._done(partition)
            else:
                still, attempts = why, 1
                self._client.pause([theirs(partition)])
        return still

    def _seek(
        self, partition: TopicPartition, position: int, attempts: int
    ) -> RetriableClientError | None:
        """Seek, waiting for a fetcher that is still starting or stopping; return why it failed."""
        doing = f"moving {partition} to offset {position}"
        while True:
            try:
                if position == 0:
                    self._client.seek(theirs(partition, 1))
                self._client.seek(theirs(partition, position))
            except KafkaException as raised:
                error, attempts = error_of(raised), attempts - 1
                if error.code() in _NOT_READY:
                    why = RetriableClientError(f"{doing}: {error.str()} ({error.name()})")
                else:
                    translated = translate(error, doing)
                    if not isinstance(translated, RetriableClientError):
                        raise translated from raised
                    why = translated
                if attempts <= 0:
                    return why
                time.sleep(_PAUSE_S)
            else:
                return None

    def _tell(self, why: RetriableClientError) -> None:
        now_ms = self._clock.monotonic_ms()
        lasting = sorted(at for at in self._waiting if now_ms - self._waiting[at] >= _LONG_MS)
        if lasting and (self._told_ms is None or now_ms - self._told_ms >= _TOLD_EVERY_MS):
            self._told_ms = now_ms
            _log.warning(
                "partitions stand still: the client can't be moved in them yet",
                partitions={str(partition): self._stopped[partition] for partition in lasting},
                why=str(why),
                cure="none as long as it passes: each poll tries again; else restart this process",
            )
