"""A step that is measured now and then, and costs nothing more while it is not.

Whoever calls a step holds the function itself: in a closure, in an object. So what is exchanged is
not the function, but its code: for a while that of one which hands all on to something else, and
then its own again. A frame keeps the code that it has begun with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType, MethodType
from typing import Any

from pystreams.record import Headers
from pystreams.topology.contracts.operator import Step


class ExchangeableStep:
    """A step in the place of another, which does the same.

    Args:
        step: A function, or a method of an object: it stays as it is.
        around: Makes of a step one that is called in its place while it is exchanged.

    Attributes:
        step: The one to call.
    """

    __slots__ = ("_around", "_code", "_function", "_instead", "step")

    def __init__(self, step: FunctionType | MethodType, around: Callable[[Step], Step]) -> None:
        self.step: Step = _copy(step)
        self._function = _function_of(self.step)
        self._code = self._function.__code__
        self._around = around
        self._instead: Step | None = None

    def exchange(self, *, instead: bool) -> None:
        """Have calls go to the other step from now on, or to this one again.

        Called by the thread that calls the step, and not from within it.
        """
        function = self._function
        if not instead:
            function.__code__, function.__kwdefaults__ = self._code, None
            return
        if self._instead is None:
            self._instead = self._around(_copy(self.step))
        function.__kwdefaults__ = {"instead": self._instead}
        template = _hand_on if self.step is function else _hand_on_from_method
        function.__code__ = _with_free_variables(template.__code__, len(self._code.co_freevars))


def exchangeable(step: Step) -> FunctionType | MethodType | None:
    """Return a step whose code can be exchanged; None if it is no function in Python."""
    if isinstance(step, FunctionType):
        found: FunctionType | MethodType = step
    elif isinstance(step, MethodType) and isinstance(step.__func__, FunctionType):
        found = step
    else:
        return None
    return None if _function_of(found).__kwdefaults__ else found


def _function_of(step: Any) -> FunctionType:
    function = step.__func__ if isinstance(step, MethodType) else step
    assert isinstance(function, FunctionType), "a step is a function, or a method that is one"
    return function


def _copy(step: Any) -> Any:
    """Return a function, or a method, of its own with the same code and variables."""
    function = _function_of(step)
    copied = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    return MethodType(copied, step.__self__) if isinstance(step, MethodType) else copied


def _hand_on(key: Any, value: Any, timestamp: int, headers: Headers, *, instead: Step) -> None:
    instead(key, value, timestamp, headers)


def _hand_on_from_method(
    _: object, key: Any, value: Any, timestamp: int, headers: Headers, *, instead: Step
) -> None:
    instead(key, value, timestamp, headers)


@lru_cache
def _with_free_variables(code: CodeType, number: int) -> CodeType:
    """Return the code for a function that has so many variables of others, which it does not use.

    A function takes only code that has as many as its own.
    """
    return code.replace(co_freevars=tuple(f"free_{index}" for index in range(number)))
