"""`pystreams status`: how an application's group is doing, as the broker tells it."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

import click

from pystreams.cli.application.configuration import configuration_of
from pystreams.cli.application.topology_loader import load_topology
from pystreams.cli.display.logs import configure_logging
from pystreams.cli.display.own_output import own_output
from pystreams.cli.display.times import told_time
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.options.groups import ApplicationOptions, application_options
from pystreams.cli.plain_text import in_one_line
from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import SystemClock

if TYPE_CHECKING:
    from pystreams.runtime.maintenance.group_status import GroupStatus, PartitionStatus


@click.command()
@click.argument("group")
@click.option(
    "--topology",
    "reference",
    metavar="FILE|MODULE:ATTRIBUTE",
    help="The application's topology: names members that run another one.",
)
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
@application_options
def status(
    group: str, *, reference: str | None, as_json: bool, application: ApplicationOptions
) -> None:
    """Show how GROUP, an application.id, is doing: members, and lag in records and in seconds.

    It asks the broker, and changes nothing. Lag is what is not committed yet; in seconds it is how
    long ago the oldest such record was written, by its timestamp. Records that wait for the end of
    an open transaction of whoever writes them are part of it, and told with where it begins:
    when they were written is not known (?). Members that have died are listed
    until their session ends. Which tasks partitions belong to, and which ones members keep warm for
    others, is what the group has noted with its offsets; with --topology, what that and
    num.standby.replicas in the configuration say. Several digests of topologies are processes that
    keep other state, or partitions without a record since a deploy: members are marked by what they
    read alone.

    \b
    Exit codes:
      0    shown
      1    there is no such group; or failed
      2    wrong usage, configuration or topology
      3    no broker answers
      70   a bug in pystreams

    \b
    Examples:
      pystreams status words --dev
      pystreams status orders --topology shop.orders:builder --config production.toml --json
    """
    from pystreams.runtime.adapters.client_factory import ConfluentClients
    from pystreams.runtime.maintenance.group_status import group_status
    from pystreams.topology.plan.topology_plan import TopologyPlan

    configure_logging("warning", "auto")
    with streams_errors_as_exit_codes():
        own = {"application.id": group}
        plan = None
        if reference is not None:
            with own_output():
                loaded = load_topology(reference)
            plan = TopologyPlan(loaded.topology, group)
            own = {**loaded.config, **own}
        config = configuration_of(application, group, own)
        clients = ConfluentClients(config)
        found = group_status(
            group,
            clients.admin(),
            lambda: clients.history_consumer(f"{group}-status"),
            SystemClock().now_ms(),
            plan,
            config.num_standby_replicas,
        )
        if not found.members and not found.partitions:
            raise StreamsError(
                f"there is no group {group!r}: it has no members and has committed nothing"
            )
    if as_json:
        click.echo(json.dumps(_as_dict(group, found), indent=2))
    else:
        _show(group, found)


def _show(group: str, found: GroupStatus) -> None:
    from pystreams.cli.display.tables import show_table

    members = len(found.members)
    state = "stable" if found.settled else "rebalancing"
    if not members:
        state = "nobody is in it"
    lag = sum(partition.lag_records for partition in found.partitions)
    click.echo(f"{group}: {state}, {members} {'member' if members == 1 else 'members'}")
    click.echo(f"lag: {lag:,} records, {_seconds(found.partitions)}")
    several = len(found.topologies) > 1
    for noted in found.topologies:
        last = f", the last to commit {_partitions(noted.partitions)}" if several else ""
        digest = in_one_line(noted.digest)
        click.echo(f"topology: {digest}, started {told_time(noted.started_ms)}{last}")
    click.echo()
    if members:
        rows = []
        for member in found.members:
            tasks = _tasks(member.partitions, found)
            row = [member.client_id, member.host, str(len(member.partitions)), tasks]
            if any(found.standbys.values()):
                row.append(", ".join(map(str, found.standbys.get(member.member_id, ()))) or "-")
            rows.append(row)
        titles = ("member", "host", "partitions", "tasks", "standbys")[: len(rows[0])]
        show_table(titles, rows, right=("partitions",))
        click.echo()
    columns = ("partition", "task", "committed", "lag", "waiting", "read by")
    show_table(
        columns,
        [
            (
                str(partition.partition),
                _task(partition.partition, found) or "-",
                "-" if partition.next_offset is None else f"{partition.next_offset:,}",
                f"{partition.lag_records:,}",
                _seconds([partition]),
                "nobody" if partition.member is None else partition.member.client_id,
            )
            for partition in found.partitions
        ],
        right=columns[2:5],
    )
    for partition in found.partitions:
        if partition.undecided_from is not None:
            click.echo(
                f"\nOPEN TRANSACTION: {partition.partition} from offset "
                f"{partition.undecided_from:,} on; {partition.undecided_records:,} records wait, "
                "under exactly-once until it ends"
            )
    for stranger in found.strangers:
        click.echo(f"\nANOTHER TOPOLOGY: {in_one_line(str(stranger))}")


def _as_dict(group: str, found: GroupStatus) -> dict[str, object]:
    return {
        "group": group,
        "settled": found.settled,
        "topologies": [
            {
                "digest": noted.digest,
                "started_ms": noted.started_ms,
                "partitions": noted.partitions,
            }
            for noted in found.topologies
        ],
        "members": [
            {
                "client_id": member.client_id,
                "host": member.host,
                "partitions": sorted(map(str, member.partitions)),
                "tasks": _known_tasks(member.partitions, found),
                "another_topology": member in found.strangers,
                "standby_tasks": list(map(str, found.standbys.get(member.member_id, ()))),
            }
            for member in found.members
        ],
        "partitions": [
            {
                "topic": partition.partition.topic,
                "partition": partition.partition.partition,
                "task": _task(partition.partition, found),
                "committed": partition.next_offset,
                "lag_records": partition.lag_records,
                "lag_ms": partition.waiting_ms,
                "undecided_records": partition.undecided_records,
                "undecided_from": partition.undecided_from,
                "member": partition.member and partition.member.client_id,
            }
            for partition in found.partitions
        ],
    }


def _task(partition: TopicPartition, found: GroupStatus) -> str | None:
    part = found.subtopologies.get(partition.topic)
    return None if part is None else f"{part}_{partition.partition}"


def _known_tasks(partitions: frozenset[TopicPartition], found: GroupStatus) -> list[str] | None:
    """Return the tasks that partitions belong to, in order; None where not all are known."""
    parts = {(found.subtopologies.get(topic), number) for topic, number in partitions}
    known = sorted((part, number) for part, number in parts if part is not None)
    return [f"{part}_{number}" for part, number in known] if len(known) == len(parts) else None


def _tasks(partitions: frozenset[TopicPartition], found: GroupStatus) -> str:
    """Return the tasks that partitions belong to; where these are not known, their topics."""
    tasks = _known_tasks(partitions, found)
    if tasks is not None:
        return ", ".join(tasks) or "-"
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(partitions):
        by_topic[topic].append(number)
    return (
        "; ".join(f"{topic} {', '.join(map(str, numbers))}" for topic, numbers in by_topic.items())
        or "-"
    )


def _partitions(count: int) -> str:
    return f"{count:,} {'partition' if count == 1 else 'partitions'}"


def _seconds(partitions: list[PartitionStatus]) -> str:
    """Return how long the oldest record waits."""
    known = [partition.waiting_ms for partition in partitions if partition.waiting_ms is not None]
    if len(known) < len(partitions) and not any(known):
        return "?"
    return f"{max(known, default=0) / 1000:,.1f} s"
