"""Rows of a table that expire: what tells those downstream, and when.

    record --> stream time goes on --> a portion of what is over by now goes on as deletions
                                          |                |
                                          |                +-- is more left: before the next record
                                          v
                                       the record itself: its own row, if over, is none any more

A deletion has the stream time as its timestamp, no headers, and the row as its old value where that
is wanted. Of a table with a record cache it goes on at the flush, as all changes.

A record may write a row that is over already: it goes on as any other, and its deletion follows.

The stream time is that of the records that come to the table; it is committed with the offsets.
"""

from __future__ import annotations

from typing import Any

from pystreams.topology.contracts.operator import STREAM_TIME_PREFIX, NodeContext

_NEVER = -1


class TableExpiry:
    """The expiry of one table in one task.

    Args:
        forwards: Whether changes are forwarded here, and not by a record cache.
        send_old_values: Whether they carry old values.
    """

    def __init__(
        self, node: NodeContext, store: Any, *, forwards: bool, send_old_values: bool
    ) -> None:
        task = node.task
        self._task, self._record, self._forward = task, task.record, node.forward
        self._name = node.name
        self._store, self._rows = store, store.rows
        self._look_up = store.get_with_timestamp
        self._forwards, self._send_old_values = forwards, send_old_values
        self._is_left_for_later = False
        self._rows.on_expiry = self._emit
        self._committed_name = f"{STREAM_TIME_PREFIX}{node.name}"
        task.commit_number(self._committed_name, lambda: self._rows.stream_time)
        task.on_init(self._begin)

    def get(self, key: Any) -> tuple[Any, int]:
        """Look a row up for the present record, as which it may be over."""
        self._rows.move_to(self._record.timestamp)
        found: tuple[Any, int] = self._look_up(key)
        if found[0] is None and (old := self._store.leave_as_read()) is not None:
            self._tell([(key, old)])
        return found

    def put(self, key: Any, value: Any, timestamp: int) -> None:
        """Write a row; the one it replaces, if it is over, is told to be gone before."""
        self._rows.move_to(timestamp)
        if self._rows.has_expired:
            self.get(key)
        self._store.put_with_timestamp(key, value, timestamp)

    def _begin(self) -> None:
        """Go on with what was left when the task ended, and with what another ttl makes due."""
        self._rows.saw(self._task.committed_number(self._committed_name, _NEVER))
        self._leave_for_later()

    def _emit(self, at_once: bool) -> None:  # noqa: FBT001 - the form of `ExpiringRows.on_expiry`
        if self._is_left_for_later:
            return
        if at_once:
            self._tell(self._store.leave())
        if self._rows.has_expired:
            self._leave_for_later()

    def _leave_for_later(self) -> None:
        self._is_left_for_later = True
        self._task.go_on_later(self._name, self._go_on)

    def _go_on(self) -> None:
        self._is_left_for_later = False
        self._emit(True)

    def _tell(self, left: Any) -> None:
        """Forward rows that have left as deletions."""
        record, forward, stream_time = self._record, self._forward, self._rows.stream_time
        message, timestamp, headers = record.message, record.timestamp, record.headers
        record.go_back_to(None, stream_time, ())
        for key, old in left:
            if self._forwards:
                change = (None, old if self._send_old_values else None)
                forward(key, change, stream_time, ())
        record.message, record.timestamp, record.headers = message, timestamp, headers
