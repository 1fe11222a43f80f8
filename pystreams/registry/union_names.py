"""The names of records in Avro's unions, as fastavro has them: pairs of name and record.

Rules about fields look for a record's fields in the first branch of its union that takes it, and
validation takes what has more fields than it should. So a field with a tag may be passed over, and
stay as it was: not encrypted, or not decrypted. A name says which branch it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from typing import Any

from pystreams.registry.avro_writer import PRIMITIVES


def namer(
    parsed: Any, named: Mapping[str, Any], write: Callable[[Any], bytes]
) -> Callable[[Any], Any] | None:
    """Return the function that names the records of a plain value, where there is a choice.

    They are those as which the value would be written. What can't be written yet stays as it is.

    Args:
        parsed: fastavro's form of the schema.
        named: The types that it refers to by name.
        write: Writes values of it.
    """
    if not has_choice(parsed, named):
        return None
    from fastavro import schemaless_reader  # noqa: PLC0415 - an extra

    whole = parsed
    if isinstance(parsed, list):  # fastavro keeps what names stand for in records only.
        whole = [
            named.get(branch, branch) if isinstance(branch, str) else branch for branch in parsed
        ]

    def name(value: Any) -> Any:
        try:
            data = write(value)
        except ValueError:
            return value
        return schemaless_reader(BytesIO(data), whole, None, return_record_name=True)

    return name


def without_names(value: Any) -> Any:
    """Return a value in which records of unions are plain, as they are read elsewhere."""
    if isinstance(value, dict):
        return {key: without_names(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_names(inner) for inner in value]
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        # An array may be a pair, too; its second is no record then.
        return without_names(value[1]) if isinstance(value[1], dict) else value
    return value


def has_choice(parsed: Any, named: Mapping[str, Any]) -> bool:
    """Return whether a schema has a union of several types that have names."""
    return any(sum(map(_is_named, union)) > 1 for union in _unions_in(parsed, named, set()))


def has_choice_by_reference(parsed: Any, named: Mapping[str, Any]) -> bool:
    """Return whether it has one of which a type stands elsewhere: rules take it for no record."""
    return any(
        sum(map(_is_named, union)) > 1 and any(branch in named for branch in _texts(union))
        for union in _unions_in(parsed, named, set())
    )


def _unions_in(parsed: Any, named: Mapping[str, Any], seen: set[str]) -> Iterator[list[Any]]:
    inner: list[Any] = []
    if isinstance(parsed, list):
        yield parsed
        inner = parsed
    elif isinstance(parsed, str):
        if parsed in named and parsed not in seen:
            seen.add(parsed)
            inner = [named[parsed]]
    elif isinstance(parsed, dict):
        inner = [field["type"] for field in parsed.get("fields", ())]
        inner += [parsed[part] for part in ("items", "values") if part in parsed]
    for part in inner:
        yield from _unions_in(part, named, seen)


def _texts(union: list[Any]) -> list[str]:
    return [branch for branch in union if isinstance(branch, str)]


def _is_named(parsed: Any) -> bool:
    return "name" in parsed if isinstance(parsed, dict) else parsed not in PRIMITIVES
