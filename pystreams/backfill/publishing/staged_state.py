"""The final state in a staging directory, as columns: what stores are seeded from.

It is the same that is published to the changelogs, in the same order (`staged_publication`), read
without making a row of each record. Reads Parquet with pyarrow; Spark is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator

from pystreams.backfill.plan.rows import ResultKind, headers_of
from pystreams.backfill.publishing.store_seeder import StateColumns, StateReader
from pystreams.backfill.staging.results import StagedResults
from pystreams.ids import TaskId

_COLUMNS = ("key", "value", "timestamp")


def staged_state(results: StagedResults) -> StateReader:
    """Return what reads the final state among staged results.

    The reader raises `StagingError` when a file is damaged, gone or another one by then.
    """
    files = {
        stage.subtopology: results.files[stage.position]
        for stage in results.manifest.stages
        if stage.only_topic is None
    }

    def read(task_id: TaskId, store: str) -> Iterator[StateColumns]:
        stage = files[task_id.subtopology]
        columns = (*_COLUMNS, "headers")
        batches = stage.batches(ResultKind.STATE, store, task_id.partition, columns)
        for batch in batches:
            # In one step a column; `to_pylist` makes an object of Arrow's of each value first.
            keys, values, timestamps = (
                batch.column(name).to_numpy(zero_copy_only=False).tolist() for name in _COLUMNS
            )
            yield keys, values, timestamps, headers_of(batch.column("headers"))

    return read
