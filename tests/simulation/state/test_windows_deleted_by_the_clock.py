"""Brokers delete changelogs of windows by the wall clock; windows close by the time of records."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import TopicPartition
from tests.simulation.state.damaging import OnDisk, read_everywhere

pytestmark = pytest.mark.simulation

HOUR_MS = 3_600_000
TWO_DAYS_MS = 48 * HOUR_MS


def cut_off(root: Path, store: str, *, later_ms: int) -> tuple[OnDisk, int]:
    """Return a stopped application of which a broker has deleted a changelog, and to where."""
    application = OnDisk(root, read_everywhere)
    application.feed()
    application.run()
    application.app.clock.advance_ms(later_ms)
    log = application.app.broker.log(TopicPartition(f"app-{store}-changelog", 0))
    log.delete_before(log.high_watermark - 1)
    return application, log.beginning


def told(application: OnDisk) -> list[Any]:
    with capture_logs() as logs:
        application.run()
    return [line for line in logs if line["event"].startswith("open windows may be lost")]


@pytest.mark.parametrize("store", ["window", "session"])
def test_a_store_that_is_restored_without_what_was_deleted_is_told_once(
    tmp_path: Path, store: str
) -> None:
    application, beginning = cut_off(tmp_path, store, later_ms=TWO_DAYS_MS)
    shutil.rmtree(application.state)
    application.new_process()

    (line,) = told(application)

    assert (line["log_level"], line["changelog"]) == ("warning", f"app-{store}-changelog-0")
    assert line["offsets_gone"] == f"0 to {beginning - 1}"
    assert line["stream_time_is_behind"].startswith("2 days")
    assert "windowstore.changelog.additional.retention.ms" in line["cure"]
    assert told(application) == []


def test_a_store_that_comes_back_behind_what_was_deleted_is_told(tmp_path: Path) -> None:
    application, _ = cut_off(tmp_path, "window", later_ms=TWO_DAYS_MS)
    away, application.state = application.state, tmp_path / "meanwhile"
    application.new_process()
    application.feed()
    application.run()
    log = application.app.broker.log(TopicPartition("app-window-changelog", 0))
    log.delete_before(log.high_watermark - 1)
    application.state = away
    application.new_process()

    (line,) = told(application)

    assert not line["offsets_gone"].startswith("0 to")


def test_where_the_stream_keeps_up_with_the_clock_what_was_deleted_had_closed(
    tmp_path: Path,
) -> None:
    application, _ = cut_off(tmp_path, "window", later_ms=HOUR_MS)
    shutil.rmtree(application.state)
    application.new_process()

    assert told(application) == []


def test_a_store_that_has_what_was_deleted_loses_nothing(tmp_path: Path) -> None:
    application, _ = cut_off(tmp_path, "window", later_ms=TWO_DAYS_MS)

    assert told(application) == []


def test_an_additional_retention_that_covers_the_age_of_the_records_is_not_told_of(
    tmp_path: Path,
) -> None:
    application, _ = cut_off(tmp_path, "window", later_ms=TWO_DAYS_MS)
    shutil.rmtree(application.state)
    application.new_process(
        windowstore_changelog_additional_retention_ms=2 * TWO_DAYS_MS,
    )

    assert told(application) == []
