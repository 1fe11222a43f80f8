"""What the worker of a backfill is timed in: the stages' names, for worker, profile and tests."""

from __future__ import annotations

FROM_SPARK = "rows from Spark"
TO_MESSAGES = "rows to messages"
FROM_KAFKA = "records from Kafka"
DECODE = "decode"
PROCESS = "process"
COMMIT = "commit to the stores"
NUMBERED = "results: partitions and numbers"
STATE = "state"
TO_PARQUET = "results to Parquet"
TO_SPARK = "results to Spark"
ALL_ELSE = "the loop itself"


def line_of(stage: str) -> str:
    """Return what a stage's line in the profile is called."""
    return f"worker, {stage}"
