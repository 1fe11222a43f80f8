"""Recognises async functions: nobody here would await what they return."""

from __future__ import annotations

import inspect
from functools import partial

NOT_ASYNC = (
    "is async, and nobody would await what it returns: make it a plain function (def), or let "
    "map_values_async await it before"
)
"""Completes a sentence that begins with the function."""


def is_async(function: object) -> bool:
    """Return whether a call of the function gives a coroutine or an asynchronous generator.

    Not of a plain function that calls an async one: it may well run that, whatever it wraps. Its
    results tell.
    """
    while isinstance(function, partial):
        function = function.func
    called = [function]
    if not isinstance(function, type):
        called.append(getattr(function, "__call__", None))  # noqa: B004 - to be looked at
    return any(
        inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call) for call in called
    )
