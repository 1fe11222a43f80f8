"""`pystreams run`: run a topology until it is stopped."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from pystreams.cli.application.configuration import configuration, with_short_forms
from pystreams.cli.application.topology_loader import directory_of, load_topology
from pystreams.cli.display.logs import configure_logging
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.options.groups import (
    ApplicationOptions,
    LogOptions,
    SparkOptions,
    config_file_option,
    grouped,
    log_options,
    spark_options,
    topology_argument,
)
from pystreams.cli.options.http import PORT_MAX, HttpFlags, http_options
from pystreams.cli.processes.first_backfill import (
    FirstBackfill,
    FirstBackfillOptions,
    first_backfill_options,
)
from pystreams.cli.processes.http_server import check_http, warn_of_untold_addresses
from pystreams.cli.processes.stop_request import STOP_TIMEOUT_S
from pystreams.kernel.clock import SystemClock
from pystreams.kernel.garbage_collection import leave_out_what_is_there
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.streams_metadata import HostInfo

if TYPE_CHECKING:
    from pystreams.cli.application.topology_loader import LoadedTopology
    from pystreams.cli.display.live_line import LiveDisplay
    from pystreams.cli.processes.client_run import RunningStreams
    from pystreams.config import StreamsConfig

_log = get_logger("pystreams.cli")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How an application is run: in which processes, and what is short for a key.

    Attributes:
        stop_timeout: How long a stop may take (s).
        leave_group: Whether a stop leaves the group; None as `KafkaStreams.close`.
        process_number: Which of several this one is, from 1; None in their parent, or alone.
        restarts: How often it was started again in the place of one that had ended.
        report: Whether this one tells its parent how it is doing.
        reloaded: Whether this process is the one that is.
    """

    processes: int = 1
    threads: int | None = None
    stop_timeout: float = STOP_TIMEOUT_S
    leave_group: bool | None = None
    process_number: int | None = None
    restarts: int = 0
    report: bool = False
    metrics_port: int | None = None
    metrics_host: str | None = None
    partitions: int | None = None
    reload: bool = False
    reloaded: bool = False

    @property
    def is_child(self) -> bool:
        """Whether this process is one of several that a parent has started."""
        return self.process_number is not None

    def short_forms(self) -> dict[str, tuple[str, object]]:
        """Return the options that are short for a key, with that and their value or None."""
        return {
            "--threads": ("num.stream.threads", self.threads),
            "--metrics-port": ("metrics.prometheus.port", self.metrics_port),
            "--metrics-host": ("metrics.prometheus.host", self.metrics_host),
        }


_application_options = grouped(
    "application",
    ApplicationOptions,
    click.option(
        "--dev",
        is_flag=True,
        help="Use the development broker, and start it when it does not run; create topics that "
        "are missing. application.id may be left out: it is the file's name then.",
    ),
    click.option(
        "-c",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set a configuration key; may be repeated. `pystreams config` lists them.",
    ),
    config_file_option,
)

_run_options = grouped(
    "options",
    RunOptions,
    click.option(
        "--partitions",
        type=click.IntRange(1),
        metavar="N",
        help="For --dev: partitions of topics it creates. Default: as many as the source topics "
        "that exist have, else 4.",
    ),
    click.option(
        "--processes",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="Run N processes, which share the partitions. CPU scales with processes.",
    ),
    click.option(
        "--threads", type=click.IntRange(1), metavar="N", help="Short for -c num.stream.threads=N."
    ),
    click.option(
        "--metrics-port",
        type=click.IntRange(0, PORT_MAX),
        metavar="PORT",
        help="Serve metrics to Prometheus on this port; process n of --processes on PORT + n - 1. "
        "Short for -c metrics.prometheus.port=PORT.",
    ),
    click.option(
        "--metrics-host",
        metavar="HOST",
        help="The address they are served on, 127.0.0.1 if not given. "
        "Short for -c metrics.prometheus.host=HOST.",
    ),
    click.option(
        "--reload",
        is_flag=True,
        help="For development: commit and start again when a file of the application changes: its "
        "modules and configuration, in its directory and below.",
    ),
    click.option(
        "--stop-timeout",
        type=click.FloatRange(0, min_open=True),
        default=STOP_TIMEOUT_S,
        show_default=True,
        metavar="SECONDS",
        help="How long a stop may take before it ends with an error that says what is not done. "
        "What kills the process must wait at least 5 s longer (terminationGracePeriodSeconds).",
    ),
    click.option(
        "--leave-group/--stay-in-group",
        default=None,
        help="What becomes of the partitions at a stop: others take them over at once, or they "
        "wait for a restart until the session has ended (classic protocol only). Default: they "
        "wait where the state directory, or a group.instance.id, was there before.",
    ),
    click.option("--reloaded", is_flag=True, hidden=True),
    click.option("--process-number", type=int, hidden=True),
    click.option("--restarts", type=int, default=0, hidden=True),
    click.option("--report", is_flag=True, hidden=True),
)


