"""`pystreams topics`: create, list, describe and delete topics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import click

from pystreams.cli.application.configuration import configuration_of, with_short_forms
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.options.groups import ApplicationOptions, application_options
from pystreams.cli.options.values import pairs
from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition, all_partitions

if TYPE_CHECKING:
    from pystreams.runtime.ports import AdminPort

_BROKERS_CHOICE = -1
_TOLD_SETTINGS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "min.insync.replicas",
    "max.message.bytes",
    "message.timestamp.type",
)
_OF_KAFKA = {
    "__cluster_metadata": "what the cluster itself is",
    "__consumer_offsets": "the committed offsets of all groups",
    "__share_group_state": "where all share groups are",
    "__transaction_state": "the transactions of all producers",
}
"""What brokers keep in topics of their own; each takes that away from the whole cluster."""


class _Description(NamedTuple):
    """What is told of a topic: its partitions' offsets, and some of its settings."""

    partitions: list[dict[str, int]]
    settings: dict[str, str]


_names = click.argument("names", nargs=-1, required=True, metavar="NAME...")


@click.group()
def topics() -> None:
    """Create, list, describe and delete topics.

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
@_names
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
@click.option("--json", "as_json", is_flag=True, help="As one JSON object, by topic.")
@application_options
def list_topics(*, as_json: bool, application: ApplicationOptions) -> None:
    """List all topics but Kafka's own, with their partitions.

    \b
    Examples:
      pystreams topics list --dev
      pystreams topics list --json -c bootstrap.servers=kafka:9092
    """
    from pystreams.cli.display.tables import show_table

    with streams_errors_as_exit_codes():
        counts = _admin(application).partition_counts()
    own = sorted(name for name in counts if not name.startswith("__"))
    if as_json:
        click.echo(json.dumps({name: {"partitions": counts[name]} for name in own}, indent=2))
        return
    columns = ("topic", "partitions")
    show_table(columns, [(name, str(counts[name])) for name in own], right=columns[1:])


@topics.command()
@_names
@click.option("--json", "as_json", is_flag=True, help="As one JSON object, by topic.")
@application_options
def describe(names: tuple[str, ...], *, as_json: bool, application: ApplicationOptions) -> None:
    """Show what topics hold: partitions, their first offset and their end, and settings.

    The records of a partition are fewer than its offsets where it is compacted, or was written in
    transactions.

    \b
    Examples:
      pystreams topics describe flights --dev
      pystreams topics describe orders refunds --json -c bootstrap.servers=kafka:9092
    """
    with streams_errors_as_exit_codes():
        admin = _admin(application)
        counts = _counts_of(admin, names)
        ranges = admin.offset_ranges(all_partitions(counts, counts))
        settings = admin.topic_settings(list(counts))
    described = {
        name: _Description(
            [ranges[TopicPartition(name, number)]._asdict() for number in range(count)],
            {key: settings[name][key] for key in _TOLD_SETTINGS if key in settings.get(name, {})},
        )
        for name, count in counts.items()
    }
    if as_json:
        click.echo(json.dumps({name: told._asdict() for name, told in described.items()}, indent=2))
        return
    for name, told in described.items():
        _show(name, told)


@topics.command()
@_names
@click.option("--execute", is_flag=True, help="Do it. Without this it is only shown.")
@application_options
def delete(names: tuple[str, ...], *, execute: bool, application: ApplicationOptions) -> None:
    """Delete topics, with all their records.

    It only shows what it would do; --execute does it. Kafka's own topics, such as
    __consumer_offsets, are refused. An application that reads one of them stops
    with an error; its internal topics are better deleted by `pystreams reset`.

    \b
    Examples:
      pystreams topics delete flights --dev
      pystreams topics delete flights --dev --execute
    """
    for name in names:
        if name in _OF_KAFKA:
            raise click.UsageError(
                f"{name} is Kafka's own, and holds {_OF_KAFKA[name]}: nothing was deleted. "
                "To begin anew with one application, use `pystreams reset`"
            )
    with streams_errors_as_exit_codes():
        admin = _admin(application)
        counts = _counts_of(admin, names)
        if not execute:
            for name, count in counts.items():
                click.echo(f"Would delete topic {name} (partitions: {count})")
            click.echo("Nothing was deleted yet: run it again with --execute to do it")
            return
        failed = admin.delete_topics(list(counts))
        for name in counts.keys() - failed.keys():
            click.echo(f"Deleted topic {name}")
        for error in failed.values():
            raise StreamsError(str(error)) from error


def _counts_of(admin: AdminPort, names: tuple[str, ...]) -> dict[str, int]:
    """Return the partition counts of topics.

    Raises:
        StreamsError: One of them does not exist.
    """
    existing = admin.partition_counts()
    missing = sorted(set(names) - existing.keys())
    if missing:
        raise StreamsError(
            f"there is no topic {', '.join(map(repr, missing))}: `pystreams topics list` names all"
        )
    return {name: existing[name] for name in dict.fromkeys(names)}


def _show(name: str, told: _Description) -> None:
    from pystreams.cli.display.tables import show_table

    offsets = sum(held["end"] - held["beginning"] for held in told.partitions)
    click.echo(f"{name}: {len(told.partitions)} partitions, {offsets:,} offsets")
    for key, value in told.settings.items():
        click.echo(f"  {key} = {value}")
    rows = [
        (str(number), f"{held['beginning']:,}", f"{held['end']:,}")
        for number, held in enumerate(told.partitions)
    ]
    columns = ("partition", "first offset", "end")
    show_table(columns, rows, right=columns)


def _admin(options: ApplicationOptions, replication_factor: int | None = None) -> AdminPort:
    """Return an admin client of the brokers that the configuration names."""
    from pystreams.runtime.adapters.client_factory import ConfluentClients

    short = {"--replication-factor": ("replication.factor", replication_factor)}
    options = with_short_forms(options, short)
    # Names the client alone: no application is at work.
    name = "pystreams-topics"
    config = configuration_of(options, name, {"application.id": name})
    return ConfluentClients(config).admin()
