"""What the windows of `windowed_app` must hold, in plain Python: no store, no cache, no restart."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.broker.killed.windowed_app import (
    ADVANCE_MS,
    DIFFERENCE_MS,
    GAP_MS,
    GRACE_MS,
    SIZE_MS,
    SLIDING_GRACE_MS,
)

Fed = tuple[str, int, int]
"""Key, number and time (ms)."""
Row = tuple[str, int, int]
"""Key, start and end of a window."""


@dataclass
class WindowsModel:
    """The windows of one partition, after some records.

    Attributes:
        counts: The records of each hopping window.
        sums: The numbers of each hopping window.
        sessions: The numbers of each session.
        stream_time: The latest time so far.
        merges: How many sessions a record took into another one.
        late: How many windows and sessions a record came too late for.
    """

    counts: dict[Row, int] = field(default_factory=dict)
    sums: dict[Row, int] = field(default_factory=dict)
    sessions: dict[Row, int] = field(default_factory=dict)
    stream_time: int = 0
    merges: int = 0
    late: int = 0
    _came: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    _open: dict[str, list[Row]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Fed]) -> WindowsModel:
        """Return the model after all of these."""
        model = cls()
        for record in records:
            model.add(*record)
        return model

    def add(self, key: str, number: int, time: int) -> None:
        self.stream_time = max(self.stream_time, time)
        self._came.setdefault(key, []).append((time, number))
        self._add_to_windows(key, number, time)
        self._add_to_sessions(key, number, time)

    def closed_windows(self) -> dict[Row, int]:
        return {row: n for row, n in self.sums.items() if row[2] + GRACE_MS <= self.stream_time}

    def closed_sessions(self) -> dict[Row, int]:
        close_time = self.stream_time - GAP_MS - GRACE_MS
        return {row: n for row, n in self.sessions.items() if row[2] < close_time}

    def sliding(self) -> dict[Row, int]:
        """Return the numbers of each sliding window; no record was late for one."""
        sums = {}
        for key, came in self._came.items():
            times = sorted(time for time, _ in came)
            numbers = [0]
            for _, number in sorted(came):
                numbers.append(numbers[-1] + number)
            for start in {time + 1 for time in times} | {time - DIFFERENCE_MS for time in times}:
                end = start + DIFFERENCE_MS
                first, after = bisect_left(times, start), bisect_right(times, end)
                if first < after:
                    sums[key, start, end] = numbers[after] - numbers[first]
        return sums

    def closed_sliding(self) -> dict[Row, int]:
        close_time = self.stream_time - SLIDING_GRACE_MS
        return {row: total for row, total in self.sliding().items() if row[2] < close_time}

    def _add_to_windows(self, key: str, number: int, time: int) -> None:
        last = time - time % ADVANCE_MS
        for start in range(last, time - SIZE_MS, -ADVANCE_MS):
            row = (key, start, start + SIZE_MS)
            if start + SIZE_MS + GRACE_MS <= self.stream_time:
                self.late += 1
            else:
                self.counts[row] = self.counts.get(row, 0) + 1
                self.sums[row] = self.sums.get(row, 0) + number

    def _add_to_sessions(self, key: str, number: int, time: int) -> None:
        """Merge what is near; what has closed is near to nothing.

        A session that closes with the next millisecond is near to nothing either, as in Kafka
        Streams: its store keeps it for gap and grace, less that millisecond.
        """
        close_time = self.stream_time - GAP_MS - GRACE_MS
        still_open = [row for row in self._open.get(key, ()) if row[2] > close_time]
        near = [row for row in still_open if row[1] - GAP_MS <= time <= row[2] + GAP_MS]
        start = min([time, *(row[1] for row in near)])
        end = max([time, *(row[2] for row in near)])
        if end < close_time:
            self.late += 1
            return
        self.merges += max(0, len(near) - 1)
        self._open[key] = [row for row in still_open if row not in near] + [(key, start, end)]
        self.sessions[key, start, end] = number + sum(self.sessions.pop(row) for row in near)
