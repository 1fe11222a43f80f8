"""What stands still, as the watchdog tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class TroubleKind(Enum):
    """What stands still."""

    BLOCKED_THREAD = "stream thread stands still"
    LATE_POLL = "stream thread is about to lose its partitions"
    STALLED_TASK = "task makes no progress"
    STALLED_PARTITION = "partition is not read"
    STALLED_RESTORE = "restore makes no progress"
    STALLED_STANDBY = "standby does not follow"
    STALLED_GLOBAL = "global store makes no progress"


STALLED_READS = frozenset(
    {TroubleKind.STALLED_PARTITION, TroubleKind.STALLED_RESTORE, TroubleKind.STALLED_GLOBAL}
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that stands still.

    Attributes:
        of: The thread's or the task's name; of a global store its topic's.
        text: What is known, for people.
        since_ms: Since when, on the monotonic clock (ms).
        stack: Where the thread is, innermost call last; nothing of a task.
    """

    kind: TroubleKind
    of: str
    text: str
    since_ms: float
    stack: str = ""
