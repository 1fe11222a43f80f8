"""Serves the application that a process runs over HTTP, if it was asked to."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from pystreams.errors import ConfigError

if TYPE_CHECKING:
    from pystreams.cli.options.http import HttpFlags
    from pystreams.runtime.application.kafka_streams import KafkaStreams


def http_server(
    streams: KafkaStreams, flags: HttpFlags, process_number: int | None
) -> AbstractContextManager[object]:
    """Return what serves an application while its block lasts; nothing without `--http`.

    Args:
        streams: The application.
        flags: Where, and to whom.
        process_number: Which of several processes this one is, from 1; None alone.

    Raises:
        ConfigError: What it takes is not installed, or it can't be served there.
        UsageError: It is no address.
    """
    address = flags.address(process_number)
    if address is None:
        return nullcontext()
    from pystreams.http import NOT_INSTALLED

    try:
        from pystreams.http.server import HttpOptions, HttpServer
    except ImportError as error:
        raise ConfigError(NOT_INSTALLED) from error
    host, port = address
    options = HttpOptions(
        host=host,
        port=port,
        token=flags.token(),
        certificate=flags.http_tls_cert,
        private_key=flags.http_tls_key,
    )
    return HttpServer(streams, options)
