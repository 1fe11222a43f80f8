"""How a running client is shown: one live line on a terminal, nothing otherwise.

Without a terminal the log says it: the runtime's summary line at `log.summary.interval.ms`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Self

from pystreams.kernel.rate import RateMeter, counted, duration

if TYPE_CHECKING:
    from rich.control import Control
    from rich.text import Text

    from pystreams.runtime.loop.reports.statistics import Statistics

_INTERVAL_S = 0.25
_END_TIMEOUT_S = 1.0
_SEPARATOR = " | "
_ERASED_NEXT = "\x1b[B\x1b[2K"
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


class StatusLine:
    """Makes the line; knows the rates."""

    def __init__(self) -> None:
        self._processed = RateMeter()
        self._restored = RateMeter()

    def text(self, statistics: Statistics, now_s: float, width: int | None = None) -> str:
        """Return the line for these statistics at this time (seconds, any origin).

        Args:
            width: How many characters there is room for; what matters least is left out. None for
                all that it takes.
        """
        processed_per_s = self._processed.rate(statistics.processed_records, now_s)
        restored_per_s = self._restored.rate(statistics.restored_records, now_s)
        lag = statistics.lag_records
        tasks = counted(statistics.tasks_running, "task")
        commits = counted(statistics.commits, "commit")
        uncommitted = f"uncommitted {_in_units(statistics.uncommitted_bytes)}"
        parts = [
            statistics.state,
            tasks,
            f"{processed_per_s:,.0f} records/s",
            f"lag {lag:,}" if lag is not None else "lag unknown",
            commits,
        ]
        if statistics.unread_partitions:
            parts.append(f"{counted(statistics.unread_partitions, 'partition')} read by nobody")
        if statistics.dropped_records:
            parts.append(f"{statistics.dropped_records:,} dropped")
        if statistics.uncommitted_bytes:
            parts.append(uncommitted)
        if statistics.tasks_restoring:
            parts.append(_restoring(statistics, restored_per_s))
        for least in (uncommitted, commits, tasks):
            if width is not None and len(_SEPARATOR.join(parts)) > width and least in parts:
                parts.remove(least)
        return _SEPARATOR.join(parts)


class LiveDisplay:
    """One line at the bottom of the terminal; what else is printed scrolls above it.

    Use as a context manager. It has a thread of its own, so that nothing it waits for (a terminal
    that is held, numbers that come late) delays the stop of the client.
    """

    def __init__(
        self, statistics: Callable[[], Statistics], monotonic_ms: Callable[[], float]
    ) -> None:
        self._statistics = statistics
        self._monotonic_ms = monotonic_ms
        self._line = StatusLine()
        self._prefix = ""
        self._drawn_width = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-line", daemon=True)

    def __enter__(self) -> Self:
        """Take the bottom line."""
        from rich.console import Console
        from rich.live import Live

        self._live = Live(
            console=Console(stderr=True, highlight=False),
            auto_refresh=False,
            # Output that goes to a file must not land on the terminal.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Leave the last line standing, and the terminal as it was."""
        self._ended.set()
        self._thread.join(_END_TIMEOUT_S)
        with contextlib.suppress(OSError):  # The terminal may be closed.
            self._live.stop()

    def show_stopping(self) -> None:
        """Say from now on that the client is asked to stop."""
        self._prefix = "STOPPING (Ctrl-C again stops at once) | "

    def _run(self) -> None:
        from rich.text import Text

        ended = False
        while not ended:
            # Once more after the end, so that the last line tells the last numbers.
            ended = self._ended.wait(_INTERVAL_S)
            room = self._live.console.width - len(self._prefix)
            line = self._line.text(self._statistics(), self._monotonic_ms() / 1000, room)
            text = Text(self._prefix + line, "bold", no_wrap=True, overflow="ellipsis", end="")
            text.truncate(self._live.console.width)
            self._draw(text)

    def _draw(self, text: Text) -> None:
        """Put the line in the place of the one before, of however many rows that has become.

        A terminal that shrinks breaks a line that is too long for it. So the cursor is left where
        the line begins, which is where terminals keep it, and the rows behind it are erased.
        """
        from rich.console import Group
        from rich.control import Control
        from rich.segment import ControlType

        to_the_beginning = Control(ControlType.CARRIAGE_RETURN)
        console = self._live.console
        rows = ceil(self._drawn_width / max(console.width, 1))
        self._drawn_width = text.cell_len
        with contextlib.suppress(OSError), console:
            if rows > 1:
                console.control(_erased_below(rows - 1))
            self._live.update(Group(text, to_the_beginning), refresh=True)


def _erased_below(rows: int) -> Control:
    """Return what erases so many rows below the cursor, and leaves it where it was."""
    from rich.control import Control
    from rich.segment import ControlType, Segment

    erased = Control(ControlType.CARRIAGE_RETURN)
    # Rich has no code that saves where the cursor is: at the bottom it could not go down and back.
    text = f"\r\x1b7{rows * _ERASED_NEXT}\x1b8"
    erased.segment = Segment(text, None, [(ControlType.CARRIAGE_RETURN,)])
    return erased


def _restoring(statistics: Statistics, per_s: float) -> str:
    remaining = statistics.restore_remaining_records
    left = f", {duration(remaining / per_s)} left" if per_s > 0 else ""
    tasks = counted(statistics.tasks_restoring, "task")
    return f"restoring {tasks}: {per_s:,.0f} records/s, {remaining:,} to go{left}"


def _in_units(number: int) -> str:
    for size, unit in _UNITS:
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} B"
