"""What the log says of the records that operations drop: without a key where one is needed, ...

The first for each node and reason is told at once; later ones at most once a minute, with their
number, so that an input full of them does not fill the log. What is left is told at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pystreams.ids import TaskId
from pystreams.kernel.loggers import get_logger
from pystreams.record import PresentRecord, TaskTime

_log = get_logger("pystreams.processing")

_INTERVAL_MS = 60_000


@dataclass(slots=True)
class _Drops:
    """What one node dropped for one reason.

    Attributes:
        untold: How many records the log has not told of.
        told_ms: Wall-clock time of the last warning (ms), None before the first.
    """

    untold: int = 0
    told_ms: int | None = None


class DropWarnings:
    """Warns of the records that the operations of one task drop; owned by its thread.

    Args:
        task_id: The task.
        record: The record that the task is processing.
        time: What time it is for the task.
    """

    def __init__(self, task_id: TaskId, record: PresentRecord, time: TaskTime) -> None:
        self._task_id = task_id
        self._record = record
        self._time = time
        self._drops: dict[tuple[str, str], _Drops] = {}

    def add(
        self, node: str, reason: str, details: Callable[[], Mapping[str, object]] | None = None
    ) -> None:
        """Take note that a node drops the present record.

        Args:
            node: The node.
            reason: Why.
            details: Returns what else a warning tells of this record.
        """
        drops = self._drops.get((node, reason))
        if drops is None:
            drops = self._drops[node, reason] = _Drops()
        drops.untold += 1
        now_ms, told_ms = self._time.now_ms, drops.told_ms
        # A clock that was put back does not silence the log.
        if told_ms is None or not 0 <= now_ms - told_ms < _INTERVAL_MS:
            drops.told_ms = now_ms
            source = self._record.metadata()
            told = {} if source is None else source._asdict()
            self._tell(node, reason, drops, told if details is None else {**told, **details()})

    def tell_rest(self) -> None:
        """Warn of the records that no warning has told of; a second call does nothing."""
        for (node, reason), drops in self._drops.items():
            if drops.untold:
                self._tell(node, reason, drops, {})

    def _tell(self, node: str, reason: str, drops: _Drops, last: Mapping[str, object]) -> None:
        _log.warning(
            "records dropped by an operation",
            task=str(self._task_id),
            node=node,
            reason=reason,
            records=drops.untold,
            **last,
        )
        drops.untold = 0
