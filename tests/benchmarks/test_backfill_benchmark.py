"""The backfill benchmark: it runs, no wrong count gets past it, and its parts can be added up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from benchmarks.backfill import main
from benchmarks.harness.backfill_results import OtherSettingsError, backfill_tables, merged
from benchmarks.harness.backfill_stages import DECODE, FROM_KAFKA, PROCESS, TO_PARQUET, line_of
from benchmarks.harness.batch_programs import check_counts, run_to_end
from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.process_tree import ALL, DRIVER, JVM, LARGEST_WORKER, WORKERS
from benchmarks.harness.processes import ProgramError

ROOT = Path(__file__).resolve().parents[2]
TRUTH = Counter({b"a": 3, b"b": 1})


def backfill_benchmark(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "backfill.py"), "--keys=300", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_backfill_and_profile_run_and_agree_with_the_truth(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    done = backfill_benchmark(
        "--records=20000", "--programs=backfill,spark-sql", "--profile", f"--json={file}"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    content = json.loads(file.read_text("utf-8"))
    assert [row["program"] for row in content["rows"]] == ["backfill", "spark-sql"]
    peaks = content["rows"][0]["peak_bytes"]
    assert all(peaks[name] > 0 for name in (DRIVER, JVM, WORKERS, LARGEST_WORKER, ALL))
    timed = {line["where"] for line in content["profile"]["lines"] if line["cpu_us"] > 0}
    assert set(map(line_of, (FROM_KAFKA, DECODE, PROCESS, TO_PARQUET))) <= timed
    assert all(line["cpu_us"] >= 0 for line in content["profile"]["lines"])


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", ["backfill", "spark-sql"])
def test_a_wrong_count_ends_with_exit_code_1_and_no_number(program: str) -> None:
    done = backfill_benchmark("--records=5000", f"--programs={program}", "--tamper")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "wrong output: " in done.stdout
    assert "records/s" not in done.stdout


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ({b"a": 3}, "b'b': None, the input has 1"),
        ({b"a": 3, b"b": 2}, "b'b': 2, the input has 1"),
        ({**TRUTH, b"c": 1}, "b'c': 1, the input has None"),
    ],
)
def test_wrong_counts_of_spark_sql_are_found(
    counts: dict[bytes, int], problem: str, tmp_path: Path
) -> None:
    write_counts(TRUTH, tmp_path / "right")
    check_counts(tmp_path / "right", TRUTH)

    write_counts(counts, tmp_path / "wrong")
    with pytest.raises(WrongOutputError, match=problem):
        check_counts(tmp_path / "wrong", TRUTH)


def write_counts(counts: dict[bytes, int], path: Path) -> None:
    path.mkdir()
    table = pa.table({"key": list(counts), "count": list(counts.values())})
    parquet.write_table(table, path / "part-0.parquet")


def test_memory_and_cpu_time_are_those_of_all_processes(tmp_path: Path) -> None:
    child = "data = bytearray(60 << 20)\nwhile __import__('time').process_time() < 1.2: pass"
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"

    began_s = time.perf_counter()
    ended = run_to_end([sys.executable, "-c", parent], tmp_path / "log", {})
    run = ended.run()

    assert 0 < run.seconds <= time.perf_counter() - began_s
    assert run.peak_bytes[ALL] > 60 << 20 > run.peak_bytes[DRIVER]
    assert run.cpu_s > run.cpu_s_by_role[DRIVER]


def test_program_that_fails_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os; raise SystemExit(os.environ['WORDS'])"]

    with pytest.raises(ProgramError, match=r"exit code 1:\nno more"):
        run_to_end(command, tmp_path / "log", {"WORDS": "no more"})
    assert "WORDS" not in os.environ


def row(program: str, records: int, per_s: float) -> dict[str, Any]:
    return {
        "program": program,
        "title": program,
        "records": records,
        "seconds": records / per_s,
        "seconds_min": 1.0,
        "seconds_max": 2.0,
        "records_per_s": per_s,
        "processing_per_s": None,
        "publishing_s": None,
        "cpu_s_per_million": 10.0,
        "peak_bytes": {ALL: 1 << 20},
    }


SETTINGS = {
    "partitions": 8,
    "keys": 100,
    "value_bytes": 20,
    "cache_bytes": 0,
    "cores": 2,
    "commit_ms": 1000,
    "runs": 1,
    "pyspark": "4.0.0",
}


def published(given: dict[str, Any], seconds: float) -> dict[str, Any]:
    """A row whose results were published in so many seconds."""
    run = {"seconds": given["seconds"], "publishing_s": seconds}
    return {**given, "publishing_s": seconds, "runs": [run]}


def table_of(name: str, rows: list[dict[str, Any]]) -> list[list[str]]:
    lines = backfill_tables({"rows": rows, "settings": SETTINGS})[name].splitlines()
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in lines[2:]
        if line.startswith("|")
    ]


def test_what_is_measured_later_joins_what_is_there_and_replaces_it() -> None:
    settings = {"keys": 1}
    before = {
        "settings": settings,
        "rows": [row("backfill", 10, 5.0), row("live", 10, 2.0), row("backfill", 100, 1.0)],
    }
    now = {"settings": settings, "rows": [row("backfill", 100, 3.0), row("spark-sql", 10, 9.0)]}

    both = merged(before, now)

    found = {(row["program"], row["records"]): row["records_per_s"] for row in both["rows"]}
    assert found == {
        ("backfill", 10): 5.0,
        ("live", 10): 2.0,
        ("spark-sql", 10): 9.0,
        ("backfill", 100): 3.0,
    }


def test_ratios_are_to_the_peers_of_the_same_size() -> None:
    rows = [row("backfill", 10, 6.0), row("live", 10, 2.0), row("backfill", 100, 7.0)]

    lines = backfill_tables({"rows": rows, "settings": SETTINGS})["backfill"].splitlines()

    assert [line.split("|")[9].strip() for line in lines[2:5]] == ["3.00", "", ""]


def test_backfill_stands_beside_itself_with_its_publishing() -> None:
    rows = [published(row("backfill", 100, 10.0), 15.0), row("live", 100, 5.0)]

    lines = table_of("backfill", rows)

    assert [(line[0], line[2], line[8]) for line in lines] == [
        ("backfill", "10.0", "2.00"),
        ("backfill and publishing", "25.0", "0.80"),
        ("live", "20.0", ""),
    ]


def test_growth_from_size_to_size_is_told_for_each_program() -> None:
    million = 1_000_000
    rows = [
        published(row("backfill", 2 * million, 200_000.0), 1.0),
        row("live", 2 * million, 100_000.0),
        published(row("backfill", 20 * million, 500_000.0), 10.0),
        row("spark-sql", 20 * million, 100_000.0),
    ]

    assert table_of("backfill-growth", rows) == [
        ["backfill", "2,000,000", "20,000,000", "1.67", "6.7"],
        ["backfill and publishing", "2,000,000", "20,000,000", "2.17", "6.7"],
    ]


def test_one_size_tells_no_growth() -> None:
    tables = backfill_tables({"rows": [row("live", 10, 1.0)], "settings": SETTINGS})

    assert "backfill-growth" not in tables


@pytest.mark.parametrize("name", ["cores", "keys", "partitions", "runs"])
def test_what_was_measured_with_other_settings_is_not_merged(name: str) -> None:
    before = {"settings": SETTINGS | {name: 7}, "rows": [row("live", 10, 2.0)]}
    now = {"settings": SETTINGS, "rows": [row("backfill", 10, 5.0)]}

    with pytest.raises(OtherSettingsError, match=rf"{name} 7, not {SETTINGS[name]}"):
        merged(before, now)


def test_what_was_measured_on_another_machine_is_not_merged_and_on_another_day_is() -> None:
    before = {"settings": SETTINGS, "machine": {"date": "2026-01-01", "cores": "2"}, "rows": []}
    next_day = {"settings": SETTINGS, "machine": {"date": "2026-01-02", "cores": "2"}, "rows": []}
    elsewhere = {"settings": SETTINGS, "machine": {"date": "2026-01-01", "cores": "8"}, "rows": []}

    assert merged(before, next_day) == next_day
    with pytest.raises(OtherSettingsError, match="cores 2, not 8"):
        merged(before, elsewhere)


def test_file_of_other_settings_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"settings": SETTINGS, "rows": []}))

    refused = CliRunner().invoke(main, ["--programs=backfill", f"--json={file}"])

    assert refused.exit_code == 2
    assert "keys 100, not 100000" in refused.output
    assert json.loads(file.read_text())["rows"] == []
