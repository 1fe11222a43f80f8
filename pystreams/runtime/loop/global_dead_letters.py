"""Sends the dead letters of global stores: these wait until the broker has them.

    letters of records --> send, flush --> acknowledged: their records may be committed
                             ^      |
                             |      | no answer: wait for it
                             +------+ lost, or the batch too large: all again, in smaller batches

What is tried for longer than `task.timeout.ms` ends the application, as that of a task does; then
the next start sends it, since its records are not committed. So it does after a stop meanwhile,
which is no error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from pystreams.errors import (
    BrokerNotAvailableError,
    RetriableClientError,
    StreamsError,
    TransactionAbortableError,
)
from pystreams.kernel.loggers import get_logger
from pystreams.record import OutputBuffer
from pystreams.runtime.ports import ProducerPort
from pystreams.runtime.tasks.thread_parts import ThreadParts

_RETRY_PAUSE_S = 0.5

_log = get_logger("pystreams.global")


class GlobalDeadLetters:
    """Sends them, for the thread that owns the global stores.

    Args:
        client_id: Of the producer, which is made when there is a letter.
        stop: Set when the thread is to end: then nothing is waited for.
    """

    def __init__(self, parts: ThreadParts, client_id: str, stop: threading.Event) -> None:
        self._parts, self._clock = parts, parts.clock
        self._client_id = client_id
        self._stop = stop
        self._producer: ProducerPort | None = None
        self._left = False

    def send(self, outputs: Iterable[OutputBuffer]) -> bool:
        """Return True when all that waits in these buffers is on the broker; clears them.

        False, if that could not be before the order to stop: their records are not to be committed.

        Raises:
            BrokerNotAvailableError: Not within `task.timeout.ms`.
            ProductionError: A letter is refused.
        """
        waiting = [output for output in outputs if output.records]
        if not waiting:
            return True
        if self._left:
            return False
        topics = sorted({output.topic for output in waiting})
        if self._producer is None:
            # The topics tell it how large a batch may be.
            self._producer = self._parts.clients.producer(self._client_id, None, topics)
        unsent, failed_ms = _copied(waiting), None
        while True:
            try:
                for output in unsent:
                    self._producer.send(output)
                self._producer.flush()
                break
            except (RetriableClientError, TransactionAbortableError) as error:
                if failed_ms is None:
                    failed_ms = self._clock.monotonic_ms()
                    _log.warning("dead letters wait", topics=topics, why=str(error))
                if not self._wait(error, topics, failed_ms):
                    self._left = True
                    return False
                if isinstance(error, TransactionAbortableError):
                    unsent = _copied(waiting)  # Those that have arrived arrive twice.
        for output in waiting:
            output.records.clear()
        if failed_ms is not None:
            _log.info("dead letters are sent", topics=topics)
        return True

    def _wait(self, error: StreamsError, topics: list[str], failed_ms: float) -> bool:
        """Pause before the next try; return False if there is to be none because of a stop."""
        if self._stop.wait(_RETRY_PAUSE_S):
            event = "dead letters are not sent: the next start sends them"
            _log.warning(event, topics=topics, why=str(error))
            return False
        limit_ms = self._parts.settings.task_timeout_ms
        if self._clock.monotonic_ms() - failed_ms > limit_ms:
            named = ", ".join(map(repr, topics))
            raise BrokerNotAvailableError(
                f"global stores: dead letters were not taken by {named} for {limit_ms} ms "
                f"(task.timeout.ms); last error: {error}. See that brokers answer, and start "
                "again: their records are processed again. A higher task.timeout.ms lets them "
                "wait for longer"
            ) from error
        return True

    def close(self) -> None:
        """Release the producer."""
        if self._producer is not None:
            self._producer.close()


def _copied(outputs: Iterable[OutputBuffer]) -> list[OutputBuffer]:
    """Return buffers to be drained, so that what is in these is kept."""
    copies = []
    for output in outputs:
        copy = OutputBuffer(output.topic, output.partition, origin=output.origin)
        copy.records.extend(output.records)
        copies.append(copy)
    return copies
