"""Sessions and cogroups, to be backfilled: every aggregation, with records that come late."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from typing import Any

from pystreams import (
    EmitStrategy,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    serdes,
    session_windowed_serde,
)

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
SESSIONS: Any = session_windowed_serde(serdes.STRING)
WINDOWS = SessionWindows.of_inactivity_gap_and_grace(7_000, 10_000)


def sessions() -> Topology:
    """Counts, reductions and aggregates of sessions, and a group of them that is told old rows."""
    builder = StreamsBuilder()
    windowed = builder.stream("left", **TEXT).group_by_key().windowed_by(WINDOWS)
    counts = windowed.count(name="session-counts")
    counts.to_stream().to("counts", key_serde=SESSIONS, value_serde=serdes.LONG)
    windowed.reduce(lambda so_far, value: f"{so_far}{value}", name="session-values")
    joined = windowed.aggregate(
        lambda: "0",
        lambda key, value, so_far: f"{so_far}+{value}",
        lambda key, so_far, other: f"({so_far}|{other})",
        name="session-texts",
        value_serde=serdes.STRING,
    )
    joined.filter(lambda key, value: len(value) % 2 == 0).to_stream().to(
        "joined", key_serde=SESSIONS, value_serde=serdes.STRING
    )
    totals = counts.group_by(
        lambda key, count: (key.key, count), key_serde=serdes.STRING, value_serde=serdes.LONG
    )
    totals.reduce(lambda total, new: total + new, lambda total, old: total - old, name="totals")
    return builder.build()


def final_sessions() -> Topology:
    """Counts of sessions, sent on when those have closed."""
    builder = StreamsBuilder()
    windowed = builder.stream("left", **TEXT).group_by_key().windowed_by(WINDOWS)
    counts = windowed.emit_strategy(EmitStrategy.on_window_close()).count(name="session-counts")
    counts.to_stream().to("counts", key_serde=SESSIONS, value_serde=serdes.LONG)
    return builder.build()


def cogroups() -> Topology:
    """Two streams in one table, in one of windows, and in one of sessions."""
    builder = StreamsBuilder()
    left = builder.stream("left", **TEXT).group_by_key()
    right = builder.stream("right", **TEXT).group_by_key()
    cogrouped = left.cogroup(lambda key, value, so_far: f"{so_far}+{value}").cogroup(
        right, lambda key, value, so_far: f"{so_far}-{value}"
    )
    rows = cogrouped.aggregate(str, name="rows", value_serde=serdes.STRING)
    rows.to_stream().to("rows", key_serde=serdes.STRING, value_serde=serdes.STRING)
    windows = TimeWindows.of_size_and_grace(5_000, 10_000).advance_by(2_000)
    in_windows = cogrouped.windowed_by(windows).aggregate(
        str, name="in-windows", value_serde=serdes.STRING
    )
    in_windows.to_stream().to("in-windows", value_serde=serdes.STRING)
    in_sessions = cogrouped.windowed_by(WINDOWS).aggregate(
        str,
        lambda key, so_far, other: f"({so_far}|{other})",
        name="in-sessions",
        value_serde=serdes.STRING,
    )
    in_sessions.to_stream().to("in-sessions", key_serde=SESSIONS, value_serde=serdes.STRING)
    return builder.build()
