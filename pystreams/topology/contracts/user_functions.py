"""The user's functions and suppliers: checked when they are declared, not at the first record."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from pystreams.errors import TopologyError
from pystreams.exception_texts import named_exception
from pystreams.kernel.async_functions import (
    ASYNC_GENERATOR,
    NO_GENERATOR,
    NOT_ASYNC,
    NOT_ASYNC_OF_RECORDS,
    RETURN_ONE,
    is_async,
    is_async_generator,
    is_generator,
)

Function = TypeVar("Function", bound=Callable[..., Any])

Aggregate_co = TypeVar("Aggregate_co", covariant=True)

KEY_VALUE = ("key", "value")
VALUE = ("value",)
_TAKEN = {"process": "record", "transform": "key, value"}
_BASES = {"process": "Processor", "transform": "ValueTransformerWithKey"}


class Initializer(Protocol[Aggregate_co]):
    """Returns what an aggregate begins with.

    A protocol, not a `Callable`: so mypy knows the aggregate's type before it looks at an
    aggregator that is a lambda, and tells one that returns something else.
    """

    def __call__(self) -> Aggregate_co:
        """Return a new one."""


def checked(
    function: Function, operation: str, parameters: tuple[str, ...], keyed: tuple[str, ...] = ()
) -> Function:
    """Return the function if it can be called with these parameters.

    Args:
        function: The user's function; built-in ones that don't tell their parameters pass.
        operation: What it is for, such as "filter"; begins the error's message.
        parameters: What it will be called with, by position.
        keyed: What `with_key=True` has it called with; nothing where there is no such option.

    Raises:
        TopologyError: It is no function, is async, or takes other parameters; says which are
            expected.
    """
    if callable(function):
        refuse_async(function, operation, of_records=True)
    return checked_async(function, operation, parameters, keyed)


def checked_to_run(function: Function, operation: str, parameters: tuple[str, ...]) -> Function:
    """Return the function if `checked` does, and it runs when it is called.

    For functions that are called for what they do, or of whose result only the truth counts:
    nobody would notice that one with a `yield` has not run.

    Raises:
        TopologyError: As `checked` does, or it is a generator.
    """
    refuse_generator(function, operation)
    return checked(function, operation, parameters)


def checked_callback(function: Function, where: str, parameters: tuple[str, ...]) -> Function:
    """Return the function if `checked_to_run` does: one that is called beside the records.

    Args:
        where: What it is for; begins the error's message.

    Raises:
        TopologyError: As `checked_to_run` does.
    """
    refuse_async(function, where)
    return checked_to_run(function, where, parameters)


def checked_async(
    function: Function, operation: str, parameters: tuple[str, ...], keyed: tuple[str, ...] = ()
) -> Function:
    """Return the function, which may be async, if it can be called with these parameters.

    Raises:
        TopologyError: As `checked` does; it is an async generator, which can't be awaited.
    """
    if is_async_generator(function):
        raise TopologyError(f"{operation}: {_name_of(function)} {ASYNC_GENERATOR}: {RETURN_ONE}")
    expected = ", ".join(parameters)
    if not callable(function):
        raise TopologyError(f"{operation} takes a function of ({expected}), not {function!r}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return function
    if _accepts(signature, parameters):
        return function
    name = _name_of(function)
    taken = ", ".join(signature.parameters)
    message = f"{operation} calls its function with ({expected}), but {name} takes ({taken})"
    if keyed and _accepts(signature, keyed):
        message += f"; with_key=True calls it with ({', '.join(keyed)})"
    raise TopologyError(message)


def refuse_async(function: object, operation: str, *, of_records: bool = False) -> None:
    """Refuse a function of the user's that is async.

    Args:
        of_records: Whether it is called with records, which could be given an answer before.

    Raises:
        TopologyError: It is; names it.
    """
    if is_async_generator(function):
        cure = "make it a plain function (def)"
        if of_records:
            cure += ", or let map_values_async await one that returns its values in a list before"
        raise TopologyError(f"{operation}: {_name_of(function)} {ASYNC_GENERATOR}: {cure}")
    if is_async(function):
        why = NOT_ASYNC_OF_RECORDS if of_records else NOT_ASYNC
        raise TopologyError(f"{operation}: {_name_of(function)} {why}")


def refuse_generator(function: object, operation: str) -> None:
    """Refuse a function of the user's that has a `yield`.

    Raises:
        TopologyError: It has; names it.
    """
    if is_generator(function):
        raise TopologyError(f"{operation}: {_name_of(function)} {NO_GENERATOR}")


def _name_of(function: object) -> str:
    return str(getattr(function, "__qualname__", repr(function)))


def checked_supplier(function: Function, node: str, method: str = "process") -> Function:
    """Return the supplier of a node's processors if it makes a new one at each call."""
    made_by(function, node, method)
    return function


