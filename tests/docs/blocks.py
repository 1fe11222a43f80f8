"""The fenced blocks of the documentation, and what each of them is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "tests" / "parity").glob("*.md"),
        ROOT / "benchmarks" / "README.md",
    ]
)
PYTHON = {"python", "pycon"}

_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<label>[^\n`]*)\n(?P<text>.*?)^(?P=indent)(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)
_TYPED = ("pystreams ", "scripts/", ".venv/bin/", "python ", "pip ", "docker ", "kubectl ", "rm ")


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        line: Where it begins.
        language: What it is; blocks without a label are told by what is in them.
        of: The program whose language it is, if that is not ours (`python faust`).
    """

    page: Path
    line: int
    language: str
    of: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    content = page.read_text("utf-8")
    for found in _FENCE.finditer(content):
        label, _, of = found["label"].strip().partition(" ")
        text = re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
        line = content.count("\n", 0, found.start()) + 1
        yield Block(page, line, label or _told_by(text), of, text)


def examples_of(page: Path) -> list[Block]:
    """Return the Python of a page, in order: programs and what is typed at the prompt.

    A test that runs a page unpacks all of them, so that it fails where the page has one more.
    """
    return [block for block in blocks_of(page) if block.language in PYTHON and not block.of]


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page)]


def commands_of(block: Block) -> Iterator[str]:
    """Yield what is typed in a block of `sh` or `console`, lines that go on put together."""
    lines = re.sub(r" *\\\n *", " ", block.text).splitlines()
    prompted = any(line.startswith("$ ") for line in lines)
    for line in lines:
        if prompted and not line.startswith("$ "):
            continue
        typed = line.removeprefix("$ ").strip()
        if typed and not typed.startswith("#"):
            yield typed


def inline_commands(page: Path) -> Iterator[str]:
    """Yield what stands as `pystreams ...` in the text of a page, `a|b` as two commands."""
    text = _FENCE.sub("", page.read_text("utf-8"))
    for found in re.finditer(r"`(pystreams [^`\n]+)`", text):
        line = found[1].replace("\\|", "|")
        choice = re.search(r"\w+(\|\w+)+", line)
        words = choice[0].split("|") if choice else [""]
        yield from (line.replace(choice[0], word) if choice else line for word in words)


def _told_by(text: str) -> str:
    if text.startswith(">>> "):
        return "pycon"
    lines = text.splitlines()
    if any(line.startswith("$ ") for line in lines):
        return "console"
    if lines and all(line.startswith((*_TYPED, "sleep ", "eval ")) for line in lines if line):
        return "sh"
    return "text"
