"""A thread that its own identity fenced joins again, and ends when that goes on and on."""

from __future__ import annotations

import pytest

from pystreams import FatalStreamsError
from pystreams.errors import IdentityTakenError, TaskMigratedError
from pystreams.runtime.loop.membership.fenced_identity import IdentityGuard
from pystreams.testing.simulation.clock import ManualClock

TAKEN = IdentityTakenError("stop one of them")


def taken_nine_times(clock: ManualClock, *, every_ms: int) -> IdentityGuard:
    """Return a guard that has let its thread join again each time."""
    guard = IdentityGuard(clock)
    guard.check(TAKEN)
    for _ in range(8):
        clock.advance_ms(every_ms)
        guard.check(TAKEN)
    return guard


def test_late_requests_of_a_killed_process_or_its_own_cost_more_joins() -> None:
    taken_nine_times(ManualClock(), every_ms=0)


@pytest.mark.parametrize("every_ms", [0, 15_000, 59_999])
def test_a_tenth_time_soon_after_the_others_is_another_process_and_ends_this_one(
    every_ms: int,
) -> None:
    clock = ManualClock()
    guard = taken_nine_times(clock, every_ms=every_ms)
    clock.advance_ms(every_ms)
    with pytest.raises(FatalStreamsError, match="stop one of them"):
        guard.check(TAKEN)


def test_a_tenth_time_a_minute_after_the_others_is_no_other_process() -> None:
    clock = ManualClock()
    guard = taken_nine_times(clock, every_ms=7000)
    clock.advance_ms(60_000)
    guard.check(TAKEN)


def test_other_fencing_is_no_matter_of_identity() -> None:
    guard = IdentityGuard(ManualClock())
    for _ in range(10):
        guard.check(TaskMigratedError("a newer producer"))
