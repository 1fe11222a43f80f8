"""Serves metrics to Prometheus: reads them when they are asked for, and keeps nothing.

Names, units and labels follow the rule of `pystreams.metrics.prometheus_names`. What
prometheus_client measures of the process (`process_resident_memory_bytes`, `process_cpu_seconds`)
is served as well, where the system tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pystreams.metrics import MetricDefinition, MetricName, MetricValue
from pystreams.metrics.definitions import Kind, definition_of
from pystreams.metrics.prometheus_names import (
    prometheus_labels,
    prometheus_name,
    prometheus_value,
)

ReadMetrics = Callable[[], Mapping[MetricName, MetricValue]]


def serve(read: ReadMetrics, host: str, port: int) -> tuple[int, Callable[[], None]]:
    """Start an HTTP server of the metrics.

    Args:
        read: Returns all metrics as they are now; called from any thread.
        port: The port; 0 for any free one.

    Returns:
        The port, and what stops the server, to be called once.
    """
    server, thread = start_http_server(port, host, registry=metrics_registry(read))

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, stop


def metrics_registry(read: ReadMetrics) -> CollectorRegistry:
    """Return a registry of all metrics, and of the process.

    Args:
        read: Returns all metrics as they are now; called from any thread.
    """
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(read))
    ProcessCollector(registry=registry)
    return registry


class _MetricsCollector(Collector):
    """Turns metrics into Prometheus' families when a scrape comes."""

    def __init__(self, read: ReadMetrics) -> None:
        self._read = read

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what there is, is known when it is read."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return all metrics as they are now."""
        families: dict[str, Metric] = {}
        for name, value in self._read().items():
            definition = definition_of(name)
            sample = prometheus_name(definition)
            family = families.get(sample)
            if family is None:
                family = families[sample] = _family(sample, definition)
            labels = prometheus_labels(name)
            if isinstance(value, str):
                labels[definition.name.replace("-", "_")] = value
                family.add_sample(sample, labels, 1)
            else:
                family.add_sample(sample, labels, prometheus_value(definition, value))
        return families.values()


def _family(sample: str, definition: MetricDefinition) -> Metric:
    """Return a family without samples; that of a counter is named without `_total`."""
    return Metric(sample.removesuffix("_total"), definition.doc, _KINDS[definition.kind])


_KINDS = {Kind.COUNTER: "counter", Kind.GAUGE: "gauge"}
