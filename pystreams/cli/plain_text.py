"""Texts that others have written, as a terminal may show them: what it would obey is escaped."""

from __future__ import annotations


def in_one_line(text: str) -> str:
    r"""Return a text with each letter that is not to be seen as its escape: `\x1b`, `\n`."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def in_lines(text: str) -> str:
    """Return a text likewise, whose lines stay lines."""
    return "\n".join(map(in_one_line, text.split("\n")))
