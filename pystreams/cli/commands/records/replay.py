"""`pystreams replay`: what a topology makes of a slice of its input, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from pystreams.cli.application.configuration import load_application
from pystreams.cli.display.logs import configure_logging
from pystreams.cli.display.own_output import own_output
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.exit_codes import ExitCode
from pystreams.cli.options.groups import (
    ApplicationOptions,
    application_options,
    grouped,
    topology_argument,
)
from pystreams.cli.options.times import time_before_ms, time_ms
from pystreams.kernel.clock import SystemClock

if TYPE_CHECKING:
    from pystreams.cli.application.initial_state import InitialState
    from pystreams.cli.application.replaying import ReplayCounts, ReplaySlice
    from pystreams.runtime.maintenance.input_slice import SliceBounds
    from pystreams.topology.plan.topology_plan import TopologyPlan


@dataclass(frozen=True, slots=True)
class WhatToReplay:
    """Which records are replayed, with which state.

    Attributes:
        key: The key whose records are followed; None for all.
    """

    key: str | None
    begin: str | None
    end: str | None
    last: str | None
    topics: tuple[str, ...]
    state: str


_what_to_replay = grouped(
    "wanted",
    WhatToReplay,
    click.option("--key", metavar="K", help="Follow the records of this key, hop by hop."),
    click.option(
        "--from", "begin", metavar="TIME", help="ISO 8601, epoch ms, or how long ago: 90s, 1h, 2d."
    ),
    click.option("--to", "end", metavar="TIME", help="Likewise. Default: the end there is now."),
    click.option(
        "--last", metavar="SPAN", help="The last 15m, 1h, 2d: instead of --from and --to."
    ),
    click.option(
        "--topic", "topics", multiple=True, metavar="NAME", help="Only this input; repeatable."
    ),
    click.option(
        "--state",
        default="empty",
        show_default=True,
        metavar="empty|DIR",
        help="What the stores begin with: an export, a backfill's data set, or a state.dir. The "
        "slice then begins where that ends, unless --from says otherwise.",
    ),
)


@click.command()
@topology_argument
@_what_to_replay
@click.option(
    "--show",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Without --key: show the first N records of each topic it would write to.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@application_options
@click.pass_context
def replay(
    ctx: click.Context,
    *,
    wanted: WhatToReplay,
    show: int,
    as_json: bool,
    application: ApplicationOptions,
) -> None:
    """Run a topology over a slice of its input, and tell what it does; nothing is written.

    With --key it prints what becomes of each record of that key, in the input or in a repartition
    topic: every node it comes to, every change in a store, every record that would be written,
    under whatever key. Without, how many records it would write to each topic. It reads what is
    committed, joins no group and commits nothing; stores are in memory. The functions of the
    topology are called as ever: one that sends mails sends them; what they print goes to standard
    error.

    \b
    Exit codes:
      0    done
      1    failed; or there is nothing in the slice, or nothing of the key
      2    wrong usage, configuration or topology; the key does not fit the serdes
      3    no broker answers
      70   a bug in pystreams

    \b
    Examples:
      pystreams replay orders.py --dev --key alice --last 1h
      pystreams replay orders.py --last 1h --show 5 --config production.toml
      pystreams replay orders.py --dev --key alice --state exported --json
    """
    configure_logging("warning", "auto")
    with streams_errors_as_exit_codes():
        from pystreams.backfill.broker_waiting import REAL_WAITING
        from pystreams.cli.application.followed_key import FollowedKey
        from pystreams.cli.application.initial_state import initial_state
        from pystreams.cli.application.replaying import Replay, slice_of
        from pystreams.cli.display.replayed import FirstWritten, HopLines, JsonLines
        from pystreams.runtime.adapters.client_factory import ConfluentClients
        from pystreams.topology.plan.topology_plan import TopologyPlan

        with own_output() as output:
            loaded, config = load_application(application)
            plan = TopologyPlan(loaded.topology, config.application_id)
            state = initial_state(wanted.state, plan, config)
            bounds = _bounds(wanted, state)
            clients = ConfluentClients(config)
            # What was created just now may have no leader yet: it is asked again.
            read = REAL_WAITING.until_answered(
                lambda: slice_of(clients, plan, wanted.topics, bounds)
            )
            names = sorted({partition.topic for partition in read.spans})
            key = None if wanted.key is None else FollowedKey(plan, config, wanted.key, names)
            _tell_beginning(read, state, plan, output, as_json=as_json)
            first = FirstWritten(show)
            shown = show if key is None else None
            lines = JsonLines(output, shown) if as_json else HopLines(output)
            told = first if key is None and not as_json else lines
            run = Replay(loaded.topology, config, told, key)
            run.run(clients, read, state)
        first.show()
        _tell_end(run.counts, output, as_json=as_json)
    if not run.counts.followed:
        nothing = (
            f"none of the {run.counts.records:,} records of the slice has key {wanted.key!r}, nor "
            "gets it in a repartition topic"
        )
        click.echo(nothing, err=True)
        ctx.exit(ExitCode.FAILED)


def _bounds(wanted: WhatToReplay, state: InitialState) -> SliceBounds:
    from pystreams.runtime.maintenance.input_slice import SliceBounds

    now_ms = SystemClock().now_ms()
    if wanted.last is not None:
        if wanted.begin is not None or wanted.end is not None:
            raise click.UsageError("--last says where the slice begins and ends: leave the others")
        return SliceBounds(from_ms=time_before_ms(wanted.last, "--last", now_ms))
    if wanted.begin is None and not state.changelogs:
        raise click.UsageError("where does the slice begin? Say --from TIME or --last SPAN")
    begin = None if wanted.begin is None else time_ms(wanted.begin, "--from", now_ms)
    end = None if wanted.end is None else time_ms(wanted.end, "--to", now_ms)
    if begin is not None and end is not None and end <= begin:
        raise click.UsageError(f"--to {wanted.end} is not after --from {wanted.begin}")
    return SliceBounds(from_ms=begin, to_ms=end, first_offsets=state.source_offsets)


def _tell_beginning(
    read: ReplaySlice, state: InitialState, plan: TopologyPlan, output: TextIO, *, as_json: bool
) -> None:
    from pystreams.cli.display.replayed import json_line

    spans = {str(at): [span.first, span.end] for at, span in sorted(read.spans.items())}
    if as_json:
        json_line("slice", {"state": state.told, "offsets": spans}, output)
    else:
        click.echo(f"State at the beginning: {state.told}", output)
        told = ", ".join(f"{at} [{first:,}, {end:,})" for at, (first, end) in spans.items())
        click.echo(f"Input: {told}", output)
    firsts = {at: span.first for at, span in read.spans.items()}
    for note in (*state.notes(firsts), *read.notes(plan)):
        click.echo(f"Note: {note}", err=True)


def _tell_end(counts: ReplayCounts, output: TextIO, *, as_json: bool) -> None:
    from pystreams.cli.display.replayed import json_line, show_counts

    if as_json:
        told = {"records": counts.records, "followed": counts.followed}
        json_line("summary", {**told, "written": dict(sorted(counts.written.items()))}, output)
        return
    click.echo(f"\n{counts.records:,} records replayed, {counts.followed:,} followed")
    if counts.written:
        show_counts(counts.written)
    else:
        click.echo("It would write nothing")
