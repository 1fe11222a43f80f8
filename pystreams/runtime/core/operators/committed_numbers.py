"""Numbers that operators commit with the offsets of their task: times, all of them.

How far final results were sent on, for one: committed in one step with the results, so that each
of them is sent once.

Spec: Kafka ProcessorMetadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pystreams.runtime.cluster.committed_offsets import CommittedOffset, numbers_of
from pystreams.topology.contracts.operator import STREAM_TIME_PREFIX


class CommittedNumbers:
    """The numbers of one task; made anew when it starts again."""

    __slots__ = ("_committed", "_present")

    def __init__(self) -> None:
        self._committed: dict[str, int] = {}
        self._present: dict[str, Callable[[], int]] = {}

    def start(self, committed: Iterable[CommittedOffset]) -> None:
        """Take over what was committed with each partition's offset; the highest counts."""
        for offset in committed:
            for name, number in numbers_of(offset.metadata).items():
                self._committed[name] = max(number, self._committed.get(name, number))

    def committed(self, name: str, default: int) -> int:
        """Return what was committed under a name."""
        return self._committed.get(name, default)

    def commit(self, name: str, present: Callable[[], int]) -> None:
        """Commit under a name what `present` returns then; nothing if that is below 0."""
        self._present[name] = present

    def present(self) -> dict[str, int]:
        """Return what is to be committed now; how far results were sent first."""
        names = sorted(self._present, key=lambda name: name.startswith(STREAM_TIME_PREFIX))
        now = {name: self._present[name]() for name in names}
        return {name: number for name, number in now.items() if number >= 0}
