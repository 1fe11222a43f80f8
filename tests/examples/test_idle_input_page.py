"""The example of docs/dsl/idle-input.md does what the page says."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "dsl" / "idle-input.md"


def test_the_example_of_the_page_runs() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)

    assert tried >= 7
    assert failed == 0
