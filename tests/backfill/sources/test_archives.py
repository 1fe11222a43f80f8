"""Archives: with our columns, with other ones, with some missing, and wrong ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from pystreams import StreamsBuilder, TopicPartition
from pystreams.backfill import ArchiveSource, History, HistoryError
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.sources.history import WantedTopics
from pystreams.kernel.partitioner import partition_of
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.in_process import HEADERS, Row
from tests.backfill.spark.on_spark import write_archive

WANTED = WantedTopics(("events",), ())
COMPUTED = ArchiveSource("", columns={"partition": None}, num_partitions={"events": 2})
ROWS = [Row("events", 0, offset, 10 * offset, b"k", b"v") for offset in range(4)]


@pytest.fixture
def read(spark: Any, tmp_path: Path) -> Any:
    """Reads rows that are written as an archive first."""

    def read_rows(rows: Sequence[Row], **how: Any) -> History:
        path = write_archive(rows, tmp_path / "archive")
        return ArchiveSource(str(path), **how).read(spark, WANTED)

    return read_rows


def test_bounds_and_counts_are_those_of_the_records(read: Any) -> None:
    rows = [*ROWS, Row("events", 2, 7, 5, None, None), Row("other", 9, 0, 5, None, None)]

    history = read(rows)

    assert history.bounds == {
        TopicPartition("events", 0): PartitionBounds(0, 4, 4),
        TopicPartition("events", 2): PartitionBounds(7, 8, 1),
    }
    assert history.num_partitions == {"events": 3}
    assert history.frame().count() == 5


def test_gap_in_offsets_is_refused_with_the_offsets_around_it(read: Any) -> None:
    with pytest.raises(HistoryError, match=r"events-0 has a gap: offset 1 is followed by 3 \(.*pa"):
        read([*ROWS[:2], *ROWS[3:]])


def test_gap_may_be_allowed(read: Any) -> None:
    history = read([*ROWS[:2], *ROWS[3:]], gaps_allowed=True)

    assert history.bounds == {TopicPartition("events", 0): PartitionBounds(0, 4, 3)}


def test_offset_that_comes_twice_is_refused(read: Any) -> None:
    with pytest.raises(HistoryError, match="events-0 has offset 2 more than once"):
        read([*ROWS, ROWS[2]])


def test_record_without_a_topic_is_refused_with_its_file(read: Any) -> None:
    nowhere: Any = None
    with pytest.raises(HistoryError, match=r"'topic' is empty for a record in .*rows\.parquet"):
        read([*ROWS, replace(ROWS[0], topic=nowhere)])


def test_partition_beyond_the_topic_s_is_refused(read: Any) -> None:
    with pytest.raises(HistoryError, match=r"events-5, but topic 'events' has 2 partitions"):
        read([*ROWS, Row("events", 5, 0, 0, None, None)], num_partitions={"events": 2})


def test_topic_without_records_is_refused_unless_it_is_meant_to_be_empty(read: Any) -> None:
    others = [replace(row, topic="other") for row in ROWS]
    with pytest.raises(HistoryError, match=r"no records of topic 'events' \(topics in it: other\)"):
        read(others)


def test_topic_that_only_a_broker_knows_is_not_taken_for_empty(spark: Any, tmp_path: Path) -> None:
    others = [replace(row, topic="other") for row in ROWS]
    source = ArchiveSource(
        str(write_archive(others, tmp_path / "archive")), broker_partitions={"events": 4}
    )
    with pytest.raises(HistoryError, match=r"no records of topic 'events'.*--partitions events=4"):
        source.read(spark, WANTED)

    meant = replace(source, num_partitions={"events": 1}).read(spark, WANTED)

    assert (meant.bounds, meant.num_partitions) == ({}, {"events": 4})


def test_topic_of_a_pattern_that_only_a_broker_knows_is_not_taken_for_empty(
    spark: Any, tmp_path: Path
) -> None:
    source = ArchiveSource(
        str(write_archive(ROWS, tmp_path / "archive")), broker_partitions={"events-more": 2}
    )
    with pytest.raises(HistoryError, match="no records of topic 'events-more'"):
        source.read(spark, WantedTopics((), (re.compile("events.*"),)))


def test_topic_that_the_topology_writes_itself_may_be_without_records(
    spark: Any, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    builder.stream("events").to("middle")
    builder.stream("middle").to("out")
    wanted = WantedTopics.of(TopologyPlan(builder.build(), "app"), None)
    source = ArchiveSource(
        str(write_archive(ROWS, tmp_path / "archive")), broker_partitions={"events": 1, "middle": 3}
    )

    assert source.read(spark, wanted).num_partitions == {"events": 1, "middle": 3}


def write(columns: dict[str, Any], path: Path) -> str:
    path.mkdir()
    parquet.write_table(pa.table(columns), path / "rows.parquet")
    return str(path)


def test_archive_with_other_columns_gets_kafka_s_partitions_and_offsets_by_time(
    spark: Any, tmp_path: Path
) -> None:
    keys = ["a", "b", "c", "d", "a", None]
    times = pa.array([60, 50, 40, 30, 20, 10], pa.timestamp("ms", tz="UTC"))
    path = write({"id": keys, "at": times, "body": ["x"] * 6}, tmp_path / "archive")
    source = ArchiveSource(
        path,
        columns={
            "key": "id",
            "value": "body",
            "timestamp": "at",
            "partition": None,
            "offset": None,
        },
        topic="events",
        num_partitions={"events": 3},
    )

    history = source.read(spark, WANTED)
    rows = history.frame().collect()

    assert history.computed_offsets, "so that nobody hands over to them"
    assert len(rows) == 6
    assert {row.topic for row in rows} == {"events"}
    assert all(
        row.partition == partition_of(bytes(row.key), 3) for row in rows if row.key is not None
    )
    for number in range(3):
        own = sorted((row.offset, row.timestamp) for row in rows if row.partition == number)
        assert [offset for offset, _ in own] == list(range(len(own)))
        assert own == sorted(own, key=lambda pair: pair[1])
    assert sorted(row.timestamp for row in rows) == [10, 20, 30, 40, 50, 60]


def test_times_without_a_zone_are_utc_whatever_the_session_s_zone(
    spark: Any, tmp_path: Path
) -> None:
    """As pandas writes them. The second is in an hour that New York's clocks leave out."""
    times = [datetime(2025, 1, 31, 12, 0, 0, 7000), datetime(2025, 3, 9, 2, 30)]  # noqa: DTZ001
    both = {name: values * 2 for name, values in COLUMNS.items()}
    columns = {**both, "offset": [0, 1], "timestamp": pa.array(times, pa.timestamp("us"))}
    path = write(columns, tmp_path / "archive")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = ArchiveSource(path).read(spark, WANTED).frame().orderBy("offset").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)

    assert [row.timestamp for row in rows] == [1_738_324_800_007, 1_741_487_400_000]


