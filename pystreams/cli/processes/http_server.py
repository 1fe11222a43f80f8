"""Serves the application that a process runs over HTTP, if it was asked to."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pystreams.errors import ConfigError
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.streams_metadata import HostInfo

if TYPE_CHECKING:
    from pystreams.cli.options.http import HttpFlags
    from pystreams.config import StreamsConfig
    from pystreams.runtime.application.kafka_streams import KafkaStreams


_NEEDED = ("starlette", "uvicorn")
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - nothing listens here

_log = get_logger("pystreams.cli")


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
    told = config.application_server or _clear_address(flags, process_number)
    return replace(config, application_server=told)


def warn_of_untold_addresses(config: StreamsConfig, flags: HttpFlags, processes: int) -> None:
    """Warn where it is known that the processes can't ask each other for keys.

    One process alone may have no others, whatever it listens on.

    Raises:
        UsageError: It is no address.
    """
    cure = (
        "set application.server=HOST:PORT to an address at which others reach this process"
        if processes == 1
        else "set application.server=HOST:PORT to an address at which others reach the first "
        "process; each of the others tells the next port"
    )
    told = HostInfo.build_from_endpoint(config.application_server)
    if told is not None and told.host in _EVERYWHERE:
        _log.warning(
            "other processes can't ask for keys at the address that the group is told",
            application_server=str(told),
            cure=cure,
        )
        return
    is_served = told is None and flags.address(None) is not None
    if is_served and processes > 1 and not _clear_address(flags, None):
        _log.warning(
            "no process tells the others where to ask for its keys", http=flags.http, cure=cure
        )


def _clear_address(flags: HttpFlags, process_number: int | None) -> str:
    """Return the address at which others can ask; empty where that is not clear."""
    host, port = flags.address(process_number) or ("", 0)
    return str(HostInfo(host, port)) if port and host not in _EVERYWHERE else ""


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
