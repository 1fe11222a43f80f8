"""Lets connections read before the event loop does.

For each readable connection the event loop makes a handle, runs it in a context, and has a
transport read: that takes longer than to answer a question for a key.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable, Mapping

Reader = Callable[[], bool]
"""Reads what a connection has; returns False to leave that to the event loop. Never raises."""


class ReadingSelector(selectors.DefaultSelector):
    """Tells the event loop of what no reader has read.

    Args:
        readers: By descriptors of connections; may change at any time.
    """

    def __init__(self, readers: Mapping[int, Reader]) -> None:
        super().__init__()
        self._readers = readers

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait until something is ready; return that of it which nobody has read."""
        readers, left = self._readers, []
        for key, events in super().select(timeout):
            reader = readers.get(key.fd) if events == selectors.EVENT_READ else None
            if reader is None or not reader():
                left.append((key, events))
        return left
