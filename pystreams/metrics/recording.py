"""How the user wants metrics recorded: the three `metrics.*` keys of Kafka, and a timer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from pystreams.metrics.on_demand import OnDemand
from pystreams.metrics.sampled import SampledValues


class RecordingLevel(Enum):
    """How much is measured (`metrics.recording.level`)."""

    INFO = "INFO"
    """What costs nothing per record."""
    DEBUG = "DEBUG"
    """Each call of a store's methods as well."""
    TRACE = "TRACE"
    """As DEBUG: nothing is measured at this level only."""

    @property
    def number(self) -> int:
        """Kafka's number of the level: 0, 1, 2."""
        return list(RecordingLevel).index(self)


def _no_time() -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Recording:
    """How metrics are recorded; the same for a whole application.

    Attributes:
        window_ms: Length of one sample (ms), `metrics.sample.window.ms`.
        num_samples: How many samples are looked at, `metrics.num.samples`.
        monotonic_ms: The timer: milliseconds that never go back. Handed in, because stores and
            the runtime's core have no clock; one that stands still leaves latencies at 0.
        nodes: Until when the time of nodes is measured below DEBUG.
    """

    level: RecordingLevel = RecordingLevel.INFO
    window_ms: int = 30_000
    num_samples: int = 2
    monotonic_ms: Callable[[], float] = _no_time
    nodes: OnDemand = field(default_factory=OnDemand)

    @property
    def debug(self) -> bool:
        """Whether the methods of stores are measured."""
        return self.level is not RecordingLevel.INFO

    def sampled(self) -> SampledValues:
        """Return what records values in windows of this length."""
        return SampledValues(self.window_ms, self.num_samples)


AT_INFO = Recording()
"""Kafka's defaults, without a timer."""
