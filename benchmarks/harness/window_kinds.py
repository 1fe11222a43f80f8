"""The input of windowed aggregations, and how time is cut. One partition.

Keys are drawn at random and alike, a record of each every two seconds in the mean, whatever their
number. One record in five is out of order: up to half a second behind its neighbours, and so within
the grace period. None is late.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from benchmarks.harness.timed_topics import Timed

KINDS = ("tumbling", "hopping", "session", "sliding")
EMITS = ("update", "close")
TITLES = {
    "tumbling": "tumbling, count",
    "hopping": "hopping (5 overlap), sum",
    "session": "sessions, count",
    "sliding": "sliding, count",
}
SIZE_MS = 10_000
ADVANCE_MS = 2_000
GAP_MS = 2_000
DIFFERENCE_MS = 2_000
GRACE_MS = 1_000
CLOSING_KEY = "closing"

_BEGIN_MS = 1_700_000_000_000
_KEY_PERIOD_MS = 2_000
_OUT_OF_ORDER = 0.2
_BEHIND_MS = 500
_FASTEST_RECORDS_PER_S = 300_000
_LOOKS_APART_S = 4


@dataclass(frozen=True, slots=True)
class WindowInput:
    """What is aggregated.

    Attributes:
        records: Key, value and time of each.
        end_ms: The highest time.
        retention_ms: How long windows are kept. Final results are looked for once a second of the
            wall clock, and Kafka Streams does not find those of windows that its store has let go
            of by then: so this is a few seconds' worth of records longer than needed.
    """

    records: list[Timed]
    end_ms: int
    retention_ms: int

    @property
    def closing_ms(self) -> int:
        """When all windows of the records are closed."""
        return self.end_ms + SIZE_MS + GRACE_MS + 1

    def first(self, count: int) -> WindowInput:
        """Return the input of the first records alone."""
        return _with_end(self.records[:count], self.retention_ms)

    def in_order(self) -> WindowInput:
        """Return the same records in the order of their times."""
        records = sorted(self.records, key=lambda record: record[2])
        return WindowInput(records, self.end_ms, self.retention_ms)


def made(records: int, keys: int) -> WindowInput:
    """Return the input; the same for the same arguments."""
    chooser = random.Random(20130101)
    names = [f"key{number:07d}" for number in range(keys)]
    stream: list[Timed] = []
    for at, key in enumerate(chooser.choices(names, k=records)):
        time = _BEGIN_MS + at * _KEY_PERIOD_MS // keys
        behind = chooser.random() < _OUT_OF_ORDER
        timestamp = time - chooser.randint(1, _BEHIND_MS) if behind else time
        stream.append((key, str(at % 1000), timestamp))
    between_looks_ms = _LOOKS_APART_S * _FASTEST_RECORDS_PER_S * _KEY_PERIOD_MS // keys
    return _with_end(stream, SIZE_MS + GRACE_MS + between_looks_ms)


def _with_end(records: list[Timed], retention_ms: int) -> WindowInput:
    return WindowInput(records, max(timestamp for _, _, timestamp in records), retention_ms)
