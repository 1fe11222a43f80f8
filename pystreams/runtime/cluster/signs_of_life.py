"""Which processes of a group get on, and which seem to have died: seen from outside, by a newcomer.

A broker does not say when a member was last heard of. What can be seen is what it commits:

    committed offsets move, time and again                      -> alive
    input grows, nothing moves for longer than a commit takes  -> silent
    input does not grow                                        -> no sign, neither way

That offsets move once is no sign: what a process was committing when it died becomes visible later.

That the input grows, and not that records wait, is what counts: behind the last record of a
transaction lies its marker, which nobody commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pystreams.ids import TopicPartition
from pystreams.runtime.cluster.group_description import GroupMember
from pystreams.runtime.cluster.standby_placement import processes


@dataclass(slots=True)
class _Progress:
    """What was seen of a partition since its offset moved last.

    Attributes:
        committed: The offset; -1 without one.
        end: Where the partition ended when it was first seen.
        grown_since_ms: From when on it was seen to end later; None as long as it does not.
    """

    committed: int
    end: int
    grown_since_ms: float | None = None


class SignsOfLife:
    """Signs of the processes of a group, over several looks.

    Args:
        patience_ms: How long an offset may stand still while its partition grows (ms).

    Attributes:
        alive: Processes of the last look that have been seen to commit more than once.
        processes: Those of the last look, by name.
    """

    def __init__(self, patience_ms: float) -> None:
        self.alive: set[str] = set()
        self.processes: set[str] = set()
        self._patience_ms = patience_ms
        self._moved_ms: dict[str, float] = {}
        self._seen: dict[TopicPartition, _Progress] = {}

    @property
    def last_moved_ms(self) -> float:
        """When an offset was last seen to have moved (ms); minus infinity before."""
        return max(self._moved_ms.values(), default=float("-inf"))

    def look(
        self,
        now_ms: float,
        members: Iterable[GroupMember],
        committed: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> list[GroupMember]:
        """Note what is seen now; return the members whose processes are silent.

        Args:
            now_ms: The monotonic clock's time (ms).
        """
        members = list(members)
        names = processes(members)
        self.processes = set(names.values())
        late: set[str] = set()
        moved: set[str] = set()
        for member in members:
            name = names[member.member_id]
            for at in member.partitions & ends.keys():
                if self._has_moved(now_ms, at, committed.get(at, -1), ends[at]):
                    moved.add(name)
                if self._is_over(self._seen[at].grown_since_ms, now_ms):
                    late.add(name)
        self.alive |= moved & self._moved_ms.keys()
        self._moved_ms.update(dict.fromkeys(moved, now_ms))
        silent = {
            name
            for name in late
            if name not in self._moved_ms or self._is_over(self._moved_ms[name], now_ms)
        }
        self.alive = (self.alive & self.processes) - silent
        return [member for member in members if names[member.member_id] in silent]

    def _is_over(self, since_ms: float | None, now_ms: float) -> bool:
        return since_ms is not None and now_ms - since_ms >= self._patience_ms

    def _has_moved(self, now_ms: float, at: TopicPartition, committed: int, end: int) -> bool:
        """Note what is seen of a partition; return whether its offset has moved."""
        seen = self._seen.get(at)
        if seen is None or seen.committed != committed:
            self._seen[at] = _Progress(committed, end)
            return seen is not None
        if end > seen.end and seen.grown_since_ms is None:
            seen.grown_since_ms = now_ms
        return False
