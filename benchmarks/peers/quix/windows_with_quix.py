"""One windowed aggregation with Quix Streams, to an output topic.

Runs in a virtual environment of its own; until SIGTERM. Final results of tumbling and hopping
windows are sent when any record closes them, as Kafka Streams does. Sliding windows close by
records of their own key alone, because Quix Streams has it so; so do sessions, because closing all
keys' sessions goes over all keys each time, which takes seconds.
"""

from __future__ import annotations

import argparse
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]

GUARANTEES = {"at_least_once": "at-least-once", "exactly_once": "exactly-once"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "app", "input", "output", "state", "kind", "emit"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("commit", "size", "advance", "gap", "difference", "grace"):
        parser.add_argument(f"--{name}-ms", type=int, required=True)
    parser.add_argument("--guarantee", default="at_least_once")
    return parser.parse_args()


def total(so_far: int, value: str) -> int:
    return so_far + int(value)


def windowed(frame: Any, options: argparse.Namespace) -> Any:
    grace_ms = options.grace_ms
    if options.kind == "tumbling":
        return frame.tumbling_window(options.size_ms, grace_ms).count()
    if options.kind == "hopping":
        windows = frame.hopping_window(options.size_ms, options.advance_ms, grace_ms)
        return windows.reduce(reducer=total, initializer=int)
    if options.kind == "session":
        return frame.session_window(options.gap_ms, grace_ms).count()
    return frame.sliding_window(options.difference_ms, grace_ms).count()


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
    target = application.topic(options.output, key_serializer="str", value_serializer="json")
    windows = windowed(application.dataframe(source), options)
    if options.emit == "update":
        results = windows.current()
    else:
        by_partition = options.kind in {"tumbling", "hopping"}
        results = windows.final(closing_strategy="partition" if by_partition else "key")
    results.to_topic(target)
    application.run()


if __name__ == "__main__":
    main()
