"""A server of metrics, where the configuration asks for one."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

from pystreams.errors import ConfigError
from pystreams.kernel.loggers import get_logger

if TYPE_CHECKING:
    from pystreams.runtime.adapters.prometheus import ReadMetrics

_log = get_logger("pystreams.metrics")


class PrometheusEndpoint:
    """An HTTP server with one page, `/metrics`; its threads are its own.

    Args:
        read: Returns all metrics as they are now; called from any thread.
    """

    def __init__(self, read: ReadMetrics) -> None:
        self._read = read
        self._stop: Callable[[], None] | None = None

    def start(self, host: str, port: int) -> int:
        """Start to serve.

        Args:
            port: The port; 0 for any free one.

        Returns:
            The port.

        Raises:
            ConfigError: The port is taken, or the address is none of this machine's.
        """
        from pystreams.runtime.adapters.prometheus import serve

        try:
            port, self._stop = serve(self._read, host, port)
        except OSError as error:
            raise ConfigError(_trouble(host, port, error)) from error
        _log.info("metrics are served", url=f"http://{host}:{port}/metrics")
        return port

    def close(self) -> None:
        """Stop serving; safe to call twice."""
        if self._stop is not None:
            self._stop()
            self._stop = None


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
