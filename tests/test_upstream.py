"""The table of upstream's cases names files and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", (TESTS / "UPSTREAM.md").read_text())))


def test_the_table_names_tests_of_each_row() -> None:
    assert len(NAMED) > 30


@pytest.mark.parametrize(("file", "test"), NAMED, ids=["::".join(named) for named in NAMED])
def test_what_the_table_names_exists(file: str, test: str) -> None:
    path = TESTS.parent / file if file.startswith("tests/") else TESTS / file
    assert path.is_file()
    assert not test or re.search(rf"^def {test}\(", path.read_text("utf-8"), re.MULTILINE)
