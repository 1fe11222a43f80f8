"""The benchmark itself: it runs, and no wrong output gets past it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.harness.output_check import OutputCheck, WrongOutputError

ROOT = Path(__file__).resolve().parents[2]

TRUTH = Counter({b"a": 3, b"b": 1})


def count_benchmark(*options: str) -> subprocess.CompletedProcess[str]:
    # Short commits, so that a short input has several.
    command = [sys.executable, str(ROOT / "benchmarks" / "count.py"), "--commit-ms=20", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_count_and_profile_run_and_agree_with_the_truth(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    done = count_benchmark(
        "--records=20000",
        "--keys=500",
        "--engines=pystreams,floor",
        "--guarantee=exactly_once",
        "--profile",
        f"--json={results}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    content = json.loads(results.read_text("utf-8"))
    found = [(row["engine"], row["cache_bytes"]) for row in content["rows"]]
    assert found == [("pystreams", 0), ("pystreams", 10 * 2**20), ("floor", 0)]
    assert all(row["records_per_s"] > 0 for row in content["rows"])
    assert content["rows"][0]["output_records"] == 20_000
    timed = {line["stage"].strip() for line in content["stages"][0]["lines"]}
    assert {"consume", "decode", "process", "store get", "produce", "commit: transaction"} <= timed


@pytest.mark.broker
@pytest.mark.timeout(900)
def test_a_wrong_output_ends_with_exit_code_1_and_no_number() -> None:
    done = count_benchmark(
        "--records=20000", "--keys=500", "--engines=floor", "--guarantee=at_least_once", "--tamper"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "wrong output: b'key0000000' goes from" in done.stdout
    assert "records/s" not in done.stdout


def checked(*output: tuple[bytes, int], every_count: bool) -> OutputCheck:
    check = OutputCheck(TRUTH, every_count)
    for key, count in output:
        check.see(key, count.to_bytes(8, "big"))
    return check


GOOD = ((b"a", 1), (b"b", 1), (b"a", 2), (b"a", 3))


def test_every_count_in_order_passes() -> None:
    checked(*GOOD, every_count=True).finish()


def test_a_cached_output_may_skip_counts() -> None:
    checked((b"a", 3), (b"b", 1), every_count=False).finish()


@pytest.mark.parametrize(
    ("output", "every_count", "problem"),
    [
        (((b"a", 1), (b"b", 1), (b"a", 3)), True, "b'a' goes from 1 to 3"),
        (((b"a", 1), (b"a", 1), *GOOD[1:]), True, "b'a' goes from 1 to 1"),
        (((b"a", 2), (b"a", 1), *GOOD[1:]), False, "b'a' goes from 2 to 1"),
        (GOOD[:-1], True, "b'a' ends at 2, the input has 3"),
        (((b"a", 3),), False, "b'b' ends at None"),
        ((*GOOD, (b"c", 1)), True, "b'c' is not in the input"),
    ],
    ids=["gap", "repeat", "falling", "short", "missing key", "unknown key"],
)
def test_wrong_counts_are_found(
    output: tuple[tuple[bytes, int], ...], every_count: bool, problem: str
) -> None:
    with pytest.raises(WrongOutputError, match=problem):
        checked(*output, every_count=every_count).finish()
