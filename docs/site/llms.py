"""What is for language models: `llms.txt`, `llms-full.txt`, and each page as Markdown.

`llms.txt` (https://llmstxt.org) is the front page's lists with links to the Markdown;
`llms-full.txt` is all of it in one file.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator

from docs.site.generated import api
from docs.site.pages import sections

_SUMMARY = (
    "Kafka Streams for Python: stateful stream processing on Kafka, exactly once, with local "
    "RocksDB state. Install `pystreams-kafka`, import `pystreams`."
)


def files(pages: dict[str, str]) -> dict[str, str]:
    """Return the files, by their places in the site.

    Args:
        pages: The text of each page by its place.
    """
    plain = {name: text for name, text in pages.items() if not name.startswith("reference/api/")}
    plain["reference/api/index.md"] = "\n".join(_api())
    order = [entry.target for _, entries in sections(pages["index.md"]) for entry in entries]
    ordered = ["index.md", *order, *sorted(plain.keys() - {"index.md", *order})]
    full = "\n\n".join(f"<!-- {name} -->\n\n{plain[name].strip()}" for name in ordered)
    return plain | {"llms.txt": "\n".join(_index(pages["index.md"])), "llms-full.txt": full + "\n"}


def _index(front: str) -> Iterator[str]:
    yield from ("# pystreams", "", f"> {_SUMMARY}", "")
    yield from ("All pages in one file: [llms-full.txt](llms-full.txt)", "")
    for title, entries in sections(front):
        yield from (f"## {title}", "")
        yield from (f"- [{entry.title}]({entry.target}){entry.text}" for entry in entries)
        yield ""


def _api() -> Iterator[str]:
    yield from ("# API", "")
    for title, text, names in api().values():
        yield from (f"## {title}", "", text, "")
        for name in names:
            module, _, attribute = name.rpartition(".")
            value = getattr(importlib.import_module(module), attribute)
            yield from (f"### {name}", "", *_docstring(value))
            if inspect.isclass(value):
                yield from _methods(value)


def _methods(found: type) -> Iterator[str]:
    for name, member in vars(found).items():
        method = inspect.unwrap(getattr(member, "__func__", member))
        if not name.startswith("_") and inspect.isfunction(method):
            yield from (f"`{found.__name__}.{name}{_signature(method)}`", "", *_docstring(method))


def _signature(found: object) -> str:
    return re.sub(r"\s+", " ", str(inspect.signature(found))) if callable(found) else ""


def _docstring(value: object) -> Iterator[str]:
    told = inspect.getdoc(value) if callable(value) or inspect.ismodule(value) else None
    if told:
        yield from (told, "")
