"""Serves metrics to Prometheus: reads them when they are asked for, and keeps nothing.

Names, units and labels follow the rule of `pystreams.metrics.prometheus_names`. What
prometheus_client measures of the process (`process_resident_memory_bytes`, `process_cpu_seconds`)
is served as well, where the system tells it.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterable, Mapping
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pystreams.errors import ConfigError
from pystreams.kernel.loggers import get_logger
from pystreams.metrics import MetricDefinition, MetricName, MetricValue
from pystreams.metrics.definitions import Kind, definition_of
from pystreams.metrics.prometheus_names import (
    prometheus_labels,
    prometheus_name,
    prometheus_value,
)

_log = get_logger("pystreams.metrics")

ReadMetrics = Callable[[], Mapping[MetricName, MetricValue]]


class PrometheusEndpoint:
    """An HTTP server with one page, `/metrics`; its threads are its own.

    Args:
        read: Returns all metrics as they are now; called from any thread.
    """

    def __init__(self, read: ReadMetrics) -> None:
        self._registry = metrics_registry(read)
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    def start(self, host: str, port: int) -> int:
        """Start to serve.

        Args:
            port: The port; 0 for any free one.

        Returns:
            The port.

        Raises:
            ConfigError: The port is taken, or the address is none of this machine's.
        """
        try:
            server, thread = start_http_server(port, host, registry=self._registry)
        except OSError as error:
            raise ConfigError(_trouble(host, port, error)) from error
        self._server, self._thread = server, thread
        port = server.server_port
        _log.info("metrics are served", url=f"http://{host}:{port}/metrics")
        return port

    def close(self) -> None:
        """Stop serving; safe to call twice."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = self._thread = None


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


def _trouble(host: str, port: int, error: OSError) -> str:
    """Return what is wrong, and the cure."""
    where = f"metrics can't be served on {host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"{where}: the port is in use; set metrics.prometheus.port to another, to 0 for any "
            "free one, or to -1 for none"
        )
    if error.errno == errno.EACCES:
        return f"{where}: {error.strerror}; set metrics.prometheus.port to one above 1023"
    return f"{where}: {error}; set metrics.prometheus.host to an address of this machine"
