"""Draws a case's input: late and equal times, nulls, duplicates, headers, advances of the clock."""

from __future__ import annotations

from typing import Any

from tests.parity.generated.drawing import Drawing

_KEYS = ("a", "b", "ab")
_VALUES = ("x", "yy", "v1", "v2", "v3", "été", "")


def draw_input(drawing: Drawing, start_ms: int, topics: list[str]) -> list[Any]:
    """Return records, [topic, key, value, timestamp, headers], and advances of the clock (ms)."""
    steps: list[Any] = []
    now_ms = start_ms
    for _ in range(drawing.one_of((6, 12, 20, 30))):
        if drawing.percent(10):
            steps.append(drawing.one_of((1, drawing.scale_ms, 999, 1_000, 2_500)))
        previous = steps[-1] if steps else None
        if isinstance(previous, list) and drawing.percent(8):
            steps.append(previous)
            continue
        now_ms += _advance_ms(drawing)
        late_ms = drawing.span(1, 2, 6) if drawing.percent(30) else 0
        record: list[Any] = [
            drawing.one_of(topics),
            None if drawing.percent(5) else drawing.one_of(_KEYS),
            None if drawing.percent(12) else drawing.one_of(_VALUES),
            max(0, now_ms - late_ms),
        ]
        if drawing.percent(15):
            record.append(_headers(drawing))
        steps.append(record)
    return steps


def _advance_ms(drawing: Drawing) -> int:
    if drawing.percent(25):
        return 0
    if drawing.percent(4):
        return drawing.one_of((drawing.scale_ms * 30, 61_000, 200_000))
    return drawing.random.randrange(1, drawing.scale_ms * 2)


def _headers(drawing: Drawing) -> list[list[str | None]]:
    headers: list[list[str | None]] = [["h", drawing.one_of(("1", "2"))]]
    if drawing.percent(30):
        headers.append(["h", None])
    return headers
