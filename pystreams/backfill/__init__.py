"""Backfills: the same topology over history, on Spark, handing over to the live stream.

    from pystreams.backfill import ArchiveSource, run

    result = run(topology, config, source=ArchiveSource("events/"), output="staged")

Its rooms, from the ground up; each may import those before it, as its docstring says:

- `plan`: what a backfill is of, and what it runs (`stages`, `rows`, `identity`);
- `spark`: Spark itself (`session`), and what goes to its workers (`pickling`);
- `sources`: where a history comes from (`history`, `archive`, `kafka_source`);
- `staging`: the directory of results (`directory`, `results`);
- `tasks`: what runs in Spark's workers (`worker`, `history_task`);
- `publishing`: results to Kafka, exactly once (`publication`, `hand_over`, `publisher`);
- `execution`: the call (`backfill`), and stage by stage on Spark (`stage_runner`, `stage_rows`);
- `exports`: Parquet for others (`dataset`, `export_stores`); `rescaling`: state moved to other
  partition counts (`move_plan`, `rescale_state`).

`first_backfill` says whether an application has a backfill to do before it starts.

Importing this needs no Spark; running a backfill does.
"""

from pystreams.backfill.execution.backfill import BackfillResult, run
from pystreams.backfill.execution.progress import StagePhase, StageProgress
from pystreams.backfill.exports.dataset import Dataset, write_dataset
from pystreams.backfill.exports.export_stores import Exported, export
from pystreams.backfill.publishing.progress import PublishingProgress
from pystreams.backfill.publishing.publish_results import publish
from pystreams.backfill.publishing.publisher import Published, PublishingSettings
from pystreams.backfill.rescaling.rescale_state import rescale
from pystreams.backfill.rescaling.settings import RescaleSettings
from pystreams.backfill.sources.archive import ArchiveSource
from pystreams.backfill.sources.history import History, HistoryError, HistorySource, PartitionReader
from pystreams.backfill.sources.kafka_source import KafkaBound, KafkaSource
from pystreams.backfill.sources.partition_reader import KafkaPartitionReader

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
