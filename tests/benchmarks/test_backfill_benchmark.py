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
from pyarrow import parquet

from benchmarks.harness.backfill_results import backfill_tables, merged
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
    timed = {line["where"] for line in content["profile"]["lines"]}
    assert {"worker, process", "worker, rows to messages", "worker, results to Arrow"} <= timed
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


def test_what_is_measured_later_joins_what_is_there_and_replaces_it() -> None:
    settings = {"keys": 1}
    before = {
        "settings": settings,
        "rows": [row("backfill", 10, 5.0), row("live", 10, 2.0), row("backfill", 100, 1.0)],
    }
    now = {"settings": settings, "rows": [row("backfill", 100, 3.0), row("spark-sql", 10, 9.0)]}

    both = merged(before, now)

    found = {(one["program"], one["records"]): one["records_per_s"] for one in both["rows"]}
    assert found == {
        ("backfill", 10): 5.0,
        ("live", 10): 2.0,
        ("spark-sql", 10): 9.0,
        ("backfill", 100): 3.0,
    }


def test_ratios_are_to_the_peers_of_the_same_size() -> None:
    settings = {
        "partitions": 8,
        "keys": 100,
        "value_bytes": 20,
        "cache_bytes": 0,
        "cores": 2,
        "commit_ms": 1000,
        "runs": 1,
        "pyspark": "4.0.0",
    }
    rows = [row("backfill", 10, 6.0), row("live", 10, 2.0), row("backfill", 100, 7.0)]

    lines = backfill_tables({"rows": rows, "settings": settings})["backfill"].splitlines()

    assert [line.split("|")[9].strip() for line in lines[2:5]] == ["3.00", "", ""]
