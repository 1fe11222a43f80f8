"""The benchmark of models and calls runs and checks its results; wrong ones are found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness.output_check import WrongOutputError
from benchmarks.models import measure

ROOT = Path(__file__).resolve().parents[2]


def test_all_four_ways_run_and_are_written(tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    script = str(ROOT / "benchmarks" / "models.py")
    command = [sys.executable, script, "--records=200", "--calls=5", f"--json={file}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(file.read_text("utf-8"))["rows"]
    assert [row["records"] for row in rows] == [200, 200, 5, 5]
    assert all(row["records_per_s"] > 0 for row in rows)


def test_a_wrong_result_is_found() -> None:
    with pytest.raises(WrongOutputError, match="result 3 is"):
        measure(
            "wrong",
            lambda stream: stream.map_values(lambda value: -1.0 if value == 3 else value),
            10,
            lambda value: value,
        )


def test_a_missing_result_is_found() -> None:
    with pytest.raises(WrongOutputError, match="9 results of 10"):
        measure(
            "missing",
            lambda stream: stream.filter(lambda _, value: value < 9),
            10,
            lambda value: value,
        )
