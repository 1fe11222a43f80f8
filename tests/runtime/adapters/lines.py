"""What a client says in its log."""

from __future__ import annotations


class Lines:
    """Keeps the lines that come through."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def log(self, level: int, template: str, facility: str, client: str, line: str) -> None:
        self.shown.append(line)
