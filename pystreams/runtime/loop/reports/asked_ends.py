"""Where partitions end of which nothing comes, as brokers say when they are asked.

What waits in a partition is known from fetches. Where fetches have no answers, as behind a network
that swallows them or at a broker that hangs, nothing is known to wait, and who should read looks
like one that has read all. So the ends of partitions are asked for now and then: beside the
thread, which never waits for that, and so many at a time, however many there are. Partitions
whose broker does not say where they end are kept in mind, since nothing may come of them either,
and are asked for each time until it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from itertools import islice

from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.pools import begin_call
from pystreams.runtime.tasks.task_manager import TaskManager
from pystreams.runtime.tasks.thread_parts import ThreadParts

_log = get_logger("pystreams.thread")

_EVERY_MS = 30_000
_AGAIN_MS = 5_000
"""So soon those are asked for again that had no answer."""
_AT_A_TIME = 500
"""About so many partitions are asked for each time, besides those that are silent."""


class AskedEnds:
    """Asks for the ends of the partitions that one thread reads; owned by it.

    Args:
        in_turn: Returns the partitions to be asked for next.
        note: Told of the answers.

    Attributes:
        silent: Partitions of which two questions in a row had no answer.
    """

    def __init__(
        self,
        parts: ThreadParts,
        in_turn: Callable[[], Sequence[TopicPartition]],
        note: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        self.silent: set[TopicPartition] = set()
        self._admin, self._clock = parts.admin, parts.clock
        self._make_pool = parts.make_waiting_pool
        self._in_turn, self._note = in_turn, note
        self._pool: Executor | None = None
        # Those of the question that is under way, or is asked again.
        self._partitions: list[TopicPartition] = []
        self._asks_again = False
        self._asked: Future[dict[TopicPartition, int]] | None = None
        self._look_at_ms = self._clock.monotonic_ms() + _EVERY_MS

    def check(self) -> None:
        """Ask when it is time, and tell what was answered; never waits."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._look_at_ms:
            return
        if self._asked is None:
            if not self._asks_again:
                self._partitions = list(dict.fromkeys([*self.silent, *self._in_turn()]))
            if not self._partitions:
                self._asks_again = False
                self._look_at_ms = now_ms + _EVERY_MS
                return
            if self._pool is None:
                self._pool = self._make_pool()
            self._asked = begin_call(self._pool, self._admin.told_ends, tuple(self._partitions))
        if self._asked.done():
            asked, self._asked = self._asked, None
            self._take(asked)
            self._look_at_ms = now_ms + (_AGAIN_MS if self._asks_again else _EVERY_MS)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget what is known of partitions that are not read any more."""
        gone = set(partitions)
        self.silent -= gone
        self._partitions = [at for at in self._partitions if at not in gone]

    def forget_all(self) -> None:
        """Forget what is known of all partitions."""
        self.silent.clear()
        self._partitions = []

    def close(self) -> None:
        """Ask no more; an answer is not waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    def _take(self, asked: Future[dict[TopicPartition, int]]) -> None:
        told: Mapping[TopicPartition, int] = {}
        if (error := asked.exception()) is None:
            told = asked.result()
        else:
            _log.debug("ends of partitions are not known", why=str(error))
        self.silent.difference_update(told)
        self._note(told)
        self._partitions = [at for at in self._partitions if at not in told]
        # A broker that starts again leaves one question without an answer.
        is_new = not self.silent.issuperset(self._partitions)
        self._asks_again = is_new and not self._asks_again
        if not self._asks_again:
            self.silent.update(self._partitions)


class PartitionsInTurn:
    """Returns the partitions of running tasks, some at each call."""

    def __init__(self, manager: TaskManager) -> None:
        self._manager = manager
        self._next_task = 0

    def __call__(self) -> list[TopicPartition]:
        """Return the partitions of the tasks whose turn it is."""
        running = self._manager.running()
        found: list[TopicPartition] = []
        first = self._next_task if self._next_task < len(running) else 0
        for task in islice(running, first, None):
            if len(found) >= _AT_A_TIME:
                break
            found += task.partitions
            first += 1
        self._next_task = first
        return found
