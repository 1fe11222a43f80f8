"""What a task was processing when it made the records that wait to be produced.

It is noted once a run of records, not once a record, so it says between which offsets the input
lies, and exactly where only where the run had one record.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pystreams.ids import TopicPartition

_SHOWN_RANGES = 5


class InputRange(NamedTuple):
    """Records of one input partition: from the first offset to the last, both included."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int

    def __str__(self) -> str:
        """Return the partition and its offsets, in words."""
        partition = f"{self.topic}-{self.partition}"
        if self.first_offset == self.last_offset:
            return f"{partition} offset {self.first_offset}"
        return f"{partition} offsets {self.first_offset} to {self.last_offset}"


class Source(NamedTuple):
    """The coordinates of an input record, each None where it is not known."""

    topic: str | None
    partition: int | None
    offset: int | None


class _Consumed(Protocol):
    def offset(self) -> int | None: ...


class Origin:
    """The input of which the records were made that wait in a task's buffers.

    Attributes:
        punctuated: Whether some may have been made in a punctuation instead.
    """

    __slots__ = ("_held_back", "_offsets", "punctuated")

    def __init__(self) -> None:
        self._held_back = False
        self._offsets: dict[TopicPartition, tuple[int, int]] = {}
        self.punctuated = False

    def note_run(
        self, partition: TopicPartition, first: _Consumed, last: _Consumed, *, held_back: bool
    ) -> None:
        """Add a run of records.

        Args:
            partition: Where they were read.
            held_back: Whether record caches hold back something of what has come of the input: all
                of it is kept until they are flushed.
        """
        self._note(partition, first.offset() or 0, last.offset() or 0)
        self._held_back |= held_back

    def add(self, other: Origin) -> None:
        """Add all that another holds."""
        for partition, (first, last) in other._offsets.items():
            self._note(partition, first, last)
        self.punctuated |= other.punctuated

    def flushed(self) -> None:
        """Learn that caches hold back nothing."""
        self._held_back = False

    def sent(self) -> None:
        """Learn that the buffers are empty: forget all of which nothing can come any more."""
        if not self._held_back:
            self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._offsets.clear()
        self.punctuated = False

    def ranges(self) -> tuple[InputRange, ...]:
        """Return what was noted, by topic and partition."""
        return tuple(InputRange(*key, *self._offsets[key]) for key in sorted(self._offsets))

    def source(self) -> Source:
        """Return the coordinates of the one record, each None where it may be of several."""
        ranges = self.ranges()
        if len(ranges) != 1 or self.punctuated:
            return Source(None, None, None)
        topic, partition, first_offset, last_offset = ranges[0]
        return Source(topic, partition, first_offset if first_offset == last_offset else None)

    def in_words(self) -> str:
        """Return what was processed when a record was made, or nothing where that is not known."""
        ranges = self.ranges()
        if not ranges:
            return "made in a punctuation" if self.punctuated else ""
        shown = ", ".join(map(str, ranges[:_SHOWN_RANGES]))
        if len(ranges) > _SHOWN_RANGES:
            shown += f" and in {len(ranges) - _SHOWN_RANGES} more partitions"
        exact = len(ranges) == 1 and ranges[0].first_offset == ranges[0].last_offset
        made = f"made while {'' if exact else 'one of '}{shown} was processed"
        return f"{made}, or in a punctuation" if self.punctuated else made

    def _note(self, partition: TopicPartition, first_offset: int, last_offset: int) -> None:
        first, last = self._offsets.get(partition, (first_offset, last_offset))
        self._offsets[partition] = (min(first, first_offset), max(last, last_offset))
