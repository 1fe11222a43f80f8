"""The tables of upstream's cases, KIPs and peers' bugs name files and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TABLES = "UPSTREAM.md", "KIPS.md", "PEERS.md"
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


def test_every_bug_of_a_peer_names_a_test() -> None:
    rows = re.findall(
        r"^\| (?!thread|-)(.+?) \| (.+) \|$", (TESTS / "PEERS.md").read_text(), re.MULTILINE
    )

    assert len(rows) > 30
    for thread, row in rows:
        assert ".py" in row.rsplit(" | ", maxsplit=1)[1], thread


def test_every_case_of_the_listed_classes_has_ours_or_a_reason() -> None:
    text = (TESTS / "UPSTREAM.md").read_text()
    listed = text.split("## Case by case")[1].split("\n## ")[0]
    rows = set(re.findall(r"^### Row (\d+):", listed, re.MULTILINE))
    cases = re.findall(r"^\| (?!upstream's|-)(.+) \| (.+) \|$", listed, re.MULTILINE)

    assert rows == {
        *map(str, range(2, 5)),
        "7",
        "8",
        *map(str, range(9, 23)),
        *map(str, range(23, 26)),
        *map(str, range(27, 33)),
        "36",
        "38",
        "39",
    }
    assert cases
    for names, ours in cases:
        assert ".py" in ours or ours.startswith("not here: "), names


def case_sections() -> dict[str, tuple[int, int]]:
    """Return how many cases each class has by the title of its section, and how many are listed."""
    listed = (TESTS / "UPSTREAM.md").read_text().split("## Case by case")[1].split("\n## ")[0]
    sections = {}
    for section in re.split(r"^### ", listed, flags=re.MULTILINE)[1:]:
        title, rest = section.split("\n", maxsplit=1)
        name, stated = re.fullmatch(r"Row \d+: (.+) \((\d+) cases?\)", title).groups()  # type: ignore[union-attr]
        rows = re.findall(r"^\| (?!upstream's|-)(.+) \| .+ \|$", rest, re.MULTILINE)
        sections[name] = int(stated), sum(map(cases_of, rows))
    return sections


def cases_of(row: str) -> int:
    """Return how many cases a row names, or says it has."""
    stated = re.search(r"(\d+) cases", row)
    return int(stated[1]) if stated else len(re.findall(r"\b[a-z]+[A-Z]\w+", row))


CASE_SECTIONS = case_sections()


@pytest.mark.parametrize("upstream", CASE_SECTIONS)
def test_every_case_that_upstreams_class_has_is_listed(upstream: str) -> None:
    stated, listed = CASE_SECTIONS[upstream]

    assert listed == stated