def offsets_of(rows: list[tuple[bytes, int]], path: Path) -> str:
    """An archive without partitions: keys and offsets."""
    keys, offsets = map(list, zip(*rows, strict=True))
    columns = {"topic": ["events"] * len(rows), "timestamp": [1] * len(rows)}
    return write({**columns, "offset": offsets, "key": keys, "value": keys}, path)


@pytest.mark.parametrize("gaps_allowed", [False, True])
def test_offset_that_comes_twice_in_a_computed_partition_may_be_another_partitioner_s(
    spark: Any, tmp_path: Path, *, gaps_allowed: bool
) -> None:
    """There are as many records as the offsets between the first and the last."""
    path = offsets_of([(b"a", 0), (b"a", 1), (b"a", 1), (b"a", 3)], tmp_path / "archive")
    source = replace(COMPUTED, path=path, gaps_allowed=gaps_allowed)

    with pytest.raises(HistoryError, match=r"offset 1 more than once.*it was computed from the ke"):
        source.read(spark, WANTED)


def test_gap_in_a_computed_partition_may_be_another_partitioner_s(
    spark: Any, tmp_path: Path
) -> None:
    path = offsets_of([(b"a", 0), (b"d", 1), (b"a", 2)], tmp_path / "archive")

    with pytest.raises(HistoryError, match=r"has a gap: .*it was computed from the key.*librdkaf"):
        replace(COMPUTED, path=path).read(spark, WANTED)


