"""`JoinWindows`: how far apart in time two records may be that join. Source: Kafka's `JoinWindows`.

of_time_difference_with_no_grace(10_000)     record of the left stream at time t
joins those of the right one from t - 10 s
to t + 10 s, both ends inclusive
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pystreams.errors import TopologyError
from pystreams.topology.contracts.numbers import check_number


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """The window around each record of the left stream in which records of the right one join it.

    Make one with `of_time_difference_...`; `before` and `after` then change one side of it.

    Attributes:
        before_ms: How much earlier than the left record the right one may be (ms, inclusive).
            Below 0 it must be later by at least so much.
        after_ms: How much later it may be (ms, inclusive). Below 0 it must be earlier.
        grace_period_ms: How long after a window's end, in stream time, records still join; then
            those of a left or outer join that found no match are joined with None.

    Raises:
        TopologyError: The window would end before it begins, the grace period is below 0, or one
            is no whole number.
    """

    before_ms: int
    after_ms: int
    grace_period_ms: int = 0

    def __post_init__(self) -> None:
        """Refuse windows that no record can be in."""
        check_number("JoinWindows", "before_ms", self.before_ms, None)
        check_number("JoinWindows", "after_ms", self.after_ms, None)
        check_number("JoinWindows", "grace_period_ms", self.grace_period_ms, 0)
        if self.before_ms + self.after_ms < 0:
            raise TopologyError(
                f"JoinWindows: before {self.before_ms} ms and after {self.after_ms} ms make a "
                "window that ends before it begins: their sum must be 0 or more"
            )

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference_ms: int) -> JoinWindows:
        """Join records whose times differ by at most so much (ms); waits for no late ones."""
        return cls.of_time_difference_and_grace(time_difference_ms, 0)

    @classmethod
    def of_time_difference_and_grace(
        cls, time_difference_ms: int, grace_period_ms: int
    ) -> JoinWindows:
        """Join records whose times differ by at most so much.

        Args:
            time_difference_ms: The highest difference of their times, 0 or more.
            grace_period_ms: How long after a window's end records still join, in stream time.

        Raises:
            TopologyError: One of them is below 0, or no whole number.
        """
        check_number("JoinWindows", "time_difference_ms", time_difference_ms, 0)
        return cls(time_difference_ms, time_difference_ms, grace_period_ms)

    def before(self, time_difference_ms: int) -> JoinWindows:
        """Return these windows with another `before_ms`."""
        return replace(self, before_ms=time_difference_ms)

    def after(self, time_difference_ms: int) -> JoinWindows:
        """Return these windows with another `after_ms`."""
        return replace(self, after_ms=time_difference_ms)

    @property
    def size_ms(self) -> int:
        """How long a window is (ms)."""
        return self.before_ms + self.after_ms

    @property
    def retention_ms(self) -> int:
        """How long records are kept to be found by later ones, in stream time (ms)."""
        return self.size_ms + self.grace_period_ms
