"""What `pystreams backfill` says when it has staged, and when it has published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams.backfill import Published
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.publishing.store_seeder import Seeded
from pystreams.backfill.staging.directory import Manifest, StagedStage
from pystreams.cli.display.backfill_results import show_published, show_summary

STATE = Path("/var/state/app")


@pytest.mark.parametrize(
    ("seeded", "told"),
    [
        (None, []),
        (Seeded(STATE, 4, 3_170_000, 0), ["Seeded 4 stores, 3.2 MB, in /var/state/app"]),
        (
            Seeded(STATE, 3, 0, 1),
            ["Seeded 3 stores, 0.0 MB, in /var/state/app; 1 left to a restore"],
        ),
    ],
)
def test_seeded_stores_are_counted(
    seeded: Seeded | None, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    show_published(Published(12_000, 3, resumed=False, was_done=False, seeded=seeded))

    assert capsys.readouterr().out.splitlines() == [
        "Published 12,000 records in 3 transactions",
        *told,
    ]


def stage(position: int, topics: tuple[str, ...], **told: Any) -> StagedStage:
    nothing: dict[str, int] = {}
    given = {"outputs": nothing, "state": nothing, **told}
    fixed: dict[str, Any] = {
        "output_partitions": nothing,
        "ends": nothing,
        "attempt": "a",
        "only_topic": None,
    }
    return StagedStage(position=position, subtopology=position, topics=topics, **given, **fixed)


def test_summary_has_a_line_for_each_stage_and_one_for_each_further_topic_and_store(
    capsys: pytest.CaptureFixture[str],
) -> None:
    many = {"app-by-value-repartition": 1_234_567, "sold": 5}
    stages = (
        stage(0, ("in",), num_tasks=8, records=12_000_000, seconds=118.04, dropped=1_234),
        stage(1, ("a", "b"), num_tasks=2, records=3, seconds=2.0, outputs=many),
        stage(2, ("c",), num_tasks=1, records=0, seconds=0.0, state={"counts": 1_000, "d": 0}),
    )

    show_summary(Manifest(BackfillIdentity("app", "", {}, {}, {}), stages, 0, 120.0))

    top, *lines = (line.split() for line in capsys.readouterr().out.splitlines())
    assert top[:5] == ["stage", "read", "tasks", "records", "dropped"]
    assert top[5:] == ["outputs", "state", "seconds", "records/s"]
    assert lines == [
        ["1", "in", "8", "12,000,000", "1,234", "-", "-", "118.0", "101,660"],
        ["2", "a", "2", "3", "0", "app-by-value-repartition", "1,234,567", "-", "2.0", "2"],
        ["b", "sold", "5"],
        ["3", "c", "1", "0", "0", "-", "counts", "1,000", "0.0", "-"],
        ["d", "0"],
    ]
