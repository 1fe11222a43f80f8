"""Options of Spark's readers: the ones there are, and those that an archive needs.

Spark passes over an option that it does not know: one with a typing error would have no effect. And
what a text file has that is no row Spark reads as far as it can, and the rest as empty, which would
be a record without a value: one that deletes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import reduce
from typing import TYPE_CHECKING, Any

from pystreams.backfill.sources.history import HistoryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WHOLE_ROWS = {"mode": "FAILFAST"}
_NEEDED = {
    # The names at the top are compared in every file, and rows are counted by all their columns.
    "csv": {
        **_WHOLE_ROWS,
        "enforceSchema": "false",
        "columnPruning": "false",
        "unescapedQuoteHandling": "RAISE_ERROR",
    },
    "json": _WHOLE_ROWS,
}
_KNOWN_BY = {
    "csv": "org.apache.spark.sql.catalyst.csv.CSVOptions",
    "json": "org.apache.spark.sql.catalyst.json.JSONOptions",
    "orc": "org.apache.spark.sql.execution.datasources.orc.OrcOptions",
    "parquet": "org.apache.spark.sql.execution.datasources.parquet.ParquetOptions",
}
_OF_ALL_FILES = (
    "basePath",
    "ignoreCorruptFiles",
    "ignoreMissingFiles",
    "modifiedAfter",
    "modifiedBefore",
    "path",
    "pathGlobFilter",
    "recursiveFileLookup",
)


def reading_options(spark: SparkSession, reader: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return what a reader is told: what was given, and what an archive needs beside it.

    Args:
        reader: Spark's name of the reader.
        given: The user's options, which go before ours.

    Raises:
        HistoryError: The reader has no such option. Names with a dot are for file systems, and not
            looked at; nor are options of readers that do not tell theirs.
    """
    reader = reader.lower()
    known = {name.lower(): name for name in _known_options(spark, reader)}
    for name in given:
        if known and "." not in name and name.lower() not in known:
            close = get_close_matches(name.lower(), known, n=1)
            meant = f" (did you mean {known[close[0]]!r}?)" if close else ""
            raise HistoryError(
                f"Spark's reader {reader!r} has no option {name!r}{meant}, and would pass over it; "
                f"it has {', '.join(sorted(known.values(), key=str.lower))}"
            )
    names = {name.lower() for name in given}
    needed = _NEEDED.get(reader, {})
    return {**{name: value for name, value in needed.items() if name.lower() not in names}, **given}


def _known_options(spark: SparkSession, reader: str) -> list[str]:
    """Return the names of a reader's options; none when Spark does not tell them."""
    if reader in _KNOWN_BY:
        # What tells them is not of Spark's public interface: another version may not have it.
        with suppress(Exception):
            java: Any = spark._jvm  # noqa: SLF001
            options = reduce(getattr, _KNOWN_BY[reader].split("."), java)
            return [*options.getAllOptions().mkString(" ").split(), *_OF_ALL_FILES]
    return []
