"""Counts the records of each key with Quix Streams: its state store, changelog, output topic.

Runs in a virtual environment of its own (Quix pins an older Kafka client); until SIGTERM.
"""

from __future__ import annotations

import argparse
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]

GUARANTEES = {"at_least_once": "at-least-once", "exactly_once": "exactly-once"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "app", "input", "output", "state"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--guarantee", default="at_least_once")
    parser.add_argument("--commit-ms", type=int, default=100)
    parser.add_argument("--operators", type=int, default=0)
    return parser.parse_args()


def count(value: str, state: Any) -> int:
    total: int = state.get("count", 0) + 1
    state.set("count", total)
    return total


def main() -> None:
    options = arguments()
    application = Application(
        broker_address=options.bootstrap,
        consumer_group=options.app,
        auto_offset_reset="earliest",
        processing_guarantee=GUARANTEES[options.guarantee],
        commit_interval=options.commit_ms / 1000,
        state_dir=options.state,
        loglevel="WARNING",
        producer_extra_config={"linger.ms": 20, "queue.buffering.max.messages": 1_000_000},
    )
    source = application.topic(options.input, key_deserializer="str", value_deserializer="str")
    target = application.topic(options.output, key_serializer="str", value_serializer="int")
    frame = application.dataframe(source)
    if options.operators:
        frame = frame.filter(bool).apply(lambda value: f"{value}!").apply(str.upper)
    frame.apply(count, stateful=True).to_topic(target)
    application.run()


if __name__ == "__main__":
    main()
