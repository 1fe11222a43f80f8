"""A callback of the user's that is told of progress, kept from doing harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from pystreams.kernel.loggers import get_logger

_log = get_logger("pystreams.backfill")

_T = TypeVar("_T")


class Teller(Generic[_T]):
    """Calls a callback that is told of progress.

    What the callback raises is logged once, and it is not called again: the backfill is worth more
    than its display.
    """

    def __init__(self, progress: Callable[[_T], None]) -> None:
        self._progress = progress
        self._is_silent = False

    def __call__(self, now: _T) -> None:
        """Tell."""
        if self._is_silent:
            return
        try:
            self._progress(now)
        except Exception:  # noqa: BLE001 - whatever a display raises; it is logged
            self._is_silent = True
            _log.exception("progress is not told any more: its callback raised an error")
