"""Which files of the repository are pages of the site, and how they link to each other there.

A page is plain Markdown that reads as well on a forge, so a link there names a file. In the site
`docs/` is the root, and `docs/README.md` the front page: its lists are the navigation too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FRONT = ROOT / "docs" / "README.md"
DECISIONS = ROOT / "docs" / "adr" / "README.md"
EXAMPLES = "examples.md"
FILES = "files"

_ELSEWHERE = {
    "SECURITY.md": "vulnerabilities.md",
    "benchmarks/README.md": "benchmarks.md",
    "tests/KIPS.md": "kips.md",
    "tests/UPSTREAM.md": "upstream.md",
    "tests/PEERS.md": "peers.md",
    "tests/parity/README.md": "parity.md",
}
_LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s]+)(?=\))")
_ITEM = re.compile(r"^- \[(?P<title>[^\]]+)\]\((?P<target>[^)]+)\)(?P<text>.*)$", re.MULTILINE)


class DeadLinkError(Exception):
    """A page links to a file that is not there, or that is no part of the site."""


@dataclass(frozen=True)
class Entry:
    """A line of a list of links."""

    title: str
    target: str
    text: str


def pages() -> dict[Path, str]:
    """Return each file that is a page, with its place in the site."""
    docs = ROOT / "docs"
    found = {path: path.name.lower() for path in ROOT.glob("*.md") if path.name != "README.md"}
    found |= {ROOT / name: place for name, place in _ELSEWHERE.items()}
    found |= {path: path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*.md"))}
    return found | {FRONT: "index.md", DECISIONS: "adr/index.md"}


def as_in_site(path: Path, places: dict[Path, str], files: set[Path]) -> str:
    """Return the text of a page with its links as the site has them.

    Args:
        files: Gets what is linked to and is no page: a manifest, a dashboard.
    """
    place = places[path]

    def link(found: re.Match[str]) -> str:
        target, mark, anchor = found["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return found["target"]
        other = (path.parent / target).resolve()
        if other.parent == ROOT / "examples" and other.is_file():
            return relative(f"{EXAMPLES}#{anchor_of(other.name)}", place)
        if other.is_dir():
            other /= "README.md"
        if other in places:
            return relative(places[other], place) + mark + anchor
        if (ROOT / "docs") in other.parents and other.is_file():
            return relative(other.relative_to(ROOT / "docs").as_posix(), place)
        if ROOT in other.parents and other.is_file() and other.suffix != ".md":
            files.add(other)
            return relative(f"{FILES}/{other.relative_to(ROOT).as_posix()}", place)
        raise DeadLinkError(f"{path.name}: {found['target']} is no page of the site")

    return outside_of_blocks(path.read_text("utf-8"), lambda line: _LINK.sub(link, line))


def relative(target: str, place: str) -> str:
    """Return how the page at a place links to a target, both from the root of the site."""
    return os.path.relpath(target, os.path.dirname(place) or ".")  # noqa: PTH120


def anchor_of(heading: str) -> str:
    """Return the anchor that a forge and the site give to a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def sections(text: str) -> Iterator[tuple[str, list[Entry]]]:
    """Yield the titles of the sections that have a list of links, with its lines."""
    for section in text.split("\n## ")[1:]:
        title, _, rest = section.partition("\n")
        entries = [Entry(**item.groupdict()) for item in _ITEM.finditer(rest)]
        if entries:
            yield title, entries


def outside_of_blocks(text: str, change: Callable[[str], str]) -> str:
    """Return the text with each line changed that is in no fenced block."""
    changed, fence = [], ""
    for line in text.splitlines(keepends=True):
        mark = re.match(r" *(`{3,}|~{3,})", line)
        if mark and not fence:
            fence = mark[1]
        elif mark and line.strip().startswith(fence):
            fence = ""
        elif not fence:
            changed.append(change(line))
            continue
        changed.append(line)
    return "".join(changed)
