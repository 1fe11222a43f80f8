"""Numbers that JSON has not: nan and infinity, of which its writers make null; large integers.

Null would come back as None, or not at all. It is in the bytes then, so that only values with a
null are looked at: those of most records cost a search in their bytes.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable, Iterable
from math import isfinite
from operator import attrgetter
from typing import Any

_NULL = b"null"
_LEAST, _LARGEST = -(2**63), 2**64 - 1
_SCALARS = frozenset((str, int, bool, type(None)))
_ARRAYS = (list, tuple, set, frozenset)

_Inner = Callable[[Any], Iterable[Any]]
_INNER: dict[type, _Inner] = {}
"""By classes that were met."""


def check_nulls(
    value: Any, data: bytes, name: str = "", to_plain: Callable[[Any], Any] | None = None
) -> None:
    """Refuse a value if a null in its JSON stands for nan or infinity.

    Args:
        name: What the path to the number begins with.
        to_plain: Makes dicts and lists of it, as they are in JSON; None where it looks like that.

    Raises:
        ValueError: One does.
    """
    if type(value) is dict and data.count(_NULL) == list(value.values()).count(None):
        return
    if not _has_any((value,)):
        return
    # Models of pydantic may have another form for them.
    plain = value if to_plain is None else to_plain(value)
    lost = _first_lost(plain, json.loads(data), name)
    if lost is not None:
        path, number = lost
        where = f"{path.removeprefix('.')}: " if path else ""
        raise ValueError(
            f"{where}{number} has no form in JSON: make it None, or write numbers with "
            "serdes.DOUBLE"
        )


def check_integers(value: Any, path: str = "") -> None:
    """Refuse a value that its writer could not write if the cause is an integer, with its place.

    Raises:
        ValueError: There is one that has no place in 64 bits.
    """
    if isinstance(value, int) and not _LEAST <= value <= _LARGEST:
        where = f"{path.removeprefix('.')}: " if path else ""
        raise ValueError(
            f"{where}an integer beyond 64 bits, which readers of JSON may not hold: make it a str"
        )
    for key, item in _parts_of(value):
        step = f"[{key}]" if isinstance(key, int) else f".{key}"
        check_integers(item, f"{path}{step}")


def _has_any(values: Iterable[Any]) -> bool:
    """Return whether there are such numbers within values."""
    for value in values:
        kind = type(value)
        if kind in _SCALARS:
            continue
        if kind is float:
            if not isfinite(value):
                return True
        elif kind is dict:
            if _has_any(value.values()):
                return True
        else:
            inner = _INNER.get(kind) or _inner_of(kind)
            if _has_any(inner(value)):
                return True
    return False


def _inner_of(kind: type) -> _Inner:
    """Return the function that gives what values of a class are made of, and keep it."""
    names = _names_of(kind)
    inner: _Inner = _nothing
    if names:
        inner = _fields_getter(names)
    elif issubclass(kind, dict):
        inner = dict.values
    elif issubclass(kind, _ARRAYS):
        inner = iter
    elif issubclass(kind, enum.Enum):
        inner = lambda value: (value.value,)  # noqa: E731 - one of several
    _INNER[kind] = inner
    return inner


def _fields_getter(names: tuple[str, ...]) -> _Inner:
    get = attrgetter(*names) if len(names) > 1 else None

    def fields(value: Any) -> Iterable[Any]:
        try:
            if get is not None:
                found: tuple[Any, ...] = get(value)
                return found
        except AttributeError:
            pass  # One that its constructor has not set.
        return [getattr(value, name, None) for name in names]

    return fields


def _nothing(_: Any) -> tuple[()]:
    return ()


def _names_of(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a class that has any that are known."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if issubclass(kind, tuple):
        return getattr(kind, "_fields", ())
    # As msgspec and pydantic have them.
    if hasattr(kind, "__pydantic_fields__"):
        return (*kind.__pydantic_fields__, "__pydantic_extra__")
    return getattr(kind, "__struct_fields__", ())


def _first_lost(value: Any, written: Any, path: str) -> tuple[str, float] | None:
    """Return the first such number in a value that was written as null, with the path to it."""
    if isinstance(value, float):
        return (path, value) if written is None and not isfinite(value) else None
    if isinstance(value, enum.Enum):
        return _first_lost(value.value, written, path)
    for key, item in _parts_of(value):
        step = f"[{key}]" if isinstance(key, int) else f".{key}"
        lost = _first_lost(item, _part_of(written, key), f"{path}{step}")
        if lost is not None:
            return lost
    return None


def _parts_of(value: Any) -> Iterable[tuple[str | int, Any]]:
    """Return what a value is made of, by its names or numbers in JSON."""
    if isinstance(value, dict):
        return [(str(key), item) for key, item in value.items()]
    if names := _names_of(type(value)):
        return [(name, getattr(value, name, None)) for name in names]
    return enumerate(value) if isinstance(value, _ARRAYS) else ()


def _part_of(written: Any, key: str | int) -> Any:
    if isinstance(written, list):
        return written[key] if isinstance(key, int) and key < len(written) else None
    return written.get(key) if isinstance(written, dict) else None