def test_computed_partitions_are_guessed_only_where_gaps_are_allowed(
    spark: Any, tmp_path: Path
) -> None:
    path = offsets_of([(b"a", 4), (b"a", 5)], tmp_path / "archive")
    source = replace(COMPUTED, path=path)
    loose = replace(source, gaps_allowed=True)

    assert not source.read(spark, WANTED).guessed_partitions
    assert loose.read(spark, WANTED).guessed_partitions
    assert not replace(loose, num_partitions={"events": 1}).read(spark, WANTED).guessed_partitions


@pytest.mark.parametrize(
    ("changed", "how", "message"),
    [
        ({"offset": None}, {}, r"no column 'offset' for offset .*columns=\{'offset': None\}"),
        ({"topic": None}, {}, r"no column 'topic' .*give the topic of all records"),
        ({"timestamp": [1.5]}, {}, r"'timestamp' of .* is of type double, .*bigint \(millisec"),
        ({"key": [1]}, {}, r"column 'key' of .* is of type bigint, and key must be binary"),
        ({"partition": None}, {"columns": {"partition": None}}, "give num_partitions={'events'"),
        ({}, {"columns": {"colour": "blue"}}, "names 'colour', which history does not have"),
        ({}, {"columns": {"value": None}}, "without value is no history"),
        ({}, {"reader": "no-such-reader"}, "can't read the archive .* 'no-such-reader'"),
    ],
    ids=lambda value: None if isinstance(value, dict) else "",
)
def test_wrong_archive_is_refused_by_column(
    changed: dict[str, Any], how: dict[str, Any], message: str, spark: Any, tmp_path: Path
) -> None:
    columns = {
        "topic": ["events"],
        "partition": [0],
        "offset": [0],
        "timestamp": [1],
        "key": [b"k"],
        "value": [b"v"],
    }
    given = {name: value for name, value in {**columns, **changed}.items() if value is not None}
    path = write(given, tmp_path / "archive")

    with pytest.raises(HistoryError, match=message):
        ArchiveSource(path, **how).read(spark, WANTED)


