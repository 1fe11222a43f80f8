"""Rate, average, maximum and minimum of recorded values, over the last few windows of time.

Values go into the newest of a few samples; a sample covers one window, and is forgotten when it
is older than all windows together. With Kafka's defaults, 2 samples of 30 s, what is read covers
the last 30 to 60 s. Source: Kafka's `SampledStat`, `Rate`, `Avg`, `Max`.

Example, 2 samples of 10 ms: 4 recorded at 0 and 6 at 12 make two samples. At 15 the average is 5
and the maximum 6. At 21 the first sample is older than 20 ms: the average is 6.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_MS_PER_S = 1000.0


class WindowedReading(NamedTuple):
    """What the last windows hold.

    Attributes:
        rate: Values recorded per second.
        average: Their average; NaN without any, as in Kafka.
        maximum: The highest of them; NaN without any.
        minimum: The lowest of them; NaN without any.
    """

    rate: float
    average: float
    maximum: float
    minimum: float


class _Sample:
    """What was recorded in one window."""

    __slots__ = ("count", "maximum", "minimum", "start_ms", "total")

    def __init__(self, start_ms: float) -> None:
        self.start_ms = start_ms
        self.count = 0
        self.total = 0.0
        self.maximum = -math.inf
        self.minimum = math.inf


class SampledValues:
    """Records values.

    Threads: one thread records, any may read; a reader may see the newest value half counted.

    Args:
        window_ms: Length of one sample (ms).

    Attributes:
        count: Values recorded since it was made.
    """

    __slots__ = ("_num_samples", "_samples", "_window_ms", "count")

    def __init__(self, window_ms: int, num_samples: int) -> None:
        self.count = 0
        self._window_ms = window_ms
        self._num_samples = num_samples
        self._samples: tuple[_Sample, ...] = ()

    def record(self, value: float, now_ms: float) -> None:
        """Record a value.

        Args:
            now_ms: When, by a clock that never goes back (ms).
        """
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._window_ms:
            # A new tuple: who reads meanwhile keeps the old one.
            self._samples = samples = (*samples, _Sample(now_ms))[-self._num_samples :]
        newest = samples[-1]
        newest.count += 1
        newest.total += value
        if value > newest.maximum:
            newest.maximum = value
        if value < newest.minimum:
            newest.minimum = value
        self.count += 1

    def read(self, now_ms: float) -> WindowedReading:
        """Return rate, average, maximum and minimum of the last windows.

        The time a rate is over is at least all windows but one: see `windowed_ms`.
        """
        oldest_ms = now_ms - self._window_ms * self._num_samples
        samples = [sample for sample in self._samples if sample.start_ms > oldest_ms]
        count = sum(sample.count for sample in samples)
        if not count:
            return WindowedReading(0.0, math.nan, math.nan, math.nan)
        elapsed_ms = windowed_ms(now_ms - samples[0].start_ms, self._window_ms, self._num_samples)
        return WindowedReading(
            count * _MS_PER_S / elapsed_ms,
            sum(sample.total for sample in samples) / count,
            max(sample.maximum for sample in samples),
            min(sample.minimum for sample in samples),
        )


def windowed_ms(elapsed_ms: float, window_ms: int, num_samples: int) -> float:
    """Return the time a rate is over (ms): what has passed, but at least all windows but one.

    One value recorded just now is no rate of thousands. Differs from Kafka: there the missing
    windows are added to what has passed (Rate.windowSize), which makes young rates up to half as
    high as they are.
    """
    return max(elapsed_ms, window_ms * max(num_samples - 1, 1))
