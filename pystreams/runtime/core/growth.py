"""Predicts how much an iteration will add to the uncommitted bytes of a thread.

The growth of a task's stores is learned as bytes written per byte read (each record counts a
fixed overhead besides its bytes), twice: what is likely next, and the worst to be ready for.
Stores that only see known keys do not grow, until new keys come: after a quiet time the likely
growth says nothing about the next thousand records. So the worst decides how many records may be
processed in one go, and the likely whether one more record is worth trying. Near the limit, where
goes would become short, the loop commits instead. A sixteenth of the limit stays free for growth
that the past did not show.

Spec: KIP-892 "In-memory Transaction Buffers": pre-emptively commit if the next iteration is
likely to cross the threshold.
"""

from __future__ import annotations

from pystreams.runtime.core.record_queue import RecordQueue

UNLIMITED = -1
FIRST_GUESS = 2.0
"""Bytes written per byte read that is assumed before the first iteration."""
_KEPT_FREE = 1 / 16
_NEAR = 1 / 16
"""With less than this of the limit left, a commit is better than short goes."""
_FIRST_GO = 1 / 8
"""The part of the limit that is given to the first go, from which the guess is corrected."""
_FADE = 0.02
_WORST_FADE = 0.001
_FLUSH_FADE = 0.5


class GrowthEstimate:
    """Bytes one task writes to its stores per byte it reads: high-water marks that fade.

    Args:
        stores: How many stores the task has; each is guessed to take every record once.

    Attributes:
        bytes_per_input_byte: What is likely next.
        worst_bytes_per_input_byte: The worst to be ready for; fades twenty times as slowly, and
            never below the first guess.
    """

    __slots__ = ("_first_guess", "_observed", "bytes_per_input_byte", "worst_bytes_per_input_byte")

    def __init__(self, stores: int = 1) -> None:
        self._first_guess = max(FIRST_GUESS, float(stores))
        self._observed = False
        self.bytes_per_input_byte = self._first_guess
        self.worst_bytes_per_input_byte = self._first_guess

    def observe(self, input_bytes: int, growth_bytes: int) -> None:
        """Learn from one iteration.

        Args:
            input_bytes: Bytes read in it, overhead included; more than 0.
            growth_bytes: By how much the uncommitted bytes grew; a shrinking counts as 0.
        """
        seen = max(growth_bytes, 0) / input_bytes
        faded = self.bytes_per_input_byte + (seen - self.bytes_per_input_byte) * _FADE
        self.bytes_per_input_byte = max(seen, faded)
        worst = self.worst_bytes_per_input_byte
        self.worst_bytes_per_input_byte = max(seen, worst * (1 - _WORST_FADE), self._first_guess)
        self._observed = True

    def admit(
        self, queue: RecordQueue, count: int, *, uncommitted_bytes: int, limit_bytes: int
    ) -> int:
        """Return how many of the queue's next records may be processed before a commit.

        Args:
            queue: Where the records wait.
            count: At most so many.
            uncommitted_bytes: What all stores of the thread hold uncommitted now.
            limit_bytes: What they may hold; -1 for no limit.

        Returns:
            0 when a commit must come first. At least 1 when nothing is uncommitted: a record
            that does not fit an empty buffer has to be processed all the same.
        """
        if limit_bytes == UNLIMITED:
            return count
        budget = limit_bytes * (1 - _KEPT_FREE) - uncommitted_bytes
        if not self._observed:
            budget *= _FIRST_GO
        worst = self.worst_bytes_per_input_byte
        if worst * queue.input_bytes(count) <= budget:
            return count
        if uncommitted_bytes and budget < limit_bytes * _NEAR:
            return 0
        fitting = queue.run_length_in_bytes(count, budget / worst)
        likely = self.bytes_per_input_byte * queue.input_bytes(1)
        return fitting or (1 if uncommitted_bytes == 0 or likely <= budget else 0)


class FlushGrowth:
    """Bytes that flushing record caches writes to stores further down, per byte cached.

    What caches hold back will be forwarded at the latest by the commit itself, when it is too
    late to commit first. So it counts against the limit before it is written.
    """

    __slots__ = ("bytes_per_cached_byte",)

    def __init__(self) -> None:
        self.bytes_per_cached_byte = 1.0

    def observe(self, cached_bytes: int, growth_bytes: int) -> None:
        """Learn from one flush of `cached_bytes` (above 0)."""
        seen = max(growth_bytes, 0) / cached_bytes
        self.bytes_per_cached_byte = max(seen, self.bytes_per_cached_byte * (1 - _FLUSH_FADE))

    def expected(self, cached_bytes: int) -> int:
        """Return what flushing so many bytes is expected to write."""
        return int(self.bytes_per_cached_byte * cached_bytes)