@click.command()
@topology_argument
@_application_options
@_run_options
@http_options
@first_backfill_options
@spark_options
@log_options("auto: readable on a terminal, else JSON lines.")
@click.pass_context
def run(
    ctx: click.Context,
    *,
    application: ApplicationOptions,
    options: RunOptions,
    http: HttpFlags,
    backfill: FirstBackfillOptions,
    spark: SparkOptions,
    log: LogOptions,
) -> None:
    """Run a topology until it is stopped.

    FILE is a Python file that assigns a Topology or a StreamsBuilder to `topology` or `builder`;
    FILE:ATTRIBUTE and MODULE:ATTRIBUTE name another one, or a function that returns one.

    Configuration comes from -c, the environment (PYSTREAMS_COMMIT_INTERVAL_MS=100), --config, and
    a dict `config` in the topology's module, in this order.

    SIGTERM or Ctrl-C commits and stops within seconds, --stop-timeout at most; a second one stops
    at once. Closing the terminal stops it, too.

    With --backfill an application that has not run yet, and has more than a million records to
    read, is brought up to date on Spark first. The outputs of that history are written too, as a
    live run would have written them. Stopped midway and started again, it continues. An application
    that has run, or was backfilled, just runs. Needs pip install 'pystreams-kafka[spark]', and
    Java 17 or 21.

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
      pystreams run topology.py --dev --reload
      pystreams run shop.orders:builder --config production.toml --processes 4
      pystreams run topology.py -c processing.guarantee=exactly_once --metrics-port 9464
      pystreams run shop.orders:builder --config production.toml --backfill --processes 4
    """
    backfill.check(spark)
    if options.partitions is not None and not application.dev:
        raise click.UsageError(
            "--partitions is for --dev: add it, or use `pystreams topics create`"
        )
    if options.reload and (options.processes > 1 or backfill.backfill):
        raise click.UsageError("--reload is for one process, without --backfill")
    if options.report and log.log_format == "auto":
        log = replace(log, log_format="console")  # The parent shows the lines on its terminal.
    fields = {"process": options.process_number} if options.is_child else {}
    configure_logging(log.log_level, log.log_format, fields)
    if options.reload and not options.reloaded:
        from pystreams.cli.processes.reloading import run_reloading

        ctx.exit(
            run_reloading(directory_of(application.topology), stop_timeout_s=options.stop_timeout)
        )
    with streams_errors_as_exit_codes():
        from pystreams.topology.plan.missing_serdes import check_serdes

        check_http(http, options.processes)
        if options.processes == 1 or options.is_child:
            _import_what_runs()
        loaded = load_topology(application.topology)
        config = configuration_of_run(application, options, loaded)
        loaded = loaded.built_with(config)
        # Here, once, before a backfill or processes begin.
        check_serdes(loaded.topology, config.default_key_serde, config.default_value_serde)
        if options.is_child:
            ctx.exit(_run_here(loaded, config, options, http, readable=log.is_readable))
        warn_of_untold_addresses(config, http, options.processes)
        if application.dev:
            _create_missing_topics(loaded, config, options)
        if backfill.backfill:
            first = FirstBackfill(application, backfill, spark, log)
            code = first.do(loaded, config, options.stop_timeout)
            if code is not None:
                ctx.exit(code)
        if options.processes > 1:
            from pystreams.cli.processes.children import run_processes

            ctx.exit(run_processes(options.processes, stop_timeout_s=options.stop_timeout))
        ctx.exit(_run_here(loaded, config, options, http, readable=log.is_readable))


