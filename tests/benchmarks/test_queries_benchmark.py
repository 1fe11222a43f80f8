"""The benchmark of questions over HTTP: it runs, and no wrong answer gets past it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness.asked_processes import AskedProcesses
from benchmarks.harness.client_load import ask_with_client
from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.processes import ProgramError
from benchmarks.queries import Asked
from pystreams.client import Client
from tests.broker.waiting import DEADLINE_S
from tests.http.scripted_server import Asked as Request
from tests.http.scripted_server import as_json, scripted

ROOT = Path(__file__).resolve().parents[2]
SHORT = (
    *("--records=200000", "--keys=500", "--turns=1", "--turn-s=0.2"),
    *("--rate=50", "--connections=2"),
)


def queries_benchmark(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "queries.py"), *SHORT, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(900)
@pytest.mark.parametrize("to", ["owner", "client"])
def test_it_asks_a_running_count_and_tells_what_that_costs(tmp_path: Path, to: str) -> None:
    file = tmp_path / "results.json"
    done = queries_benchmark(f"--json={file}", f"--to={to}")
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(file.read_text("utf-8"))["rows"]
    assert row["quiet_us_per_question"] > 0
    assert row["quiet_p50_ms"] <= row["quiet_p99_ms"]


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_a_wrong_answer_ends_with_exit_code_1_and_no_number() -> None:
    done = queries_benchmark("--tamper")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "wrong output: key" in done.stdout
    assert "answered in" not in done.stdout


def answer(value: int, key: str = "a") -> bytes:
    return json.dumps({"key": key, "value": value}).encode()


def test_counts_that_rise_up_to_the_truth_pass() -> None:
    asked = Asked({"a": 3})
    asked.check("/v1/stores/counts/a", 404, b"{}")
    for value in (1, 1, 3):
        asked.check("/v1/stores/counts/a", 200, answer(value))
    asked.is_over = True
    asked.check("/v1/stores/counts/a", 200, answer(3))
    asked.check("/v1/stores/counts/absent", 404, b"{}")


@pytest.mark.parametrize(
    ("status", "body", "is_over"),
    [
        (200, answer(1), False),
        (404, b"{}", False),
        (200, answer(4), False),
        (200, answer(2), True),
        (200, answer(3, "b"), False),
        (503, b"{}", False),
    ],
    ids=["falls", "gone", "above", "short at the end", "another key", "refused"],
)
def test_wrong_answers_are_found(status: int, body: bytes, is_over: bool) -> None:
    asked = Asked({"a": 3})
    asked.check("/v1/stores/counts/a", 200, answer(2))
    asked.is_over = is_over
    with pytest.raises(WrongOutputError):
        asked.check("/v1/stores/counts/a", status, body)


@pytest.mark.parametrize(("value", "is_right"), [(2, True), (4, False)])
def test_what_a_client_finds_is_checked_as_well(value: int, is_right: bool) -> None:
    asked = Asked({"a": 3, "b": 3})
    expected = contextlib.nullcontext() if is_right else pytest.raises(WrongOutputError)

    def answered(request: Request) -> bytes:
        return as_json({"key": request.target.rpartition("/")[2], "value": value})

    with scripted(answered) as server, Client(server.url) as client, expected:
        load = ask_with_client(
            client, iter(["a", "b"] * 10), rate=200, seconds=0.1, threads=1, check=asked.check_found
        )
        assert len(load.latencies_s) == 20
        assert {request.target for request in server.asked} == {
            "/v1/stores/counts/a",
            "/v1/stores/counts/b",
        }


MOVING = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"


def shares(*numbers: int) -> bytes:
    return as_json({"partitions": [{"partition": number} for number in numbers]})


def test_nothing_is_asked_before_each_process_answers_for_all_partitions() -> None:
    """One partition is nobody's at first, then on its way, then not known to the other process."""
    of_first = iter([shares(0), shares(0, 1), shares(0)])
    of_second = iter([shares(2), shares(2), MOVING])
    known = iter([MOVING])

    def first(request: Request) -> bytes:
        number = request.target.partition("partition=")[2]
        return shares(int(number)) if number else next(of_first, shares(0))

    def second(request: Request) -> bytes:
        number = request.target.partition("partition=")[2]
        if number == "0":
            return next(known, shares(0))
        return shares(int(number)) if number else next(of_second, shares(1, 2))

    with scripted(first) as one, scripted(second) as other:
        AskedProcesses([], [one.port, other.port]).wait_for_partitions("counts", 3, DEADLINE_S)

    assert not any(map(list, (of_first, of_second, known)))


def test_a_process_that_answers_for_some_partitions_alone_ends_the_benchmark() -> None:
    with scripted(lambda _: shares(0)) as one, pytest.raises(ProgramError, match="all 2 partition"):
        AskedProcesses([], [one.port]).wait_for_partitions("counts", 2, 0)
