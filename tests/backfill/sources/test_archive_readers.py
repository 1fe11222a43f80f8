"""`pystreams backfill --from READER:PATH --option ...`: archives that are no Parquet."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import orc, parquet

from pystreams.backfill import ArchiveSource, HistoryError
from pystreams.backfill.plan.rows import Result
from pystreams.backfill.sources.history import WantedTopics
from pystreams.backfill.staging.directory import read_manifest
from pystreams.cli.commands.history.backfill import backfill
from tests.backfill.spark.on_spark import staged_results

TOPOLOGY = """
from pystreams import StreamsBuilder, serdes

config = {"application.id": "app", "statestore.cache.max.bytes": 0}
builder = StreamsBuilder()
source = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
source.group_by_key().count(name="counts").to_stream().to("out")
"""
TIMES = ["1735689600007", "2025-01-01T01:00:00.008+01:00", "2025-01-01 00:00:00.009"]
"""One after the other: milliseconds, with a zone, and without one, which is UTC."""

ROWS: list[dict[str, Any]] = [
    {"partition": 0, "offset": 4, "key": "1", "value": 'say "a", b'},
    {"partition": 1, "offset": 0, "key": "007", "value": "née"},
    {"partition": 0, "offset": 5, "key": "1", "value": None},
]
CSV = ["partition,offset,timestamp,key,value", '0,4,{},1,"say ""a"", b"', "1,0,{},007,née"]
CSV.append("0,5,{},1,")
HEADER = "header=true"
RFC_4180 = 'escape="'
"""Quotes in a field are doubled. Spark's own way is a backslash."""


def columns(times: list[Any]) -> dict[str, list[Any]]:
    named = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    return {**named, "timestamp": times}


def write(reader: str, path: Path) -> None:
    if reader == "csv":
        path.write_text("\n".join(CSV).format(*TIMES) + "\n")
    elif reader == "json":
        rows = [{**row, "timestamp": time} for row, time in zip(ROWS, TIMES, strict=True)]
        path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    elif reader == "orc":
        orc.write_table(pa.table(columns(TIMES)), path)
    else:
        times = [1_735_689_600_007 + number for number in range(3)]
        parquet.write_table(pa.table(columns(times)), path)


def command(directory: Path, *arguments: str) -> tuple[int, str, Path]:
    """Backfill the topology's topic; return exit code, output and where the results are."""
    directory.mkdir(exist_ok=True)
    (directory / "counts.py").write_text(TOPOLOGY)
    staged = directory / "staged"
    given = [str(directory / "counts.py"), "--no-publish", "--output", str(staged)]
    result = CliRunner().invoke(backfill, [*given, *arguments, "--topic", "in"])
    return result.exit_code, result.output, staged


def results(reader: str, directory: Path, *options: str) -> list[Result]:
    directory.mkdir()
    write(reader, directory / "archive")
    given = [word for option in options for word in ("--option", option)]
    code, told, staged = command(directory, "--from", f"{reader}:{directory / 'archive'}", *given)
    assert code == 0, told
    return staged_results(staged, read_manifest(staged).stages)


