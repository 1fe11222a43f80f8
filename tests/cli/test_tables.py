"""Tables on standard output: as wide as the terminal, and never with a name cut off."""

from __future__ import annotations

import pytest
from rich.table import Column

from pystreams.cli.display.tables import show_reference

COLUMNS = [Column("Name", no_wrap=True), Column("Meaning", ratio=1)]
LONG_NAME = "n" * 50
MEANING = "many words " * 40


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_reference_is_as_wide_as_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    show_reference(COLUMNS, [("name", MEANING)])

    assert 75 < max(map(len, lines_of(capsys))) <= 90


def test_reference_keeps_whole_names_on_a_terminal_that_is_too_narrow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    show_reference(COLUMNS, [(LONG_NAME, MEANING)], narrowest=120)
    lines = lines_of(capsys)

    assert lines[1].startswith(f"{LONG_NAME}  many words")
    assert 105 < max(map(len, lines)) <= 120


def test_reference_has_a_width_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    show_reference(COLUMNS, [("name", MEANING)])

    assert max(map(len, lines_of(capsys))) > 140


def test_cells_of_a_reference_are_plain_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    show_reference(COLUMNS, [("name", "[bold]0,...[/]")], styles=["dim"])

    assert lines_of(capsys)[1].split() == ["name", "[bold]0,...[/]"]
