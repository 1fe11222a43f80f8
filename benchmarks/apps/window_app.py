"""One windowed aggregation with pystreams, as a user would write it; runs until SIGTERM."""

from __future__ import annotations

import sys
from typing import Any

import click

from benchmarks.apps.join_app import run
from benchmarks.harness.window_kinds import (
    ADVANCE_MS,
    DIFFERENCE_MS,
    EMITS,
    GAP_MS,
    GRACE_MS,
    KINDS,
    SIZE_MS,
)
from pystreams import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    serdes,
    session_windowed_serde,
    time_windowed_serde,
)
from pystreams.cli.options.values import pairs


def window_topology(kind: str, emit: str, source: str, target: str, retention_ms: int) -> Topology:
    """Return the topology.

    Args:
        kind: One of `benchmarks.harness.window_kinds.KINDS`.
        emit: When results are sent on: on `update`, or on `close`.
        source: The input topic.
        target: The output topic.
        retention_ms: How long windows are kept.
    """
    builder = StreamsBuilder()
    records = builder.stream(source, key_serde=serdes.STRING, value_serde=serdes.STRING)
    grouped = records.group_by_key(key_serde=serdes.STRING, value_serde=serdes.STRING)
    strategy = (
        EmitStrategy.on_window_close() if emit == "close" else EmitStrategy.on_window_update()
    )
    kept: dict[str, Any] = {"name": "results", "retention_ms": retention_ms}
    key_serde: Any
    if kind == "session":
        sessions = SessionWindows.of_inactivity_gap_and_grace(GAP_MS, GRACE_MS)
        table = grouped.windowed_by(sessions).emit_strategy(strategy).count(**kept)
        key_serde = session_windowed_serde(serdes.STRING)
    elif kind == "sliding":
        sliding = SlidingWindows.of_time_difference_and_grace(DIFFERENCE_MS, GRACE_MS)
        table = grouped.windowed_by(sliding).emit_strategy(strategy).count(**kept)
        key_serde = time_windowed_serde(serdes.STRING, DIFFERENCE_MS)
    else:
        windows = TimeWindows.of_size_and_grace(SIZE_MS, GRACE_MS)
        if kind == "hopping":
            windows = windows.advance_by(ADVANCE_MS)
        cut = grouped.windowed_by(windows).emit_strategy(strategy)
        if kind == "hopping":
            table = cut.aggregate(
                int,
                lambda _key, value, total: total + int(value),
                value_serde=serdes.LONG,
                **kept,
            )
        else:
            table = cut.count(**kept)
        key_serde = time_windowed_serde(serdes.STRING, SIZE_MS)
    table.to_stream().to(target, key_serde=key_serde, value_serde=serdes.LONG)
    return builder.build()


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0])
@click.option("--kind", required=True, type=click.Choice(KINDS), help="How time is cut.")
@click.option("--emit", required=True, type=click.Choice(EMITS), help="When results go on.")
@click.option("--input", "source", required=True, help="Topic of the records.")
@click.option("--output", "target", required=True, help="Topic of the results.")
@click.option("--retention-ms", type=int, required=True, help="How long windows are kept.")
@click.option("-c", "settings", multiple=True, metavar="KEY=VALUE", help="The application's.")
def main(
    kind: str, emit: str, source: str, target: str, retention_ms: int, settings: tuple[str, ...]
) -> None:
    """Run until SIGTERM."""
    topology = window_topology(kind, emit, source, target, retention_ms)
    sys.exit(run(topology, pairs(settings, "-c")))


if __name__ == "__main__":
    main()
