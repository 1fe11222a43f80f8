"""The topologies that both sides run: steps, as `tests.parity.generated.build` reads them.

All read the same topics of texts: `left`, `right`, `rows`, and `named` and `places`, with the keys
that values lead to. Each writes to topics of its own, whose names begin with its application's id.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.parity.generated.options import Step

INPUTS = ("left", "right", "rows", "named")
GLOBAL = "places"
"""Of a global table: written while no application runs, since nobody tells what they have read."""
OUTPUTS = ("out", "out-2", "out-3")

Steps = list[Step]

KAFKA_STREAMS_FORGETS = {
    "final": "Our client ends metadata of offsets with a zero byte, with which Kafka Streams can't "
    "read them: it forgets until when results were sent, and sends them again.",
    "stream-stream-left": "Kafka Streams looks at what waits, restored, only once more is waiting.",
    "stream-stream-outer": "The same.",
    "stream-history": "Kafka Streams restores such a buffer with keys that it does not find again.",
}
"""Topologies that Kafka Streams does not go on with, of what pystreams has left, and why."""


LOOKS_ANEW = {"stream-stream-left", "stream-stream-outer"}
"""Topologies that let go of what waits a record earlier or later after a restart: when they look is
decided in memory. What comes out is the same."""


RESTORED_ANEW = {"tumbling", "hopping", "sliding", "sessions", "suppressed", "stream-stream"}
"""Topologies that restore their stores though they begin in a directory of Kafka Streams, which
keeps windows in a database a segment, and suppressions in memory."""


def topologies(name: str, application_id: Callable[[str], str]) -> dict[str, Steps]:
    """Return the topologies by name.

    Args:
        name: Begins the names of the inputs.
        application_id: Returns the id of a topology's application, which begins the names of its
            outputs.
    """
    made: dict[str, Steps] = {}
    for part in (_windows, _joined_streams, _joined_tables, _groups):
        made |= part(name)
    return {
        topology: [
            step | {"topic": f"{application_id(topology)}-{step['topic']}"}
            if step["op"] == "to"
            else step
            for step in steps
        ]
        for topology, steps in made.items()
    }


def _windows(name: str) -> dict[str, Steps]:
    groups = [_stream(name, "left"), {"op": "group_by_key", "from": "left", "out": "groups"}]
    tumbling = {"kind": "time", "size_ms": 10_000, "grace_ms": 5_000}
    closing = {"op": "suppress", "buffer": {}, "name": "closing", "from": "counts", "out": "final"}
    sessions = {"kind": "session", "size_ms": 4_000, "grace_ms": 5_000}
    summed = {"op": "aggregate", "initial": "empty", "fn": "collect", "merger": "append"}
    collected = {"op": "aggregate", "initial": "empty", "fn": "collect"}
    keep = {"key": "string", "value": "string"}
    return {
        "tumbling": [
            *groups,
            {"op": "windowed_by", "windows": tumbling, "from": "groups", "out": "windows"},
            {"op": "count", "materialized": {"name": "counts"}, "from": "windows", "out": "counts"},
            *_sent("counts", key="time:10000", value="long"),
        ],
        "hopping": [
            *groups,
            {
                "op": "windowed_by",
                "windows": tumbling | {"advance_ms": 4_000},
                "from": "groups",
                "out": "windows",
            },
            collected | {"materialized": keep, "from": "windows", "out": "lists"},
            *_sent("lists", key="time:10000"),
        ],
        "sliding": [
            *groups,
            {
                "op": "windowed_by",
                "windows": {"kind": "sliding", "size_ms": 5_000, "grace_ms": 5_000},
                "from": "groups",
                "out": "windows",
            },
            {"op": "reduce", "fn": "append", "from": "windows", "out": "sums"},
            *_sent("sums", key="time:5000"),
        ],
        "sessions": [
            *groups,
            {"op": "windowed_by", "windows": sessions, "from": "groups", "out": "windows"},
            summed | {"materialized": keep, "from": "windows", "out": "sums"},
            *_sent("sums", key="session"),
        ],
        "final": [
            *groups,
            {
                "op": "windowed_by",
                "windows": tumbling,
                "emit": "close",
                "from": "groups",
                "out": "windows",
            },
            # Kafka Streams never emits windows that its store has forgotten by then.
            {
                "op": "count",
                "materialized": {"key": "string", "value": "long", "retention_ms": 120_000},
                "from": "windows",
                "out": "counts",
            },
            *_sent("counts", key="time:10000", value="long"),
        ],
        "suppressed": [
            *groups,
            {"op": "windowed_by", "windows": tumbling, "from": "groups", "out": "windows"},
            {
                "op": "count",
                "materialized": {"key": "string", "value": "long"},
                "from": "windows",
                "out": "counts",
            },
            closing,
            *_sent("final", key="time:10000", value="long"),
            _table(name, "rows"),
            {
                "op": "suppress",
                "wait_ms": 6_000,
                "buffer": {"max_records": 3, "full": "emit"},
                "from": "rows",
                "out": "slow",
            },
            *_sent("slow", to="out-2"),
        ],
    }


def _joined_streams(name: str) -> dict[str, Steps]:
    sides = [_stream(name, "left"), _stream(name, "right")]
    windows = {"before_ms": 3_000, "after_ms": 5_000, "grace_ms": 4_000}
    joined = [
        {
            "op": "join",
            "kind": kind,
            "windows": windows,
            "fn": "both",
            "from": "left",
            "other": "right",
            "out": kind,
        }
        for kind in ("inner", "left", "outer")
    ]
    versioned = {"kind": "versioned", "name": "history", "retention_ms": 60_000}
    return {
        "stream-stream": [*sides, joined[0], *_sent("inner", table=False)],
        "stream-stream-left": [*sides, joined[1] | {"out": "kept"}, *_sent("kept", table=False)],
        "stream-stream-outer": [*sides, joined[2], *_sent("outer", table=False)],
        "stream-table": [
            sides[0],
            _table(name, "rows"),
            _join("inner", "left", "rows", "found"),
            *_sent("found", table=False),
            _join("left", "left", "rows", "all") | {"with_key": True, "fn": "with_key"},
            *_sent("all", table=False, to="out-2"),
        ],
        "stream-global": [
            sides[0],
            {"op": "global_table", "topic": f"{name}-{GLOBAL}", "out": "places"},
            _join("inner", "left", "places", "found") | {"selector": "by_value"},
            *_sent("found", table=False),
            _join("left", "left", "places", "all") | {"selector": "of_rows"},
            *_sent("all", table=False, to="out-2"),
        ],
        "stream-history": [
            sides[0],
            _table(name, "rows") | {"materialized": {"supplier": versioned}},
            _join("inner", "left", "rows", "then")
            | {"joined": {"name": "asked", "grace_ms": 4000}},
            *_sent("then", table=False),
        ],
    }


def _joined_tables(name: str) -> dict[str, Steps]:
    tables = [_table(name, "rows"), _table(name, "right")]
    versioned = {"kind": "versioned", "retention_ms": 60_000}
    keep = {"key": "string", "value": "string", "name": "kept"}
    return {
        "table-table": [
            *tables,
            _join("inner", "rows", "right", "both") | {"materialized": keep},
            *_sent("both"),
            _join("left", "rows", "right", "first"),
            *_sent("first", to="out-2"),
            _join("outer", "rows", "right", "any"),
            *_sent("any", to="out-3"),
        ],
        "table-table-history": [
            tables[0] | {"materialized": {"supplier": versioned | {"name": "rows-then"}}},
            tables[1] | {"materialized": {"supplier": versioned | {"name": "right-then"}}},
            _join("outer", "rows", "right", "both"),
            *_sent("both"),
        ],
        "foreign-key": [
            tables[0],
            _table(name, "named"),
            _join("inner", "rows", "named", "found") | {"foreign_key": "by_value"},
            *_sent("found"),
        ],
        "foreign-key-left": [
            tables[0],
            _table(name, "named"),
            _join("left", "rows", "named", "all")
            | {"foreign_key": "by_value", "name": "naming", "materialized": keep},
            *_sent("all"),
        ],
    }


def _groups(name: str) -> dict[str, Steps]:
    return {
        "grouped-table": [
            _table(name, "rows"),
            {"op": "group_by", "fn": "by_value+mark", "from": "rows", "out": "groups"},
            {
                "op": "aggregate",
                "initial": "empty",
                "fn": "collect",
                "subtractor": "uncollect",
                "from": "groups",
                "out": "lists",
            },
            *_sent("lists"),
        ],
        "regrouped-stream": [
            _stream(name, "left"),
            {"op": "group_by", "fn": "by_value", "from": "left", "out": "groups"},
            {"op": "reduce", "fn": "append", "from": "groups", "out": "sums"},
            *_sent("sums"),
        ],
        "cogrouped": [
            _stream(name, "left"),
            _stream(name, "right"),
            {"op": "group_by_key", "from": "left", "out": "of-left"},
            {"op": "group_by_key", "from": "right", "out": "of-right"},
            {"op": "cogroup", "fn": "collect", "from": "of-left", "out": "one"},
            {"op": "cogroup", "fn": "with_key", "from": "one", "other": "of-right", "out": "two"},
            {"op": "aggregate", "initial": "empty", "from": "two", "out": "lists"},
            *_sent("lists"),
        ],
        "processors": [
            _stream(name, "left"),
            {
                "op": "process",
                "kind": "count",
                "store": {"kind": "timestamped", "name": "seen"},
                "from": "left",
                "out": "counted",
            },
            {"op": "process", "kind": "tag", "from": "counted", "out": "tagged"},
            *_sent("tagged", table=False),
        ],
    }


def _stream(name: str, topic: str) -> Step:
    return {"op": "stream", "topics": [f"{name}-{topic}"], "out": topic}


def _table(name: str, topic: str) -> Step:
    return {"op": "table", "topic": f"{name}-{topic}", "out": topic}


def _join(kind: str, one_side: str, other: str, out: str) -> Step:
    return {
        "op": "join",
        "kind": kind,
        "fn": "both",
        "from": one_side,
        "other": other,
        "out": out,
    }


def _sent(
    source: str, *, table: bool = True, to: str = "out", key: str = "string", value: str = "string"
) -> Steps:
    sent = {"op": "to", "topic": to, "produced": {"key": key, "value": value}}
    if not table:
        return [sent | {"from": source}]
    changes = f"changes-of-{source}"
    return [{"op": "to_stream", "from": source, "out": changes}, sent | {"from": changes}]
