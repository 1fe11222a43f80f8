"""How event time is cut into windows for an aggregation, and when results are sent on.

    TimeWindows        |--- 0 ---|--- 1 ---|--- 2 ---|       tumbling: side by side
                       |--- 0 ---|                           hopping: `advance_by` less than
                            |--- 1 ---|                      the size, so that they overlap
    SlidingWindows     a window ends with each record, another one begins just after it
    SessionWindows     |-- a b c --|   gap   |-- d --|       as long as records keep coming
    UnlimitedWindows   |------------------------------ ...

A window is closed when stream time has passed its end by the grace period; a record that would
change a closed window is late, and dropped.

Source: Kafka Streams' `Windows`, `TimeWindows`, `SlidingWindows`, `SessionWindows`,
`UnlimitedWindows`, `EmitStrategy`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from pystreams.errors import TopologyError
from pystreams.record import MAX_TIME
from pystreams.stores.contracts.window import Window
from pystreams.topology.contracts.numbers import check_number


class EmitStrategy(Enum):
    """When a windowed aggregation sends its results on."""

    ON_WINDOW_UPDATE = "on window update"
    ON_WINDOW_CLOSE = "on window close"

    @classmethod
    def on_window_update(cls) -> EmitStrategy:
        """Send each change of a window's result on; the default."""
        return cls.ON_WINDOW_UPDATE

    @classmethod
    def on_window_close(cls) -> EmitStrategy:
        """Send a window's result on once, when the window is closed.

        That takes stream time to pass its end and the grace period.
        """
        return cls.ON_WINDOW_CLOSE


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows of one size, aligned to the epoch: tumbling, or hopping after `advance_by`.

    Attributes:
        size_ms: How long a window is; its end is the first millisecond after it.
        grace_period_ms: How long after its end, in stream time, a window still takes records.
        advance_ms: How far apart windows begin: the size, unless they hop.

    Raises:
        TopologyError: A time is not valid.
    """

    size_ms: int
    grace_period_ms: int = 0
    advance_ms: int = field(default=-1)

    def __post_init__(self) -> None:
        """Refuse windows that no record can be in."""
        check_number("TimeWindows", "size_ms", self.size_ms, 1)
        check_number("TimeWindows", "grace_period_ms", self.grace_period_ms, 0)
        if self.advance_ms == -1:
            object.__setattr__(self, "advance_ms", self.size_ms)
        check_number("TimeWindows", "advance_ms", self.advance_ms, 1)
        if self.advance_ms > self.size_ms:
            raise TopologyError(
                f"TimeWindows: advance_ms {self.advance_ms} is more than size_ms {self.size_ms}: "
                "records between two windows would be in none; make it at most the size"
            )

    @classmethod
    def of_size_with_no_grace(cls, size_ms: int) -> TimeWindows:
        """Return tumbling windows that wait for no late records."""
        return cls(size_ms)

    @classmethod
    def of_size_and_grace(cls, size_ms: int, grace_period_ms: int) -> TimeWindows:
        """Return tumbling windows that take late records for a while."""
        return cls(size_ms, grace_period_ms)

    def advance_by(self, advance_ms: int) -> TimeWindows:
        """Return hopping windows: one begins each `advance_ms`, which is at most the size."""
        check_number("TimeWindows", "advance_ms", advance_ms, 1)
        return replace(self, advance_ms=advance_ms)

    def windows_for(self, timestamp: int) -> list[Window]:
        """Return the windows that a time (ms) is in, earliest first."""
        size_ms, advance_ms = self.size_ms, self.advance_ms
        first = max(0, timestamp - size_ms + advance_ms) // advance_ms * advance_ms
        return [Window(start, start + size_ms) for start in range(first, timestamp + 1, advance_ms)]


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window that begins at a time and never ends.

    Attributes:
        start_ms: When it begins; records before that are in no window.

    Raises:
        TopologyError: The time is below 0.
    """

    start_ms: int = 0

    def __post_init__(self) -> None:
        """Refuse a beginning before all time."""
        check_number("UnlimitedWindows", "start_ms", self.start_ms, 0)

    @classmethod
    def of(cls) -> UnlimitedWindows:
        """Return the window of all time."""
        return cls()

    def start_on(self, start_ms: int) -> UnlimitedWindows:
        """Return the window that begins at a time (ms)."""
        return replace(self, start_ms=start_ms)

    @property
    def size_ms(self) -> int:
        """As long as time goes on."""
        return MAX_TIME

    @property
    def grace_period_ms(self) -> int:
        """None is needed: it never closes."""
        return 0

    def windows_for(self, timestamp: int) -> list[Window]:
        """Return the window, if a time (ms) is in it."""
        return [Window(self.start_ms, MAX_TIME)] if timestamp >= self.start_ms else []


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows that follow the records: all records of a key that are close enough share one.

    Attributes:
        time_difference_ms: How far apart the first and the last record of a window may be; both
            its start and its end are inclusive.
        grace_period_ms: How long after its end, in stream time, a window still takes records.

    Raises:
        TopologyError: A time is below 0.
    """

    time_difference_ms: int
    grace_period_ms: int = 0

    def __post_init__(self) -> None:
        """Refuse times below 0."""
        check_number("SlidingWindows", "time_difference_ms", self.time_difference_ms, 0)
        check_number("SlidingWindows", "grace_period_ms", self.grace_period_ms, 0)

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference_ms: int) -> SlidingWindows:
        """Return windows that wait for no late records."""
        return cls(time_difference_ms)

    @classmethod
    def of_time_difference_and_grace(
        cls, time_difference_ms: int, grace_period_ms: int
    ) -> SlidingWindows:
        """Return windows that take late records for a while."""
        return cls(time_difference_ms, grace_period_ms)

    @property
    def size_ms(self) -> int:
        """How long a window is."""
        return self.time_difference_ms


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Sessions: windows that last as long as a key's records keep coming.

    Attributes:
        inactivity_gap_ms: The longest pause within a session; records that are further apart
            belong to two. Start and end of a session are its first and last record, inclusive.
        grace_period_ms: How long after the gap behind its end, in stream time, a session still
            takes records.

    Raises:
        TopologyError: The gap is not above 0, or the grace period below 0.
    """

    inactivity_gap_ms: int
    grace_period_ms: int = 0

    def __post_init__(self) -> None:
        """Refuse a gap that parts everything."""
        check_number("SessionWindows", "inactivity_gap_ms", self.inactivity_gap_ms, 1)
        check_number("SessionWindows", "grace_period_ms", self.grace_period_ms, 0)

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, inactivity_gap_ms: int) -> SessionWindows:
        """Return sessions that wait for no late records."""
        return cls(inactivity_gap_ms)

    @classmethod
    def of_inactivity_gap_and_grace(
        cls, inactivity_gap_ms: int, grace_period_ms: int
    ) -> SessionWindows:
        """Return sessions that take late records for a while."""
        return cls(inactivity_gap_ms, grace_period_ms)


Windows = TimeWindows | UnlimitedWindows
"""Windows whose number and place a record's time alone decides."""
