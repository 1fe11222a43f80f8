"""The process that Spark's Python workers of this machine are forked from.

Spark's own (`pyspark.daemon`) has imported nothing of what a task needs, so each worker takes a
second of processor time for it before its first row. This one has.
"""

from __future__ import annotations

import gc
from importlib import import_module

from pyspark.daemon import manager

_NEEDED = ("pandas", "pystreams.backfill.tasks.worker")
"""By each task. pandas is imported by pyarrow, with the first array."""

if __name__ == "__main__":
    for name in _NEEDED:
        import_module(name)
    gc.freeze()  # Workers collect garbage after each task, and need not look at what is shared.
    manager()
