"""The pages that the code writes: the command line, the API, the examples."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import click

import pystreams
from docs.site.pages import ROOT
from pystreams.cli.main import pystreams as command_line

_COLUMNS = 88
_API = {
    "dsl": (
        "Streams and tables",
        "What a topology is written with: `StreamsBuilder`, `KStream`, `KTable`, windows, options.",
        ("pystreams.topology.dsl", "pystreams.topology.options", "pystreams.topology.contracts"),
    ),
    "processors": (
        "The Processor API",
        "Topologies of processors, their contexts and punctuations, records.",
        (
            "pystreams.topology.contracts.processor",
            "pystreams.topology.graph",
            "pystreams.record",
            "pystreams.ids",
        ),
    ),
    "running": (
        "Running an application",
        "`KafkaStreams`, its configuration, what becomes of records that fail.",
        ("pystreams.config", "pystreams.metrics", "pystreams.runtime"),
    ),
    "stores": (
        "Stores and queries",
        "Stores, those of your own, and what they can be asked.",
        ("pystreams.stores", "pystreams.runtime.queries"),
    ),
    "serdes": ("Serdes", "How bytes become keys and values.", ("pystreams.serdes",)),
    "errors": ("Errors", "What is raised, and the cure of it.", ("pystreams.errors",)),
}
"""The pages of `pystreams`' own names: title, what it has, modules (the longest match counts)."""

_MODULES = {
    "aggregations": (
        "Ready aggregations",
        "Sums, means, percentiles and the like, for `aggregate`.",
        "pystreams.topology.aggregations",
    ),
    "registry": ("Schema registry", "Avro, JSON Schema, Protobuf.", "pystreams.registry"),
    "testing": ("Testing", "The test driver, and contracts for stores.", "pystreams.testing"),
    "backfill": ("Backfill", "History on Spark, exports, rescaling.", "pystreams.backfill"),
    "http": (
        "HTTP in a program",
        "What `run --http` serves, around a `KafkaStreams`.",
        "pystreams.http.server",
    ),
    "client": ("The HTTP client", "Asks what `run --http` serves.", "pystreams.client"),
}


def generated_pages() -> dict[str, str]:
    """Return the text of each page that is made of code, by its place in the site."""
    return dict(_all_pages())


def _all_pages() -> Iterator[tuple[str, str]]:
    yield "examples.md", "\n".join(_examples())
    yield "reference/command-line.md", "\n".join(_commands())
    lines = ["# API", "", "The public names, from their docstrings. All others are private.", ""]
    for name, (title, text, names) in api().items():
        yield f"reference/api/{name}.md", "\n".join(_api_page(title, text, names))
        lines.append(f"- [{title}]({name}.md): {text}")
    toctree = ["", "```{toctree}", ":hidden:", *api(), "```", ""]
    yield "reference/api/index.md", "\n".join(lines + toctree)


def api() -> dict[str, tuple[str, str, list[str]]]:
    """Return the pages of the API: title, what is there, and full names."""
    return {
        name: (title, text, [f"pystreams.{public}" for public in _names_of(name)])
        for name, (title, text, _) in _API.items()
    } | {
        name: (title, text, [f"{module}.{public}" for public in _public(module)])
        for name, (title, text, module) in _MODULES.items()
    }


def _names_of(page: str) -> list[str]:
    """Return those of `pystreams`' names that a page has, sorted."""
    found = []
    for public in pystreams.__all__:
        value = getattr(pystreams, public)
        home = pystreams._HOME_OF.get(public, "")  # noqa: SLF001 - where each is defined, written down once
        if inspect.ismodule(value):
            home = "pystreams.serdes" if public == "serdes" else ""
        lengths = {
            name: max((len(module) for module in modules if home.startswith(module)), default=0)
            for name, (_, _, modules) in _API.items()
        }
        fitting = max(lengths, key=lambda name: lengths[name])
        if home and page == (fitting if lengths[fitting] else "running"):
            found.append(public)
    return found


def _public(module: str) -> list[str]:
    loaded = importlib.import_module(module)
    named = getattr(loaded, "__all__", None)
    if named is not None:
        return list(named)
    return [
        name
        for name, value in vars(loaded).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    ]


def _api_page(title: str, text: str, names: list[str]) -> Iterator[str]:
    yield f"# {title}"
    yield ""
    yield text
    for name in names:
        module, _, attribute = name.rpartition(".")
        value = getattr(importlib.import_module(module), attribute)
        kind = "data"
        if inspect.isclass(value):
            kind = "class"
        elif inspect.ismodule(value):
            kind = "module"
        elif callable(value):
            kind = "function"
        members = ["   :members:"] if kind in {"class", "module"} else []
        yield from ("", f"## {attribute}", "", "```{eval-rst}", f".. auto{kind}:: {name}")
        yield from (*members, "```")


def _examples() -> Iterator[str]:
    yield from ("# Examples", "", "The programs below `examples/` of the repository.", "")
    for path in sorted((ROOT / "examples").glob("*.py")):
        code = path.read_text("utf-8")
        told = (ast.get_docstring(ast.parse(code)) or "").partition("\n\n")[0]
        yield from (f"## {path.name}", "", told, "", "```python", code.rstrip(), "```", "")


def _commands() -> Iterator[str]:
    yield from ("# The command line", "", "What `pystreams COMMAND --help` says.", "")
    yield from _command(command_line, "pystreams", None)


def _command(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    settings: dict[str, Any] = {**command.context_settings, "max_content_width": _COLUMNS}
    context = click.Context(command, parent, name, terminal_width=_COLUMNS, **settings)
    if parent is not None:
        path = context.command_path
        yield from (f"{'#' * len(path.split())} {path}", "")
    yield from ("```text", command.get_help(context), "```", "")
    if isinstance(command, click.Group):
        for sub_name in command.list_commands(context):
            found = command.get_command(context, sub_name)
            if found is not None:
                yield from _command(found, sub_name, context)
