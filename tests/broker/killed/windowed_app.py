"""The application that is killed: windows of each kind over one input, and what is sent when.

Input: key -> number, with times that are drawn. One topic a result, with a key of text (key, start
and end of the window) and a sum or a count. `hopping`, `sliding` and `sessions` send each change
on; the others each result once, when its window has closed.
"""

from __future__ import annotations

import os

from pystreams import (
    BufferConfig,
    EmitStrategy,
    KTable,
    SessionWindows,
    SlidingWindows,
    StoreEngine,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    Windowed,
    serdes,
)

SIZE_MS, ADVANCE_MS, GRACE_MS = 2000, 1000, 500
GAP_MS = 300
HOPPING = TimeWindows.of_size_and_grace(SIZE_MS, GRACE_MS).advance_by(ADVANCE_MS)
SESSIONS = SessionWindows.of_inactivity_gap_and_grace(GAP_MS, GRACE_MS)
DIFFERENCE_MS, SLIDING_GRACE_MS = 400, 6000
"""For sliding windows nothing comes too late: what those hold that others are made of would depend
on what was late for which of them."""
SLIDING = SlidingWindows.of_time_difference_and_grace(DIFFERENCE_MS, SLIDING_GRACE_MS)
ON_CLOSE = EmitStrategy.on_window_close()
UPDATED = ("hopping", "sliding", "sessions")
FINAL = ("final", "final-sliding", "final-sessions", "suppressed")


def add(total: int, number: int) -> int:
    return total + number


def topology() -> Topology:
    name = os.environ["KILLED_NAME"]
    builder = StreamsBuilder()
    source = builder.stream(f"{name}-in", key_serde=serdes.STRING, value_serde=serdes.LONG)
    grouped = source.group_by_key()

    def send(table: KTable[Windowed[str], int], result: str) -> None:
        named = table.to_stream(lambda windowed, _: text_of(windowed))
        named.to(f"{name}-{result}", key_serde=serdes.STRING, value_serde=serdes.LONG)

    hopping = grouped.windowed_by(HOPPING)
    counts = hopping.count(name="hopping")
    send(counts, "hopping")
    send(hopping.emit_strategy(ON_CLOSE).reduce(add, name="final"), "final")
    sliding = grouped.windowed_by(SLIDING)
    send(sliding.reduce(add, name="sliding"), "sliding")
    send(sliding.emit_strategy(ON_CLOSE).reduce(add, name="final-sliding"), "final-sliding")
    sessions = grouped.windowed_by(SESSIONS)
    send(sessions.reduce(add, name="sessions"), "sessions")
    send(sessions.emit_strategy(ON_CLOSE).reduce(add, name="final-sessions"), "final-sessions")
    on_disk = BufferConfig.unbounded(store_type=StoreEngine.ROCKSDB)
    held = Suppressed.until_window_closes(on_disk).with_name("held")
    send(hopping.reduce(add, name="to-suppress").suppress(held), "suppressed")
    return builder.build()


def text_of(windowed: Windowed[str]) -> str:
    return f"{windowed.key} {windowed.window.start} {windowed.window.end}"
