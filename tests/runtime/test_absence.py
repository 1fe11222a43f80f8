"""A thread that waits for its share of the partitions asks anew after a minute."""

from __future__ import annotations

import pytest

from pystreams.errors import TaskMigratedError
from pystreams.runtime.absence import Absence
from pystreams.testing.simulation.clock import ManualClock


def test_it_lasts_from_the_beginning_until_there_is_a_share_and_again_when_that_is_lost() -> None:
    absence = Absence(ManualClock(), watched=True)
    lasted = [absence.lasts]
    absence.ends()
    lasted.append(absence.lasts)
    absence.begins()
    lasted.append(absence.lasts)

    assert lasted == [True, False, True]


def test_after_a_minute_the_thread_asks_anew() -> None:
    clock = ManualClock()
    absence = Absence(clock, watched=True)
    clock.advance_ms(30_000)
    absence.begins()
    clock.advance_ms(59_999)
    absence.check()
    clock.advance_ms(1)
    with pytest.raises(TaskMigratedError, match="no partitions for a minute"):
        absence.check()


def test_a_thread_with_a_share_never_asks_anew() -> None:
    clock = ManualClock()
    absence = Absence(clock, watched=True)
    absence.ends()
    clock.advance_ms(3_600_000)

    absence.check()


def test_a_member_that_is_not_told_of_an_empty_share_is_not_watched() -> None:
    clock = ManualClock()
    absence = Absence(clock, watched=False)
    clock.advance_ms(3_600_000)

    absence.check()
    assert absence.lasts


@pytest.mark.parametrize("watched", [True, False])
def test_a_revocation_begins_it_only_where_a_new_share_is_sure_to_follow(watched: bool) -> None:
    absence = Absence(ManualClock(), watched=watched)
    absence.ends()
    absence.begins_by_revocation()

    assert absence.lasts is watched
