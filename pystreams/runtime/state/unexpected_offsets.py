"""A piece of a changelog to which others than its task have written, and how that is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.loggers import get_logger

REBUILT_FROM_IT = "nothing: the store is damaged, and what it is rebuilt from may be old"

_FROM_ANOTHER = (
    "another process has written to the changelog of a task that runs here, after it stood still"
)
_FROM_ANOTHER_PERHAPS = "another process may have written to the changelog of a task that runs here"
_FROM_BEFORE = (
    "the changelog of a task that went back to its last commit has records of before that, or of "
    "another process"
)

_FIRST_PAUSE_MS = 1_000
_LONGEST_PAUSE_MS = 60_000
_TOLD_EVERY_MS = 60_000

_log = get_logger("pystreams.tasks")


class Tries:
    """When it is tried again to undo what others have written; times of the monotonic clock (ms).

    Attributes:
        next_ms: Not before that.
    """

    def __init__(self) -> None:
        self.next_ms = self._tell_ms = 0.0
        self._pause_ms = _FIRST_PAUSE_MS

    def failed(self, now_ms: float) -> bool:
        """Put the next try off, for longer each time; return whether that is to be told."""
        self.next_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, _LONGEST_PAUSE_MS)
        is_told = now_ms >= self._tell_ms
        if is_told:
            self._tell_ms = now_ms + _TOLD_EVERY_MS
        return is_told


@dataclass(frozen=True, slots=True)
class UnexpectedOffsets:
    """A piece of a changelog that takes more offsets than its task has sent records.

    It is not known whether there are others until it is read: transactions and what is deleted
    have offsets, too.

    Attributes:
        own_records: How many of its records the task has sent.
        perhaps_own: Whether the others may be its own as well: it went back to a commit.
        records: How many it holds, with its own; None until it is read.
        tries: Those to undo what others have written.
    """

    first: int
    last: int
    own_records: int
    perhaps_own: bool
    records: int | None = None
    tries: Tries = field(default_factory=Tries)

    def tell(self, task_id: TaskId, changelog: TopicPartition | None, done: str) -> None:
        """Warn of it; until it is read, of what may be there, as many as it takes offsets.

        Args:
            done: What was done about it.
        """
        event, count = _FROM_BEFORE if self.perhaps_own else _FROM_ANOTHER, self.records
        if count is None:
            event, count = _FROM_ANOTHER_PERHAPS, self.last - self.first + 1
        _log.warning(
            event,
            task=str(task_id),
            changelog=str(changelog),
            records=count - self.own_records,
            done=done,
        )
