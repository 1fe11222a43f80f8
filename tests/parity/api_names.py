"""What Kafka Streams' operations are called here: a page made from two sets of names and a list.

`golden/api.json` has the public methods of all of Kafka Streams' public classes, found by Java in
its jars (of enums the constants); `api_classes` says which of them have a table. A method is here
what it is there, in snake case, on the class of the same name; `getName` is the attribute `name`;
an option's `withName` is the keyword `name`. What does not follow these rules is listed in
`api_spellings`, with a reason where a method has no place in Python. `page()` is
docs/reference/kafka-streams-names.md:

    python -m tests.parity.api_names > docs/reference/kafka-streams-names.md
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pystreams
import pystreams.testing
from tests.parity.api_classes import AS_A_WHOLE, TABLES
from tests.parity.api_spellings import MISSING, NOT_NEEDED, SPELLED

GOLDEN = Path(__file__).parent / "golden" / "api.json"

_HEAD = """# Kafka Streams' names here

Every public method of Kafka Streams 4.3.1's DSL, Processor API, stores, client, interactive queries and test driver, and what it is called in pystreams; of [classes](#all-other-classes) that are a function or a plain value here, or not there, what stands for them. Left out is what Kafka Streams calls deprecated. The rules: methods are in snake case, on the class of the same name; what Java gets with `getName` is often an attribute `name`; what Java says with option objects is said with keywords (`Consumed.with(...).withName("a")` is `key_serde=..., name="a"`, on the operation itself or in a `Consumed(...)`); overloads are one method with optional arguments; durations are numbers, in the unit the name ends with. "not there" is meant: what to use instead, if there is something, stands beside it.

This page is generated from Kafka Streams' own classes and ours, and checked by a test.
"""  # noqa: E501 - a paragraph of Markdown

_REST = """## All other classes

| Kafka Streams | pystreams |
|---|---|"""

_NOT_OPTIONS = {
    "BufferConfig of Suppressed",
    "PositionBound",
    "Record",
    "RecordMetadata",
    "StateQueryResult",
    "Suppressed",
    "VersionedRecord",
}
"""Classes with fields that are read, or set with methods, and not with keywords."""


def kafka_methods() -> dict[str, list[str]]:
    """Return the methods of each of Kafka Streams' classes that have a table, in its order."""
    found: dict[str, list[str]] = json.loads(GOLDEN.read_text("utf-8"))
    return {cls: found[cls] for cls in TABLES}


def kafka_classes() -> set[str]:
    """Return the names of all public classes of Kafka Streams."""
    return set(json.loads(GOLDEN.read_text("utf-8")))


def snake_case(name: str) -> str:
    """Return a Java name as Python has it: `groupByKey` is `group_by_key`, `ANY` stays."""
    if name.isupper():
        return name
    return re.sub("(?<!^)([A-Z])", r"_\1", name).lower()


def python_class(name: str) -> type[Any] | None:
    """Return our class of a name, or None; of a nested one by its own name alone."""
    name = name.partition(" of ")[0]
    found: type[Any] | None = getattr(pystreams, name, None)
    return found or getattr(pystreams.testing, name, None)


def names_of(cls: type[Any]) -> set[str]:
    """Return the public attributes of a class, fields of a dataclass included."""
    # dir() of an enum leaves its class methods out.
    names = {*dir(cls), *vars(cls)}
    return {name for name in names if not name.startswith("_")} | _fields_of(cls)


def by_rule(cls: str, method: str) -> str | None:
    """Return what the rules make of a method, if that is there; else None."""
    ours = python_class(cls)
    if ours is None:
        return None
    name = snake_case(method)
    keyword = name.removeprefix("with_")
    if keyword in _fields_of(ours) and cls not in _NOT_OPTIONS:
        return f"`{keyword}=`"
    for attribute in (name, name.removeprefix("get_")):
        if attribute in names_of(ours):
            return f"`{ours.__name__}.{attribute}`"
    return None


def spelling(cls: str, method: str) -> str:
    """Return how to say a method here.

    Raises:
        KeyError: Nobody has decided; add it to `api_spellings`.
    """
    whole = f"{cls}.{method}"
    for listed in (SPELLED, NOT_NEEDED):
        if whole in listed:
            return listed[whole]
    if whole in MISSING or cls in MISSING:
        instead = MISSING.get(whole) or MISSING.get(cls, "")
        return f"not there; {instead}" if instead else "not there"
    found = by_rule(cls, method)
    if found is None:
        raise KeyError(f"{whole} has no name here: add it to tests/parity/api_spellings.py")
    return found


def page() -> str:
    """Return the page of all names."""
    return "\n".join([_HEAD, *_sections()]).rstrip() + "\n"


def _sections() -> Iterator[str]:
    for cls, methods in kafka_methods().items():
        yield f"## {cls}\n"
        yield "| Kafka Streams | pystreams |\n|---|---|"
        for method in methods:
            yield f"| `{method}` | {spelling(cls, method)} |"
        yield ""
    yield _REST
    for cls, said in sorted(AS_A_WHOLE.items()):
        yield f"| `{cls}` | {said} |"


def _fields_of(cls: type[Any]) -> set[str]:
    if not dataclasses.is_dataclass(cls):
        return set()
    return {field.name for field in dataclasses.fields(cls)}


if __name__ == "__main__":
    sys.stdout.write(page())
