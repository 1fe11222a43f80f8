"""Which serdes stay after an operation that makes new keys or values: one rule for all of them.

One stays where nothing can go wrong: the serde says of which type its values are, and so does what
makes the new ones. A function says it by the type that it is annotated to return; a processor, and
a transformer, by the type parameters of its class. Anything else is not known: another type, no
annotation, a serde for values of any type. Then the serde has to be given, or is the default.

A join makes one value of two: the serde of what it is called on is asked first, then the other's.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from pystreams.serdes import Serde, value_type
from pystreams.topology.contracts.processor import (
    FixedKeyProcessor,
    Processor,
    ValueTransformerWithKey,
)


class Serdes(NamedTuple):
    """Of keys and of values, as far as they are known."""

    key: Serde[Any] | None
    value: Serde[Any] | None


def kept_serde(function: Callable[..., Any], *serdes: Serde[Any] | None) -> Serde[Any] | None:
    """Return the first of some serdes whose type is the one that a function returns."""
    return _of_type(_returned(function), *serdes)


def kept_serde_of_many(function: Callable[..., Any], serde: Serde[Any] | None) -> Serde[Any] | None:
    """Return the serde if the function returns any number of values of its type."""
    return _of_type(_inside(_returned(function)), serde)


def kept_serde_of_awaited(
    function: Callable[..., Any], serde: Serde[Any] | None
) -> Serde[Any] | None:
    """Return the serde if what the function returns gives a value of its type when awaited."""
    hint = _returned(function)
    # Of an `async def` it is what that is annotated with.
    if typing.get_origin(hint) in {Awaitable, Coroutine}:
        hint = typing.get_args(hint)[-1]
    return _of_type(hint, serde)


def kept_serdes(function: Callable[..., Any], serdes: Serdes, *, many: bool = False) -> Serdes:
    """Return the serdes of whose types are the keys and values that a function returns in pairs.

    Args:
        function: Returns one pair.
        serdes: Of the keys and values before.
        many: Whether it returns any number of pairs instead.
    """
    hint = _returned(function)
    if many:
        hint = _inside(hint)
    if typing.get_origin(hint) is not tuple or len(typing.get_args(hint)) != 2:
        return Serdes(None, None)
    key, value = typing.get_args(hint)
    return Serdes(_of_type(key, serdes.key), _of_type(value, serdes.value))


def kept_serdes_of_processor(processor: object, serdes: Serdes, *, fixed_key: bool) -> Serdes:
    """Return the serdes of whose types are the keys and values that a processor forwards.

    Args:
        processor: The user's, a `Processor[KIn, VIn, KOut, VOut]` for one.
        serdes: Of the keys and values before.
        fixed_key: Whether it is a `FixedKeyProcessor[K, VIn, VOut]`, which keeps the key.
    """
    if fixed_key:
        return Serdes(
            serdes.key, _of_type(_last_parameter(processor, FixedKeyProcessor), serdes.value)
        )
    *_, key, value = _parameters(processor, Processor) or (None, None)
    return Serdes(_of_type(key, serdes.key), _of_type(value, serdes.value))


def kept_serde_of_transformer(transformer: Any, serde: Serde[Any] | None) -> Serde[Any] | None:
    """Return the serde if a transformer's class, or its method, says that its values are of it."""
    made = _last_parameter(transformer, ValueTransformerWithKey)
    return _of_type(made or _returned(transformer.transform), serde)


def _of_type(hint: Any, *serdes: Serde[Any] | None) -> Serde[Any] | None:
    kind = _without_none(hint)
    for serde in serdes:
        if serde is not None and (own := value_type(serde)) is not None and own is kind:
            return serde
    return None


def _inside(hint: Any) -> Any:
    """Return the `int` of `Iterable[int]`, and of what else is one, a generator among them."""
    inside = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and inside[-1] is not ...:
        return inside[0] if len(set(inside)) == 1 else None
    return inside[0] if inside else None


def _last_parameter(made: object, base: type) -> Any:
    parameters = _parameters(made, base)
    return parameters[-1] if parameters else None


def _parameters(made: object, base: type) -> tuple[Any, ...]:
    """Return what stands in brackets behind a base of an object's class; nothing if it doesn't."""
    for kind in type(made).__mro__:
        for given in kind.__dict__.get("__orig_bases__", ()):
            if typing.get_origin(given) is base:
                return typing.get_args(given)
    return ()


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
