"""The process that Spark's Python workers of this machine are forked from.

Spark's own (`pyspark.daemon`) has imported nothing of what a task needs, so each worker takes a
second of processor time for it before its first row. This one has.

Spark also puts archives before the directory with the same Python code, and a jar. A worker forgets
before each task which modules there are, and Python (3.10 and later) then reads the lists of the
archives again, thousands of files, once for each package that came out of one: a tenth of a second
of processor time a task. From the directory it does not.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path

_NEEDED = ("pandas", "pystreams.backfill.tasks.worker")
"""By each task. pandas is imported by pyarrow, with the first array."""


def archives_of_spark(paths: list[str]) -> list[str]:
    """Return the archives of a pyspark that is there as a directory, too."""
    elsewhere = [path for path in paths if not Path(path).is_file()]
    pyspark, py4j = (PathFinder.find_spec(name, elsewhere) for name in ("pyspark", "py4j"))
    if pyspark is None or pyspark.origin is None or py4j is None:
        return []
    own = Path(pyspark.origin).parent
    return [path for path in paths if path not in elsewhere and own in Path(path).parents]


if __name__ == "__main__":
    for archive in archives_of_spark(sys.path):
        sys.path.remove(archive)
        sys.path_importer_cache.pop(archive, None)
    for name in _NEEDED:
        import_module(name)
    gc.freeze()  # Workers collect garbage after each task, and need not look at what is shared.
    import_module("pyspark.daemon").manager()
