"""One join with pystreams, as a user would write it: live until SIGTERM, or over history.

`live` runs it; `stage` and `publish` do what `pystreams backfill` does, one after the other.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import click
import structlog

from pystreams import (
    JoinWindows,
    KafkaStreams,
    KStream,
    KTable,
    Materialized,
    StreamsBuilder,
    Topology,
    backfill,
    collected_seldom,
)
from pystreams import serdes as of
from pystreams.cli.options.values import pairs

_CLOSE_TIMEOUT_S = 30.0
_WATCH_S = 0.2
_HISTORY_MS = 3_600_000
_TEXT: dict[str, Any] = {"key_serde": of.STRING, "value_serde": of.STRING}


def joined(left: str | None, right: str | None) -> str:
    """Return what all programs make of a pair; "-" stands for None."""
    return f"{left or '-'}&{right or '-'}"


def join_topology(kind: str, source: str, target: str, windows: JoinWindows) -> Topology:
    """Return the topology.

    Args:
        kind: One of `benchmarks.harness.join_kinds.KINDS`.
        source: The stream's topic; the other side's ends with `-other`.
        target: The output topic.
        windows: Of a join of streams; their grace period is also that of a join with a table.
    """
    builder = StreamsBuilder()
    other = f"{source}-other"
    if kind in {"table-table", "foreign-key"}:
        _joined_tables(builder, kind, source, other).to(target, **_TEXT)
        return builder.build()
    stream = builder.stream(source, **_TEXT)
    result: Any
    if kind in {"inner", "left", "outer"}:
        methods: dict[str, Any] = {
            "inner": stream.join,
            "left": stream.left_join,
            "outer": stream.outer_join,
        }
        result = methods[kind](builder.stream(other, **_TEXT), joined, windows)
    else:
        history_ms = None if kind == "table" else _HISTORY_MS
        kept = Materialized(name="rows", history_retention_ms=history_ms)
        table = builder.table(other, materialized=kept, **_TEXT)
        grace_ms = windows.grace_period_ms if kind == "grace" else None
        result = stream.join(table, joined, grace_period_ms=grace_ms)
    result.to(target, **_TEXT)
    return builder.build()


def _joined_tables(
    builder: StreamsBuilder, kind: str, source: str, other: str
) -> KStream[str, str]:
    left: KTable[str, str] = builder.table(source, **_TEXT)
    right: KTable[str, str] = builder.table(other, **_TEXT)
    if kind == "table-table":
        return left.join(right, joined).to_stream()
    return left.join(right, joined, foreign_key=foreign_row).to_stream()


def foreign_row(value: str) -> str:
    """Return the key of the row that a value names."""
    return value.partition("/")[0]


def run(topology: Topology, config: dict[str, str]) -> int:
    """Run until SIGTERM; return the exit code."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(20))
    streams = KafkaStreams(topology, config)
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stop.append(number))
    with collected_seldom():  # As `pystreams run` does.
        streams.start()
        while not stop and not streams.wait(_WATCH_S):
            pass
        streams.close(_CLOSE_TIMEOUT_S)
    if streams.error is not None:
        print(f"failed: {streams.error}", file=sys.stderr)
        return 1
    return 0


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0])
@click.argument("step", type=click.Choice(["live", "stage", "publish"]))
@click.option("--kind", required=True, help="Of the join.")
@click.option("--input", "source", required=True, help="Topic of the stream.")
@click.option("--output", "target", required=True, help="Topic of the results.")
@click.option("--window-ms", type=int, required=True, help="Of a join of streams, either way.")
@click.option("--grace-ms", type=int, required=True, help="Grace period.")
@click.option("--staging", type=click.Path(path_type=Path), help="Directory of a backfill.")
@click.option("--master", help="Spark's master.")
@click.option("--spark-conf", multiple=True, metavar="KEY=VALUE", help="Spark's configuration.")
@click.option("-c", "settings", multiple=True, metavar="KEY=VALUE", help="The application's.")
def main(step: str, kind: str, source: str, target: str, **options: Any) -> None:
    """Run a step."""
    windows = JoinWindows.of_time_difference_and_grace(options["window_ms"], options["grace_ms"])
    topology = join_topology(kind, source, target, windows)
    config = pairs(options["settings"], "-c")
    if step == "live":
        sys.exit(run(topology, config))
    if step == "publish":
        outputs = backfill.PublishingSettings(with_outputs=True)
        backfill.publish(topology, config, output=options["staging"], settings=outputs)
    else:
        conf = pairs(options["spark_conf"], "--spark-conf")
        backfill.run(
            topology,
            config,
            output=options["staging"],
            master=options["master"],
            spark_conf=conf,
        )


if __name__ == "__main__":
    main()
