"""The benchmark of joins: those of tables run and know what must come out; wrong rows are found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness.join_kinds import FOREIGN_KEY, made, problem_of

ROOT = Path(__file__).resolve().parents[2]
SOURCE = made(FOREIGN_KEY, records=200, keys=20, wait_ms=10)
RESULTS = [
    (key, f"{value}&content of {value.partition('/')[0]}") for key, value, _ in SOURCE.stream
]


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_joins_of_tables_run_and_agree_with_the_truth(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    command = [
        *(sys.executable, str(ROOT / "benchmarks" / "joins.py")),
        *("--records=10000", "--keys=500", "--commit-ms=20", f"--json={file}"),
        *("--kinds=table-table,foreign-key", "--programs=pystreams", "--guarantee=exactly_once"),
        "--no-backfill",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)

    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(file.read_text("utf-8"))["rows"]
    assert [row["kind"] for row in rows] == ["table-table", "foreign-key"]
    assert all(row["records_per_s"] > 0 for row in rows)


def test_a_change_may_be_overtaken_by_the_next_one_of_its_key() -> None:
    last = {key: result for key, result in RESULTS}  # noqa: C416 - the last one of each key

    assert problem_of(RESULTS, SOURCE, FOREIGN_KEY, 0) is None
    assert problem_of(list(last.items()), SOURCE, FOREIGN_KEY, 0) is None


@pytest.mark.parametrize(
    "wrong",
    [
        RESULTS[:-1],
        [*RESULTS, RESULTS[-1]],
        [RESULTS[-1], *RESULTS],
        [*RESULTS, (RESULTS[0][0], "row1/v&content of row2")],
        [*RESULTS, ("nobody", "row1/v&content of row1")],
    ],
    ids=["no last one", "twice", "too early", "another row", "another key"],
)
def test_wrong_results_of_a_foreign_key_are_found(wrong: list[tuple[str, str]]) -> None:
    assert problem_of(wrong, SOURCE, FOREIGN_KEY, 0) is not None
