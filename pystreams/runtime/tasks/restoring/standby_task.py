"""One task that is kept warm for another process, or for when this one joins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pystreams.ids import TopicPartition
from pystreams.runtime.core.task_state import StateOfTask


@dataclass(slots=True)
class StandbyTask:
    """One task that is kept warm.

    Attributes:
        state: Its state, open.
        anew: The changelogs that its stores held nothing of when it was made: what they hold of
            these now comes from there.
        lag_records: How many offsets it is behind, at most; None before that is known.
        ends: Where its changelogs end, as was last told; None of those whose broker did not tell.
        begun_anew: Those of these whose copy it has dropped, and does not follow again yet.
        warm: Whether it has come to the end once.
    """

    state: StateOfTask
    anew: set[TopicPartition] = field(default_factory=set)
    begun_anew: set[TopicPartition] = field(default_factory=set)
    lag_records: int | None = None
    warm: bool = False
    ends: Mapping[TopicPartition, int | None] = field(default_factory=dict)

    def awaited(
        self, next_offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """Return its changelogs that hold more, or may, and the next offset of each; any thread.

        Args:
            next_offsets: Of those that it follows. Before it does all are awaited.
        """
        if next_offsets:
            return {
                changelog: next_offset
                for changelog, next_offset in next_offsets.items()
                if (end := self.ends.get(changelog, 0)) is None or next_offset < end
            }
        manager = self.state.manager
        return {at: None for at in manager.changelogs() if not manager.is_source(at)}
