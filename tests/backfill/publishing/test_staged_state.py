"""The staged state is read as it is published: the same records, in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams import TaskId
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.publishing.staged_state import staged_state
from pystreams.backfill.publishing.store_seeder import StateColumns
from pystreams.backfill.staging.directory import Manifest, StagingDirectory
from pystreams.backfill.staging.errors import StagingError
from pystreams.backfill.staging.results import StagedResults
from tests.backfill.publishing.test_staged_publication import plan_of, publication_of, row, stage

REPARTITION = "app-by-value-repartition"
TASK = TaskId(1, 0)
STATE = [
    row(ResultKind.STATE, "counts", number, b"%d" % number, time_ms=number) for number in range(3)
] + [
    row(ResultKind.STATE, "counts", 3, b"")._replace(
        value=None, key=b"gone", headers=(("v", b"\x03"),)
    )
]


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    counts = {"in": 1, "middle": 1, REPARTITION: 1}
    identity = BackfillIdentity.of(plan_of(), counts, {0: 1, 1: 1, 2: 1}, {})
    staging = StagingDirectory(tmp_path / "staged")
    staging.begin(identity, 77)
    # The state of the second sub-topology is that of the third stage.
    stages = (
        stage(staging, 0, 0, "in"),
        stage(staging, 1, 2, "middle"),
        stage(staging, 2, 1, REPARTITION, STATE),
    )
    staging.finish(Manifest(identity, stages, 77, 1.0))
    return staging.path


def records(columns: StateColumns) -> list[tuple[bytes | None, bytes | None, int, Any]]:
    return list(zip(*columns, strict=True))


def test_state_is_what_is_published(staged: Path) -> None:
    read = staged_state(StagedResults.whole(staged))
    found = [record for columns in read(TASK, "counts") for record in records(columns)]

    publication = publication_of(staged, plan_of(), with_outputs=True)
    (task,) = [task for task in publication.tasks if task.task_id == TASK]
    published: list[Result] = list(task.rows(0))
    assert found == [
        (record.key, record.value, record.timestamp, list(record.headers) or None)
        for record in published
    ]
    assert found[-1] == (b"gone", None, 5, [("v", b"\x03")])


def test_store_without_state_has_no_records(staged: Path) -> None:
    assert list(staged_state(StagedResults.whole(staged))(TASK, "other")) == []
    assert list(staged_state(StagedResults.whole(staged))(TaskId(0, 0), "counts")) == []


def test_damaged_file_is_named(staged: Path) -> None:
    file = min(staged.rglob("kind=1/**/*.parquet"))
    file.write_bytes(b"PAR1")

    with pytest.raises(StagingError, match=file.name):
        list(staged_state(StagedResults.whole(staged))(TASK, "counts"))
