"""The verdicts of docs/deploy.md are those that are given."""

from __future__ import annotations

from pathlib import Path

from pystreams.deploy.verdicts import Verdict

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"


def test_the_page_has_each_verdict_and_what_it_counts_as() -> None:
    cells = [line.split(" | ") for line in PAGE.read_text("utf-8").splitlines() if "|" in line]
    told = {row[0].strip("| "): row[-1].strip("| ") for row in cells if len(row) == 3}

    assert {verdict.value: told[verdict.value] == "no" for verdict in Verdict} == {
        verdict.value: not verdict.loses for verdict in Verdict
    }
