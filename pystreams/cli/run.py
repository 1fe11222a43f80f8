"""`pystreams run`: run a topology until it is stopped."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pystreams.cli.failures import streams_errors_as_exit_codes
from pystreams.cli.loading import load_topology
from pystreams.cli.logs import configure_logging, is_readable
from pystreams.cli.options import config_file_option, log_options, pair_of, spark_options
from pystreams.cli.run_backfill import ABOVE_RECORDS, FirstBackfill

if TYPE_CHECKING:
    from pystreams.cli.display import LiveDisplay
    from pystreams.cli.loading import LoadedTopology
    from pystreams.cli.running import RunningStreams
    from pystreams.config import Source, StreamsConfig


_PORT_MAX = 65_535
_FIRST = tuple(field.name for field in fields(FirstBackfill))


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line said."""

    topology: str
    dev: bool
    settings: tuple[str, ...]
    config_file: Path | None
    processes: int = 1
    threads: int | None = None
    process_number: int | None = None
    report: bool = False
    metrics_port: int | None = None
    metrics_host: str | None = None
    partitions: int | None = None


@click.command()
@click.argument("topology", metavar="FILE|MODULE:ATTRIBUTE")
@click.option(
    "--dev",
    is_flag=True,
    help="Use the development broker, and start it when it does not run; create topics that are "
    "missing. application.id may be left out: it is the file's name then.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    metavar="N",
    help="For --dev: partitions of topics it creates. Default: as many as the source topics that "
    "exist have, else 4.",
)
@click.option(
    "-c",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a configuration key; may be repeated. `pystreams config` lists them.",
)
@config_file_option
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Run N processes, which share the partitions. CPU scales with processes.",
)
@click.option(
    "--threads", type=click.IntRange(1), metavar="N", help="Short for -c num.stream.threads=N."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, _PORT_MAX),
    metavar="PORT",
    help="Serve metrics to Prometheus on this port; process n of --processes on PORT + n - 1. "
    "Short for -c metrics.prometheus.port=PORT.",
)
@click.option(
    "--metrics-host",
    metavar="HOST",
    help="The address they are served on, 127.0.0.1 if not given. "
    "Short for -c metrics.prometheus.host=HOST.",
)
@click.option(
    "--backfill",
    is_flag=True,
    help="Where the application has not run yet, and much waits for it: first run it over what is "
    "there on Spark, as `pystreams backfill --publish-outputs` does, then go on live.",
)
@click.option(
    "--backfill-above",
    type=click.IntRange(0),
    metavar="N",
    help="For --backfill: with N records or fewer waiting, start live. "
    f"Default: {ABOVE_RECORDS:,}.",
)
@click.option(
    "--backfill-output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="For --backfill: stage its results here and keep them. "
    "Default: <application.id>-backfill here, removed once it is published.",
)
@spark_options
@log_options("auto: readable on a terminal, else JSON lines.")
@click.option("--process-number", type=int, hidden=True)
@click.option("--report", is_flag=True, hidden=True)
@click.pass_context
def run(ctx: click.Context, /, log_level: str, log_format: str, **options: object) -> None:
    """Run a topology until it is stopped.

    FILE is a Python file that assigns a Topology or a StreamsBuilder to `topology` or `builder`;
    FILE:ATTRIBUTE and MODULE:ATTRIBUTE name another one, or a function that returns one.

    Configuration comes from -c, the environment (PYSTREAMS_COMMIT_INTERVAL_MS=100), --config, and
    a dict `config` in the topology's module, in this order.

    SIGTERM or Ctrl-C commits and stops within seconds; a second one stops at once. A terminal that
    is closed stops it, too.

    With --backfill an application that has not run yet, and has more than a million records before
    it, is brought up to date on Spark first. The outputs of that history are written too, as a live
    run would have written them. Stopped on the way and started again, it goes on. An application
    that has run, or was backfilled, just runs. Needs pip install 'pystreams[spark]', and Java 17 or
    21.

    \b
    Exit codes:
      0    stopped as asked
      1    stopped by an error
      2    wrong usage, configuration or topology
      3    no broker answers
      70   a bug in pystreams
      130  stopped at once by a second Ctrl-C (143: by a second SIGTERM)
      141  nobody reads standard output any more

    \b
    Examples:
      pystreams run topology.py --dev
      pystreams run shop.orders:builder --config production.toml --processes 4
      pystreams run topology.py -c processing.guarantee=exactly_once --metrics-port 9464
      pystreams run shop.orders:builder --config production.toml --backfill --processes 4
    """
    first = FirstBackfill(**{name: options.pop(name) for name in _FIRST})  # type: ignore[arg-type]
    first.check()
    chosen = RunOptions(**options)  # type: ignore[arg-type]  # click has checked the types
    if chosen.partitions is not None and not chosen.dev:
        raise click.UsageError(
            "--partitions is for --dev: add it, or use `pystreams topics create`"
        )
    number = chosen.process_number
    if chosen.report and log_format == "auto":
        log_format = "console"  # The parent shows the lines on its terminal.
    configure_logging(log_level, log_format, {} if number is None else {"process": number})
    with streams_errors_as_exit_codes():
        loaded = load_topology(chosen.topology)
        config = configuration(chosen, loaded)
        _check_serdes(loaded, config)
        if chosen.dev and number is None:
            from pystreams.cli.created_topics import create_missing_topics

            create_missing_topics(
                loaded.topology, config, partitions=chosen.partitions, processes=chosen.processes
            )
        if first.backfill and number is None:
            readable = is_readable(log_format)
            code = first.do(chosen, loaded, config, log_level, is_readable=readable)
            if code is not None:
                ctx.exit(code)
        if chosen.processes > 1 and number is None:
            from pystreams.cli.processes import run_processes

            ctx.exit(run_processes(chosen.processes))
        ctx.exit(_run_here(loaded, config, chosen))


