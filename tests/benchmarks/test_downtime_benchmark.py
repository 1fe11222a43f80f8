"""What the downtime benchmark makes of a run: whose tasks waited, and what is kept between runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.cluster import Cluster
from benchmarks.harness.downtime_results import COLUMNS, Measured, line, samples_of, tables
from benchmarks.harness.interruptions import ALL, NOBODY, Fate, Silence, fate_of
from benchmarks.harness.members import CONTENDERS, Members
from benchmarks.harness.programs import Job
from pystreams.broker import DevelopmentBroker
from tests.broker.waiting import wait_until
from tests.names import unique_name

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


def row(standbys: int = 0) -> dict[str, Any]:
    found = [
        Silence(0.1, Fate.STAYS),
        Silence(7.0, Fate.ENDED),
        Silence(0.5, Fate.PASSED),
        Silence(0.7, Fate.PASSED),
    ]
    name = {"interruption": "killed", "program": "ours", "silence_ms": 4000}
    return name | {"standbys": standbys, "loads": [1.5]} | samples_of(found)


def test_a_line_tells_both_kinds_of_moves_and_all_of_them() -> None:
    assert dict(zip(COLUMNS, line(row()), strict=True)) == {
        "what happens": "killed",
        "standbys": "0",
        "program": "ours",
        "stay": "0.10, 0.10",
        "of the process that ended": "7.00, 7.00",
        "between living processes": "0.50, 0.70",
        "all tasks": "0.50, 7.00",
        "partitions: stay, ended, between": "1, 1, 2",
    }


def test_runs_are_kept_and_added_up_by_row_with_and_without_standbys(tmp_path: Path) -> None:
    file = tmp_path / "downtime.json"
    first = Measured(file, {"partitions": 6, "rate": 25})
    first.add(row())
    first.add(row(standbys=1))

    again = Measured(file, {"partitions": 6, "rate": 25})
    again.add(row(standbys=1))
    assert [again.runs(row(number)) for number in range(3)] == [1, 2, 0]
    assert [known["passed_s"] for known in again.rows] == [[0.5, 0.7], [0.5, 0.7] * 2]
    assert Measured(file, {}).rows == again.rows


def test_the_page_has_a_row_for_each_number_of_standbys() -> None:
    rows = [row(), row(standbys=1)]
    text = tables({"rows": rows, "settings": {"partitions": 6, "rate": 25}})["downtime"]
    assert [text.count(f"| killed | {number} | ours |") for number in (0, 1)] == [1, 1]
    assert "The load was 1.5 to 1.5." in text


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
