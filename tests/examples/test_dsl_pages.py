"""The examples of pages in docs/dsl do what the pages say."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "dsl"


@pytest.mark.parametrize(
    ("page", "examples"),
    [("stateless", 15), ("aggregations", 30), ("processors", 30), ("serdes", 25), ("tables", 15)],
)
def test_examples_of_the_page_run(page: str, examples: int) -> None:
    failed, tried = doctest.testfile(str(PAGES / f"{page}.md"), module_relative=False)

    assert tried >= examples
    assert failed == 0
