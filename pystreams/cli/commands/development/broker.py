"""`pystreams broker`: start, look at and stop the development broker."""

from __future__ import annotations

import time
from pathlib import Path

import click

from pystreams.broker import (
    KAFKA_VERSION,
    BrokerRegistry,
    DevelopmentBroker,
    default_data_dir,
)
from pystreams.cli.exit_codes import ExitCode

_data_dir_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory with the broker's data. "
    "Default: the one that pystreams keeps below your home directory.",
)


@click.group()
def broker() -> None:
    """A real Kafka broker on this machine, for development.

    It is Apache Kafka itself in one Java process of about 0.4 GB, reachable from this machine
    only. Its jars are downloaded once (44 MB) and cached. It goes on running when this command
    ends, and keeps its topics when it is stopped.
    """


@broker.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Port for clients. Default: the one it had the last time, else a free one.",
)
@_data_dir_option
def start(port: int | None, data_dir: Path | None) -> None:
    """Start the broker, and wait until it can be used.

    Prints the address for `bootstrap.servers`. Does nothing when the broker runs already.

    \b
    Examples:
      pystreams broker start
      pystreams broker start --port 9092 --data-dir ./kafka-data
    """
    directory = data_dir or default_data_dir()
    running = DevelopmentBroker.attach(directory)
    if running is not None and port in (None, running.state.client_port):
        click.echo(f"Kafka {running.state.kafka_version} runs already")
        _show(running)
        return
    begun_s = time.monotonic()
    started = DevelopmentBroker.start(directory, port, registry=BrokerRegistry())
    click.echo(f"Kafka {KAFKA_VERSION} is ready after {time.monotonic() - begun_s:.1f} s")
    _show(started)


@broker.command()
@_data_dir_option
@click.pass_context
def status(ctx: click.Context, data_dir: Path | None) -> None:
    """Show the brokers that run; exit code 3 when none does."""
    registry = BrokerRegistry()
    if data_dir is None:
        running = DevelopmentBroker.running(registry)
    else:
        attached = DevelopmentBroker.attach(data_dir, registry)
        running = [attached] if attached else []
    if not running:
        click.echo(f"No broker runs{f' on {data_dir}' if data_dir else ''}")
        ctx.exit(ExitCode.NOT_RUNNING)
    for found in running:
        answer = "runs" if found.is_ready() else "runs, but does not answer (yet)"
        click.echo(f"Kafka {found.state.kafka_version} {answer}")
        _show(found)


@broker.command()
@_data_dir_option
def stop(data_dir: Path | None) -> None:
    """Stop the broker; its topics are there again at the next start."""
    found = DevelopmentBroker.find(data_dir)
    if found is None:
        click.echo(f"No broker runs{f' on {data_dir}' if data_dir else ''}")
        return
    how = "stopped" if found.stop() else "did not end in time and was killed"
    click.echo(f"Kafka at {found.bootstrap_servers} {how}; its data stays in {found.data_dir}")


def _show(shown: DevelopmentBroker) -> None:
    click.echo(f"  bootstrap.servers  {shown.bootstrap_servers}")
    click.echo(f"  data               {shown.data_dir}")
    click.echo(f"  log                {shown.log_file}")
    click.echo(f"  process            {shown.state.pid}")
