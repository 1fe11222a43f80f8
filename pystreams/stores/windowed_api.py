"""A key and the stretch of time an aggregate of it covers: what windows and sessions are keyed by.

Spec: Kafka Window, Windowed.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")


class Window(NamedTuple):
    """A stretch of event time (ms).

    `end` is the first millisecond after a time window, and the last record of a session.
    """

    start: int
    end: int


class Windowed(NamedTuple, Generic[K]):
    """A record's key together with one of its windows.

    Written as `[key@start/end]`, as Kafka Streams does.
    """

    key: K
    window: Window

    def __str__(self) -> str:
        """Return `[key@start/end]`."""
        return f"[{self.key}@{self.window.start}/{self.window.end}]"
