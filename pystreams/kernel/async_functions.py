"""Recognises functions of which a call runs nothing: async ones, and those that yield."""

from __future__ import annotations

import inspect
from functools import partial
from types import AsyncGeneratorType, CoroutineType
from typing import Any

COROUTINES = (CoroutineType, AsyncGeneratorType)
"""What async functions return."""

NOT_ASYNC = (
    "is async, and nobody would await what it returns: make it a plain function (def), or let "
    "map_values_async await it before"
)
"""Completes a sentence that begins with the function."""

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
    return any(
        inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)
        for call in _called(function)
    )


def is_generator(function: object) -> bool:
    """Return whether a call of the function runs nothing of it, as it has a `yield`."""
    return any(map(inspect.isgeneratorfunction, _called(function)))


def refuse_coroutine(returned: Any, what: str = "its function returned") -> None:
    """Refuse a result that would have to be awaited: a plain function gives it by an async one.

    Args:
        what: Begins the message, if it is one.

    Raises:
        TypeError: It is one.
    """
    if isinstance(returned, COROUTINES):
        raise TypeError(
            f"{what} {told_coroutine(returned)}: call no async function there, or let "
            "map_values_async await it before"
        )


def told_coroutine(returned: Any) -> str:
    """Return which async function a coroutine is of; nobody can await it any more."""
    if isinstance(returned, CoroutineType):
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
