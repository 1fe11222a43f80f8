"""Checks the user's functions when they are declared, not when the first record arrives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from pystreams.errors import TopologyError

Function = TypeVar("Function", bound=Callable[..., Any])

KEY_VALUE = ("key", "value")
VALUE = ("value",)


def checked(function: Function, operation: str, parameters: tuple[str, ...]) -> Function:
    """Return the function if it can be called with these parameters.

    Args:
        function: The user's function; built-in ones that don't tell their parameters pass.
        operation: What it is for, such as "filter"; begins the error's message.
        parameters: What it will be called with, by position.

    Raises:
        TopologyError: It is no function, or takes other parameters; says which are expected.
    """
    expected = ", ".join(parameters)
    if not callable(function):
        raise TopologyError(f"{operation} takes a function of ({expected}), not {function!r}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return function
    if _accepts(signature, parameters):
        return function
    name = getattr(function, "__qualname__", repr(function))
    taken = ", ".join(signature.parameters)
    message = f"{operation} calls its function with ({expected}), but {name} takes ({taken})"
    if parameters[:1] != ("key",) and _accepts(signature, ("key", *parameters)):
        message += f"; with_key=True calls it with (key, {expected})"
    raise TopologyError(message)


def with_or_without_key(
    function: Function,
    operation: str,
    parameters: tuple[str, ...],
    *,
    with_key: bool,
) -> Function:
    """Return the function if it can be called with these parameters, after the key if asked for.

    Raises:
        TopologyError: As `checked` does.
    """
    return checked(function, operation, ("key", *parameters) if with_key else parameters)


def _accepts(signature: inspect.Signature, parameters: tuple[str, ...]) -> bool:
    try:
        signature.bind(*parameters)
    except TypeError:
        return False
    return True
