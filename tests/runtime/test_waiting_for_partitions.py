"""A thread that waits for its share of the partitions for too long asks anew."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import StreamsConfig
from pystreams.errors import TaskMigratedError
from pystreams.runtime.loop.membership.waiting_for_partitions import WaitingForPartitions
from pystreams.runtime.settings import ThreadSettings
from pystreams.testing.simulation.clock import ManualClock


def waiting_by(clock: ManualClock, config: dict[str, Any] | None = None) -> WaitingForPartitions:
    required = {"application.id": "app", "bootstrap.servers": "simulated:9092"}
    return WaitingForPartitions(
        "thread", clock, ThreadSettings.of(StreamsConfig.of(required | (config or {}))).membership
    )


def asks_anew_after(waiting: WaitingForPartitions, clock: ManualClock, limit_ms: int) -> None:
    """Check that it does, and not a moment before."""
    clock.advance_ms(limit_ms - 1)
    waiting.check()
    clock.advance_ms(1)
    with pytest.raises(TaskMigratedError, match=rf"not answered for {limit_ms // 1000} s"):
        waiting.check()


def test_it_lasts_from_the_beginning_until_there_is_a_share_and_again_when_that_is_lost() -> None:
    waiting = waiting_by(ManualClock())
    lasted = [waiting.lasts]
    waiting.ends()
    lasted.append(waiting.lasts)
    waiting.begins()
    lasted.append(waiting.lasts)

    assert lasted == [True, False, True]


@pytest.mark.parametrize(("session_ms", "limit_ms"), [(3000, 18_000), (45_000, 60_000)])
def test_a_thread_that_lost_all_asks_anew_when_the_sessions_of_others_have_ended(
    session_ms: int, limit_ms: int
) -> None:
    clock = ManualClock()
    waiting = waiting_by(clock, {"consumer.session.timeout.ms": session_ms})
    clock.advance_ms(limit_ms - 1)
    waiting.begins()

    asks_anew_after(waiting, clock, limit_ms)


def test_a_thread_that_gave_its_tasks_up_for_a_moment_waits_for_slow_members_too() -> None:
    clock = ManualClock()
    waiting = waiting_by(clock, {"consumer.max.poll.interval.ms": 100_000})
    waiting.ends()
    waiting.begins_by_revocation()

    asks_anew_after(waiting, clock, 115_000)


def test_a_thread_that_gave_its_tasks_up_says_once_that_it_waits() -> None:
    clock = ManualClock()
    waiting = waiting_by(clock, {"consumer.session.timeout.ms": 45_000})
    told: list[list[int]] = []
    for _ in range(2):
        waiting.begins_by_revocation()
        with capture_logs() as logs:
            for step_ms in (59_999, 1, 1000):
                clock.advance_ms(step_ms)
                waiting.check()
        told.append([line["joins_again_in_s"] for line in logs])

    assert told == [[255], [255]]


def test_a_thread_with_a_share_never_asks_anew() -> None:
    clock = ManualClock()
    waiting = waiting_by(clock)
    waiting.ends()
    clock.advance_ms(3_600_000)

    waiting.check()


def test_a_member_that_is_not_told_of_an_empty_share_takes_silence_for_one() -> None:
    clock = ManualClock()
    waiting = waiting_by(clock, {"group.protocol": "consumer"})
    clock.advance_ms(59_999)
    lasted = waiting.lasts
    clock.advance_ms(1)

    waiting.check()
    assert (lasted, waiting.lasts) == (True, False)


@pytest.mark.parametrize(("protocol", "lasts"), [("classic", True), ("consumer", False)])
def test_a_revocation_begins_it_only_where_a_new_share_is_sure_to_follow(
    protocol: str, lasts: bool
) -> None:
    waiting = waiting_by(ManualClock(), {"group.protocol": protocol})
    waiting.ends()
    waiting.begins_by_revocation()

    assert waiting.lasts is lasts
