"""Draws the pictures of docs/dsl/windows.md: each shows what pystreams makes of a few records.

    python docs/dsl/pictures/draw.py        writes them beside this file

The records are piped through the topology test driver, and the windows drawn are those that come
out, with what they count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pystreams import (
    KGroupedStream,
    KTable,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Window,
    Windowed,
    serdes,
)
from pystreams.testing import TopologyTestDriver

MINUTE_MS = 60_000
HERE = Path(__file__).parent

LEFT, TOP = 20, 34
PIXELS_A_MINUTE = 22
ROW = 26

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #24292f; }
  .axis { stroke: #57606a; stroke-width: 1.5; }
  .tick { fill: #57606a; font-size: 11px; }
  .record { fill: #0969da; }
  .late { fill: #bc4c00; }
  .lost { fill: none; stroke: #bc4c00; stroke-width: 1.5; }
  .window { fill: #ddf4ff; stroke: #0969da; }
  .grace { fill: #fff8c5; stroke: #9a6700; stroke-dasharray: 4 3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .axis { stroke: #8b949e; }
    .tick { fill: #8b949e; }
    .record { fill: #58a6ff; }
    .late { fill: #f0883e; }
    .lost { stroke: #f0883e; }
    .window { fill: #0c2d6b; stroke: #58a6ff; }
    .grace { fill: #3b2300; stroke: #d29922; }
  }
"""

Aggregate = Callable[[KGroupedStream[str, str]], KTable[Windowed[str], int]]


@dataclass(frozen=True)
class Bar:
    """A stretch of time in the picture, with a text in it."""

    window: Window
    text: str
    style: str = "window"


