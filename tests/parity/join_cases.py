"""Small inputs of one join each: what Kafka Streams made of them, and what pystreams makes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pystreams import JoinWindows, KStream, Materialized, StreamsBuilder, Topology
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver
from tests.parity.golden import GOLDEN, decoded

HISTORY_MS = 600_000
WINDOWED = ("inner", "left", "outer")

Logged = tuple[bytes | None, bytes | None]
Result = tuple[str | None, str | None, int]


class Step(NamedTuple):
    """A record; without a topic, so much wall-clock time (ms)."""

    topic: str | None
    key: str | None
    value: str | None
    time_ms: int


@dataclass(frozen=True)
class JoinCase:
    """One join, its input, and what Kafka Streams made of it.

    Attributes:
        name: What it is about.
        kind: Of the join; one of `WINDOWED`, or of a stream with a table.
        before_ms: Of its windows.
        after_ms: Likewise.
        grace_ms: Of its windows, or how long records wait for the table.
        emit_interval_ms: How often a left or outer join looks at what waits.
        steps: The input.
        out: The output: (key, value, timestamp).
        waiting: The changelog of what waits: (key, value).
    """

    name: str
    kind: str
    before_ms: int
    after_ms: int
    grace_ms: int
    emit_interval_ms: int
    steps: list[Step]
    out: list[Result]
    waiting: list[Logged]


def read_cases(file: Path = GOLDEN / "join_cases.jsonl") -> list[JoinCase]:
    """Return the cases of a file."""
    with file.open(encoding="utf-8") as lines:
        return [_case(json.loads(line)) for line in lines]


def _case(content: dict[str, Any]) -> JoinCase:
    content["steps"] = [Step(*step) for step in content["steps"]]
    content["out"] = [tuple(record) for record in content["out"]]
    content["waiting"] = [(decoded(key), decoded(value)) for key, value in content["waiting"]]
    return JoinCase(**content)


def run(case: JoinCase) -> tuple[list[Result], list[Logged]]:
    """Return what pystreams makes of a case: its output, and the changelog of what waits."""
    config = {
        "application.id": "app",
        "default.key.serde": "string",
        "default.value.serde": "string",
        "outer.join.emit.interval.ms": case.emit_interval_ms,
    }
    with TopologyTestDriver(_topology(case), config, wall_clock_ms=0) as driver:
        for topic, key, value, time_ms in case.steps:
            if topic is None:
                driver.advance_wall_clock_ms(time_ms)
            else:
                driver.create_input_topic(topic, STRING, STRING).pipe_input(
                    key, value, timestamp=time_ms
                )
        out = driver.create_output_topic("out", STRING, STRING).read_records()
        waiting = [
            (key, value)
            for topic in sorted(driver.produced_topic_names())
            if topic.endswith("-Buffer-changelog") or "SHARED-" in topic
            for key, value, _, _ in driver.produced_raw(topic)
        ]
    return [(record.key, record.value, record.timestamp) for record in out], waiting


def _topology(case: JoinCase) -> Topology:
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream("stream")
    if case.kind in WINDOWED:
        other: KStream[Any, Any] = builder.stream("other")
        windows = JoinWindows(case.before_ms, case.after_ms, case.grace_ms)
        methods: dict[str, Any] = {
            "inner": stream.join,
            "left": stream.left_join,
            "outer": stream.outer_join,
        }
        methods[case.kind](other, _joined, windows).to("out")
        return builder.build()
    history_ms = None if case.kind.startswith("table") else HISTORY_MS
    table = builder.table(
        "other", materialized=Materialized(name="table", history_retention_ms=history_ms)
    )
    grace_ms = case.grace_ms if case.kind.startswith("grace") else None
    method = stream.left_join if case.kind.endswith("left") else stream.join
    method(table, _joined, grace_period_ms=grace_ms, name="joining").to("out")
    return builder.build()


def _joined(left: Any, right: Any) -> str:
    return "&".join("null" if side is None else side for side in (left, right))
