"""Recognises functions of which a call runs nothing: async ones, and those that yield."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import AsyncGeneratorType, CoroutineType
from typing import Any, TypeVar

from pystreams.errors import TopologyError

_Function = TypeVar("_Function")

COROUTINES = (CoroutineType, AsyncGeneratorType)
"""What async functions return."""

_NOT_ASYNC = "is async, and nobody would await what it returns: make it a plain function (def)"

NOT_ASYNC = f"{_NOT_ASYNC}, in which asyncio.run(...) waits for what is async"
"""Completes a sentence that begins with the function."""

NOT_ASYNC_OF_RECORDS = f"{_NOT_ASYNC}, or let map_values_async await it before"
"""As above, of a function that an operation calls with records."""

ASYNC_GENERATOR = "is an async generator (`async def` with a yield), which nobody can await"
"""As above."""

RETURN_ONE = (
    "let it `return` one value, without a yield: several in a list, which flat_map_values takes "
    "apart behind it"
)
"""What helps where a function is awaited that gives its values one after the other."""

NO_GENERATOR = (
    "has a yield, so that a call runs nothing of it: make it a function without one (those that "
    "yield are for flat_map and flat_map_values)"
)
"""As above."""


def is_async(function: object) -> bool:
    """Return whether a call of the function gives a coroutine or an asynchronous generator.

    Not of a plain function that calls an async one: it may well run that, whatever it wraps. Its
    results tell.
    """
    return is_async_generator(function) or any(map(inspect.iscoroutinefunction, _called(function)))


def is_async_generator(function: object) -> bool:
    """Return whether a call of the function gives an asynchronous generator."""
    return any(map(inspect.isasyncgenfunction, _called(function)))


def is_generator(function: object) -> bool:
    """Return whether a call of the function runs nothing of it, as it has a `yield`."""
    return any(map(inspect.isgeneratorfunction, _called(function)))


def not_async(function: _Function, serde: object, method: str) -> _Function:
    """Return a function that a serde has given, of which a call gives the value or the bytes.

    Args:
        method: The method of the serde that has returned it.

    Raises:
        TopologyError: It is async.
    """
    if is_async(function):
        name = getattr(function, "__qualname__", repr(function))
        raise TopologyError(f"{type(serde).__name__}.{method} returned {name}, which {NOT_ASYNC}")
    return function


def serializer_of(serde: Any, topic: str) -> Callable[[Any], bytes]:
    """Return what a serde writes with.

    Raises:
        TopologyError: It is async.
    """
    return not_async(serde.serializer(topic), serde, "serializer")  # type: ignore[no-any-return]


def deserializer_of(serde: Any, topic: str) -> Callable[[bytes], Any]:
    """Return what a serde reads with.

    Raises:
        TopologyError: It is async.
    """
    return not_async(serde.deserializer(topic), serde, "deserializer")  # type: ignore[no-any-return]


def refuse_coroutine(
    returned: Any, what: str = "its function returned", *, of_records: bool = True
) -> None:
    """Refuse a result that would have to be awaited: a plain function gives it by an async one.

    Args:
        what: Begins the message, if it is one.
        of_records: Whether the function is called with records, which could have an answer before.

    Raises:
        TypeError: It is one.
    """
    if isinstance(returned, COROUTINES):
        cure = "call no async function there"
        if isinstance(returned, CoroutineType):
            awaited = "let map_values_async await it before"
            cure += f", or {awaited if of_records else 'wait for it with asyncio.run(...)'}"
        raise TypeError(f"{what} {told_coroutine(returned)}: {cure}")


def told_coroutine(returned: Any) -> str:
    """Return which async function a result is of; nobody can await it any more."""
    if isinstance(returned, AsyncGeneratorType):
        return f"an async generator of {returned.__qualname__}, which nobody can await"
    returned.close()  # Else Python warns of it, too.
    return f"a coroutine of {returned.__qualname__}, which nobody would await"


def _called(function: object) -> list[object]:
    """Return what may run when it is called."""
    while isinstance(function, partial):
        function = function.func
    called = [function]
    if not isinstance(function, type):
        called.append(getattr(function, "__call__", None))  # noqa: B004 - to be looked at
    return called
