"""Serves the application that a process runs over HTTP, if it was asked to."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pystreams.errors import ConfigError
from pystreams.runtime.cluster.streams_metadata import HostInfo

if TYPE_CHECKING:
    from pystreams.cli.options.http import HttpFlags
    from pystreams.config import StreamsConfig
    from pystreams.runtime.application.kafka_streams import KafkaStreams


_NEEDED = ("starlette", "uvicorn")


def check_http(flags: HttpFlags, processes: int) -> None:
    """Refuse what can't be served, before a broker, topics or processes are there.

    Raises:
        ConfigError: What it takes is not installed.
        UsageError: It is no address, there is no port for the last process, or the token's file
            has none.
    """
    if flags.address(processes) is None:
        return
    from pystreams.http import NOT_INSTALLED

    if any(find_spec(name) is None for name in _NEEDED):
        raise ConfigError(NOT_INSTALLED)
    flags.token()


def told_where_it_is_served(
    config: StreamsConfig, flags: HttpFlags, process_number: int | None
) -> StreamsConfig:
    """Return the configuration that tells the group where the process answers, if it is clear.

    Raises:
        UsageError: It is no address.
    """
    address = flags.address(process_number)
    if address is None or config.application_server:
        return config
    host, port = address
    if not port or host in ("0.0.0.0", "::"):  # noqa: S104 - nothing listens here
        return config
    return replace(config, application_server=str(HostInfo(host, port)))


def http_server(
    streams: KafkaStreams, flags: HttpFlags, process_number: int | None
) -> AbstractContextManager[object]:
    """Return what serves an application while its block lasts; nothing without `--http`.

    Args:
        process_number: Which of several processes this one is, from 1; None alone.

    Raises:
        ConfigError: It can't be served there.
        UsageError: It is no address.
    """
    address = flags.address(process_number)
    if address is None:
        return nullcontext()
    from pystreams.http.server import HttpOptions, HttpServer

    host, port = address
    options = HttpOptions(
        host=host,
        port=port,
        token=flags.token(),
        certificate=flags.http_tls_cert,
        private_key=flags.http_tls_key,
    )
    return HttpServer(streams, options)
