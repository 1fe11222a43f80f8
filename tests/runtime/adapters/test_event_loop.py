"""The event loop that makes asynchronous calls: a call that blocks it is told, with its place."""

from __future__ import annotations

import threading
import time

import pytest
from structlog.testing import capture_logs

from pystreams.runtime.adapters.event_loop import EventLoop
from pystreams.topology.contracts.held_records import Call, CallLimits
from tests.broker.waiting import DEADLINE_S, wait_until

LIMITS = CallLimits(timeout_ms=100, retries=0, retry_backoff_ms=0)


def test_a_call_that_blocks_the_loop_is_told_while_a_commit_waits_for_it() -> None:
    loop, let_go = EventLoop(), threading.Event()

    async def block() -> int:
        let_go.wait(DEADLINE_S)
        return 5

    calls, call = loop.calls(), Call(block, ())
    with capture_logs() as logs:
        calls.begin(call, LIMITS)
        while not logs:
            calls.wait(1.5)
        let_go.set()
        while not call.done:
            calls.wait(DEADLINE_S)
    loop.close()

    (line,) = logs
    assert line["log_level"] == "warning"
    assert "a call blocks the event loop" in line["event"]
    assert "let_go.wait(DEADLINE_S)" in line["at"]
    assert call.result == 5


def test_calls_that_had_to_wait_for_others_to_let_go_are_told_once() -> None:
    """Also if no commit waits: they begin later than they were asked for."""
    loop, blocking, let_go = EventLoop(), threading.Event(), threading.Event()

    async def block() -> None:
        blocking.set()
        let_go.wait(DEADLINE_S)

    async def answer() -> int:
        return 5

    calls = loop.calls()
    later = [Call(answer, ()) for _ in range(3)]
    with capture_logs() as logs:
        calls.begin(Call(block, ()), LIMITS)
        assert blocking.wait(DEADLINE_S)
        for call in later:
            calls.begin(call, LIMITS)
        asked_s = time.monotonic()
        wait_until(lambda: time.monotonic() > asked_s + 1.1, "a second and more")
        let_go.set()
        while not all(call.done for call in later):
            calls.wait(DEADLINE_S)
    loop.close()

    assert [call.result for call in later] == [5, 5, 5]
    assert [line["log_level"] for line in logs] == ["warning"]


@pytest.mark.parametrize("timeout_s", [0.05, 1.5])
def test_a_wait_ends_when_nothing_has_ended_in_time(timeout_s: float) -> None:
    loop = EventLoop()
    assert not loop.calls().wait(timeout_s)
    loop.close()
