"""What the operators of one task hold back: batches, and records that wait for answers.

A punctuation on stream time fires behind the record that makes it due. While something is held that
may come to its processor, it is put off, and the task is full:

    record makes it due --> held on the way? --> put off --> gone on --> a run of its own: it fires
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

from pystreams.runtime.core.node_meters import CallOfNode, directly
from pystreams.topology.contracts.held_records import HoldsRecords
from pystreams.topology.graph.nodes import Node
from pystreams.topology.graph.ways import on_the_way_to


class HeldRecords:
    """All that hold records back in a task, those upstream first.

    Args:
        nodes: The nodes of the topology.

    Attributes:
        commit_put_off: A commit is due that waits for a record to be tried again: nothing more is
            processed before it.
        punctuation_of: The node whose punctuation on stream time is put off, or None.
        goes_on: Whether something of it goes on at this moment.
        call: How their work is called.
        retrying_since_ms: See `HeldByTask`.
    """

    __slots__ = (
        "_holders",
        "_measure",
        "_nodes",
        "_observe",
        "_on_the_way_to",
        "call",
        "commit_put_off",
        "goes_on",
        "punctuation_of",
        "retrying_since_ms",
    )

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.commit_put_off = False
        self.punctuation_of: str | None = None
        self.goes_on = False
        self.retrying_since_ms: int | None = None
        self.call: CallOfNode = directly
        self._holders: list[HoldsRecords] = []
        self._nodes: list[str] = []
        self._on_the_way_to = cache(partial(on_the_way_to, nodes))
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
        held_up = self.commit_put_off or self.punctuation_waits
        return held_up or any(holder.full for holder in self._holders)

    @property
    def punctuation_waits(self) -> bool:
        """Whether the punctuation that is put off can't fire yet."""
        return self.punctuation_of is not None and self.may_reach(self.punctuation_of)

    def may_reach(self, node: str) -> bool:
        """Return whether something is held that may come to a node, or into its stores."""
        nodes = [
            name for name, holder in zip(self._nodes, self._holders, strict=True) if len(holder)
        ]
        return bool(nodes) and not self._on_the_way_to(node).isdisjoint(nodes)

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

    def settle(self) -> bool:
        """Send on everything, waiting for answers; while something waits for a time, for none.

        Returns:
            Whether there was something, and nothing waits for a time.
        """
        if not len(self):
            return False
        self.go_on()
        if self.retry_at_ms is None:
            self._let_go(lambda holder: holder.settle())
        return self.retry_at_ms is None

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
        self.goes_on = True
        for node, holder in zip(self._nodes, self._holders, strict=True):
            self.call(node, send_on, holder)
        self.goes_on = False
        left = len(self)
        # What fails from now on has a time of its own, unless a commit waits already.
        if not left or (self.retry_at_ms is None and not self.commit_put_off):
            self.retrying_since_ms = None
        if gone := max(held - left, 0):
            self._observe(gone, self._measure()[0] - before)
