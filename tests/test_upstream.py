"""The tables of upstream's cases and of the KIPs name files and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TABLES = "UPSTREAM.md", "KIPS.md"
NAMED = sorted(
    {
        named
        for table in TABLES
        for named in re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", (TESTS / table).read_text())
    }
)


@pytest.mark.parametrize("table", TABLES)
def test_the_table_names_tests_of_each_row(table: str) -> None:
    assert (TESTS / table).read_text().count(".py") > 30


@pytest.mark.parametrize(("file", "test"), NAMED, ids=["::".join(named) for named in NAMED])
def test_what_the_table_names_exists(file: str, test: str) -> None:
    path = TESTS.parent / file if file.startswith("tests/") else TESTS / file
    assert path.is_file()
    assert not test or re.search(rf"^def {test}\(", path.read_text("utf-8"), re.MULTILINE)
