"""The site is built without a warning, whole, and asks nothing of the network."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import pystreams
from docs.site import generated
from docs.site.pages import ROOT, DeadLinkError, as_in_site, pages, sections


@dataclass
class Page(HTMLParser):
    """What a page links to, loads, and can be linked to by."""

    path: Path
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in {"script", "img", "iframe", "source"} and given.get("src"):
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") in {"stylesheet", "icon", "preload", "preconnect"}:
            self.loads.append(given["href"])

    def targets(self) -> Iterator[tuple[str, Path, str]]:
        """Yield each link into the site: as it is written, the file, the anchor."""
        for link in self.links:
            found = urlsplit(link)
            if not found.scheme and not found.netloc:
                path = self.path.parent / unquote(found.path) if found.path else self.path
                yield link, path.resolve(), unquote(found.fragment)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "docs.site.build", "--into", str(place)]
    built = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    assert not built.stderr
    return place / "site"


@pytest.fixture(scope="module")
def made(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_no_link_and_no_anchor_is_dead(made: dict[Path, Page]) -> None:
    dead = [
        f"{page.path.name}: {link}"
        for page in made.values()
        for link, path, anchor in page.targets()
        if not path.is_file() or (anchor and path in made and anchor not in made[path].anchors)
    ]

    assert not dead


def test_every_page_is_reached_from_the_front_page(site: Path, made: dict[Path, Page]) -> None:
    reached = {site / "index.html", site / "search.html"}  # A form leads to the second.
    waiting = list(reached)
    while waiting:
        for _, path, _ in made[waiting.pop()].targets():
            if path in made and path not in reached:
                reached.add(path)
                waiting.append(path)

    alone = {path.relative_to(site).as_posix() for path in made.keys() - reached}
    assert not alone


def test_every_page_of_docs_is_a_page_of_the_site(site: Path) -> None:
    places = pages().values()

    assert len(set(places)) == len(places) > 50
    assert all((site / place).with_suffix(".html").is_file() for place in places)


def test_nothing_is_loaded_from_elsewhere(site: Path, made: dict[Path, Page]) -> None:
    loaded = {address for page in made.values() for address in page.loads}
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))

    assert not {address for address in loaded if urlsplit(address).netloc}
    assert not re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//[^'\")]+", styles)


def test_the_api_has_every_public_name(site: Path) -> None:
    text = "".join(path.read_text("utf-8") for path in (site / "reference" / "api").glob("*.html"))

    pages_of_their_own = {"aggregations"}
    missing = {name for name in pystreams.__all__ if f">{name}<" not in text}
    assert missing == pages_of_their_own


def test_the_command_line_has_every_command() -> None:
    page = generated.generated_pages()["reference/command-line.md"]

    assert "## pystreams run\n" in page
    assert "### pystreams topics create\n" in page
    assert "--processes N" in page


def test_llms_txt_lists_the_pages_as_markdown(site: Path) -> None:
    text = (site / "llms.txt").read_text("utf-8")
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", text, re.MULTILINE)

    assert re.match(r"# pystreams\n\n> .+\n\n", text)
    assert "getting-started.md" in listed
    assert [entry.target for _, found in sections(text) for entry in found] == listed
    assert all((site / target).read_text("utf-8").startswith("#") for target in listed)


def test_llms_full_txt_is_all_of_it(site: Path) -> None:
    text = (site / "llms-full.txt").read_text("utf-8")

    for place in pages().values():
        assert f"<!-- {place} -->" in text
    assert "`KStream.group_by_key(" in text
    assert "{eval-rst}" not in text
    assert "{toctree}" not in text


def test_a_link_to_what_is_no_page_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[gone](gone.md)\n")

    with pytest.raises(DeadLinkError, match=re.escape("gone.md is no page of the site")):
        as_in_site(page, {page: "page.md"}, set())
