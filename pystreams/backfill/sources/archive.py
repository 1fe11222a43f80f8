"""History from an archive: Parquet, or whatever Spark can read, by the name of its reader.

An archive has the columns topic, partition, offset, timestamp, key, value and headers, or says
which of its own stand for them:

    ArchiveSource("events/", columns={"timestamp": "event_time", "value": "payload",
                                      "partition": None, "offset": None, "headers": None},
                  topic="events", num_partitions={"events": 8})

`None` says that the archive has no such column: the partition is then Kafka's for the key, the
offset the record's place in its partition by timestamp (then key and value), key and headers are
empty. A record without key goes to a partition by its timestamp and value, the same each time.
Results over computed offsets are not published: the live application would not know where to go on.
Nor are those over computed partitions where offsets may be missing: the topic's producer may have
chosen partitions in another way, and only offsets without gaps would show it.

Partition, offset and timestamp may be text, as in a CSV, and key and value are its UTF-8 then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from pystreams.backfill.plan.rows import HEADERS_TYPE
from pystreams.backfill.sources.history import History, HistoryError, WantedTopics
from pystreams.backfill.sources.history_checks import examined
from pystreams.backfill.sources.reader_options import reading_options
from pystreams.backfill.sources.text_columns import milliseconds_of, number_of, utc
from pystreams.backfill.spark.failures import cure_in, spark_words
from pystreams.kernel.partitioner import partition_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_MAY_BE_NONE = frozenset({"partition", "offset", "key", "headers"})
_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_NAIVE = "timestamp_ntz"
_HEADERS = HEADERS_TYPE.replace(": ", ":").replace(", ", ",")
_TYPES = {
    "topic": ({"string"}, "string"),
    "partition": ({*_WHOLE_NUMBERS, "string"}, "a whole number, or string for one"),
    "offset": ({*_WHOLE_NUMBERS, "string"}, "a whole number, or string for one"),
    "timestamp": (
        {*_WHOLE_NUMBERS, "string", "timestamp", _NAIVE},
        "bigint (milliseconds), timestamp, timestamp_ntz for UTC, or string for one of them",
    ),
    "key": ({"binary", "string"}, "binary, or string for UTF-8"),
    "value": ({"binary", "string"}, "binary, or string for UTF-8"),
    "headers": (
        {_HEADERS, _HEADERS.replace("binary", "string")},
        f"{HEADERS_TYPE}, or string for UTF-8 in the place of binary",
    ),
}
_CURES_OF_TYPES = {
    "csv": "leave the option inferSchema out, and all columns come as text",
    "json": "give the option primitivesAsString=true, and numbers come as text",
}


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """History that Spark reads from files or tables.

    Attributes:
        path: What to read; None for readers that take it as an option.
        reader: Spark's name of the reader, such as `parquet`, `orc`, `avro`, `jdbc`.
        columns: The archive's name for each of our columns, where it is another; None where it has
            none (partition, offset, key, headers).
        topic: The topic of all records, for an archive of one topic without such a column.
        num_partitions: Partition counts of topics, read or written. Needed where the partition is
            to be computed; else topics have as many as their records show, and those only written
            have one. A topic that is read and has no records must be named here.
        gaps_allowed: Whether offsets may be missing: compacted topics, transactions.
        broker_partitions: Partition counts that brokers tell, which go before `num_partitions`.
            Unlike there, a topic in them is not taken for one that is meant to be empty.
    """

    path: str | None
    reader: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str | None] = field(default_factory=dict)
    topic: str | None = None
    num_partitions: Mapping[str, int] = field(default_factory=dict)
    gaps_allowed: bool = False
    broker_partitions: Mapping[str, int] = field(default_factory=dict)

    def read(self, spark: SparkSession, wanted: WantedTopics) -> History:
        """Return the history; see `HistorySource`.

        Raises:
            HistoryError: The archive can't be read, lacks a column, has one of another type, or
                its offsets are wrong.
        """
        try:
            found = self._found(spark)
            frame = self._as_history(found, wanted)
            self._refuse_files_that_differ(found)
            history = examined(
                frame,
                wanted,
                self.num_partitions,
                gaps_allowed=self.gaps_allowed,
                broker_partitions=self.broker_partitions,
                computed_partitions=self._source_of("partition") is None,
            )
            return replace(
                history,
                computed_offsets=self._source_of("offset") is None,
                guessed_partitions=self.guesses_partitions(topic for topic, _ in history.bounds),
            )
        except HistoryError:
            raise
        except Exception as error:  # noqa: BLE001 - pyspark's, or py4j's where it has none
            raise HistoryError(
                f"can't read the archive {self._name()} with Spark's reader {self.reader!r}: "
                f"{_words(error)}\n{_cure_in(str(error))}".rstrip()
            ) from None

    @property
    def known_partitions(self) -> dict[str, int]:
        """How many partitions topics have, as given and as brokers tell."""
        return {**self.num_partitions, **self.broker_partitions}

    def guesses_partitions(self, topics: Iterable[str]) -> bool:
        """Return whether partitions are computed, and nothing would show that they are not Kafka's.

        Args:
            topics: The topics that are read. One with a single partition leaves nothing to guess.
        """
        if self._source_of("partition") is not None or not self.gaps_allowed:
            return False
        return any(self.known_partitions.get(topic, 1) > 1 for topic in topics)

    def file_sizes(self, spark: SparkSession) -> dict[str, dict[str, int]]:
        """Return the files that hold each topic's records, with their sizes (bytes).

        None are known where the reader reads no files. Costs a pass over the column of the topic.

        Raises:
            HistoryError: The archive has no column for the topic.
        """
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as F  # noqa: N812

        found = self._found(spark)
        topic = F.lit(self.topic) if self.topic is not None else self._column(found, "topic")
        try:
            files = found.select(
                topic.alias("topic"), "_metadata.file_path", "_metadata.file_size"
            ).distinct()
        except AnalysisException:
            return {}
        sizes: dict[str, dict[str, int]] = {}
        for row in files.collect():
            sizes.setdefault(row.topic, {})[row.file_path] = row.file_size
        return sizes

    def _found(self, spark: SparkSession) -> DataFrame:
        options = reading_options(spark, self.reader, self.options)
        return spark.read.format(self.reader).options(**options).load(self.path)

    # ------------------------------------------------------------------ columns

    def _as_history(self, found: DataFrame, wanted: WantedTopics) -> DataFrame:
        """Return the archive with our columns and types."""
        from pyspark.sql import functions as F  # noqa: N812

        unknown = sorted(set(self.columns) - set(COLUMNS))
        if unknown:
            raise HistoryError(
                f"columns names {unknown[0]!r}, which history does not have; it has "
                f"{', '.join(COLUMNS)}"
            )
        chosen = {name: self._column(found, name) for name in COLUMNS}
        chosen["topic"] = F.lit(self.topic) if self.topic is not None else chosen["topic"]
        frame = found.select(*(column.alias(name) for name, column in chosen.items()))
        if self._source_of("partition") is None:
            frame = self._with_partitions(frame, wanted)
        if self._source_of("offset") is None:
            frame = _with_offsets(frame)
        return frame.select(*COLUMNS)

    def _refuse_files_that_differ(self, found: DataFrame) -> None:
        """Refuse a file that lacks a column which others have: Spark reads it as empty.

        Looked at are Parquet files on a file system that is mounted here.
        """
        if self.reader != "parquet":
            return
        used = [name for name in COLUMNS if name != "topic" or self.topic is None]
        taken = {column for column in map(self._source_of, used) if column in found.columns}
        for file in map(urlparse, found.inputFiles()):
            path = unquote(file.path)
            if file.scheme != "file" or not (held := _columns_of(path)):
                continue
            # Where a directory is named for a column, it is in no file.
            lacks = [
                column
                for column in sorted(filter(None, taken))
                if column.lower() not in held and f"/{column}=" not in path
            ]
            if lacks:
                raise HistoryError(
                    f"{path} has no column {lacks[0]!r}, which other files of {self._name()} have: "
                    "its records would be read as if it were empty. Write the file with the "
                    "column, or read it as an archive of its own"
                )

    def _source_of(self, name: str) -> str | None:
        return self.columns.get(name, name)

    def _column(self, found: DataFrame, name: str) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        ours = {"topic": "string", "partition": "int", "offset": "bigint", "timestamp": "bigint"}
        wanted_type = ours.get(name, HEADERS_TYPE if name == "headers" else "binary")
        nothing = F.lit(None).cast(wanted_type)
        if name == "topic" and self.topic is not None:
            return nothing
        theirs = self._source_of(name)
        if theirs is None:
            if name not in _MAY_BE_NONE:
                raise HistoryError(f"an archive without {name} is no history: name its column")
            return nothing
        if theirs not in found.columns:
            if name == "headers" and name not in self.columns:
                return nothing
            raise self._lacks(found, name, theirs)
        type_name = found.schema[theirs].dataType.simpleString()
        accepted, described = _TYPES[name]
        if type_name not in accepted:
            raise HistoryError(
                f"column {theirs!r} of {self._name()} is of type {type_name}, and {name} must be "
                f"{described}: {self._cure_of_type(name, type_name)}, or name another column"
            )
        column = found[f"`{theirs}`"]
        if type_name == "string" and name == "timestamp":
            return milliseconds_of(column, theirs)
        if type_name == "string" and name in {"partition", "offset"}:
            return number_of(column, wanted_type, theirs)
        if type_name == _NAIVE:
            column = utc(column)
        is_time = type_name in {"timestamp", _NAIVE}
        return F.unix_millis(column) if is_time else column.cast(wanted_type)

    def _cure_of_type(self, name: str, type_name: str) -> str:
        if name == "headers":
            return "say that there are none (columns={'headers': None})"
        cast = "cast it when the archive is written"
        is_nested = type_name.startswith(("array<", "struct<"))
        return cast if is_nested else _CURES_OF_TYPES.get(self.reader.lower(), cast)

    def _lacks(self, found: DataFrame, name: str, theirs: str) -> HistoryError:
        cures = [f"name the column that stands for it (columns={{{name!r}: ...}})"]
        if name == "topic":
            cures.append("give the topic of all records (topic=...)")
        if name in _MAY_BE_NONE:
            cures.append(f"say that there is none (columns={{{name!r}: None}})")
        if self.reader.lower() == "csv" and "_c0" in found.columns:
            cures.append("give the option header=true if its first line has the names")
        return HistoryError(
            f"{self._name()} has no column {theirs!r} for {name} (it has "
            f"{', '.join(found.columns)}): {', or '.join(cures)}"
        )

    def _name(self) -> str:
        return self.path if self.path is not None else f"(reader {self.reader!r})"

    # ------------------------------------------------------------------ computed columns

    def _with_partitions(self, frame: DataFrame, wanted: WantedTopics) -> DataFrame:
        """Compute partitions; topics that nobody wants and nobody knows drop out."""
        from pyspark.sql import functions as F  # noqa: N812

        known_counts = self.known_partitions
        unknown = sorted(set(wanted.names) - known_counts.keys())
        if unknown:
            raise HistoryError(
                f"{self._name()} has no partitions, and how many topic {unknown[0]!r} has is not "
                f"known: give num_partitions={{{unknown[0]!r}: ...}}"
            )
        pairs: list[Any] = []
        for topic, count in sorted(known_counts.items()):
            pairs += [F.lit(topic), F.lit(count)]
        count_of = F.element_at(F.create_map(*pairs), F.col("topic"))
        by_key = F.udf(_partition_of, "int")(F.col("key"), F.col("count"))
        by_content = F.pmod(F.xxhash64("timestamp", "value"), F.col("count")).cast("int")
        known = frame.withColumn("count", count_of).filter("topic is null or count is not null")
        return known.withColumn("partition", F.coalesce(by_key, by_content)).drop("count")


def _words(error: Exception) -> str:
    """Return what Spark says, without the places in its code where it was said again."""
    lines = [
        line for line in spark_words(error).splitlines() if not line.startswith("\tSuppressed")
    ]
    return "\n".join(lines[:3])


def _cure_in(text: str) -> str:
    if "DATA_SOURCE_NOT_FOUND" in text:
        return (
            "Correct the reader's name (Spark's own are csv, jdbc, json, orc, parquet, text and "
            "xml), or name the package that brings it: --spark-conf spark.jars.packages=..."
        )
    if "Unescaped quote character" in text:
        return (
            'Give the option escape=" if quotes within a field are doubled; Spark takes a '
            "backslash before them"
        )
    return cure_in(text)


def _columns_of(path: str) -> set[str]:
    """Return the columns of a Parquet file, in small letters; none when only Spark can read it."""
    from pyarrow import lib, parquet

    try:
        return {name.lower() for name in parquet.read_schema(path).names}
    except (OSError, lib.ArrowException):
        return set()


def _partition_of(key: bytearray | None, count: int | None) -> int | None:
    return None if key is None or count is None else partition_of(bytes(key), count)


def _with_offsets(frame: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    window = Window.partitionBy("topic", "partition").orderBy("timestamp", "key", "value")
    return frame.withColumn("offset", F.row_number().over(window).cast("bigint") - 1)
