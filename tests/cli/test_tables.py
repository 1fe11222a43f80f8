"""Tables on standard output: as wide as the terminal, and never with a name cut off."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from rich.table import Column

from pystreams.cli.display.tables import show_reference, show_table

COLUMNS = [Column("Name", no_wrap=True), Column("Meaning", ratio=1)]
LONG_NAME = "n" * 50
MEANING = "many words " * 40

ShowTable = Callable[[Sequence[str], Sequence[Sequence[str]]], None]


def _show_as_reference(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    show_reference([Column(name) for name in columns], rows)


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


@pytest.mark.parametrize("text", ["[red]orders", "no [/] end", "c:\\", "say :smile:", "[link=x]"])
@pytest.mark.parametrize("show", [show_table, _show_as_reference])
def test_what_others_have_named_is_shown_as_it_is(
    show: ShowTable, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(["name", "count"], [(text, "3")])

    assert lines_of(capsys)[1].rsplit(maxsplit=1) == [text, "3"]


@pytest.mark.parametrize("show", [show_table, _show_as_reference])
def test_what_a_terminal_would_obey_is_shown_as_its_escape(
    show: ShowTable, capsys: pytest.CaptureFixture[str]
) -> None:
    show(["name"], [("a\x1b[31mb\x07\nnobody",)])

    assert lines_of(capsys)[1:] == [r"a\x1b[31mb\x07\nnobody"]


def test_a_cell_of_several_lines_has_them_below_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_table(["stores", "topic"], [(["first", "second"], "orders")])

    assert [line.split() for line in lines_of(capsys)[1:]] == [["first", "orders"], ["second"]]
