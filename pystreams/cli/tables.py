"""A table on standard output, as wide as the terminal; elsewhere than there as wide as it needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

_WIDTH_OF_NO_TERMINAL = 200


def show_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> None:
    """Print a table without lines.

    Args:
        columns: The columns' headings.
        rows: The cells of each row.
        right: Headings of the columns that are set to the right, as numbers are.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else _WIDTH_OF_NO_TERMINAL
    Console(soft_wrap=False, width=width).print(table)
