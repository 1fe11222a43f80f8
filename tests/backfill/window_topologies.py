"""Time windows and sliding windows, to be backfilled."""

from __future__ import annotations

from typing import Any

from pystreams import EmitStrategy, SlidingWindows, StreamsBuilder, TimeWindows, Topology, serdes

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


def time_windows() -> Topology:
    """Counts by hopping windows, and final results by tumbling ones behind a repartition."""
    builder = StreamsBuilder()
    stream = builder.stream("left", **TEXT)
    hopping = TimeWindows.of_size_and_grace(60_000, 10_000).advance_by(20_000)
    counts = stream.group_by_key().windowed_by(hopping, late="late").count(name="hopping")
    counts.filter(lambda _, number: number > 1).to_stream().to("counts", value_serde=serdes.LONG)
    stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(15_000)).aggregate(
        str, lambda _, value, so_far: f"{so_far}{value}", name="texts", value_serde=serdes.STRING
    )
    regrouped = stream.group_by(lambda key, _: f"group-{key[-1]}", **TEXT)
    closing = regrouped.windowed_by(TimeWindows.of_size_and_grace(30_000, 5_000))
    final = closing.emit_strategy(EmitStrategy.on_window_close()).count(name="final")
    final.to_stream().to("final", value_serde=serdes.LONG)
    return builder.build()


def sliding_windows() -> Topology:
    """Counts and last values of sliding windows, as they change and once they are closed."""
    builder = StreamsBuilder()
    groups = builder.stream("left", **TEXT).group_by_key()
    windows = SlidingWindows.of_time_difference_and_grace(7_000, 3_000)
    groups.windowed_by(windows).count(name="changes").to_stream().to(
        "counts", value_serde=serdes.LONG
    )
    closing = groups.windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    closing.reduce(lambda _, value: value, name="closed").to_stream().to(
        "joined", value_serde=serdes.STRING
    )
    return builder.build()