def counted(minutes: Iterable[int], aggregate: Aggregate) -> dict[Window, int]:
    """Return the windows that are there after records of one key, at these minutes, in turn."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    changes = aggregate(stream.group_by_key()).to_stream()
    windows: dict[Window, int] = {}

    def keep(windowed: Windowed[str], count: int | None) -> None:
        if count is None:
            windows.pop(windowed.window, None)
        else:
            windows[windowed.window] = count

    changes.foreach(keep)
    with TopologyTestDriver(builder.build()) as driver:
        records = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
        for minute in minutes:
            records.pipe_input("key", "value", timestamp=minute * MINUTE_MS)
    return dict(sorted(windows.items()))


def x_of(time_ms: float) -> float:
    """Return where a time stands."""
    return LEFT + time_ms / MINUTE_MS * PIXELS_A_MINUTE


def picture(
    minutes: int,
    records: Sequence[tuple[float, str]],
    bars: Sequence[Bar],
    *,
    numbered: bool = False,
) -> str:
    """Return a picture: an axis with records on it, and bars below.

    Args:
        minutes: How long the axis is.
        records: Minute and style of each.
        bars: What stands below, in rows that don't overlap.
        numbered: Whether numbers above the records say in which order they come.
    """
    drawn: list[str] = []
    ends: list[float] = []
    for bar in bars:
        left = x_of(bar.window.start) + 1
        width = max(x_of(bar.window.end) - left - 1, 3)
        inside = width > 7 * len(bar.text)
        row = next((at for at, end in enumerate(ends) if end <= left), len(ends))
        ends[row : row + 1] = [left + width + (0 if inside else 7 * len(bar.text) + 8)]
        y = TOP + 30 + row * ROW
        text_x = left + (width / 2 if inside else width + 4)
        anchor = "middle" if inside else "start"
        drawn.append(
            f'<rect class="{bar.style}" x="{left:g}" y="{y}" width="{width:g}" height="20" rx="3"/>'
            f'<text x="{text_x:g}" y="{y + 14}" text-anchor="{anchor}">{bar.text}</text>'
        )
    end = x_of(minutes * MINUTE_MS)
    ticks = "".join(
        f'<text class="tick" x="{x_of(minute * MINUTE_MS):g}" y="{TOP + 20}" '
        f'text-anchor="middle">{minute}</text>'
        for minute in range(0, minutes + 1, 5)
    )
    dots = "".join(
        f'<circle class="{style}" cx="{x_of(minute * MINUTE_MS):g}" cy="{TOP}" r="5"/>'
        for minute, style in records
    )
    if numbered:
        dots += "".join(
            f'<text x="{x_of(minute * MINUTE_MS):g}" y="{TOP - 11}" '
            f'text-anchor="middle">{number}</text>'
            for number, (minute, _) in enumerate(records, 1)
        )
    height = TOP + 40 + max(len(ends), 1) * ROW
    width = end + 30
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" '
        f'width="{width:g}" height="{height}" role="img"><style>{STYLE}</style>\n'
        f'<line class="axis" x1="{LEFT}" y1="{TOP}" x2="{end:g}" y2="{TOP}"/>\n'
        f'{ticks}<text class="tick" x="{end:g}" y="{TOP - 12}" text-anchor="end">minutes</text>\n'
        f"{dots}\n" + "\n".join(drawn) + "\n</svg>\n"
    )


def bars_of(windows: dict[Window, int]) -> list[Bar]:
    """Return a bar for each window, with its count."""
    return [Bar(window, str(count)) for window, count in windows.items()]


def tumbling() -> str:
    """Ten minutes, side by side."""
    minutes = [1, 3, 4, 11, 16, 17, 18, 25]
    size = TimeWindows.of_size_with_no_grace(10 * MINUTE_MS)
    windows = counted(minutes, lambda grouped: grouped.windowed_by(size).count())
    return picture(30, [(minute, "record") for minute in minutes], bars_of(windows))


def hopping() -> str:
    """Ten minutes, a new one each five."""
    minutes = [1, 3, 4, 11, 16, 17, 18, 25]
    size = TimeWindows.of_size_with_no_grace(10 * MINUTE_MS).advance_by(5 * MINUTE_MS)
    windows = counted(minutes, lambda grouped: grouped.windowed_by(size).count())
    return picture(35, [(minute, "record") for minute in minutes], bars_of(windows))


def sliding() -> str:
    """Records that are at most ten minutes apart."""
    minutes = [12, 16, 24]
    near = SlidingWindows.of_time_difference_with_no_grace(10 * MINUTE_MS)
    windows = counted(minutes, lambda grouped: grouped.windowed_by(near).count())
    return picture(35, [(minute, "record") for minute in minutes], bars_of(windows))


def sessions() -> str:
    """Pauses of at most five minutes; a record out of order makes two sessions one."""
    gap = SessionWindows.of_inactivity_gap_and_grace(5 * MINUTE_MS, 30 * MINUTE_MS)
    early = [1, 3, 7, 15, 17]
    before = counted(early, lambda grouped: grouped.windowed_by(gap).count())
    after = counted([*early, 11], lambda grouped: grouped.windowed_by(gap).count())
    bars = bars_of(before)
    bars += [Bar(window, f"{count}, with the last one", "grace") for window, count in after.items()]
    records = [(minute, "record") for minute in early]
    return picture(30, [*records, (11, "late")], bars, numbered=True)


def grace() -> str:
    """A window of ten minutes that takes records for five more."""
    bars = [
        Bar(Window(0, 10 * MINUTE_MS), "the window"),
        Bar(Window(10 * MINUTE_MS, 15 * MINUTE_MS), "grace", "grace"),
    ]
    records = [(2, "record"), (12, "record"), (8, "late"), (16, "record"), (5, "lost")]
    return picture(20, records, bars, numbered=True)


PICTURES: dict[str, Callable[[], str]] = {
    "tumbling": tumbling,
    "hopping": hopping,
    "sliding": sliding,
    "sessions": sessions,
    "grace": grace,
}


def main() -> None:
    """Write all pictures."""
    for name, draw in PICTURES.items():
        (HERE / f"{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()