@pytest.fixture(scope="module")
def of_parquet(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    return results("parquet", tmp_path_factory.mktemp("readers") / "parquet")


@pytest.mark.parametrize(
    ("reader", "options"),
    [("csv", [HEADER, RFC_4180]), ("json", []), ("orc", ["mergeSchema=false"])],
)
@pytest.mark.usefixtures("spark")
def test_archive_of_another_reader_gives_what_parquet_gives(
    reader: str, options: list[str], of_parquet: list[Result], tmp_path: Path
) -> None:
    found = results(reader, tmp_path / reader, *options)

    assert found == of_parquet
    outputs = [(row.key, row.timestamp) for row in found if row.name == "out"]
    assert outputs == [(b"1", 1_735_689_600_007), (b"007", 1_735_689_600_008)]


TOP = "partition,offset,timestamp,key,value\n"
GOOD = TOP + "0,0,10,1,x\n"


@pytest.mark.parametrize(
    ("reader", "options", "text", "message"),
    [
        ("cvs", [HEADER], GOOD, r"reader 'cvs'.*\n(.*\n)*Correct the reader's name \(.*csv"),
        ("csv", ["hedaer=true"], GOOD, r"'csv' has no option 'hedaer' \(did you mean 'header'\?"),
        ("csv", ["header=maybe"], GOOD, "header flag can be true or false"),
        ("csv", [], GOOD, r"no column 'partition'.*_c0.*give the option header=true"),
        ("csv", [HEADER], TOP + "0,zero,10,1,x\n", "column 'offset' has 'zero', which is not a w"),
        ("csv", [HEADER], TOP + "0,0,12:30,1,x\n", "column 'timestamp' has '12:30', which is not"),
        ("csv", [HEADER], TOP + "0,,10,1,x\n", "column 'offset' is empty for a record in .*first"),
        ("csv", [HEADER], GOOD + "0,1,10,1\n", r"archive/first(.*\n)*.*detected.*\[0,1,10\]"),
        ("csv", [HEADER], TOP + '0,0,10,1,"{""a"": 1}"\n', r"first(.*\n)*Give the option escape="),
        ("csv", [HEADER, "inferSchema=true"], GOOD, "'key' .*int.*leave the option inferSchema"),
        ("json", ["inferSchema=true"], "{}", "'json' has no option 'inferSchema'"),
        ("json", [], "{broken\n", r"JsonParseException|Malformed records"),
        (
            "json",
            [],
            '{"partition": 0, "offset": 0, "timestamp": 1, "key": 1, "value": "x"}',
            "'key' .*bigint.*primitivesAsString=true",
        ),
    ],
)
@pytest.mark.usefixtures("spark")
def test_wrong_reader_option_or_row_is_named_and_nothing_is_staged(
    reader: str, options: list[str], text: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "first").write_text(text)
    given = [word for option in options for word in ("--option", option)]

    code, told, staged = command(tmp_path, "--from", f"{reader}:{tmp_path / 'archive'}", *given)

    assert code == 1, told
    assert re.search(message, told), told
    assert "\tat " not in told
    assert not staged.exists()


def test_csv_whose_columns_stand_in_another_order_in_one_file_is_named(
    spark: Any, tmp_path: Path
) -> None:
    """Spark would take each file's columns in the order of the first."""
    (tmp_path / "1.csv").write_text(GOOD)
    (tmp_path / "2.csv").write_text("partition,offset,timestamp,value,key\n0,1,10,x,1\n")

    with pytest.raises(HistoryError, match=r"[12]\.csv(.*\n)*.*header does not conform"):
        ArchiveSource(str(tmp_path), "csv", {"header": "true"}, topic="in").read(
            spark, WantedTopics(("in",), ())
        )


def test_option_of_the_user_s_goes_before_what_an_archive_needs(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text(GOOD + "0,1,10,1\n")
    options = {"header": "true", "MODE": "permissive"}

    history = ArchiveSource(str(tmp_path), "csv", options, topic="in").read(
        spark, WantedTopics(("in",), ())
    )

    assert [row.value for row in history.frame().orderBy("offset").collect()] == [b"x", None]


def test_empty_text_and_no_value_are_told_apart_by_spark_s_option(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "1.csv").write_text(TOP + '0,0,10,1,\n0,1,10,1,""\n')
    options = {"header": "true", "nullValue": "\\N"}

    history = ArchiveSource(str(tmp_path), "csv", options, topic="in").read(
        spark, WantedTopics(("in",), ())
    )

    assert [row.value for row in history.frame().orderBy("offset").collect()] == [None, b""]


def test_headers_may_be_text(spark: Any, tmp_path: Path) -> None:
    row = {**ROWS[0], "timestamp": 1, "headers": [{"key": "h", "value": "x"}]}
    (tmp_path / "1.json").write_text(json.dumps(row))

    history = ArchiveSource(str(tmp_path), "json", topic="in").read(
        spark, WantedTopics(("in",), ())
    )

    assert [row.headers for row in history.frame().collect()] == [[("h", b"x")]]
