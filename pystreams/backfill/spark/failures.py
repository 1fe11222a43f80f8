"""Errors of a task on their way from a worker to the driver, through Spark's exceptions.

Spark hands the driver the text of a worker's exception between its own and Java's stack traces.
One line of the text is JSON, which is found again by its mark:

    pystreams-failure {"task": "0_3", "error": "ProcessingError", "message": "...", ...}
"""

from __future__ import annotations

import json
import re
import sys

from pystreams.errors import StreamsError, as_streams_error
from pystreams.exception_texts import named_exception
from pystreams.ids import TaskId
from pystreams.kernel.user_tracebacks import traceback_lines

_MARK = "pystreams-failure "
_LINE = re.compile(re.escape(_MARK) + r"(\{.*\})")

_SIGNS = (
    (
        ("PYTHON_VERSION_MISMATCH", "ModuleNotFoundError", "Cannot run program"),
        (
            "A worker's Python can't run the tasks: it must be of this one's version "
            f"({sys.version_info.major}.{sys.version_info.minor}), with pystreams-kafka[spark] and "
            "what the topology imports from packages. Say where it is on the workers: --spark-conf "
            "spark.pyspark.python=..."
        ),
    ),
    (
        ("Python worker exited unexpectedly", "Python worker failed to connect back"),
        (
            "A process that ran tasks died: killed for want of memory (the kernel's log says so; "
            "run fewer tasks at a time, as with --master local[2]), or ended by the user's code or "
            "a library in it (--spark-conf spark.python.worker.faulthandler.enabled=true shows "
            "where). --master local[2,3] tries each task three times"
        ),
    ),
    (
        ("No space left on device", "File too large", "Disk quota exceeded"),
        (
            "A disk is full: that of the staging directory, or that of Spark's own files "
            "(spark.local.dir, also the tasks' stores): free some space, or name a larger one with "
            "--spark-conf spark.local.dir=..."
        ),
    ),
    (
        ("are not available in Kafka any more",),
        (
            "Records of the history are gone from Kafka since the backfill was begun: raise the "
            "topic's retention.ms, delete the staging directory (or choose another), and run the "
            "backfill again"
        ),
    ),
    (
        ("java.lang.OutOfMemoryError",),
        (
            "Java's memory was too small: --spark-conf spark.driver.memory=... for a local master, "
            "spark.executor.memory for a cluster"
        ),
    ),
)


class BackfillTaskError(StreamsError):
    """A task of a backfill failed. The message has the record's coordinates and the user's lines.

    Attributes:
        task_id: The task, as `0_3`.
        error: Name of the error's class: `ProcessingError`, `SerializationError`, ...
        topic: Topic of the record; None when no record was being processed.
        partition: Its partition, or None.
        offset: Its offset, or None.
        user_traceback: Where in the user's code it was raised, and what; empty for an error that
            is not of the user's code, and all lines for a bug of ours.
    """

    def __init__(
        self,
        message: str,
        *,
        task_id: str,
        error: str,
        record: tuple[str | None, int | None, int | None],
        user_traceback: str,
    ) -> None:
        self.task_id = task_id
        self.error = error
        self.topic, self.partition, self.offset = record
        self.user_traceback = user_traceback
        super().__init__(f"{message}\n{user_traceback}".rstrip())


class WorkerFailureError(Exception):
    """A task's error as it leaves the worker; its text is for `failure_in`."""

    @classmethod
    def of(cls, error: Exception, task_id: TaskId) -> WorkerFailureError:
        """Return the failure of a task."""
        ours = isinstance(error, StreamsError)
        if ours:
            # A task of a backfill has its stores below Spark's directory.
            message = str(error).replace("state.dir", "spark.local.dir")
        else:
            message = f"task {task_id}: {named_exception(error)}"
        fields = {
            "task": str(task_id),
            "error": type(error).__name__,
            "message": message,
            "topic": getattr(error, "topic", None),
            "partition": getattr(error, "partition", None),
            "offset": getattr(error, "offset", None),
            "traceback": traceback_lines(as_streams_error(error)),
        }
        return cls(_MARK + json.dumps(fields))


def failure_in(text: str) -> BackfillTaskError | None:
    """Return the task's error that stands in the text of Spark's exception, or None."""
    found = _LINE.search(text)
    if found is None:
        return None
    fields = json.loads(found[1])
    return BackfillTaskError(
        fields["message"],
        task_id=fields["task"],
        error=fields["error"],
        record=(fields["topic"], fields["partition"], fields["offset"]),
        user_traceback=fields["traceback"],
    )


def cure_in(text: str) -> str:
    """Return what to do about what Spark says, where it is known; else nothing."""
    for signs, cure in _SIGNS:
        if any(sign in text for sign in signs):
            return cure
    return ""


def spark_words(error: Exception, lines_max: int = 20) -> str:
    """Return what Spark says in an exception, without Java's stack."""
    text = str(error)
    lines = [
        line.removeprefix(": ")
        for line in text.splitlines()
        if line.strip()
        and not line.lstrip().startswith(("at ", "... "))
        and not line.startswith("An error occurred while calling ")
    ]
    return "\n".join(lines[:lines_max])
