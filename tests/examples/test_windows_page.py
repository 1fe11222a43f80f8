"""The pictures of docs/dsl/windows.md are what the page says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "dsl" / "windows.md"
PICTURES = PAGE.parent / "pictures"
DRAWN = runpy.run_path(str(PICTURES / "draw.py"))["PICTURES"]


def test_the_page_shows_all_pictures() -> None:
    shown = re.findall(r"\]\(pictures/(\w+)\.svg\)", PAGE.read_text())

    assert sorted(shown) == sorted(DRAWN)


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_a_picture_shows_what_the_program_makes_of_its_records(name: str) -> None:
    drawn = DRAWN[name]()

    assert (PICTURES / f"{name}.svg").read_text() == drawn, (
        "draw it again: python docs/dsl/pictures/draw.py"
    )
