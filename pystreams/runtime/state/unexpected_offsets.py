"""A piece of a changelog to which others than its task have written, and how that is told."""

from __future__ import annotations

from dataclasses import dataclass

from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.loggers import get_logger

REBUILT_FROM_IT = "nothing: the store is damaged, and what it is rebuilt from may be old"

_FROM_ANOTHER = (
    "another process has written to the changelog of a task that runs here, after it stood still"
)
_FROM_BEFORE = (
    "the changelog of a task that went back to its last commit has records of before that, or of "
    "another process"
)

_log = get_logger("pystreams.tasks")


@dataclass(frozen=True, slots=True)
class UnexpectedOffsets:
    """A piece of a changelog that holds more than its task has sent.

    Attributes:
        own_records: How many of its records the task has sent.
        perhaps_own: Whether the others may be its own as well: it went back to a commit.
    """

    first: int
    last: int
    own_records: int
    perhaps_own: bool

    def tell(
        self,
        task_id: TaskId,
        changelog: TopicPartition | None,
        done: str,
        records: int | None = None,
    ) -> None:
        """Warn of it.

        Args:
            done: What was done about it.
            records: How many there are, with its own; without it all offsets count.
        """
        count = self.last - self.first + 1 if records is None else records
        _log.warning(
            _FROM_BEFORE if self.perhaps_own else _FROM_ANOTHER,
            task=str(task_id),
            changelog=str(changelog),
            records=count - self.own_records,
            done=done,
        )
