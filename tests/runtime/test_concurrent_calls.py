"""Calls that wait for the broker are made at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from pystreams.runtime.tasks.concurrent_calls import ConcurrentCalls

DEADLINE_S = 90


def test_twenty_calls_wait_together_and_answer_in_order() -> None:
    all_there = threading.Barrier(20)
    concurrent = ConcurrentCalls()

    def call(number: int) -> int:
        all_there.wait(DEADLINE_S)
        return number * 2

    assert concurrent.run(call, range(20)) == [number * 2 for number in range(20)]
    concurrent.close()


@pytest.mark.parametrize("count", [0, 1])
def test_without_company_a_call_is_made_by_the_caller_and_no_pool(count: int) -> None:
    def no_pool() -> Executor:
        raise AssertionError("a pool for nothing")

    concurrent = ConcurrentCalls(no_pool)

    assert (
        concurrent.run(lambda _: threading.get_ident(), range(count))
        == [threading.get_ident()] * count
    )
    concurrent.close()


def test_an_error_is_raised_to_the_caller() -> None:
    concurrent = ConcurrentCalls(lambda: ThreadPoolExecutor(2))

    with pytest.raises(ZeroDivisionError):
        concurrent.run(lambda number: 1 // number, [1, 0])
    concurrent.close()