def test_file_that_is_no_parquet_is_named(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(HistoryError, match=r"can't read the archive .*parquet") as raised:
        ArchiveSource(str(tmp_path)).read(spark, WANTED)
    assert "\tat " not in str(raised.value)


def test_path_that_does_not_exist_is_named(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"can't read the archive .*nowhere"):
        ArchiveSource(str(tmp_path / "nowhere")).read(spark, WANTED)


COLUMNS: dict[str, Any] = {
    "topic": ["events"],
    "partition": [0],
    "offset": [0],
    "timestamp": [1],
    "key": [b"k"],
    "value": [b"v"],
}


def empty(directory: Path) -> str:
    """An archive with columns and without a record."""
    table = pa.table({**COLUMNS, "headers": pa.array([None], HEADERS)}).slice(0, 0)
    directory.mkdir()
    parquet.write_table(table, directory / "rows.parquet")
    return str(directory)


def test_archive_without_a_record_is_told(spark: Any, tmp_path: Path) -> None:
    path = empty(tmp_path / "archive")
    with pytest.raises(HistoryError, match=r"no records of topic 'events' \(topics in it: none\)"):
        ArchiveSource(path).read(spark, WANTED)


def test_archive_without_a_file_is_told(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    with pytest.raises(HistoryError, match=r"can't read the archive .*archive"):
        ArchiveSource(str(tmp_path / "archive")).read(spark, WANTED)


def test_archive_of_no_record_is_read_where_the_topic_is_meant_to_be_empty(
    spark: Any, tmp_path: Path
) -> None:
    path = empty(tmp_path / "archive")

    history = ArchiveSource(path, num_partitions={"events": 2}).read(spark, WANTED)

    assert (history.bounds, history.num_partitions) == ({}, {"events": 2})


def test_partition_may_be_any_whole_number_type_and_must_be_a_partition_s_number(
    spark: Any, tmp_path: Path
) -> None:
    good = write(COLUMNS, tmp_path / "good")
    assert ArchiveSource(good).read(spark, WANTED).num_partitions == {"events": 1}

    bad = write({**COLUMNS, "partition": [1 << 40]}, tmp_path / "bad")
    with pytest.raises(HistoryError, match=r"can't read the archive .*bad.*(\n.*)*1099511627776"):
        ArchiveSource(bad).read(spark, WANTED)


def test_file_that_lacks_a_column_of_the_others_is_named(spark: Any, tmp_path: Path) -> None:
    """Spark would take it for empty, and all its records for records without a key."""
    path = write(COLUMNS, tmp_path / "archive")
    less = {name: value for name, value in {**COLUMNS, "offset": [1]}.items() if name != "key"}
    parquet.write_table(pa.table(less), tmp_path / "archive" / "strange.parquet")

    with pytest.raises(HistoryError, match=r"strange\.parquet has no column 'key'.*other files"):
        ArchiveSource(path).read(spark, WANTED)


def test_column_that_is_a_directory_s_name_is_in_no_file(spark: Any, tmp_path: Path) -> None:
    directory = tmp_path / "archive" / "topic=events" / "partition=0"
    directory.mkdir(parents=True)
    inside = {name: COLUMNS[name] for name in ("offset", "timestamp", "key", "value")}
    parquet.write_table(pa.table(inside), directory / "rows.parquet")

    history = ArchiveSource(str(tmp_path / "archive")).read(spark, WANTED)

    assert history.bounds == {TopicPartition("events", 0): PartitionBounds(0, 1, 1)}


def test_headers_of_another_type_are_refused(spark: Any, tmp_path: Path) -> None:
    path = write({**COLUMNS, "headers": ["a=b"]}, tmp_path / "archive")
    with pytest.raises(HistoryError, match=r"'headers' of .* is of type string, .* array<struct"):
        ArchiveSource(path).read(spark, WANTED)


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"x"}], ids=["null", "no key"])
def test_header_without_a_key_is_refused_with_its_file_and_offset(
    header: Any, spark: Any, tmp_path: Path
) -> None:
    columns = {name: value * 3 for name, value in COLUMNS.items()}
    headers = pa.array([None, [{"key": "h", "value": None}], [{"key": "h"}, header]], HEADERS)
    path = write({**columns, "offset": [0, 1, 2], "headers": headers}, tmp_path / "archive")

    with pytest.raises(
        HistoryError, match=r"a header of .*rows\.parquet has no key \(events-0, offset 2\)"
    ):
        ArchiveSource(path).read(spark, WANTED)

    others = ArchiveSource(path, num_partitions={"other": 1}).read(
        spark, WantedTopics(("other",), ())
    )
    assert others.bounds == {}


def test_topic_that_a_pattern_matches_later_is_left_to_the_live_application(
    spark: Any, tmp_path: Path
) -> None:
    """The broker tells of it; the archive is as it was."""
    patterns = (re.compile("events.*"),)
    source = ArchiveSource(str(write_archive(ROWS, tmp_path / "archive")))
    first = source.read(spark, WantedTopics((), patterns))
    begun = WantedTopics((), patterns, first.bounds, frozenset(first.num_partitions))

    grown = replace(source, num_partitions={"events": 1, "events-later": 4})
    resumed = grown.read(spark, begun)

    assert (resumed.bounds, resumed.num_partitions) == (first.bounds, first.num_partitions)
    assert grown.read(spark, WantedTopics((), patterns)).num_partitions["events-later"] == 4
