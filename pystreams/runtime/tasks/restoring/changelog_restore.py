"""How far one store is in what it is restored from, and where that ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import NamedTuple

from pystreams.ids import TopicPartition
from pystreams.record import ConsumedMessage, offset_of
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.state.state_manager import ProcessorStateManager


class ChangelogLook(NamedTuple):
    """What changelogs hold, and the ids of their topics; None or none of one that is not there."""

    ranges: Mapping[TopicPartition, OffsetRange]
    topic_ids: Mapping[str, str | None]


@dataclass(slots=True)
class ChangelogRestore:
    """One changelog on its way into its store.

    Args:
        held: What the changelog holds when the restore begins.

    Attributes:
        next_offset: The next offset to read.
        anew: Whether the store was empty when the restore began, and the end is not reached yet.
        limit: The committed offset of a source topic, beyond which nothing is applied; else None.
        beginning: The first offset of the changelog when the restore began.
        end_offset: End of the changelog when the restore began, open transactions included:
            whether they commit is waited for. Of a source topic: the committed offset.
        stable_end: The end of what was decided then.
        restored: Records applied so far.
    """

    state: ProcessorStateManager
    held: InitVar[OffsetRange]
    next_offset: int
    anew: bool
    limit: int | None = None
    beginning: int = field(init=False)
    end_offset: int = field(init=False)
    stable_end: int = field(init=False)
    restored: int = field(init=False, default=0)

    def __post_init__(self, held: OffsetRange) -> None:
        self.now_ends_at(held)

    def now_ends_at(self, held: OffsetRange) -> None:
        """Take note of what the changelog holds now."""
        self.beginning, self.end_offset = held.beginning, held.high_watermark
        if self.limit is not None:
            self.end_offset = min(self.end_offset, self.limit)
        self.stable_end = held.end

    @property
    def is_undecided(self) -> bool:
        """Whether the changelog held more than was decided when the restore began."""
        return self.stable_end < self.end_offset

    @property
    def known_range(self) -> OffsetRange:
        """What the changelog held when the restore began, and what was read since."""
        end = max(self.end_offset, self.next_offset)
        return OffsetRange(self.beginning, end, end)

    def begins_anew_with(self, next_offset: int) -> None:
        """Take note that the store was wiped; it is whole again when it is back where it was."""
        self.end_offset = max(self.end_offset, self.next_offset)
        self.next_offset, self.anew = next_offset, True

    def before_limit(self, messages: list[ConsumedMessage]) -> list[ConsumedMessage]:
        """Return the messages that are to be applied."""
        if self.limit is None:
            return messages
        limit = self.limit
        return [message for message in messages if offset_of(message) < limit]

    @property
    def remaining_records(self) -> int:
        """Offsets still to go, at most."""
        return max(self.end_offset - self.next_offset, 0)
