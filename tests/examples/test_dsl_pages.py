"""The examples of docs/dsl do what their pages say."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs" / "dsl").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_the_page_run(page: Path) -> None:
    failed, tried = doctest.testfile(str(page), module_relative=False)

    assert tried >= 5
    assert failed == 0
