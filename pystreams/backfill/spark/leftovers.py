"""What Spark 4.0.0 makes in the working directory, removed at once.

Spark keeps what clients of Spark Connect upload in a temporary directory, which 4.0.0 makes below
`artifacts` in the working directory, before the first query of a session. Spark's Java deletes the
temporary directory when it ends in order, and `artifacts` never. A backfill uploads nothing: both
are empty, and nobody misses them. So they are made early, and removed before anything runs: one
that is killed leaves none. A session that runs no query makes none.

Source: Spark's `ArtifactManager`; SPARK-52396 has moved it to the system's temporary directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT = "artifacts"
_TEMPORARY = "spark-*"


@contextmanager
def working_directory_kept() -> Iterator[None]:
    """Remove what a session that starts and ends within the block leaves in the working directory.

    Only empty directories, and only what was not there before: a directory `artifacts` of the
    user's stays, empty or not, and what a Spark beside this one has there.
    """
    root = Path.cwd() / _ROOT
    before = set(root.glob(_TEMPORARY))
    is_users = root.exists() and not before
    try:
        yield
    finally:
        for directory in set(root.glob(_TEMPORARY)) - before:
            _remove_if_empty(directory)
        if not is_users:
            _remove_if_empty(root)


def make_ready_for_queries(session: SparkSession) -> None:
    """Have a session of ours make its directories before its first query, and remove them."""
    with working_directory_kept(), suppress(Exception):  # Another Spark has another way to them.
        session._jsparkSession.artifactManager()  # noqa: SLF001 - nobody else makes it


def _remove_if_empty(directory: Path) -> None:
    with suppress(OSError):
        directory.rmdir()
