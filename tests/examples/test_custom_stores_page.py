"""The examples of docs/custom-stores.md do what the page says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "custom-stores.md"


def test_examples_of_the_page_run() -> None:
    text = PAGE.read_text()
    names: dict[str, Any] = {"__name__": "page"}
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(program, PAGE.name, "exec", dont_inherit=True), names)
    printed: list[str] = []
    examples = doctest.DocTestParser().get_doctest(text, names, PAGE.name, str(PAGE), 0)
    results = doctest.DocTestRunner().run(examples, out=printed.append)

    assert not results.failed, "".join(printed)
    assert results.attempted > 1
