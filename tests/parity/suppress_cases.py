"""Small inputs of one suppression each: what Kafka Streams made of them, and what is made here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pystreams import (
    BufferConfig,
    Headers,
    KTable,
    SessionWindows,
    SlidingWindows,
    StoreEngine,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver
from tests.parity.golden import GOLDEN, decoded

Logged = tuple[bytes | None, bytes | None, Headers]
Result = tuple[str | None, str | None, int, Headers]


class Step(NamedTuple):
    """A record; a note is its header "n"."""

    topic: str
    key: str
    value: str | None
    time_ms: int
    note: str | None


@dataclass(frozen=True)
class SuppressCase:
    """One suppression, its input, and what Kafka Streams made of it.

    Attributes:
        name: What it is about.
        kind: What is suppressed, and until when.
        wait_ms: The time limit, where there is one.
        size_ms: Of the windows; of sessions the gap.
        grace_ms: Of the windows.
        max_records: How many keys may wait; -1 for any number.
        max_bytes: How many bytes; -1 for any number.
        steps: The input.
        description: Of the topology.
        out: The output.
        logged: What each step logged of buffers, in order of keys; not of a suppression below
            another, which gets other old values here.
    """

    name: str
    kind: str
    wait_ms: int
    size_ms: int
    grace_ms: int
    max_records: int
    max_bytes: int
    steps: list[Step]
    description: str
    out: list[Result]
    logged: list[list[Logged]]


class Answer(NamedTuple):
    """What was made of a case; its parts are those of `SuppressCase`."""

    description: str
    out: list[Result]
    logged: list[list[Logged]]


def read_cases(file: Path = GOLDEN / "suppress_cases.jsonl") -> list[SuppressCase]:
    """Return the cases of a file."""
    with file.open(encoding="utf-8") as lines:
        return [_case(json.loads(line)) for line in lines]


def _case(content: dict[str, Any]) -> SuppressCase:
    content["steps"] = [Step(*step) for step in content["steps"]]
    content["out"] = [(*record[:3], _headers(record[3])) for record in content["out"]]
    content["logged"] = [
        [(decoded(key), decoded(value), _headers(headers)) for key, value, headers in step]
        for step in content["logged"]
    ]
    return SuppressCase(**content)


def _headers(noted: list[list[Any]]) -> Headers:
    return tuple((name, decoded(value)) for name, value in noted)


def run(case: SuppressCase, engine: StoreEngine) -> Answer:
    """Return what pystreams makes of a case, with its buffers in memory or on disk."""
    config = {
        "application.id": "app",
        "default.key.serde": "string",
        "default.value.serde": "string",
    }
    topology = _topology(case, engine)
    seen: dict[str, int] = {}
    logged = []
    with TopologyTestDriver(topology, config, wall_clock_ms=0) as driver:
        for topic, key, value, time_ms, note in case.steps:
            headers: Headers = () if note is None else (("n", note.encode()),)
            driver.create_input_topic(topic, STRING, STRING).pipe_input(
                key, value, timestamp=time_ms, headers=headers
            )
            logged.append(_logged_since(driver, seen))
        out = driver.create_output_topic("out", STRING, STRING).read_records()
    records = [(record.key, record.value, record.timestamp, record.headers) for record in out]
    return Answer(str(topology.describe()), records, logged)


def _logged_since(driver: TopologyTestDriver, seen: dict[str, int]) -> list[Logged]:
    logged: list[Logged] = []
    for topic in sorted(driver.produced_topic_names()):
        if "SUPPRESS" in topic:
            records = driver.produced_raw(topic)
            fresh = records[seen.get(topic, 0) :]
            seen[topic] = len(records)
            in_order = sorted(fresh, key=lambda record: record[0] or b"")
            logged += [(key, value, headers) for key, value, _, headers in in_order]
    return logged


def _topology(case: SuppressCase, engine: StoreEngine) -> Topology:
    builder = StreamsBuilder()
    unbounded = BufferConfig.unbounded(store_type=engine)
    limited = Suppressed.until_time_limit(case.wait_ms, _room(case, engine))
    if case.kind == "table":
        builder.table("in").suppress(limited).to_stream().to("out")
        return builder.build()
    if case.kind == "joined":
        table = builder.table("in").suppress(limited)
        builder.stream("stream").left_join(table, _joined).to("out")
        return builder.build()
    results = _windowed(builder, case)
    closed: Suppressed[Any] = Suppressed.until_window_closes(unbounded)
    if case.kind == "window-limit":
        results = results.suppress(limited)
    elif case.kind == "two":
        kept = results.filter(lambda _, value: not value.endswith("1"))
        results = kept.suppress(closed).suppress(
            Suppressed.until_time_limit(case.wait_ms, unbounded).with_name("second")
        )
    else:
        results = results.suppress(closed)
    results.to_stream(_told).to("out", key_serde=STRING, value_serde=STRING)
    return builder.build()


def _windowed(builder: StreamsBuilder, case: SuppressCase) -> KTable[Any, Any]:
    grouped = builder.stream("in").group_by_key(key_serde=STRING, value_serde=STRING)
    size_ms, grace_ms = case.size_ms, case.grace_ms
    if case.kind == "session":
        sessions = SessionWindows.of_inactivity_gap_and_grace(size_ms, grace_ms)
        return grouped.windowed_by(sessions).aggregate(
            str, _appended, lambda _, some, more: f"{some}+{more}", value_serde=STRING
        )
    if case.kind == "sliding":
        sliding = SlidingWindows.of_time_difference_and_grace(size_ms, grace_ms)
        return grouped.windowed_by(sliding).aggregate(str, _appended, value_serde=STRING)
    windows = TimeWindows.of_size_and_grace(size_ms, grace_ms)
    return grouped.windowed_by(windows).aggregate(str, _appended, value_serde=STRING)


def _room(case: SuppressCase, engine: StoreEngine) -> BufferConfig:
    if case.max_records >= 0:
        return BufferConfig.max_records(case.max_records, store_type=engine)
    if case.max_bytes >= 0:
        return BufferConfig.max_bytes(case.max_bytes, store_type=engine)
    return BufferConfig.unbounded(store_type=engine)


def _appended(_key: Any, value: str | None, so_far: str) -> str:
    return so_far + ("null" if value is None else value)


def _joined(value: Any, row: Any) -> str:
    return f"{value}&{'null' if row is None else row}"


def _told(windowed: Any, _value: Any) -> str:
    key, (start, end) = windowed
    return f"{key}@{start}/{end}"
