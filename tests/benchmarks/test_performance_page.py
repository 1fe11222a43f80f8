"""docs/performance.md has a place for each table that the benchmarks write."""

from __future__ import annotations

import click
import pytest

from benchmarks.publish import PAGE, replaced

PLACES = [
    "count",
    "operators",
    "joins",
    "processes",
    "restart",
    "restore",
    "stores",
    "store-ratios",
    "store-restore",
    "memory",
    "stages",
    "backfill",
    "backfill-growth",
    "backfill-memory",
    "backfill-stages",
    "windows",
    "window-costs",
    "suppression",
    "queries",
    "queries-owner",
    "queries-any",
    "queries-client",
    "downtime",
    "models",
]


@pytest.mark.parametrize("name", PLACES)
def test_page_has_a_place(name: str) -> None:
    text = replaced(PAGE.read_text("utf-8"), name, "| new |")
    assert f"<!-- begin {name} -->\n| new |\n<!-- end {name} -->" in text


def test_a_place_that_is_missing_is_an_error() -> None:
    with pytest.raises(click.ClickException, match="no place for 'latency'"):
        replaced("text", "latency", "| new |")
