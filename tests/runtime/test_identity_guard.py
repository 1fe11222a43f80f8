"""A thread that its own identity fenced joins again once, and ends when that happens again soon."""

from __future__ import annotations

import pytest

from pystreams.errors import FatalStreamsError, IdentityTakenError, TaskMigratedError
from pystreams.runtime.identity_guard import IdentityGuard
from pystreams.testing.simulation.clock import ManualClock

TAKEN = IdentityTakenError("stop one of them")


def test_the_last_request_of_a_killed_process_costs_one_more_join() -> None:
    IdentityGuard(ManualClock()).check(TAKEN)


def test_a_second_time_soon_after_is_another_process_and_ends_this_one() -> None:
    clock = ManualClock()
    guard = IdentityGuard(clock)
    guard.check(TAKEN)
    clock.advance_ms(59_999)
    with pytest.raises(FatalStreamsError, match="stop one of them"):
        guard.check(TAKEN)


def test_a_second_time_long_after_is_no_other_process() -> None:
    clock = ManualClock()
    guard = IdentityGuard(clock)
    guard.check(TAKEN)
    clock.advance_ms(60_000)
    guard.check(TAKEN)


def test_other_fencing_is_no_matter_of_identity() -> None:
    guard = IdentityGuard(ManualClock())
    for _ in range(3):
        guard.check(TaskMigratedError("a newer producer"))
