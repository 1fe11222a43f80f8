"""Counts the records of each key with pystreams, as a user would write it; runs until SIGTERM.

At its end it prints one line of JSON: the statistics of the run.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import signal
import sys

import structlog

from pystreams import KafkaStreams, StreamsBuilder, Topology, collected_seldom, serdes

_CLOSE_TIMEOUT_S = 30.0
_WATCH_S = 0.2


def count_topology(
    source: str, target: str, *, operators: int, repartitioned: bool = False
) -> Topology:
    """Return the topology.

    Args:
        source: The input topic.
        target: The output topic.
        operators: 0, or 3 for a filter and two maps before the count.
        repartitioned: Whether the records take a way through a repartition topic.
    """
    builder = StreamsBuilder()
    records = builder.stream(source, key_serde=serdes.STRING, value_serde=serdes.STRING)
    if operators:
        records = (
            records.filter(lambda _, value: value != "")
            .map_values(lambda value: f"{value}!")
            .map_values(str.upper)
        )
    if repartitioned:
        records = records.select_key(lambda key, _: key)
    counts = records.group_by_key(key_serde=serdes.STRING, value_serde=serdes.STRING).count(
        name="counts", key_serde=serdes.STRING
    )
    counts.to_stream().to(target, key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--operators", type=int, default=0)
    parser.add_argument("--repartitioned", action="store_true")
    parser.add_argument("-c", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    return parser.parse_args()


def run(options: argparse.Namespace) -> int:
    """Run until SIGTERM; return the exit code."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    topology = count_topology(
        options.input,
        options.output,
        operators=options.operators,
        repartitioned=options.repartitioned,
    )
    streams = KafkaStreams(topology, dict(setting.split("=", 1) for setting in options.settings))
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stop.append(number))
    with collected_seldom():  # As `pystreams run` does.
        streams.start()
        while not stop and not streams.wait(_WATCH_S):
            pass
        streams.close(_CLOSE_TIMEOUT_S)
    print(json.dumps(dataclasses.asdict(streams.statistics())), flush=True)
    if streams.error is not None:
        print(f"failed: {streams.error}", file=sys.stderr)
        return 1
    return 0


def main() -> None:
    sys.exit(run(arguments()))


if __name__ == "__main__":
    main()