def made_by(function: Callable[..., Any], node: str, method: str = "process") -> Any:
    """Return what a supplier makes, one that makes a new object at each call.

    It is called twice to see that, as Kafka Streams does; `init` and `close` of what it returns
    are not. So a supplier should only make a processor, and leave the rest to `init`.

    Args:
        method: What its objects are called with, record by record.

    Raises:
        TopologyError: It is no function without parameters, it raises, or it returns the same
            object twice or something that is no processor; names the node and the cure.
    """
    where = f"processor {node!r}"
    if not callable(function):
        raise _no_supplier(function, where)
    refuse_async(function, where)
    checked(function, where, ())
    try:
        first, second = function(), function()
    except Exception as error:
        raise TopologyError(f"the supplier of {where} raised {named_exception(error)}") from error
    check_processor(first, node, method)
    if first is second:
        raise TopologyError(
            f"the supplier of {where} returned the same object twice, {first!r}: tasks and threads "
            "would share it. Make a new processor at each call, as in lambda: MyProcessor(...)"
        )
    return first


def check_processor(processor: object, node: str, method: str = "process") -> None:
    """Refuse what a supplier returned if it is no processor, or no transformer.

    Raises:
        TopologyError: It can't process records, is async, or a generator; names the node.
    """
    if not callable(getattr(processor, method, None)):
        raise TopologyError(
            f"processor {node!r}: its supplier returned {processor!r}, "
            f"which has no method {method}({_TAKEN[method]})"
        )
    for part in ("init", "close"):
        if not callable(getattr(processor, part, None)):
            raise TopologyError(
                f"processor {node!r}: its supplier returned {processor!r}, which has no method "
                f"{part}: let its class be a subclass of {_BASES[method]}, which has one"
            )
    for part in ("init", method, "close"):
        of_records = part == method
        refuse_async(getattr(processor, part, None), f"processor {node!r}", of_records=of_records)
        refuse_generator(getattr(processor, part, None), f"processor {node!r}")


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
    keyed = ("key", *parameters)
    return checked(function, operation, keyed if with_key else parameters, keyed)


def of_key_and_value(function: Callable[..., Any], *, with_key: bool) -> Callable[[Any, Any], Any]:
    """Return a function of (value), or of (key, value), as one of (key, value)."""
    if with_key:
        return function

    def of_value(key: Any, value: Any) -> Any:  # noqa: ARG001 - its form
        return function(value)

    return of_value


def of_key_and_values(joiner: Callable[..., Any], *, with_key: bool) -> Callable[..., Any]:
    """Return a joiner of (left, right), or of (key, left, right), as one of (key, left, right)."""
    if with_key:
        return joiner

    def of_values(key: Any, left: Any, right: Any) -> Any:  # noqa: ARG001 - its form
        return joiner(left, right)

    return of_values


def _no_supplier(given: object, where: str) -> TopologyError:
    made = hasattr(given, "process") or hasattr(given, "transform")
    kind = type(given).__name__ if made else "MyProcessor"
    return TopologyError(
        f"{where} takes a supplier that makes a processor for each task, such as {kind} or "
        f"lambda: {kind}(...), not {given!r}"
    )


def _accepts(signature: inspect.Signature, parameters: tuple[str, ...]) -> bool:
    try:
        signature.bind(*parameters)
    except TypeError:
        return False
    return True