def _check_serdes(loaded: LoadedTopology, config: StreamsConfig) -> None:
    """Refuse a topology without all serdes here, once, before a backfill or processes begin.

    Raises:
        TopologyError: A serde is missing.
    """
    from pystreams.topology.serde_checks import check_serdes

    check_serdes(loaded.topology, config.default_key_serde, config.default_value_serde)


def configuration(options: RunOptions, loaded: LoadedTopology) -> StreamsConfig:
    """Return the configuration, of all its sources.

    Raises:
        ConfigError: As `StreamsConfig.from_sources`.
        StreamsError: With `--dev`, the broker can't be started.
    """
    from pystreams.config import Source

    return configuration_of(
        options, loaded.name, Source(f"config in {options.topology}", loaded.config)
    )


def configuration_of(options: RunOptions, name: str, weakest: Source) -> StreamsConfig:
    """Return the configuration, of all sources of the command line and one below them.

    Args:
        options: What the command line said.
        name: What the application.id is made of when nothing gives one, with `--dev`.
        weakest: The last source.

    Raises:
        StreamsError: As `configuration`.
    """
    from pystreams.config import Source, StreamsConfig, from_environment, read_config_file

    given = _settings(options)
    sources = [
        Source("-c", given),
        Source("environment", from_environment(os.environ)),
    ]
    if options.config_file is not None:
        sources.append(Source(str(options.config_file), read_config_file(options.config_file)))
    sources.append(weakest)
    if options.dev:
        if "bootstrap.servers" in given:
            raise click.UsageError("--dev and -c bootstrap.servers=... name two brokers: use one")
        sources.insert(0, Source("--dev", {"bootstrap.servers": _development_broker()}))
        sources.append(Source("--dev", {"application.id": _application_id(name)}))
    return _with_own_port(StreamsConfig.from_sources(sources), options)


def _with_own_port(config: StreamsConfig, options: RunOptions) -> StreamsConfig:
    """Give each process of `--processes` a metrics port of its own; 0 is one already."""
    first = config.metrics_prometheus_port
    if first <= 0:
        return config
    if first + options.processes - 1 > _PORT_MAX:
        raise click.UsageError(
            f"metrics.prometheus.port={first} leaves no ports for {options.processes} processes, "
            "which take one each from there: choose a lower one"
        )
    return replace(config, metrics_prometheus_port=first + (options.process_number or 1) - 1)


def _settings(options: RunOptions) -> dict[str, str]:
    """Return the keys and values of `-c` and its short forms."""
    settings: dict[str, str] = {}
    for setting in options.settings:
        key, value = pair_of(setting, "-c")
        settings[key] = value.strip()
    if options.threads is not None:
        settings["num.stream.threads"] = str(options.threads)
    if options.metrics_port is not None:
        settings["metrics.prometheus.port"] = str(options.metrics_port)
    if options.metrics_host is not None:
        settings["metrics.prometheus.host"] = options.metrics_host
    return settings


def _application_id(name: str) -> str:
    """Return a file's name as an application id."""
    return re.sub("[^a-zA-Z0-9._-]", "-", name)


def _development_broker() -> str:
    """Return the address of the development broker; start it when none runs."""
    from pystreams.broker import BrokerRegistry, DevelopmentBroker

    broker = DevelopmentBroker.find()
    if broker is None:
        click.echo("Starting the development broker (`pystreams broker stop` ends it)", err=True)
        broker = DevelopmentBroker.start(registry=BrokerRegistry())
    return broker.bootstrap_servers


def _run_here(loaded: LoadedTopology, config: StreamsConfig, options: RunOptions) -> int:
    """Run the client in this process; return the exit code."""
    from pystreams.cli.process_reports import report_to_parent
    from pystreams.cli.processes import stop_with_parent
    from pystreams.cli.running import StopRequest, run_until_stopped
    from pystreams.loggers import get_logger
    from pystreams.runtime.client import KafkaStreams

    log = get_logger("pystreams.cli")
    for key in config.ignored:
        log.warning("configuration key has no effect", key=key)
    is_child = options.process_number is not None
    stop = StopRequest(ends_at_second_signal=not is_child)
    if is_child:
        stop_with_parent(stop)
    with stop.by_signals():
        streams = KafkaStreams(loaded.topology, config)
        if options.report:
            report_to_parent(streams.statistics)
        log.info("connecting", application=config.application_id, broker=config.bootstrap_servers)
        return run_until_stopped(streams, stop, _display(streams, is_child=is_child))


def _display(streams: RunningStreams, *, is_child: bool) -> LiveDisplay | None:
    """Return the live line; None without a terminal, and in a child, whose parent shows it."""
    from pystreams.cli.display import LiveDisplay
    from pystreams.clock import SystemClock

    if is_child or not sys.stderr.isatty():
        return None
    return LiveDisplay(streams.statistics, SystemClock().monotonic_ms)
