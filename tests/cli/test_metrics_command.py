"""`pystreams metrics`, and the page it writes."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from pystreams.cli.commands.development.metrics import metrics
from pystreams.cli.display.metrics_page import reference_page
from pystreams.metrics import DEFINITIONS

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_is_current() -> None:
    hint = "run: pystreams metrics --markdown > docs/metrics.md"
    assert PAGE.read_text("utf-8") == reference_page(), hint


def test_markdown_is_the_page() -> None:
    answer = CliRunner().invoke(metrics, ["--markdown"])

    assert answer.exit_code == 0
    assert answer.stdout == reference_page()


def test_rows_of_the_page_have_one_cell_a_column() -> None:
    rows = [line for line in reference_page().splitlines() if line.startswith("| `")]

    assert len(rows) == len(DEFINITIONS)
    assert {row.count("|") for row in rows} == {6}


def test_the_table_lists_every_metric() -> None:
    answer = CliRunner().invoke(metrics)

    assert answer.exit_code == 0
    first_words = {line.split()[0] for line in answer.stdout.splitlines() if line.strip()}
    assert {definition.name for definition in DEFINITIONS} <= first_words
