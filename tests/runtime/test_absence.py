"""A thread that waits for its share of the partitions for too long asks anew."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import StreamsConfig
from pystreams.errors import TaskMigratedError
from pystreams.runtime.loop.membership.waiting_for_partitions import Absence
from pystreams.runtime.settings import ThreadSettings
from pystreams.testing.simulation.clock import ManualClock


def absence_by(clock: ManualClock, config: dict[str, Any] | None = None) -> Absence:
    required = {"application.id": "app", "bootstrap.servers": "simulated:9092"}
    return Absence(
        "thread", clock, ThreadSettings.of(StreamsConfig.of(required | (config or {}))).membership
    )


def asks_anew_after(absence: Absence, clock: ManualClock, limit_ms: int) -> None:
    """Check that it does, and not a moment before."""
    clock.advance_ms(limit_ms - 1)
    absence.check()
    clock.advance_ms(1)
    with pytest.raises(TaskMigratedError, match=rf"not answered for {limit_ms // 1000} s"):
        absence.check()


def test_it_lasts_from_the_beginning_until_there_is_a_share_and_again_when_that_is_lost() -> None:
    absence = absence_by(ManualClock())
    lasted = [absence.lasts]
    absence.ends()
    lasted.append(absence.lasts)
    absence.begins()
    lasted.append(absence.lasts)

    assert lasted == [True, False, True]


@pytest.mark.parametrize(("session_ms", "limit_ms"), [(3000, 18_000), (45_000, 60_000)])
def test_a_thread_that_lost_all_asks_anew_when_the_sessions_of_others_have_ended(
    session_ms: int, limit_ms: int
) -> None:
    clock = ManualClock()
    absence = absence_by(clock, {"consumer.session.timeout.ms": session_ms})
    clock.advance_ms(limit_ms - 1)
    absence.begins()

    asks_anew_after(absence, clock, limit_ms)


def test_a_thread_that_gave_its_tasks_up_for_a_moment_waits_for_slow_members_too() -> None:
    clock = ManualClock()
    absence = absence_by(clock, {"consumer.max.poll.interval.ms": 100_000})
    absence.ends()
    absence.begins_by_revocation()

    asks_anew_after(absence, clock, 115_000)


def test_a_thread_that_gave_its_tasks_up_says_once_that_it_waits() -> None:
    clock = ManualClock()
    absence = absence_by(clock, {"consumer.session.timeout.ms": 45_000})
    told: list[list[int]] = []
    for _ in range(2):
        absence.begins_by_revocation()
        with capture_logs() as logs:
            for step_ms in (59_999, 1, 1000):
                clock.advance_ms(step_ms)
                absence.check()
        told.append([line["joins_again_in_s"] for line in logs])

    assert told == [[255], [255]]


def test_a_thread_with_a_share_never_asks_anew() -> None:
    clock = ManualClock()
    absence = absence_by(clock)
    absence.ends()
    clock.advance_ms(3_600_000)

    absence.check()


def test_a_member_that_is_not_told_of_an_empty_share_takes_silence_for_one() -> None:
    clock = ManualClock()
    absence = absence_by(clock, {"group.protocol": "consumer"})
    clock.advance_ms(59_999)
    lasted = absence.lasts
    clock.advance_ms(1)

    absence.check()
    assert (lasted, absence.lasts) == (True, False)


@pytest.mark.parametrize(("protocol", "lasts"), [("classic", True), ("consumer", False)])
def test_a_revocation_begins_it_only_where_a_new_share_is_sure_to_follow(
    protocol: str, lasts: bool
) -> None:
    absence = absence_by(ManualClock(), {"group.protocol": protocol})
    absence.ends()
    absence.begins_by_revocation()

    assert absence.lasts is lasts
