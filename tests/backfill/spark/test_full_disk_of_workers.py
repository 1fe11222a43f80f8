"""Workers whose disk is full: that of Spark's local directory, where the state of tasks lies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.backfill.in_process import Row
from tests.backfill.spark.on_spark import write_archive
from tests.spark_session import SMALL

VALUE_BYTES = 1000
ROWS = 20_000
"""Their values are twice what the small disk holds, and are committed a megabyte at a time."""
TOPOLOGY = f"""
import random
from pystreams import StreamsBuilder, serdes

config = {{"application.id": "app", "statestore.uncommitted.max.bytes": 2_000_000}}
builder = StreamsBuilder()
stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.BYTES)
large = stream.map_values(lambda value: random.Random(value).randbytes({VALUE_BYTES}))
large.to_table(name="table", key_serde=serdes.STRING, value_serde=serdes.BYTES)
"""
"""Spark shuffles little; it is the store that needs room."""


def backfill(directory: Path, disk: Path) -> subprocess.CompletedProcess[str]:
    """Stage what the archive gives, by workers that keep their state on a disk."""
    settings = {**SMALL, "spark.local.dir": str(disk)}
    conf = [part for key, value in settings.items() for part in ("--spark-conf", f"{key}={value}")]
    return subprocess.run(
        [
            *(sys.executable, "-m", "pystreams", "backfill", str(directory / "table.py")),
            *("--from", f"parquet:{directory / 'archive'}", "--no-publish"),
            *("--output", str(directory / "staged"), "--master", "local[1]", *conf),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
    )


@pytest.mark.sweep
@pytest.mark.spark
def test_full_disk_of_workers_is_told_and_with_room_the_backfill_goes_on(
    tmp_path: Path, small_disk: Path
) -> None:
    (tmp_path / "table.py").write_text(TOPOLOGY)
    rows = [
        Row("in", 0, offset, offset, b"key %d" % offset, b"%d" % offset) for offset in range(ROWS)
    ]
    write_archive(rows, tmp_path / "archive")
    roomy = tmp_path / "roomy"
    roomy.mkdir()

    failed = backfill(tmp_path, small_disk)

    assert failed.returncode == 1, failed.stderr
    assert "the disk is full; free space or move spark.local.dir to a larger disk" in failed.stderr
    assert str(small_disk) in failed.stderr
    left = {file.name for file in (tmp_path / "staged").iterdir()} - {".lock"}
    assert left == {"begun.json"}, "nothing counts as staged"

    done = backfill(tmp_path, roomy)

    assert done.returncode == 0, done.stderr
    assert f"{ROWS:,} rows of 1 store" in done.stdout
