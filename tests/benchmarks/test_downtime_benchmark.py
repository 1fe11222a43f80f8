"""What the downtime benchmark makes of a run: whose tasks waited, and what is kept between runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.cluster import Cluster
from benchmarks.harness.counted_keys import CountedKeys, key_of, load
from benchmarks.harness.downtime_results import COLUMNS, Measured, line, samples_of, tables
from benchmarks.harness.interruptions import (
    ALL,
    NOBODY,
    Fate,
    Findings,
    Silence,
    fate_of,
    is_shared_out,
)
from benchmarks.harness.members import CONTENDERS, Members
from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.programs import Job
from benchmarks.harness.silence import keys_of_partitions
from pystreams.broker import DevelopmentBroker
from tests.broker.reading import read_all
from tests.broker.waiting import wait_until
from tests.names import unique_name

SETTINGS = {"partitions": 6, "rate": 25}
BEFORE = {0: "a", 1: "b", 2: "c"}


@pytest.mark.parametrize(
    ("ended", "seen", "fates"),
    [
        ("b", [{0: "a", 1: "a", 2: "c"}], [Fate.STAYS, Fate.ENDED, Fate.STAYS]),
        ("b", [{0: "a", 1: "b", 2: "c"}], [Fate.STAYS, Fate.ENDED, Fate.STAYS]),
        ("b", [{0: "c", 1: "a", 2: "c"}], [Fate.PASSED, Fate.ENDED, Fate.STAYS]),
        ("b", [{0: "b", 1: "a", 2: "c"}], [Fate.PASSED, Fate.ENDED, Fate.STAYS]),
        ("b", [{0: "c", 1: "a"}, dict(BEFORE)], [Fate.PASSED, Fate.ENDED, Fate.STAYS]),
        (NOBODY, [{0: "a", 1: "d", 2: "c"}], [Fate.STAYS, Fate.PASSED, Fate.STAYS]),
        (ALL, [dict(BEFORE)], [Fate.ENDED] * 3),
    ],
    ids=["taken over", "back", "spread anew", "given to who came", "back again", "added", "all"],
)
def test_a_task_that_moved_was_of_the_process_that_ended_or_passed_between_living_ones(
    ended: str, seen: list[dict[int, str]], fates: list[Fate]
) -> None:
    assert [fate_of(partition, ended, BEFORE, seen) for partition in BEFORE] == fates


@pytest.mark.parametrize(
    ("owners", "shared"),
    [
        ({0: "a", 1: "a", 2: "b", 3: "b"}, False),
        ({0: "a", 1: "a", 2: "b", 3: "new"}, True),
        ({0: "a", 1: "a", 2: "a", 3: "new"}, False),
        ({0: "a", 1: "b", 2: "new", 3: "dead"}, False),
    ],
    ids=["none yet", "its part", "others have none", "some are left to who has ended"],
)
def test_tasks_are_shared_out_once_each_process_that_runs_has_its_part(
    owners: dict[int, str], *, shared: bool
) -> None:
    assert is_shared_out(owners, ["a", "b", "new"]) is shared


def test_more_processes_than_tasks_are_shared_out_too() -> None:
    assert is_shared_out({0: "a", 1: "b"}, ["a", "b", "new"])


def row(standbys: int = 0, keys: int = 120, calm_after_s: float | None = 3.2) -> dict[str, Any]:
    silences = [
        Silence(0.1, Fate.STAYS),
        Silence(7.0, Fate.ENDED),
        Silence(0.5, Fate.PASSED),
        Silence(0.7, Fate.PASSED),
    ]
    samples = samples_of(Findings(silences, [calm_after_s]))
    name = {"interruption": "killed", "program": "ours", "silence_ms": 4000, "keys": keys}
    return name | {"standbys": standbys, "loads": [1.5], "runs": 1} | samples


def test_a_line_tells_both_kinds_of_moves_and_all_of_them() -> None:
    assert dict(zip(COLUMNS, line(row()), strict=True)) == {
        "what happens": "killed",
        "standbys": "0",
        "keys": "120",
        "program": "ours",
        "stay": "0.10, 0.10",
        "of the process that ended": "7.00, 7.00",
        "between living processes": "0.50, 0.70",
        "all tasks": "0.50, 7.00",
        "calm after": "3.2",
        "partitions: stay, ended, between": "1, 1, 2",
        "runs": "1",
    }


def test_runs_are_kept_and_added_up_by_row_with_and_without_standbys(tmp_path: Path) -> None:
    file = tmp_path / "downtime.json"
    first = Measured(file, SETTINGS)
    first.add(row())
    first.add(row(standbys=1))

    again = Measured(file, SETTINGS)
    again.add(row(standbys=1))
    assert [again.runs(row(number)) for number in range(3)] == [1, 2, 0]
    assert [known["passed_s"] for known in again.rows] == [[0.5, 0.7], [0.5, 0.7] * 2]
    assert Measured(file, SETTINGS).rows == again.rows


def test_large_stores_are_rows_of_their_own(tmp_path: Path) -> None:
    measured = Measured(None, SETTINGS)
    measured.add(row())
    measured.add(row(keys=5_000_000))
    measured.add(row(keys=5_000_000))

    assert [(known["keys"], known["runs"]) for known in measured.rows] == [(120, 1), (5_000_000, 2)]


def test_rows_that_were_measured_before_keys_were_told_are_those_of_small_stores(
    tmp_path: Path,
) -> None:
    file = tmp_path / "downtime.json"
    told = row()
    old = {name: told[name] for name in told.keys() - {"keys", "calm_after_s"}}
    file.write_text(json.dumps({"settings": SETTINGS, "rows": [old]}), "utf-8")

    measured = Measured(file, SETTINGS)
    assert [measured.runs(row()), measured.runs(row(keys=5_000_000))] == [1, 0]
    assert "| killed | 0 | 120 | ours |" in tables(json.loads(file.read_text()))["downtime"]
    measured.add(row())
    assert [known["calm_after_s"] for known in measured.rows] == [[3.2]]


def test_the_page_has_a_row_for_each_number_of_standbys_and_keys_with_its_runs() -> None:
    rows = [row(), row(standbys=1), row(keys=5_000_000)]
    text = tables({"rows": rows, "settings": SETTINGS})["downtime"]
    assert [text.count(f"| killed | {number} | 120 | ours |") for number in (0, 1)] == [1, 1]
    assert text.count("| killed | 0 | 5,000,000 | ours |") == 1
    assert text.count("| 1, 1, 2 | 1 |") == 3
    assert "The load was 1.5 to 1.5." in text


def test_a_process_that_was_never_given_its_part_is_told() -> None:
    measured = Measured(None, SETTINGS)
    for calm_after_s in (3.2, None, 4.2):
        measured.add(row(calm_after_s=calm_after_s))

    line_of = dict(zip(COLUMNS, line(measured.rows[0]), strict=True))
    assert line_of["calm after"] == "3.2, never: 1"


def results(*counts: tuple[bytes, int]) -> CountedKeys:
    """Return two keys, with one record and two, of which these results have come."""
    keys = CountedKeys(2)
    for number in (0, 1, 1):
        keys.write(number)
    for key, count in counts:
        keys.see(key, count.to_bytes(8, "big"))
    return keys


def test_results_that_count_each_record_once_and_in_order_pass() -> None:
    results((b"key-1", 1), (b"key-0", 1), (b"key-1", 2)).check()


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ([(b"key-0", 1), (b"key-1", 1)], "b'key-1' ends at 1, the input has 2"),
        ([(b"key-1", 1), (b"key-1", 2)], "b'key-0' ends at 0, the input has 1"),
        ([(b"key-0", 1), (b"key-1", 1), (b"key-1", 1)], "b'key-1' goes from 1 to 1"),
        ([(b"key-0", 1), (b"key-1", 2), (b"key-1", 1)], "b'key-1' goes from 0 to 2"),
        ([(b"key-0", 1), (b"key-1", 1), (b"key-1", 2), (b"key-2", 1)], "b'key-2' is not in"),
        ([(b"key-0", 1), (b"key-1", 1), (b"key-1", 2), (b"x", 1)], "b'x' is not in"),
    ],
    ids=["missing", "a key missing", "twice", "out of order", "too many keys", "no key"],
)
def test_results_that_do_not_are_refused(counts: list[tuple[bytes, int]], problem: str) -> None:
    with pytest.raises(WrongOutputError, match=problem):
        results(*counts).check()


def test_each_partition_is_fed_as_many_keys_of_its_own() -> None:
    keys = keys_of_partitions(6, 50)

    assert [len(numbers) for numbers in keys] == [50] * 6
    assert len({number for numbers in keys for number in numbers}) == 300


@pytest.mark.broker
def test_each_key_is_loaded_once_into_the_partition_that_it_is_fed_to(
    broker: DevelopmentBroker,
) -> None:
    cluster, topic = Cluster(broker.bootstrap_servers), unique_name("loaded")
    cluster.create_topic(topic, 3)
    load(cluster, topic, 3000, CountedKeys(3000))

    loaded = read_all(broker.bootstrap_servers, topic)
    partition_of = {message.key(): message.partition() for message in loaded}
    fed = keys_of_partitions(3, 500)
    assert len(loaded) == len(partition_of) == 3000
    assert all(partition_of[key_of(key)] == number for number in range(3) for key in fed[number])


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_a_newcomer_takes_its_part_of_loaded_stores(tmp_path: Path) -> None:
    program = Path(__file__).parents[2] / "benchmarks" / "downtime.py"
    file = tmp_path / "results.json"
    command = [sys.executable, str(program), "--keys=20000", "--interruptions=scale-up"]
    command += ["--programs=pystreams", "--standbys=0", "--repetitions=1", f"--json={file}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = json.loads(file.read_text("utf-8"))["rows"]
    assert (found["keys"], found["runs"]) == (20_000, 1)
    assert found["passed_s"]
    assert found["calm_after_s"] != [None]


@pytest.mark.broker
def test_who_has_a_task_is_told_by_the_name_that_the_process_was_started_with(
    broker: DevelopmentBroker, tmp_path: Path
) -> None:
    name, servers = unique_name("downtime"), broker.bootstrap_servers
    job = Job(servers, name, f"{name}-in", f"{name}-out", tmp_path, "exactly_once_v2")
    for topic in (job.input, job.output):
        Cluster(servers).create_topic(topic, 2)
    members = Members(CONTENDERS["pystreams"], job, {})
    try:
        members.start("first", "second")
        wait_until(
            lambda: sorted((members.owners() or {}).values()) == ["first", "second"],
            "a task each",
            told=lambda: str(members.owners()),
        )
    finally:
        members.kill_all()
