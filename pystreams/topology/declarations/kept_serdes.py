"""Which serdes stay after an operation that makes new keys or values.

One stays where nothing can go wrong: the serde says of which type its values are, and so does the
function, by the type that it is annotated to return. Anything else is not known: another type, no
annotation, a serde for values of any type. Then the serde has to be given, or is the default.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from pystreams.serdes import Serde, value_type


class Serdes(NamedTuple):
    """Of keys and of values, as far as they are known."""

    key: Serde[Any] | None
    value: Serde[Any] | None


def kept_serde(function: Callable[..., Any], serde: Serde[Any] | None) -> Serde[Any] | None:
    """Return the serde if the function returns values of its type."""
    return _of_type(serde, _returned(function))


def kept_serdes(function: Callable[..., Any], serdes: Serdes, *, many: bool = False) -> Serdes:
    """Return the serdes of whose types are the keys and values that a function returns in pairs.

    Args:
        function: Returns one pair.
        serdes: Of the keys and values before.
        many: Whether it returns any number of pairs instead.
    """
    hint = _returned(function)
    if many:
        # Of `Iterable[tuple[str, int]]`, and of what else is one, a generator among them.
        inside = typing.get_args(hint)
        hint = inside[0] if inside else None
    if typing.get_origin(hint) is not tuple or len(typing.get_args(hint)) != 2:
        return Serdes(None, None)
    key, value = typing.get_args(hint)
    return Serdes(_of_type(serdes.key, key), _of_type(serdes.value, value))


def _of_type(serde: Serde[Any] | None, hint: Any) -> Serde[Any] | None:
    own = None if serde is None else value_type(serde)
    return serde if own is not None and _without_none(hint) is own else None


def _without_none(hint: Any) -> Any:
    """Return a type without `None`, which no serde is asked for."""
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        kinds = [kind for kind in typing.get_args(hint) if kind is not types.NoneType]
        return kinds[0] if len(kinds) == 1 else hint
    return hint


def _returned(function: Callable[..., Any]) -> Any:
    """Return the type that a function is annotated to return; None if that is not known."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        return None
    if not inspect.isroutine(function):
        function = type(function).__call__
    try:
        return typing.get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 - names that only a type checker resolves, and built-in ones
        return None
