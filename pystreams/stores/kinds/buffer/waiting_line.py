"""What of a buffer is in memory: records in order of time, and what has left since the last flush.

Invariants:
- `in_order` ascends by time, and is the same object for life. What comes below its end goes into
  `late`, a heap. Equal times are put in the order of keys as they leave, together.
- Below `quick_until` the first in `in_order` are the first of all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any

from pystreams.stores.kinds.buffer.waiting_record import (
    FRAME_BYTES,
    SEQUENCE,
    TIMESTAMP,
    Waiting,
)

NEVER = 1 << 63
"""Later than any time (ms) that a record can have."""
_timestamp = itemgetter(TIMESTAMP)

Place = tuple[int, bytes]
"""Timestamp, and key with sequence number: the order of stored keys."""


class WaitingLine:
    """Records that wait, and those that were stored and have left.

    Owned by the buffer; a passage of the buffer adds at the end and takes off the beginning.

    Args:
        place_of: Returns the place of a record among all.

    Attributes:
        in_order: Those that came in order of time.
        late: Those that did not, as a heap: (time, sequence number, record).
        left: What has left the store since the last flush, and at which time (ms).
        left_until: All up to this time (ms) have left.
        quick_until: Below this time (ms) leaving is taking off `in_order`, and no more.
        sequence: The last number that a record got.
        overhead_bytes: Bytes of a stored record beside its key, value and headers.
        message_type: Of which class the messages are of what may go the short way; None to let the
            next one go the long way.
    """

    __slots__ = (
        "_place_of",
        "in_order",
        "late",
        "left",
        "left_until",
        "message_type",
        "overhead_bytes",
        "quick_until",
        "sequence",
    )

    def __init__(self, place_of: Callable[[Waiting], Place]) -> None:
        self._place_of = place_of
        self.in_order: deque[Waiting] = deque()
        self.late: list[tuple[int, int, Waiting]] = []
        self.left: list[tuple[Waiting, int]] = []
        self.left_until = -NEVER
        self.sequence = 0
        self.overhead_bytes = FRAME_BYTES
        self.message_type: type[Any] | None
        self.clear()

    def put(self, waiting: Waiting) -> None:
        """Add a record at its place."""
        timestamp, in_order = waiting[TIMESTAMP], self.in_order
        if not in_order or in_order[-1][TIMESTAMP] <= timestamp:
            in_order.append(waiting)
        else:
            heappush(self.late, (timestamp, waiting[SEQUENCE], waiting))
            self.quick_until = -1

    def take_until(self, time: int, beyond: int) -> list[Waiting]:
        """Take out the records up to a time (ms), in order.

        Args:
            beyond: From which time (ms) on there are others, which are not here.
        """
        in_order, late = self.in_order, self.late
        taken: list[Waiting] = []
        while True:
            if late and (not in_order or late[0][TIMESTAMP] < in_order[0][TIMESTAMP]):
                if late[0][TIMESTAMP] > time:
                    break
                taken.append(heappop(late)[-1])
            elif in_order and in_order[0][TIMESTAMP] <= time:
                taken.append(in_order.popleft())
            else:
                break
        if not late:
            self.quick_until = beyond
        if len(taken) > 1:
            self.sort_equal_times(taken)
        return taken

    def put_back(self, taken: list[Waiting], beyond: Place) -> None:
        """Put back what was taken but has its place beyond some other one."""
        while taken and self._place_of(taken[-1]) >= beyond:
            self.in_order.appendleft(taken.pop())

    def join_in(self, stored: list[Waiting]) -> None:
        """Add records that were read from the store, in their order."""
        in_order = self.in_order
        if in_order and stored and in_order[0][TIMESTAMP] < stored[-1][TIMESTAMP]:
            self._hold(sorted([*stored, *in_order], key=_timestamp))
        else:
            in_order.extendleft(reversed(stored))

    def held(self) -> list[Waiting]:
        """Return what is in memory, by time."""
        if not self.late:
            return list(self.in_order)
        return sorted([*self.in_order, *(waiting for _, _, waiting in self.late)], key=_timestamp)

    def keep(self, stored: list[Waiting], beyond: int) -> None:
        """Hold some records, by time, in place of what is held; `beyond`: see `take_until`."""
        self._hold(stored)
        self.late.clear()
        self.left.clear()
        self.quick_until = beyond

    def clear(self) -> None:
        """Hold nothing, and know nothing of what the store holds."""
        self.keep([], -1)
        self.message_type = None

    def sort_equal_times(self, ascending: list[Waiting]) -> None:
        """Put records that ascend by time in the order of their places."""
        before = -1
        for timestamp, *_ in ascending:
            if timestamp == before:
                ascending.sort(key=self._place_of)
                return
            before = timestamp

    def _hold(self, ascending: list[Waiting]) -> None:
        self.in_order.clear()
        self.in_order.extend(ascending)
