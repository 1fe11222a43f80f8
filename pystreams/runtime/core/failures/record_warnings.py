"""What the log says of records that operations drop, or that a function is called again with.

The first for each node and reason is told at once; later ones at most once a minute, with their
number, so that an input full of them does not fill the log. What is left is told at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pystreams.exception_texts import exception_text
from pystreams.ids import TaskId
from pystreams.kernel.loggers import get_logger
from pystreams.record import PresentRecord, TaskTime
from pystreams.topology.contracts.operator import Details, LogLevel

_log = get_logger("pystreams.processing")

_INTERVAL_MS = 60_000
_ERROR_LENGTH = 500
_DROPPED = "records dropped by an operation"
_CALLED_AGAIN = "a function has failed and is called again"
_OUT_OF_TIME = "a function has failed, and there is no time to call it again"

_Kind = tuple[str, str, str]
"""What happened, at which node, and why."""


@dataclass(slots=True)
class _Records:
    """Records to which one thing has happened, at one node for one reason.

    Attributes:
        level: How loud the log tells of them.
        untold: How many records the log has not told of.
        told_ms: Wall-clock time of the last line (ms), None before the first.
    """

    level: LogLevel
    untold: int = 0
    told_ms: int | None = None


class RecordWarnings:
    """Warns of the records that the operations of one task drop or retry; owned by its thread.

    Attributes:
        calls_again: How often functions were called again.
    """

    def __init__(self, task_id: TaskId, record: PresentRecord, time: TaskTime) -> None:
        self.calls_again = 0
        self._task_id = task_id
        self._record = record
        self._time = time
        self._records: dict[_Kind, _Records] = {}

    def dropped(
        self,
        node: str,
        reason: str,
        details: Details | None = None,
        level: LogLevel = "warning",
    ) -> None:
        """Take note that a node drops the present record.

        Args:
            details: Returns what else the log tells of this record.
        """
        self._add((_DROPPED, node, reason), 1, details, level)

    def called_again(self, node: str, error: Exception | None, calls: int = 1) -> None:
        """Take note that a node calls its function again with the present record.

        Args:
            error: What the function raised last; None where that is not known any more.
        """
        self.calls_again += calls
        reason = "errors that passed" if error is None else type(error).__name__
        told = {} if error is None else {"error": exception_text(error)[:_ERROR_LENGTH]}
        self._add((_CALLED_AGAIN, node, reason), calls, lambda: told)

    def not_called_again(self, node: str, error: Exception, attempts: str, within: str) -> None:
        """Take note that a node has no time left to call its function again.

        Args:
            error: What the function raised last.
            attempts: How many calls of how many were made.
            within: The time there was, and what sets it.
        """
        told = {
            "error": exception_text(error)[:_ERROR_LENGTH],
            "attempts": attempts,
            "within": within,
        }
        self._add((_OUT_OF_TIME, node, type(error).__name__), 1, lambda: told)

    def tell_rest(self) -> None:
        """Tell of the records that no line has told of; a second call does nothing."""
        for kind, records in self._records.items():
            if records.untold:
                self._tell(kind, records, {})

    def _add(
        self,
        kind: _Kind,
        count: int,
        details: Details | None,
        level: LogLevel = "warning",
    ) -> None:
        records = self._records.get(kind)
        if records is None:
            records = self._records[kind] = _Records(level)
        records.untold += count
        now_ms, told_ms = self._time.now_ms, records.told_ms
        # A clock that was put back does not silence the log.
        if told_ms is None or not 0 <= now_ms - told_ms < _INTERVAL_MS:
            records.told_ms = now_ms
            source = self._record.metadata()
            told = {} if source is None else source._asdict()
            self._tell(kind, records, told if details is None else {**told, **details()})

    def _tell(self, kind: _Kind, records: _Records, last: Mapping[str, object]) -> None:
        what, node, reason = kind
        number = {"calls" if what is _CALLED_AGAIN else "records": records.untold}
        tell = getattr(_log, records.level)
        tell(what, task=self._task_id.logged, node=node, reason=reason, **number, **last)
        records.untold = 0
