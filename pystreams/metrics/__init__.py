"""Metrics: their names and meanings, and the arithmetic of rates, averages and maxima.

Nothing here reads a clock or knows a thread: who records says when. Read in this order:
`definitions` (every metric there is), `recording` (how the user wants them), `on_demand` (what is
measured for who asks), `sampled` and `totals` (windows), `prometheus_names` (what they are called
there).
"""

from pystreams.metrics.definitions import DEFINITIONS, MetricDefinition, MetricName, MetricValue
from pystreams.metrics.on_demand import OnDemand
from pystreams.metrics.recording import AT_INFO, Recording, RecordingLevel
from pystreams.metrics.sampled import SampledValues
from pystreams.metrics.totals import TotalsHistory

__all__ = [
    "AT_INFO",
    "DEFINITIONS",
    "MetricDefinition",
    "MetricName",
    "MetricValue",
    "OnDemand",
    "Recording",
    "RecordingLevel",
    "SampledValues",
    "TotalsHistory",
]
