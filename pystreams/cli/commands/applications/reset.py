"""`pystreams reset`: an application starts over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import click

from pystreams.cli.application.configuration import (
    configuration_of,
    load_application,
    with_short_forms,
)
from pystreams.cli.display.logs import configure_logging
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.options.groups import (
    ApplicationOptions,
    application_options,
    complete_file,
    grouped,
)
from pystreams.ids import TopicPartition

if TYPE_CHECKING:
    from pystreams.config import StreamsConfig
    from pystreams.runtime.maintenance.application_reset import NewOffsets, ResetPlan
    from pystreams.runtime.ports import AdminPort
    from pystreams.topology.plan.topology_plan import TopologyPlan


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where the command line says that input is read from; nothing, or one of them."""

    to_earliest: bool
    to_latest: bool
    to_offset: int | None
    to_datetime: datetime | None

    def new_offsets(self) -> NewOffsets | None:
        """Return what tells the offsets; None to leave it to the offset reset policies."""
        given = [
            self.to_earliest,
            self.to_latest,
            self.to_offset is not None,
            bool(self.to_datetime),
        ]
        if sum(given) > 1:
            raise click.UsageError(
                "--to-earliest, --to-latest, --to-offset and --to-datetime exclude each other"
            )
        return self._offsets if any(given) else None

    def _offsets(
        self, admin: AdminPort, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        ranges = admin.offset_ranges(partitions)
        if self.to_offset is not None:
            wanted = self.to_offset
            return {
                partition: min(max(wanted, held.beginning), held.end)
                for partition, held in ranges.items()
            }
        if self.to_datetime is not None:
            time_ms = int(self.to_datetime.timestamp() * 1000)
            found = admin.offsets_at(dict.fromkeys(partitions, time_ms))
            return {partition: found.get(partition, held.end) for partition, held in ranges.items()}
        return {
            partition: held.end if self.to_latest else held.beginning
            for partition, held in ranges.items()
        }


_beginning_options = grouped(
    "beginning",
    Beginning,
    click.option("--to-earliest", is_flag=True, help="Read input from its first records."),
    click.option("--to-latest", is_flag=True, help="Read only input that comes from now on."),
    click.option(
        "--to-offset",
        type=click.IntRange(0),
        metavar="N",
        help="Read each partition from this offset, or the nearest it has.",
    ),
    click.option(
        "--to-datetime",
        type=click.DateTime(["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d"]),
        metavar="TIME",
        help="Read records of this time and later: 2026-01-31T12:00:00 (local time), or with "
        "+0000.",
    ),
)


@click.command()
@click.argument(
    "topology", metavar="[FILE|MODULE:ATTRIBUTE]", default="", shell_complete=complete_file
)
@click.option(
    "--application-id",
    metavar="ID",
    help="Short for -c application.id=ID. Without a topology: only this is known, and all internal "
    "topics are listed as orphans.",
)
@_beginning_options
@click.option(
    "--orphans",
    is_flag=True,
    help="Also delete internal topics that begin with the application.id and are not of this "
    "topology. Look at the list first: those of application `a-b` look like orphans of `a`.",
)
@click.option("--execute", is_flag=True, help="Do it. Without this it is only shown.")
@application_options
def reset(
    *,
    application_id: str | None,
    beginning: Beginning,
    orphans: bool,
    execute: bool,
    application: ApplicationOptions,
) -> None:
    """Let a stopped application begin anew: without state, and at the start of its input.

    Deletes the group's committed offsets, the topology's internal topics (changelogs and
    repartition topics) and its state directory on this machine. Its input and output topics stay.
    It then begins where auto.offset.reset and its sources say (earliest, unless set), or where a
    --to option says.

    It only shows what it would do; --execute does it. It refuses while the group has members: stop
    all processes first, and wait until their session ends (session.timeout.ms, 42.5 s): a static
    member stays that long. If it fails or is cut off, run it again to finish it; until then the
    application does not start. Run it on each machine that has state of the application, or remove
    the state directory there.

    \b
    Exit codes:
      0    done; or shown
      1    failed, or refused; the message says what to do
      2    wrong usage, configuration or topology
      3    no broker answers
      70   a bug in pystreams
      130  stopped by Ctrl-C; run it again, and it continues

    \b
    Examples:
      pystreams reset topology.py --dev
      pystreams reset shop.orders:builder --config production.toml --execute
      pystreams reset topology.py --dev --to-datetime 2026-01-31T00:00:00 --execute
    """
    if not application.topology and application_id is None:
        raise click.UsageError("name the topology, or at least --application-id")
    configure_logging("warning", "auto")
    new_offsets = beginning.new_offsets()
    named = {"--application-id": ("application.id", application_id)}
    application = with_short_forms(application, named)
    with streams_errors_as_exit_codes():
        config, plan = _planned(application)
        _reset(config, plan, new_offsets, with_orphans=orphans, execute=execute)


def _planned(options: ApplicationOptions) -> tuple[StreamsConfig, TopologyPlan | None]:
    from pystreams.topology.plan.topology_plan import TopologyPlan

    if not options.topology:
        return configuration_of(options, "", {}), None
    loaded, config = load_application(options)
    return config, TopologyPlan(loaded.topology, config.application_id)


def _reset(
    config: StreamsConfig,
    plan: TopologyPlan | None,
    new_offsets: NewOffsets | None,
    *,
    with_orphans: bool,
    execute: bool,
) -> None:
    from pystreams.runtime.adapters.client_factory import ConfluentClients
    from pystreams.runtime.maintenance.application_reset import ApplicationReset, why_members

    admin = ConfluentClients(config).admin()
    done = ApplicationReset(config.application_id, plan, admin, config.state_dir)
    found = done.look()
    if not execute:
        click.echo(f"Reset of application {config.application_id}: nothing was changed yet")
        _show(found, with_orphans=with_orphans, sets_offsets=new_offsets is not None)
        left = "" if with_orphans else found.told_of_changelogs(admin.reached_with)
        if plan is not None and left:
            click.echo(left)
        if found.members:
            click.echo(f"Refused now: {why_members(config.application_id, found.members)}")
        click.echo("Run it again with --execute to do it")
        return
    done.execute(found, with_orphans=with_orphans, new_offsets=new_offsets, told=click.echo)
    click.echo(f"Application {config.application_id} begins anew at its next start")


def _show(found: ResetPlan, *, with_orphans: bool, sets_offsets: bool) -> None:
    offsets = f"of {len(found.committed)} partitions"
    if sets_offsets:
        offsets = f"of {len(found.sources)} source partitions, to be set anew"
    orphans = "orphans" if with_orphans else "orphans, deleted with --orphans only"
    for what, listed in (
        ("committed offsets", [offsets]),
        ("internal topics", found.internal_topics),
        (orphans, found.orphans),
        (f"state in {found.directory}", [str(task_id) for task_id in found.tasks]),
    ):
        click.echo(f"  {what}: {', '.join(listed) or 'none'}")
