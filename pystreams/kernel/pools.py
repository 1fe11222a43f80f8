"""Calls handed to pools of threads, also when the program's main thread has ended."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from pystreams.exception_texts import exception_text
from pystreams.kernel.user_tracebacks import with_causes

_TAKES_NOTHING = "cannot schedule new futures"

_AT_THE_END = "interpreter shutdown"
"""What Python says then of pools, of event loops that use them, and of new threads."""

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def begin_call(
    pool: Executor,
    call: Callable[_Parameters, _Result],
    *args: _Parameters.args,
    **kwargs: _Parameters.kwargs,
) -> Future[_Result]:
    """Hand a call to a pool; make it here where the main thread has ended: pools take none then."""
    try:
        return pool.submit(call, *args, **kwargs)
    except RuntimeError as error:
        if _TAKES_NOTHING not in str(error):
            raise
    made: Future[_Result] = Future()
    try:
        made.set_result(call(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001 - raised by who asks for the result, as a pool's.
        made.set_exception(error)
    return made


def is_end_of_python(error: BaseException) -> bool:
    """Return whether it, or what has caused it, comes of the end of the program's main thread."""
    return any(
        isinstance(found, RuntimeError) and _AT_THE_END in exception_text(found)
        for found in with_causes(error, hidden=True)
    )
