"""The soak: it runs, tells what the process holds, and lets no wrong output pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def soak(*options: str) -> subprocess.CompletedProcess[str]:
    short = ("--minutes=0.1", "--rate=100", "--keys=50", "--look-s=2")
    command = [sys.executable, "-m", "benchmarks.soak", *short, *options]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500
    )


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_it_tells_what_the_process_holds_when_the_output_is_right(tmp_path: Path) -> None:
    file = tmp_path / "soak.json"
    done = soak(f"--json={file}")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "output is right" in done.stdout
    looks = json.loads(file.read_text("utf-8"))["rows"]
    assert all(look["resident_bytes"] > 2**20 and look["handles"] > 10 for look in looks)
    assert all(look["handles"] > look["data_files"] >= 0 for look in looks)
    assert looks[-1]["written"] > 0


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_a_wrong_count_of_a_minute_ends_with_exit_code_1_and_no_figures(tmp_path: Path) -> None:
    file = tmp_path / "soak.json"
    done = soak(f"--json={file}", "--tamper")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "final counts of minutes" in done.stdout
    assert not file.exists()
