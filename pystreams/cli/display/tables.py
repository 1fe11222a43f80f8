"""Tables on standard output: numbers of a run, and references with a column of text.

Cells are shown as they are: others have named what is in them, and rich would obey `[red]`.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from pystreams.cli.plain_text import in_one_line

_WIDTH_OF_NO_TERMINAL = 200
_REFERENCE_WIDTH_OF_NO_TERMINAL = 160

Cell = str | list[str]
"""One line, or several."""


def show_table(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, right: Sequence[str] = ()
) -> None:
    """Print a table without lines, as wide as the terminal; elsewhere as wide as it needs.

    Args:
        right: Headings of the columns that are set to the right, as numbers are.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    for row in rows:
        table.add_row(*map(_as_it_is, row))
    width = None if sys.stdout.isatty() else _WIDTH_OF_NO_TERMINAL
    _PipeConsole(soft_wrap=False, width=width).print(table)


def show_reference(
    columns: Sequence[Column],
    rows: Iterable[Sequence[str]],
    *,
    styles: Sequence[str] = (),
    narrowest: int = 0,
) -> None:
    """Print a table of names and what they mean, as wide as the terminal (or `COLUMNS`).

    Args:
        columns: The columns; the one with a `ratio` takes the room the others leave.
        styles: The style of each row, in order; none when empty.
        narrowest: On a narrower terminal lines wrap, so that no cell is cut off.
    """
    own = [column.copy() for column in columns]  # A table keeps its cells in them.
    table = Table(*own, box=None, pad_edge=False, header_style="bold underline")
    for number, row in enumerate(rows):
        table.add_row(*map(_as_it_is, row), style=styles[number] if styles else None)
    _PipeConsole(width=max(reference_width(), narrowest), highlight=False).print(table)


def reference_width() -> int:
    """Return how wide the terminal is (or `COLUMNS` says), and what references take without one."""
    return shutil.get_terminal_size((_REFERENCE_WIDTH_OF_NO_TERMINAL, 0)).columns


def _as_it_is(cell: Cell) -> Text:
    lines = [cell] if isinstance(cell, str) else cell
    return Text("\n".join(map(in_one_line, lines)))


class _PipeConsole(Console):
    """Leaves a pipe that nobody reads to the command's last frame, which knows the exit code."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
