"""A terminal that breaks lines anew when its width changes, as most do."""

from __future__ import annotations

import io
import os
import re
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_PARTS = re.compile(r"\x1b\[[?\d;]*[A-Za-z]|\x1b[78]|[\r\n]|[^\x1b\r\n]")
_ROWS = 24


class ReflowingTerminal(io.StringIO):
    """What a program writes, as it is to be seen; standard error of a test.

    Attributes:
        lines: What was written between two ends of lines, each as long as it was written.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lines = [""]
        self._width = width
        self._line, self._column = 0, 0
        self._saved = 0, 0
        self._lock = threading.Lock()

    @classmethod
    def instead_of(cls, monkeypatch: pytest.MonkeyPatch, width: int) -> ReflowingTerminal:
        """Return one that is standard error from now on."""
        terminal = cls(width)
        monkeypatch.setattr("sys.stderr", terminal)
        monkeypatch.setattr(
            os, "get_terminal_size", lambda *_: os.terminal_size((terminal._width, _ROWS))
        )
        monkeypatch.setenv("TERM", "xterm-256color")
        for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        return terminal

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            for part in _PARTS.findall(text):
                self._take(part)
        return len(text)

    def resize(self, width: int) -> None:
        """Break lines where they are too long now; the cursor stays where it is in the text."""
        with self._lock:
            self._width = width
            rows = [_rows(line, width) for line in self.lines]
            into, self._column = divmod(self._column, width)
            self._line = sum(map(len, rows[: self._line])) + into
            self.lines = [row for of_line in rows for row in of_line]

    def _take(self, part: str) -> None:
        line = self.lines[self._line]
        if part == "\r":
            self._column = 0
        elif part == "\n":
            self._down()
        elif part == "\x1b7":
            self._saved = self._line, self._column
        elif part == "\x1b8":
            self._line, self._column = self._saved
        elif part == "\x1b[B":
            self._line = min(self._line + 1, _ROWS - 1)
            self.lines += [""] * (self._line + 1 - len(self.lines))
        elif part == "\x1b[2K":
            self.lines[self._line] = ""
        elif part[0] != "\x1b":
            padded = line.ljust(self._column)
            self.lines[self._line] = padded[: self._column] + part + padded[self._column + 1 :]
            self._column += 1

    def _down(self) -> None:
        self._line += 1
        if self._line == len(self.lines):
            self.lines.append("")
        self._column = 0


def _rows(line: str, width: int) -> list[str]:
    return [line[at : at + width] for at in range(0, len(line), width)] or [""]
