"""Windows of time: which a record is in, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from pystreams import TimeWindows, TopologyError, UnlimitedWindows, Window


def test_windows_tumble_unless_they_are_told_to_hop() -> None:
    tumbling = TimeWindows.of_size_with_no_grace(12)
    assert (tumbling.size_ms, tumbling.advance_ms, tumbling.grace_period_ms) == (12, 12, 0)
    assert TimeWindows.of_size_and_grace(12, 5).advance_by(4) == TimeWindows(12, 5, 4)
    assert hash(TimeWindows(12, 5, 4)) == hash(TimeWindows(12, 5, 4))
    assert TimeWindows(12, 5, 4) != TimeWindows(12, 5, 3)


@pytest.mark.parametrize(
    "refused",
    [
        lambda: TimeWindows.of_size_with_no_grace(0),
        lambda: TimeWindows.of_size_with_no_grace(-1),
        lambda: TimeWindows.of_size_and_grace(3, -1),
        lambda: TimeWindows.of_size_with_no_grace(10).advance_by(0),
        lambda: TimeWindows.of_size_with_no_grace(10).advance_by(-1),
        lambda: TimeWindows.of_size_with_no_grace(10).advance_by(11),
        lambda: UnlimitedWindows.of().start_on(-1),
    ],
)
def test_windows_that_no_record_can_be_in_are_refused(refused: Any) -> None:
    with pytest.raises(TopologyError):
        refused()


@pytest.mark.parametrize(
    ("windows", "time", "found"),
    [
        (TimeWindows(12, 0, 5), 21, [(10, 22), (15, 27), (20, 32)]),
        (TimeWindows(6, 0, 5), 7, [(5, 11)]),
        (TimeWindows(6, 0, 5), 10, [(5, 11), (10, 16)]),
        (TimeWindows(12), 21, [(12, 24)]),
        (TimeWindows(10, 0, 4), 3, [(0, 10)]),
    ],
)
def test_a_time_is_in_all_windows_that_begin_before_and_end_after_it(
    windows: TimeWindows, time: int, found: list[tuple[int, int]]
) -> None:
    assert windows.windows_for(time) == [Window(*window) for window in found]
