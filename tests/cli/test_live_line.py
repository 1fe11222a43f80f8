"""The live line: rates, times left, words."""

from __future__ import annotations

import dataclasses
import io
import sys
from typing import TYPE_CHECKING

from pystreams.cli.display.live_line import LiveDisplay, StatusLine
from pystreams.runtime.loop.reports.statistics import Statistics, total
from tests.broker.waiting import wait_until
from tests.cli.reflowing_terminal import ReflowingTerminal

if TYPE_CHECKING:
    import pytest

IDLE = total("RUNNING", [])


def statistics(**fields: object) -> Statistics:
    return dataclasses.replace(IDLE, **fields)  # type: ignore[arg-type]


def test_a_running_client() -> None:
    line = StatusLine()
    line.text(statistics(), 0.0)

    told = line.text(
        statistics(tasks_running=2, processed_records=234_408, commits=1, lag_records=12_345), 2.0
    )

    assert told == "RUNNING | 2 tasks | 117,204 records/s | lag 12,345 | 1 commit"


def test_what_is_rare_is_shown_when_it_is_there() -> None:
    rare = statistics(dropped_records=3, uncommitted_bytes=1_572_864, unread_partitions=2)
    told = StatusLine().text(rare, 0.0)

    assert "2 partitions read by nobody" in told
    assert "3 dropped" in told
    assert "uncommitted 1.5 MiB" in told
    assert "lag unknown" in told


def test_a_restoring_client_tells_the_time_left() -> None:
    line = StatusLine()
    line.text(statistics(tasks_restoring=1), 0.0)

    told = line.text(
        statistics(
            tasks_restoring=1, restored_records=500_000, restore_remaining_records=20_000_000
        ),
        2.0,
    )

    assert told.endswith("restoring 1 task: 250,000 records/s, 20,000,000 to go, 1 min 20 s left")


def test_without_a_rate_there_is_no_time_left() -> None:
    told = StatusLine().text(statistics(tasks_restoring=2, restore_remaining_records=9), 0.0)

    assert told.endswith("restoring 2 tasks: 0 records/s, 9 to go")


def test_the_live_line_leaves_output_that_goes_to_a_file_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)

    with LiveDisplay(lambda: statistics(tasks_running=3), lambda: 0.0) as display:
        print("a record")
        display.show_stopping()

    assert out.getvalue() == "a record\n"
    assert "STOPPING (Ctrl-C again stops at once) | RUNNING | " in err.getvalue()


def test_nothing_of_the_line_stays_where_the_terminal_shrinks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = ReflowingTerminal.instead_of(monkeypatch, width=100)
    lag = 0

    def growing() -> Statistics:
        nonlocal lag
        lag += 1
        return statistics(tasks_running=8, commits=4, dropped_records=1, lag_records=lag)

    def wait_for_a_line() -> None:
        """Wait until a line was drawn whole."""
        drawn = lag + 2
        wait_until(lambda: lag >= drawn, "a line")

    with LiveDisplay(growing, lambda: 0.0):
        wait_for_a_line()
        for number, width in enumerate((60, 25, 80, 20)):
            print(f"log line {number}", file=sys.stderr)
            terminal.resize(width)
            wait_for_a_line()

    shown = [line for line in terminal.lines if line]
    assert shown[:-1] == [f"log line {number}" for number in range(4)]
    assert shown[-1].startswith("RUNNING | 0 rec")
    assert len(shown[-1]) <= 20


def test_what_matters_least_is_left_out_where_there_is_no_room() -> None:
    line = StatusLine()
    full = statistics(
        tasks_running=8, commits=4, lag_records=132_552, uncommitted_bytes=2_000, dropped_records=1
    )
    whole = line.text(full, 0.0)

    assert "8 tasks" in whole
    assert "4 commits" in whole
    narrow = line.text(full, 0.0, 60)
    assert narrow == "RUNNING | 8 tasks | 0 records/s | lag 132,552 | 1 dropped"
    assert line.text(full, 0.0, 50) == "RUNNING | 0 records/s | lag 132,552 | 1 dropped"
    assert line.text(full, 0.0, len(whole)) == whole
