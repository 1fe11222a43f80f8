"""What the operators of one task hold back: batches, and records that wait for answers."""

from __future__ import annotations

from collections.abc import Callable

from pystreams.runtime.core.node_meters import CallOfNode, directly
from pystreams.topology.contracts.held_records import HoldsRecords


class HeldRecords:
    """All that hold records back in a task, those upstream first.

    Attributes:
        commit_put_off: A commit is due that waits for a record to be tried again: nothing more is
            processed before it.
        call: How their work is called.
        retrying_since_ms: See `HeldByTask`.
    """

    __slots__ = (
        "_holders",
        "_measure",
        "_nodes",
        "_observe",
        "call",
        "commit_put_off",
        "retrying_since_ms",
    )

    def __init__(self) -> None:
        self.commit_put_off = False
        self.retrying_since_ms: int | None = None
        self.call: CallOfNode = directly
        self._holders: list[HoldsRecords] = []
        self._nodes: list[str] = []
        self._measure: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._observe: Callable[[int, int], None] = lambda _records, _bytes: None

    def watch(
        self, measure: Callable[[], tuple[int, int]], observe: Callable[[int, int], None]
    ) -> None:
        """Tell what records write that go on.

        Args:
            measure: Returns what the task's stores hold uncommitted (bytes) first.
            observe: Called with how many have gone on, and what they wrote (bytes).
        """
        self._measure, self._observe = measure, observe

    def add(self, node: str, holder: HoldsRecords) -> None:
        """Add that of a node; operators are attached from the sinks up."""
        self._holders.insert(0, holder)
        self._nodes.insert(0, node)

    def __len__(self) -> int:
        """Return how many records are held."""
        return sum(map(len, self._holders))

    @property
    def possible(self) -> bool:
        """Whether there is anybody who may hold records back."""
        return bool(self._holders)

    @property
    def full(self) -> bool:
        """Whether the task is to process no more before something has gone on."""
        return self.commit_put_off or any(holder.full for holder in self._holders)

    @property
    def retry_at_ms(self) -> int | None:
        """When a record is next tried again (monotonic ms); None without any."""
        times_ms = [holder.retry_at_ms for holder in self._holders]
        return min((at_ms for at_ms in times_ms if at_ms is not None), default=None)

    @property
    def awaits_answers(self) -> bool:
        """Whether something waits that goes on at any time."""
        return any(len(holder) and holder.retry_at_ms is None for holder in self._holders)

    def go_on(self) -> None:
        """Send on what need not wait any longer; what that brings further down goes on too."""
        if self._holders and len(self):
            self._let_go(lambda holder: holder.go_on())

    def settle(self) -> None:
        """Send on everything, waiting for it; but not for a time."""
        self._let_go(lambda holder: holder.settle())

    def commit_waits(self, since_ms: int) -> None:
        """Let what is to be called again be over in time for a commit.

        Args:
            since_ms: When it began to settle (monotonic ms).
        """
        if self.retrying_since_ms is not None:
            self.retrying_since_ms = min(self.retrying_since_ms, since_ms)

    def discard(self) -> None:
        """Forget everything."""
        for holder in self._holders:
            holder.discard()
        self.retrying_since_ms = None

    def _let_go(self, send_on: Callable[[HoldsRecords], None]) -> None:
        held, before = len(self), self._measure()[0]
        for node, holder in zip(self._nodes, self._holders, strict=True):
            self.call(node, send_on, holder)
        left = len(self)
        # What fails from now on has a time of its own, unless a commit waits already.
        if not left or (self.retry_at_ms is None and not self.commit_put_off):
            self.retrying_since_ms = None
        if gone := max(held - left, 0):
            self._observe(gone, self._measure()[0] - before)
