"""Keeps the uncommitted bytes of a thread within their limit, whatever the user's code writes.

Records are processed in runs. A run is given room: when its task's stores have written more than
that, they end it with the record at hand (`record.GrowthWatch`). So nothing has to be predicted
of a whole run, only of one record; and a record costs nothing, because stores compare their bytes
with their high-water mark anyway.

A run gets at most a thirty-second of the limit. What it wrote is then an upper bound, and a close
one, of what any record of it wrote: the worst run seen is remembered. As long as less than that is
left of the limit, the loop commits before it processes another record. A record may also be large
by what was read of it, larger than any before; such a record makes a run of its own, and what it
writes is predicted from its bytes.

What is guaranteed, for growth measured over a run:

- a thread's uncommitted bytes exceed the limit only by what one record writes: one that meets an
  empty buffer, or one that writes more than the worst run before it and more than its own bytes
  tell. The worst run is never forgotten up to a third of the limit. What it is beyond that fades,
  by a hundredth a run: else one enormous record would cost a commit a record for ever. Until a task
  has written as much as the limit, it is supposed to have written a quarter of that in a run;
- with records that write up to a quarter of the limit, a commit comes only after at least
  `1 - 1/32 - 1/4` of the limit was written: fewer than 1.5 x bytes / limit commits.

Punctuations on the wall clock write outside of runs: what those of a task wrote at worst at one
time (a quarter of the limit, before the first time) is left for the next time, and a commit follows
when they exceed the limit all the same. So does one after the start of processors. Those on stream
time belong to the run before them, or where they have waited for held records are one themselves.

Where operators hold records back, a run writes after it has ended, or later still. So such a run
has only as many records as are expected to write an eighth of the limit, by the worst that runs
before it wrote a record (`HeldGrowth`), and what is held counts before it is written.

What is not covered: what held records write, and what a flushed record cache writes downstream, is
predicted (`HeldGrowth`, `FlushGrowth`), not watched. It may exceed the limit by what a record or a
flush writes beyond what the worst of the last ones wrote, per record or per byte cached. So that no
flush has much to write, caches are flushed early when needed. A punctuation that waits when a
commit comes fires within that, and has the room that was left to the worst run.

Spec: KIP-892 "In-memory Transaction Buffers": pre-emptively commit if the next iteration is
likely to cross the threshold. Differs from Kafka: there the average growth of past iterations is
what the next is expected to need, which lets growth that varies cross the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

UNLIMITED = -1
FIRST_GUESS = 2.0
"""Bytes a large record writes per byte read, before one was seen; more with more stores."""
_ROOM = 1 / 32
"""The part of the limit a run may write."""
_SUPPOSED = 1 / 4
"""The part of the limit that a record, or punctuations, may write of which little was seen yet."""
FIRST_FLUSH = 8.0
"""Bytes that flushing writes per byte cached, before that was seen."""
_FLUSHED = 1 / 8
"""The part of the limit that one flush is to write: what comes of a small one misleads less."""
_REMEMBERED = 1 / 3
_FADE = 0.01
_LARGE_FADE = 0.02
_FLUSH_FADE = 0.02


@dataclass(frozen=True, slots=True)
class Admission:
    """A run that may be processed.

    Attributes:
        records: How many records; 0 when a commit must come first.
        room_bytes: The run ends with the record that makes stores write more than that; None for
            no such end.
        large_bytes: The bytes of the record, when it is a single large one; else 0.
    """

    records: int
    room_bytes: int | None = None
    large_bytes: int = 0


class NextRecords(Protocol):
    """Records that are to be processed, by the bytes that were read of them."""

    def run_length_of_small(self, limit: int, size_bytes: float) -> int:
        """Return how many come, of at most so many, before one that is larger than a size."""

    def input_bytes(self, count: int) -> int:
        """Return the bytes of the first `count`."""


class GrowthEstimate:
    """How much one record of a task may write; see the module for what that guarantees.

    Args:
        stores: How many stores the task has; a large record is guessed to go into each.

    Attributes:
        held: What records write that were held back, each.
        per_input: What records of the input write, each, where operators hold records back.
        worst_run_bytes: The most a run of records that were not large has written.
        bytes_per_large_byte: What large records write per byte read: the worst, fading, and
            never below 1.
        worst_punctuations_bytes: The most that wall-clock punctuations have written at one time,
            fading; None before there were any.
    """

    __slots__ = (
        "_large_seen",
        "_seen_bytes",
        "bytes_per_large_byte",
        "held",
        "per_input",
        "worst_punctuations_bytes",
        "worst_run_bytes",
    )

    def __init__(self, stores: int = 1) -> None:
        self.worst_run_bytes = 0.0
        self.worst_punctuations_bytes: float | None = None
        self._seen_bytes = 0
        self.bytes_per_large_byte = max(FIRST_GUESS, float(stores))
        self._large_seen = False
        self.held, self.per_input = HeldGrowth(), HeldGrowth()

    def admit(
        self, run: NextRecords, count: int, *, uncommitted_bytes: int, limit_bytes: int
    ) -> Admission:
        """Return how many of a run's records may be processed, and how far.

        Args:
            run: The records; there are some.
            count: At most so many.
            uncommitted_bytes: What all stores of the thread hold uncommitted now.
            limit_bytes: What they may hold; -1 for no limit.

        Returns:
            No records when a commit must come first. At least one when nothing is uncommitted: a
            record that does not fit an empty buffer has to be processed all the same.
        """
        if limit_bytes == UNLIMITED:
            return Admission(count)
        room = limit_bytes * _ROOM
        small = run.run_length_of_small(count, room / self.bytes_per_large_byte)
        large_bytes = 0 if small else run.input_bytes(1)
        supposed = limit_bytes * _SUPPOSED if self._seen_bytes < limit_bytes else room
        one_record = max(self.worst_run_bytes, supposed, self.bytes_per_large_byte * large_bytes)
        left = limit_bytes - uncommitted_bytes - one_record
        if left < 0 and uncommitted_bytes:
            return Admission(0)
        if left < 0 or large_bytes:
            return Admission(1, 0, large_bytes)
        return Admission(small, int(min(left, room)))

    def observe(self, admission: Admission, growth_bytes: int, limit_bytes: int) -> None:
        """Learn from one run.

        Args:
            growth_bytes: By how much the uncommitted bytes grew; a shrinking counts as 0.
            limit_bytes: As for `admit`.
        """
        if limit_bytes == UNLIMITED:
            return
        growth = max(growth_bytes, 0)
        self._seen_bytes += growth
        if admission.large_bytes:
            seen = max(growth / admission.large_bytes, 1.0)
            worst = self.bytes_per_large_byte
            faded = worst + (seen - worst) * _LARGE_FADE if self._large_seen else seen
            self.bytes_per_large_byte = max(seen, faded)
            self._large_seen = True
            return
        worst_run = self.worst_run_bytes
        beyond = worst_run - limit_bytes * _REMEMBERED
        if beyond > 0:
            worst_run -= beyond * _FADE
        self.worst_run_bytes = max(growth, worst_run)

    def admits_punctuations(self, uncommitted_bytes: int, limit_bytes: int) -> bool:
        """Return whether punctuations may fire; if not, a commit must come first.

        Args:
            uncommitted_bytes: As for `admit`.
            limit_bytes: As for `admit`.
        """
        if limit_bytes == UNLIMITED or not uncommitted_bytes:
            return True
        worst = self.worst_punctuations_bytes
        supposed = limit_bytes * _SUPPOSED if worst is None else worst
        return uncommitted_bytes + supposed <= limit_bytes

    def observe_punctuations(self, growth_bytes: int) -> None:
        """Learn from the punctuations that were due at one time."""
        faded = (self.worst_punctuations_bytes or 0.0) * (1 - _FADE)
        self.worst_punctuations_bytes = max(growth_bytes, faded)


class HeldGrowth:
    """What a record writes later, where operators hold records back: the worst seen, fading.

    A commit waits for those that are held, when it is too late to commit first. So they count
    before they write.
    """

    __slots__ = ("_bytes_per_record",)

    def __init__(self) -> None:
        self._bytes_per_record: float | None = None

    @property
    def seen(self) -> bool:
        """Whether anything was learned yet."""
        return self._bytes_per_record is not None

    def observe(self, records: int, growth_bytes: int) -> None:
        """Learn from some records (one at least)."""
        faded = (self._bytes_per_record or 0.0) * (1 - _FLUSH_FADE)
        self._bytes_per_record = max(growth_bytes / records, faded)

    def expected(self, records: int, limit_bytes: int) -> int:
        """Return what so many records are expected to write, below a limit that there is."""
        return int(self._each(limit_bytes) * records)

    def fitting(self, limit_bytes: int) -> int:
        """Return how many records may be processed at one time, below a limit that there is."""
        return max(1, int(limit_bytes * _FLUSHED / max(self._each(limit_bytes), 1.0)))

    def _each(self, limit_bytes: int) -> float:
        each = self._bytes_per_record
        return limit_bytes * _ROOM if each is None else each


class FlushGrowth:
    """Bytes that flushing record caches writes to stores further down, per byte cached.

    What caches hold back will be forwarded at the latest by the commit itself, when it is too
    late to commit first. So it counts against the limit before it is written.

    Attributes:
        bytes_per_cached_byte: The worst that was seen, fading.
    """

    __slots__ = ("_seen", "bytes_per_cached_byte")

    def __init__(self) -> None:
        self.bytes_per_cached_byte = FIRST_FLUSH
        self._seen = False

    def is_due(self, cached_bytes: int, limit_bytes: int) -> bool:
        """Return whether caches must be flushed now, lest they write too much at one time."""
        return limit_bytes != UNLIMITED and self.expected(cached_bytes) > limit_bytes * _FLUSHED

    def observe(self, cached_bytes: int, growth_bytes: int) -> None:
        """Learn from one flush of `cached_bytes` (above 0)."""
        seen = max(growth_bytes, 0) / cached_bytes
        faded = self.bytes_per_cached_byte * (1 - _FLUSH_FADE) if self._seen else 0.0
        self.bytes_per_cached_byte = max(seen, faded)
        self._seen = True

    def part_of(self, room_bytes: int) -> int:
        """Return the part of some room that must be left to what flushing will write."""
        ratio = self.bytes_per_cached_byte
        return int(room_bytes * ratio / (1 + ratio))

    def expected(self, cached_bytes: int) -> int:
        """Return what flushing so many bytes is expected to write."""
        return int(self.bytes_per_cached_byte * cached_bytes)
