"""Silence of a task's input: since when, and who is told of it.

    batch --> silent since then --> a timeout later: does nothing wait, here or at the broker?
                    ^                     |
                    |                     v
                    +-- next batch -- operators go on, look after look, while something waits

A batch costs an assignment. Looks end when no operator waits for anything, until the next batch.

Decided in ADR 9.
"""

from __future__ import annotations

from collections.abc import Callable

_LOOK_INTERVAL_MS = 1000
_LOOKS_A_TIMEOUT = 10

GoOn = Callable[[int, int], bool]
"""Called with (since when it is silent, how long beyond the timeout), in ms; returns whether the
operator waits still."""


class IdleInput:
    """The silence of one task; made anew when it starts again.

    Attributes:
        due_ms: When to look next, on the wall clock (ms); None while nobody waits.
    """

    __slots__ = ("_operators", "_since_ms", "due_ms")

    def __init__(self) -> None:
        self._operators: list[tuple[int, GoOn]] = []
        self._since_ms = 0
        self.due_ms: int | None = None

    def watch(self, timeout_ms: int, go_on: GoOn) -> None:
        """Tell an operator of silence; see `TaskContext.on_idle_input`."""
        self._operators.append((timeout_ms, go_on))

    def heard(self, now_ms: int) -> None:
        """Begin silence anew: records have come, or the task begins to run."""
        self._since_ms = now_ms
        if self.due_ms is None and self._operators:
            self.due_ms = now_ms + self._shortest_ms()

    def due(self, now_ms: int) -> bool:
        """Return whether it is time to look."""
        return self.due_ms is not None and self.due_ms <= now_ms

    def look(self, now_ms: int, is_silent: Callable[[], bool]) -> bool:
        """Tell the operators how long it has been silent, if it is; decide when to look next.

        Args:
            now_ms: Wall-clock time (ms).
            is_silent: Whether nothing waits to be processed, here or at the broker; may be slow.

        Returns:
            Whether an operator was told.
        """
        since_ms, shortest_ms = self._since_ms, self._shortest_ms()
        if now_ms <= since_ms + shortest_ms:
            self.due_ms = since_ms + shortest_ms + 1
            return False
        self.due_ms = now_ms + max(
            min(shortest_ms, _LOOK_INTERVAL_MS), shortest_ms // _LOOKS_A_TIMEOUT
        )
        if not is_silent():
            return False
        # All are told; who was attached last, first: what it sends on, others then wait with.
        waiting = [
            timeout_ms >= now_ms - since_ms or go_on(since_ms, now_ms - since_ms - timeout_ms)
            for timeout_ms, go_on in reversed(self._operators)
        ]
        if not any(waiting):
            self.due_ms = None
        return True

    def _shortest_ms(self) -> int:
        return min(timeout_ms for timeout_ms, _ in self._operators)
