"""What a record has set off and is done in portions, with room for a commit between two of them.

    record --> step: a portion --> is more left? --> run ends, `add`
                                                        |
                 next run of the task is this: `go_on`: a portion, as often as something is left

One record may close millions of windows. What all of that writes would have to stay in memory up to
a commit, and there is none within a record. So operators do at most a portion at once, and the task
processes nothing else until all is done: what comes out, and its order, are the same.

A commit between two portions covers the record. So whoever leaves something here must know it by
its store alone when the task starts again, and add it then.

A punctuation on stream time that was put off, and need not wait any longer, makes such a run, too:
it fires behind it, as others do behind the run of their record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pystreams.ids import TopicPartition
from pystreams.record import ConsumedMessage
from pystreams.runtime.core.node_meters import CallOfNode, directly
from pystreams.runtime.core.operators.held_records import HeldRecords
from pystreams.runtime.core.queues.record_queue import Item, RecordQueue
from pystreams.topology.contracts.operator import Step


class UnfinishedWork:
    """What is left, as a `Run`; made anew when the task starts again.

    Args:
        held: What operators hold back, and a punctuation may wait for.

    Attributes:
        call: How it is called.
    """

    __slots__ = ("_held", "_left", "call")

    def __init__(self, held: HeldRecords) -> None:
        self._held = held
        self.call: CallOfNode = directly
        self._left: list[tuple[str, Callable[[], None]]] = []

    def __bool__(self) -> bool:
        """Return whether something is left."""
        put_off = self._held.punctuation_of is not None
        return self.has_portions or (put_off and not self._held.punctuation_waits)

    @property
    def has_portions(self) -> bool:
        """Whether something of a record is left."""
        return bool(self._left)

    def __len__(self) -> int:
        """Return 1: each portion makes a run."""
        return 1

    def add(self, node: str, go_on: Callable[[], None]) -> None:
        """Go on with this later; see `TaskContext.go_on_later`."""
        self._left.append((node, go_on))

    def go_on(self) -> None:
        """Do the next portion, if any; what that has set off itself comes before all others."""
        if not self._left:
            return
        after = self._left
        (node, first), self._left = after.pop(0), []
        self.call(node, first)
        self._left += after

    def length_to_time(self, time: int) -> int:
        """See `Run`."""
        return 1

    def length_within(self, run_records: Callable[[TopicPartition], int]) -> int:
        """See `Run`."""
        return 1

    def run_length_of_small(self, limit: int, size_bytes: float) -> int:
        """See `Run`."""
        return 1

    def input_bytes(self, count: int) -> int:
        """See `Run`."""
        return 0

    def take(self, count: int) -> tuple[list[Item], Iterable[Step]]:
        """See `Run`; there are no records."""
        return [], ()

    def put_back(self, count: int) -> None:
        """See `Run`."""

    def taken(self) -> Mapping[RecordQueue, int]:
        """See `Run`."""
        return {}

    def ends(self) -> Iterable[tuple[RecordQueue, ConsumedMessage, ConsumedMessage]]:
        """See `Run`."""
        return ()
