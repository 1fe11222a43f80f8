"""What is shown of a backfill under way: lines at intervals, lines of the log, bars."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from pystreams import TaskId
from pystreams.backfill import PublishingProgress, StagePhase, StageProgress
from pystreams.cli.display.backfill_progress import (
    Bars,
    LogLines,
    TextLines,
    display_for,
    stage_words,
)

BEGUN = StageProgress(0, 2, ("orders", "customers"), 12_000_000)
READING = replace(BEGUN, phase=StagePhase.READING, seconds=4.0, spark_tasks=(3, 8))
PROCESSING = replace(
    BEGUN,
    phase=StagePhase.PROCESSING,
    taken=5_400_000,
    seconds=70.0,
    records_per_second=100_000.0,
)
DONE = BEGUN.done(150.0)
PUBLISHING = PublishingProgress(TaskId(0, 3), 20_000, 120_000, 12.0, 5_000.0)


def under_way(seconds: float) -> StageProgress:
    return replace(PROCESSING, seconds=seconds)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (BEGUN, "12,000,000 records of orders, customers"),
        (READING, "no records yet, Spark at 3 of 8 tasks"),
        (replace(READING, spark_tasks=None), "no records yet"),
        (PROCESSING, "5,400,000 of 12,000,000 records, 100,000/s, 1 min 6 s left"),
        (replace(PROCESSING, records_per_second=None), "5,400,000 of 12,000,000 records"),
        (DONE, "done in 2 min 30 s, 80,000/s"),
        (BEGUN.done(150.0, before=True), "staged before"),
    ],
)
def test_how_far_a_stage_is_in_words(now: StageProgress, words: str) -> None:
    assert stage_words(now) == words


def test_without_a_terminal_a_line_comes_every_ten_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with TextLines() as display:
        display.stage(BEGUN)
        for seconds in (1.0, 9.0, 10.5, 19.0, 21.0):
            display.stage(under_way(seconds))
        display.stage(DONE)
        display.stage(replace(BEGUN, position=1))
        display.stage(replace(under_way(5.0), position=1))
        display.publishing(replace(PUBLISHING, seconds=3.0))
        display.publishing(PUBLISHING)

    line = "Stage 1 of 2: 5,400,000 of 12,000,000 records, 100,000/s, 1 min 6 s left"
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "Stage 1 of 2: 12,000,000 records of orders, customers",
        line,
        line,
        "Stage 1 of 2: done in 2 min 30 s, 80,000/s",
        "Stage 2 of 2: 12,000,000 records of orders, customers",
        "Publishing: 20,000 of 120,000 records, 5,000/s, 20 s left",
    ]


def test_where_the_log_is_json_progress_is_in_its_fields() -> None:
    with capture_logs() as logs, LogLines() as display:
        display.note("Spark starts")
        display.stage(BEGUN)
        display.stage(under_way(9.0))
        display.stage(under_way(11.0))
        display.publishing(PUBLISHING)

    assert [line["event"] for line in logs] == [
        "Spark starts",
        "backfill stage",
        "backfill stage",
        "publishing",
    ]
    _, begun, now, publishing = logs
    assert (begun["stage"], begun["stages"], begun["phase"], begun["taken"]) == (1, 2, "begun", 0)
    assert (now["phase"], now["taken"], now["records"]) == ("processing", 5_400_000, 12_000_000)
    assert (now["records_per_second"], now["seconds_left"], now["seconds"]) == (100_000, 66, 11.0)
    assert (publishing["published"], publishing["records"]) == (20_000, 120_000)


def test_bars_stay_with_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)

    with Bars() as display:
        display.note("Spark starts")
        for now in (BEGUN, READING, PROCESSING, DONE):
            display.stage(now)
        display.stage(replace(BEGUN, position=1).done(1.0, before=True))
        display.publishing(PUBLISHING)

    shown = " ".join(told.getvalue().split())
    assert shown.startswith("Spark starts Stage 1 of 2")
    assert "12,000,000 records, done in 2 min 30 s" in shown
    assert "Stage 2 of 2" in shown
    assert "staged before" in shown
    assert "Publishing" in shown


def test_bars_that_nothing_was_told_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    with Bars():
        pass

    assert told.getvalue() == ""


def test_lines_are_for_the_log_only_where_it_is_json() -> None:
    assert isinstance(display_for("json"), LogLines)
    assert isinstance(display_for("auto"), TextLines)
