"""One live line for `--processes N`: children tell their parent how they are doing.

Between the parent and each child there is a socket pair, the child's standard input. The parent
never writes: its end is how children see that it has died. Children write their statistics to it,
a line of JSON several times a second, when the parent has asked for that by `--report`; it does so
on a terminal, where it shows their sum in one line. What children print then comes through pipes,
so that the parent can put it above that line.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import IO

import orjson

from pystreams.runtime.loop.reports.statistics import Statistics, together

REPORT_OPTION = "--report"
"""Hidden option of `pystreams run` that makes a child tell its parent how it is doing."""

_INTERVAL_S = 0.25
_STARTING = "STARTING"


def report_to_parent(statistics: Callable[[], Statistics]) -> None:
    """Tell the parent from now on, in a thread of its own. Call once in a child.

    A parent that does not read holds up that thread only.
    """
    channel = socket.socket(fileno=0)

    def tell() -> None:
        pause = threading.Event()
        try:
            while True:
                channel.sendall(orjson.dumps(asdict(statistics())) + b"\n")
                pause.wait(_INTERVAL_S)
        except OSError:
            # The parent is gone; whoever watches for that stops this process.
            channel.detach()

    threading.Thread(target=tell, name="report", daemon=True).start()


class ChildReports:
    """What the children said last and what they print; kept by their parent."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._latest: dict[int, Statistics] = {}
        self._threads: list[threading.Thread] = []

    def follow(self, number: int, channel: socket.socket) -> None:
        """Take the reports of a child from its channel until it ends."""
        self._start(f"reports-{number}", self._read_reports, number, channel)

    def relay(self, number: int, output: IO[bytes], name: str) -> None:
        """Print what a child prints, line by line, to our standard stream of that name."""
        self._start(f"{name}-{number}", _print_lines, output, name)

    def statistics(self) -> Statistics:
        """Return the sum over all children; its state says where they differ."""
        latest = list(self._latest.values())
        states = Counter(statistics.state for statistics in latest)
        states[_STARTING] += self._count - len(latest)
        return together(_in_words(+states), latest)

    def close(self, timeout_s: float) -> None:
        """Wait until what ended children had printed is shown."""
        for thread in self._threads:
            thread.join(timeout_s)

    def _start(self, name: str, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _read_reports(self, number: int, channel: socket.socket) -> None:
        with channel.makefile("rb") as lines:
            try:
                for line in lines:
                    self._latest[number] = Statistics(**orjson.loads(line))
            except (OSError, orjson.JSONDecodeError):
                # It was killed in the middle of a line; how it ended is its parent's to say.
                return


def _in_words(states: Counter[str]) -> str:
    """Return the state all share, or how many are in which."""
    if len(states) == 1:
        return next(iter(states))
    return ", ".join(f"{number} {state}" for state, number in states.most_common())


def _print_lines(output: IO[bytes], name: str) -> None:
    for line in output:
        # Looked up for each line: a live display replaces the stream for a while.
        stream = getattr(sys, name)
        stream.write(line.decode(errors="replace"))
        stream.flush()
