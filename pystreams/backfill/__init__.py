"""Backfills: the same topology over history, on Spark, handing over to the live stream.

    from pystreams.backfill import ArchiveSource, run

    result = run(topology, config, source=ArchiveSource("events/"), output="staged")

Reading order: `stages` (what runs after what), `rows` (what goes in and comes out), `history_task`
(a task over its history); then Spark: `running` (the call), `history`, `archive` and `kafka_source`
(what is read), `partition_reader` (what workers read themselves), `stage_rows` (the shuffle, and in
which order a task takes its records), `worker` (tasks in Spark's workers), `stage_runner` (stage by
stage), `staging` (the results), `identity` and `declared` (what makes them other ones). And
publishing: `publication` (what is published), `hand_over` (where a group stands), `publishing`
(claim, rows, hand-over), `publishing_transactions`, `staged_results`, `staged_publication`,
`published_note` (that it was done), `publish_results` (the call). Results for others: `dataset`,
`dataset_place`. How far all that is: `task_counts`, `progress`, `publishing_progress`. Whether an
application needs it: `need`.

Importing this needs no Spark; running a backfill does.
"""

from pystreams.backfill.archive import ArchiveSource
from pystreams.backfill.dataset import Dataset, write_dataset
from pystreams.backfill.export_stores import Exported, export
from pystreams.backfill.history import History, HistoryError, HistorySource, PartitionReader
from pystreams.backfill.kafka_source import KafkaBound, KafkaSource
from pystreams.backfill.partition_reader import KafkaPartitionReader
from pystreams.backfill.progress import StagePhase, StageProgress
from pystreams.backfill.publish_results import publish
from pystreams.backfill.publishing import Published, PublishingSettings
from pystreams.backfill.publishing_progress import PublishingProgress
from pystreams.backfill.rescale_settings import RescaleSettings
from pystreams.backfill.rescale_state import rescale
from pystreams.backfill.running import BackfillResult, run

__all__ = [
    "ArchiveSource",
    "BackfillResult",
    "Dataset",
    "Exported",
    "History",
    "HistoryError",
    "HistorySource",
    "KafkaBound",
    "KafkaPartitionReader",
    "KafkaSource",
    "PartitionReader",
    "Published",
    "PublishingProgress",
    "PublishingSettings",
    "RescaleSettings",
    "StagePhase",
    "StageProgress",
    "export",
    "publish",
    "rescale",
    "run",
    "write_dataset",
]
