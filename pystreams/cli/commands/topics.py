"""`pystreams topics`: create and list topics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from pystreams.cli.application.configuration import configuration_of
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.options.groups import ApplicationOptions, application_options
from pystreams.cli.options.values import pairs

if TYPE_CHECKING:
    from pystreams.runtime.ports import AdminPort

_BROKERS_CHOICE = -1


@click.group()
def topics() -> None:
    """Create and list topics.

    Brokers are named as in `pystreams run`: -c bootstrap.servers=HOST:PORT, the environment
    (PYSTREAMS_BOOTSTRAP_SERVERS), a file (--config), or --dev.

    \b
    Exit codes:
      0    done
      1    failed; the message says why
      2    wrong usage or configuration
      3    no broker answers
      70   a bug in pystreams
      130  stopped by Ctrl-C
    """


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--partitions",
    type=click.IntRange(1),
    metavar="N",
    help="Partitions of each: as many processes and threads can share the work. "
    "Topics that are joined need the same number. Default: the broker's num.partitions.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1),
    metavar="N",
    help="Replicas of each partition. Default: replication.factor, else the broker's choice.",
)
@click.option(
    "--topic-config",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the topics, such as cleanup.policy=compact for what is read as a table.",
)
@application_options
def create(
    names: tuple[str, ...],
    *,
    partitions: int | None,
    replication_factor: int | None,
    topic_config: tuple[str, ...],
    application: ApplicationOptions,
) -> None:
    """Create topics; refuses when one of them exists.

    \b
    Examples:
      pystreams topics create flights --partitions 4 --dev
      pystreams topics create orders refunds --partitions 12 -c bootstrap.servers=kafka:9092
    """
    from pystreams.errors import StreamsError
    from pystreams.runtime.cluster.new_topic import NewTopic

    config = pairs(topic_config, "--topic-config")
    wanted = list(dict.fromkeys(names))
    with streams_errors_as_exit_codes():
        admin = _admin(application, replication_factor)
        existing = admin.partition_counts()
        taken = [f"{name!r} (partitions: {existing[name]})" for name in wanted if name in existing]
        if taken:
            raise StreamsError(f"there is a topic {', '.join(taken)} already: nothing was created")
        count = partitions or _BROKERS_CHOICE
        admin.create_topics([NewTopic(name, count, config) for name in wanted])
        created = admin.partition_counts()
    for name in wanted:
        click.echo(f"Created topic {name} (partitions: {created[name]})")


@topics.command(name="list")
@application_options
def list_topics(*, application: ApplicationOptions) -> None:
    """List all topics but Kafka's own, with their partitions."""
    from pystreams.cli.display.tables import show_table

    with streams_errors_as_exit_codes():
        counts = _admin(application).partition_counts()
    own = sorted(name for name in counts if not name.startswith("__"))
    columns = ("topic", "partitions")
    show_table(columns, [(name, str(counts[name])) for name in own], right=columns[1:])


def _admin(options: ApplicationOptions, replication_factor: int | None = None) -> AdminPort:
    """Return an admin client of the brokers that the configuration names."""
    from pystreams.config import Source
    from pystreams.runtime.adapters.client_factory import ConfluentClients

    if replication_factor is not None:
        settings = (*options.settings, f"replication.factor={replication_factor}")
        options = replace(options, settings=settings)
    # Names the client alone: no application is at work.
    name = "pystreams-topics"
    config = configuration_of(options, name, Source("", {"application.id": name}))
    return ConfluentClients(config).admin()
