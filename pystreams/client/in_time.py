"""Calls that cost their caller no more than some time, whatever becomes of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


def in_time(function: Callable[[], _Result], within_s: float) -> _Result:
    """Return what a function returns, or raise what it raises.

    It is called in a thread, since neither the lookup of a name nor an answer that comes byte by
    byte can be given up; what comes of it too late is forgotten.

    Raises:
        TimeoutError: It takes longer, or no thread can be had for it.
    """
    results: list[_Result] = []
    failures: list[Exception] = []

    def call() -> None:
        try:
            results.append(function())
        except Exception as failure:  # noqa: BLE001 - is raised where it was called
            failures.append(failure)

    thread = threading.Thread(target=call, name="pystreams-client", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # There are too many, or Python is ending.
        raise TimeoutError(str(error)) from error
    thread.join(within_s)
    if failures:
        raise failures[0]
    if not results:
        raise TimeoutError
    return results[0]
