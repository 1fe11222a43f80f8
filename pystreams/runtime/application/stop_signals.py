"""SIGTERM and Ctrl-C while a program waits for its application."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self

_DEFAULTS: dict[signal.Signals, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


class StopSignals:
    """Takes the stop signals for a block, but for those the program handles itself.

    Main thread only. A handler may run between any two steps of the main thread, so it only notes
    that the signal came.

    Attributes:
        came: Whether one has come.
    """

    def __init__(self) -> None:
        self.came = False
        self._taken: list[signal.Signals] = []

    def __enter__(self) -> Self:
        """Take them."""
        for number, default in _DEFAULTS.items():
            if signal.getsignal(number) == default:
                self._taken.append(number)
                signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Give them back."""
        self.restore()

    def restore(self) -> None:
        """Give them back now."""
        while self._taken:
            number = self._taken.pop()
            signal.signal(number, _DEFAULTS[number])

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.came = True