def _import_what_runs() -> None:
    """Import the runtime before the user's code, so that no collection looks at it any more."""
    import pystreams.runtime.application.kafka_streams  # noqa: F401

    leave_out_what_is_there()


def _create_missing_topics(
    loaded: LoadedTopology, config: StreamsConfig, options: RunOptions
) -> None:
    from pystreams.cli.application.development_broker import create_missing_topics

    created = create_missing_topics(
        loaded.topology, config, partitions=options.partitions, processes=options.processes
    )
    if created:
        _log.info(
            "topics created for --dev",
            topics=[topic.name for topic in created],
            partitions=created[0].num_partitions,
        )


def configuration_of_run(
    application: ApplicationOptions, options: RunOptions, loaded: LoadedTopology
) -> StreamsConfig:
    """Return the configuration of this process, short forms of keys included.

    Each process of `--processes` gets a metrics port of its own, and tells the group an address of
    its own; port 0 is one already.

    Raises:
        StreamsError: As `configuration`.
        UsageError: There is no port for the last process, or options contradict each other.
    """
    config = configuration(with_short_forms(application, options.short_forms()), loaded)
    first = config.metrics_prometheus_port
    if options.metrics_host is not None and first < 0:
        raise click.UsageError("--metrics-host is for --metrics-port: add it")
    if first > 0:
        port = _port_of_process(f"metrics.prometheus.port={first}", first, options)
        config = replace(config, metrics_prometheus_port=port)
    server = HostInfo.build_from_endpoint(config.application_server)
    if server is not None:
        port = _port_of_process(f"application.server={server}", server.port, options)
        config = replace(config, application_server=str(server._replace(port=port)))
    return config


def _port_of_process(setting: str, first: int, options: RunOptions) -> int:
    """Return the port of this process, of those that are counted up from the first one's."""
    if first + options.processes - 1 > PORT_MAX:
        raise click.UsageError(
            f"{setting} leaves no ports for {options.processes} processes, "
            "which take one each from there: choose a lower one"
        )
    return first + (options.process_number or 1) - 1


def _run_here(
    loaded: LoadedTopology,
    config: StreamsConfig,
    options: RunOptions,
    http: HttpFlags,
    *,
    readable: bool,
) -> int:
    """Run the client in this process; return the exit code."""
    from pystreams.cli.processes.child_reports import report_to_parent
    from pystreams.cli.processes.children import stop_with_parent
    from pystreams.cli.processes.client_run import run_until_stopped
    from pystreams.cli.processes.http_server import http_server, told_where_it_is_served
    from pystreams.cli.processes.standard_output import print_lines_at_once
    from pystreams.cli.processes.stop_request import StopRequest
    from pystreams.runtime.application.kafka_streams import KafkaStreams

    for key in config.ignored:
        _log.warning("configuration key has no effect", key=key)
    print_lines_at_once()
    stop = StopRequest(options.stop_timeout, ends_at_second_signal=not options.is_child)
    if options.is_child or options.reloaded:
        stop_with_parent(stop)
    with stop.by_signals():
        config = told_where_it_is_served(config, http, options.process_number)
        streams = KafkaStreams(loaded.topology, config, restarts=options.restarts)
        if options.report:
            report_to_parent(streams.statistics)
        _log.info("connecting", application=config.application_id, broker=config.bootstrap_servers)
        with http_server(streams, http, options.process_number):
            display = _display(streams, is_child=options.is_child)
            return run_until_stopped(
                streams, stop, display, readable=readable, leave_group=options.leave_group
            )


def _display(streams: RunningStreams, *, is_child: bool) -> LiveDisplay | None:
    """Return the live line; None without a terminal, and in a child, whose parent shows it."""
    from pystreams.cli.display.live_line import LiveDisplay

    if is_child or not sys.stderr.isatty():
        return None
    return LiveDisplay(streams.statistics, SystemClock().monotonic_ms)
