"""The benchmarks of windows: they run, know what must come out, and let no wrong output pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.timed_topics import Timed
from benchmarks.harness.window_check import Result, check_results, finals, updates
from benchmarks.harness.window_kinds import ADVANCE_MS, DIFFERENCE_MS, SIZE_MS, WindowInput, made

ROOT = Path(__file__).resolve().parents[2]
T = 1_700_000_000_000


def benchmark(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / name), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_windows_run_and_agree_with_the_truth(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    done = benchmark(
        "windows.py",
        "--commit-ms=20",
        "--records=5000",
        "--keys=500",
        "--kinds=hopping,session",
        "--programs=pystreams",
        f"--json={file}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(file.read_text("utf-8"))["rows"]
    assert [(row["kind"], row["emit"]) for row in rows] == [
        ("hopping", "update"),
        ("hopping", "close"),
        ("session", "update"),
        ("session", "close"),
    ]
    assert all(row["records_per_s"] > 0 for row in rows)
    assert rows[0]["output_records"] == 5 * 5_000


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_a_wrong_output_ends_with_exit_code_1_and_no_number() -> None:
    done = benchmark(
        "windows.py",
        "--commit-ms=20",
        "--records=20000",
        "--keys=500",
        "--kinds=tumbling",
        "--emit=close",
        "--programs=pystreams",
        "--tamper",
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "wrong output: " in done.stdout
    assert "records/s" not in done.stdout


@pytest.mark.timeout(300)
def test_costs_are_measured_for_each_thing_that_grows(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    done = benchmark(
        "window_costs.py",
        *("--open=100,1000", "--overlaps=1,2", "--keys=10,20"),
        *("--records=1000", "--kinds=hopping,sliding", "--emit=close", f"--json={file}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(file.read_text("utf-8"))["rows"]
    assert [row["grows"] for row in rows].count("open windows") == 4
    assert [row["grows"] for row in rows].count("overlap") == 2
    assert [row["grows"] for row in rows].count("keys") == 4
    assert all(row["cpu_us"] > 0 for row in rows)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("options", [(), ("--at-once",)], ids=["one by one", "at once"])
def test_all_windows_that_are_held_back_come_out_once(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "results.json"
    done = benchmark("suppression.py", "--windows=5000", f"--json={file}", *options)

    assert done.returncode == 0, done.stdout + done.stderr
    moments = [row["moment"] for row in json.loads(file.read_text("utf-8"))["rows"]]
    assert "5,000 windows open" in moments
    assert moments[-2:] == ["5,000 results came", "peak"]


def of(*records: Timed) -> WindowInput:
    return WindowInput(list(records), max(record[2] for record in records), 1)


def test_hopping_sums_are_those_of_all_windows_a_record_is_in() -> None:
    found = list(updates("pystreams", "hopping", of(("a", "3", T + 1), ("a", "4", T))))

    starts = [T - 4 * ADVANCE_MS + number * ADVANCE_MS for number in range(5)]
    assert found == [("a", start, start + SIZE_MS, 3) for start in starts] + [
        ("a", start, start + SIZE_MS, 7) for start in starts
    ]


SESSIONS = of(("a", "", T), ("a", "", T + 3000), ("b", "", T), ("a", "", T + 1500))


def test_sessions_become_one_when_a_record_closes_the_gap() -> None:
    assert list(updates("pystreams", "session", SESSIONS)) == [
        ("a", T, T, 1),
        ("a", T + 3000, T + 3000, 1),
        ("b", T, T, 1),
        ("a", T, T, None),
        ("a", T + 3000, T + 3000, None),
        ("a", T, T + 3000, 3),
    ]
    assert finals("pystreams", "session", SESSIONS) == {
        ("a", T, T + 3000): 3,
        ("b", T, T): 1,
    }


def test_quix_streams_deletes_no_sessions_and_closes_a_key_by_its_own_records() -> None:
    later = of(*SESSIONS.records, ("a", "", T + 20_000))

    assert None not in {value for _, _, _, value in updates("quix", "session", later)}
    assert finals("quix", "session", later) == {("a", T, T + 3000): 3}


SLIDING = of(("a", "", T), ("a", "", T + 500))
SLIDING_RESULTS: list[Result] = [
    ("a", T - DIFFERENCE_MS, T, 1),
    ("a", T + 1, T + 1 + DIFFERENCE_MS, 1),
    ("a", T + 500 - DIFFERENCE_MS, T + 500, 2),
]


def test_sliding_windows_end_with_a_record_or_begin_behind_one() -> None:
    expected = {(key, start, end): value for key, start, end, value in SLIDING_RESULTS}
    assert finals("pystreams", "sliding", SLIDING) == expected


def test_what_must_come_out_passes() -> None:
    source = made(2000, 100)
    for kind in ("tumbling", "hopping", "session"):
        found = updates("pystreams", kind, source)
        assert check_results(found, "pystreams", kind, "update", source) >= 2000
    assert check_results(SLIDING_RESULTS, "pystreams", "sliding", "update", SLIDING) == 3
    assert check_results(SLIDING_RESULTS, "pystreams", "sliding", "close", SLIDING) == 3


@pytest.mark.parametrize(
    ("emit", "found", "problem"),
    [
        ("close", SLIDING_RESULTS[:2], "1 of 3 windows are wrong"),
        ("close", [*SLIDING_RESULTS, SLIDING_RESULTS[0]], "came twice"),
        ("close", [*SLIDING_RESULTS, ("b", T, T, 1)], "None"),
        ("update", SLIDING_RESULTS[:2], "1 of 3 windows are wrong"),
        ("update", [*SLIDING_RESULTS, SLIDING_RESULTS[0]], "goes from 1 to 1"),
        ("update", [*SLIDING_RESULTS, ("a", *SLIDING_RESULTS[2][1:3], 4)], "goes from 2 to 4"),
    ],
    ids=["missing", "twice", "unknown", "missing update", "repeat", "gap"],
)
def test_wrong_results_are_found(emit: str, found: list[Result], problem: str) -> None:
    with pytest.raises(WrongOutputError, match=problem):
        check_results(found, "pystreams", "sliding", emit, SLIDING)


@pytest.mark.parametrize("change", ["missing", "repeated", "swapped"])
def test_an_update_that_is_not_in_order_is_found(change: str) -> None:
    source = made(2000, 100)
    found = list(updates("pystreams", "tumbling", source))
    if change == "missing":
        del found[-1]
    elif change == "repeated":
        found.insert(7, found[7])
    else:
        found[3], found[4] = found[4], found[3]

    with pytest.raises(WrongOutputError, match=r"result .* is .* instead of"):
        check_results(found, "pystreams", "tumbling", "update", source)


def test_no_record_of_the_input_is_late_and_some_are_out_of_order() -> None:
    stream_time, out_of_order = 0, 0
    for _, _, timestamp in made(2000, 100).records:
        out_of_order += timestamp < stream_time
        stream_time = max(stream_time, timestamp)
        assert timestamp > stream_time - 1000
    assert out_of_order > 200
