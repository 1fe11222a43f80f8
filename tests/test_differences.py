"""The page of differences from Kafka Streams: each has a reason and a test; none is left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "differences.md"
MARK = re.compile(r"Differs from\s+(#\s+)?Kafka")


class Row(NamedTuple):
    here: str
    there: str
    why: str
    module: str
    test: str


def rows() -> list[Row]:
    cells = [
        [cell.strip() for cell in line.strip("|\n").split(" | ")]
        for line in PAGE.read_text("utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| Here ")
    ]
    return [
        Row(here, there, why, module.strip("`"), test.strip("` |"))
        for here, there, why, module, test in cells
    ]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.test)
def test_a_difference_has_its_reason_its_module_and_its_test(row: Row) -> None:
    assert row.here
    assert row.there
    assert row.why
    assert (ROOT / "pystreams" / row.module).is_file()
    file, _, test = row.test.partition("::")
    assert f"def {test}(" in (ROOT / "tests" / file).read_text("utf-8")


def test_every_docstring_that_tells_of_a_difference_has_its_row() -> None:
    package = ROOT / "pystreams"
    telling = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if MARK.search(file.read_text("utf-8"))
    }
    assert len(telling) > 40
    assert telling - {row.module for row in rows()} == set()
