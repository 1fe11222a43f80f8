"""Builds the site: `scripts/docs`. A dead link, a warning, a page that nothing leads to fail it.

All of it is put together in `build/docs/pages`, made by Sphinx, and stands in `build/docs/site`,
where no page asks anything of the network.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from sphinx.cmd.build import build_main

from docs.site import llms
from docs.site.generated import generated_pages
from docs.site.pages import DECISIONS, FILES, FRONT, ROOT, as_in_site, pages, sections

PLACE = ROOT / "build" / "docs"
_GENERATED = "<!-- In the site: the API, the command line, the examples. -->"
_GENERATED_LINES = """\
- [The command line](reference/command-line.md): every command and option of `pystreams`.
- [API](reference/api/index.md): the public names, from their docstrings.
- [Examples](examples.md): the programs below `examples/`."""
_PICTURES = (".svg", ".png")


def put_together(place: Path) -> dict[str, str]:
    """Write what Sphinx is given into a directory, and return the pages by their places."""
    places = pages()
    files: set[Path] = set()
    written = {
        place: as_in_site(path, places, files).replace(_GENERATED, _GENERATED_LINES)
        for path, place in places.items()
    } | generated_pages()
    shutil.rmtree(place, ignore_errors=True)
    for name, text in written.items():
        navigation = ""
        if name == places[FRONT]:
            navigation = "".join(_navigation(text, written))
        elif name == places[DECISIONS]:
            decisions = [path for path in places if path.parent == DECISIONS.parent]
            listed = "\n".join(path.stem for path in decisions if path != DECISIONS)
            navigation = f"\n```{{toctree}}\n:hidden:\n{listed}\n```\n"
        _write(place / name, text + navigation)
    docs = ROOT / "docs"
    for picture in docs.rglob("*"):
        if picture.suffix in _PICTURES:
            _copy(picture, place / picture.relative_to(docs))
    for file in files:
        _copy(file, place / FILES / file.relative_to(ROOT))
    return written


def _copy(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)


def _navigation(front: str, found: Collection[str]) -> Iterator[str]:
    listed = dict.fromkeys(("index.md", "adr/index.md"), "")
    for title, entries in sections(front):
        listed |= {entry.target: entry.title for entry in entries}
        lines = [f"{entry.title} <{Path(entry.target)}>" for entry in entries]
        yield _toctree(title, lines)
    # A page that the front page does not list comes last, so that nothing is without a way to it.
    forgotten = [name for name in found if name not in listed and Path(name).parts[:-1] != ("adr",)]
    forgotten = [name for name in forgotten if not name.startswith("reference/api/")]
    if forgotten:
        yield _toctree("More", forgotten)


def _toctree(title: str, lines: Iterable[str]) -> str:
    listed = "\n".join(lines)
    return f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n{listed}\n```\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def build(place: Path) -> int:
    """Build the site below a directory; return the exit code."""
    shutil.rmtree(place / "site", ignore_errors=True)
    written = put_together(place / "pages")
    conf = str(ROOT / "docs" / "site")
    strict = [
        "-q",
        "--fail-on-warning",
        "--keep-going",
        "--jobs",
        "auto",
        "-d",
        str(place / "cache"),
    ]
    failed: int = build_main([*strict, "-c", conf, str(place / "pages"), str(place / "site")])
    if (place / "pages" / FILES).is_dir():  # For the links of the Markdown.
        shutil.copytree(place / "pages" / FILES, place / "site" / FILES)
    for name, text in llms.files(written).items():
        _write(place / "site" / name, text)
    return failed


def main() -> int:
    """Build the site, and serve it if that is asked for; return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/docs", description=__doc__)
    parser.add_argument("--serve", metavar="PORT", type=int, help="serve it on this machine")
    parser.add_argument("--into", metavar="DIR", type=Path, default=PLACE, help="build it there")
    chosen = parser.parse_args()
    place: Path = chosen.into.resolve()
    failed = build(place)
    if failed:
        return failed
    print(f"Built {place / 'site' / 'index.html'}")  # noqa: T201
    if chosen.serve is not None:
        handler = functools.partial(
            http.server.SimpleHTTPRequestHandler, directory=str(place / "site")
        )
        with http.server.ThreadingHTTPServer(("127.0.0.1", chosen.serve), handler) as server:
            print(f"http://127.0.0.1:{server.server_port}/")  # noqa: T201
            server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
