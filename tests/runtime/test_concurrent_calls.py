"""Calls that wait for the broker are made at the same time."""

from __future__ import annotations

import subprocess
import sys
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


AFTER_THE_PROGRAM = """
import threading
from concurrent.futures import ThreadPoolExecutor
from pystreams.runtime.tasks.concurrent_calls import ConcurrentCalls

def go_on():
    concurrent = ConcurrentCalls()
    threading.main_thread().join()
    try:
        while True:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(int).result()
    except RuntimeError:
        print(concurrent.run(lambda number: number * 2, range(3)), flush=True)

threading.Thread(target=go_on).start()
"""


def test_calls_are_made_one_by_one_where_the_program_has_ended_and_its_pools_with_it() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", AFTER_THE_PROGRAM],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )

    assert (ended.stdout, ended.stderr) == ("[0, 2, 4]\n", "")
