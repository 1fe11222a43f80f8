"""Calls that mostly wait for the broker, made at the same time.

With `exactly_once` each task has a producer of its own; its transaction is begun, committed and
fenced by requests that a broker takes milliseconds, after a crash half a second, to answer. One
after the other, twenty tasks would wait twenty times as long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

from pystreams.kernel.pools import begin_call

_MAX_CALLS = 32

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def waiting_pool() -> Executor:
    """Return a pool of threads for calls that wait; it starts them as they are needed."""
    owner = threading.current_thread().name
    return ThreadPoolExecutor(_MAX_CALLS, thread_name_prefix=helpers_of(owner))


def helpers_of(thread_name: str) -> str:
    """Return how the names of the threads begin on which a thread makes calls side by side."""
    return f"{thread_name}-side-by-side"


class ConcurrentCalls:
    """Makes calls at the same time, for one thread, which waits for all of them.

    Args:
        make_pool: Makes what the calls run on, when there is first more than one.
    """

    def __init__(self, make_pool: Callable[[], Executor] = waiting_pool) -> None:
        self._make_pool = make_pool
        self._pool: Executor | None = None

    def run(self, call: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Call with each item; return the results in order, once all are there.

        One after the other where the program's main thread has ended: pools take nothing then.
        """
        if len(items) <= 1:
            return [call(item) for item in items]
        if self._pool is None:
            self._pool = self._make_pool()
        begun = [begin_call(self._pool, call, item) for item in items]
        return [future.result() for future in begun]

    def close(self) -> None:
        """Stop the pool; safe to call twice."""
        if self._pool is not None:
            self._pool.shutdown()
