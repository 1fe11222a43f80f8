"""Whether a thread that stood still may log what it holds.

A process that is stopped for longer than its session, by a signal, a virtual machine's pause or a
machine that swaps, goes on where it was: perhaps in the middle of a run. Others have its tasks by
then, and what it logs comes behind what they have logged. Under exactly-once its transaction is
refused. At least once nothing stands between its old counts and the changelog, from which the next
restore would take them for the newest.

So a thread that finds that seconds have passed between two looks at the clock sends nothing until
the group has taken an offset commit of it, of the offsets that are committed: only from a member
that has these partitions does it take one. A look is one a poll and one a run.

What was handed to the client before it stood still is not this guard's: the client throws away
what is older than its `delivery.timeout.ms`, two heartbeats less than a session, before it sends
anything (`config.clients`). What it had begun to write to a connection, or a network keeps, comes
late all the same, and is undone by the new owner (`foreign_records`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pystreams.config import ProcessingGuarantee
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.ports import ConsumerPort
from pystreams.runtime.settings import ThreadSettings

_log = get_logger("pystreams.thread")

_LIMIT_MS = 5000
"""Much less than a session, whose last heartbeat was before the thread stood still, and which under
KIP-848 only the broker knows. To ask costs two requests."""


class Membership:
    """Tells when a thread has stood still, and asks the group whether it is a member.

    Owned by the thread.

    Args:
        clock: Tells how long it stood still.
        settings: The thread's. Under exactly-once there is never a doubt.
    """

    def __init__(
        self, clock: Clock, settings: ThreadSettings, consumer: Callable[[], ConsumerPort]
    ) -> None:
        self._clock = clock
        at_least_once = settings.guarantee is ProcessingGuarantee.AT_LEAST_ONCE
        limit_ms = min(_LIMIT_MS, settings.membership.session_timeout_ms / 2)
        self._limit_ms = limit_ms if at_least_once else math.inf
        self._consumer = consumer
        self._seen_ms = clock.monotonic_ms()
        self._doubtful = False

    def is_doubtful(self) -> bool:
        """Look at the clock; return whether nothing may be sent before the group was asked."""
        now_ms = self._clock.monotonic_ms()
        stood_ms, self._seen_ms = now_ms - self._seen_ms, now_ms
        if stood_ms >= self._limit_ms:
            self._doubtful = True
            _log.info("asking the group before sending on", stood_still_s=round(stood_ms / 1000))
        return self._doubtful

    def prove(self, partitions: Sequence[TopicPartition]) -> None:
        """Return when the thread may send for partitions: it did not stand still, or has them.

        Raises:
            TaskMigratedError: Somebody else has them.
            RetriableClientError: No answer in time; call again.
        """
        if not self.is_doubtful():
            return
        # Of partitions that nothing is committed of yet nobody knows.
        self._consumer().commit(self._consumer().committed(partitions))
        self._seen_ms = self._clock.monotonic_ms()  # The answers may have taken long.
        self._doubtful = False
