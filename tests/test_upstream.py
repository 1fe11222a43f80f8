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


def test_every_case_of_the_stores_has_ours_or_a_reason() -> None:
    text = (TESTS / "UPSTREAM.md").read_text()
    listed = text.split("## Case by case")[1].split("\n## ")[0]
    rows = set(re.findall(r"^### Row (\d+):", listed, re.MULTILINE))
    cases = re.findall(r"^\| (?!upstream's|-)(.+) \| (.+) \|$", listed, re.MULTILINE)

    assert rows == {"23", "24", "25", *map(str, range(27, 33))}
    assert len(cases) > 100
    for names, ours in cases:
        assert ".py" in ours or ours.startswith("not here: "), names
