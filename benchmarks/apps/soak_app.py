"""The topology of soak.py: counts by key, and final counts by key and minute.

Keys are bounded, and windows are kept no longer than they may change (65 s, in segments of a
minute), so that state has a size that it keeps.
"""

from __future__ import annotations

from pystreams import EmitStrategy, StreamsBuilder, TimeWindows, serdes

INPUT, COUNTS, FINALS = "soak-input", "soak-counts", "soak-finals"
WINDOW_MS, GRACE_MS = 60_000, 5_000

builder = StreamsBuilder()
_by_key = builder.stream(INPUT, key_serde=serdes.STRING, value_serde=serdes.BYTES).group_by_key()
_by_key.count(name="counts").to_stream().to(COUNTS)
_minutes = _by_key.windowed_by(TimeWindows.of_size_and_grace(WINDOW_MS, GRACE_MS))
_finals = _minutes.emit_strategy(EmitStrategy.on_window_close()).count(name="minutes")
_finals.to_stream().to(FINALS)
