"""What signals do to a process that is about to end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from pystreams.cli.processes import interruption, stop_request
from pystreams.cli.processes.interruption import InterruptBySignal, Interrupted
from pystreams.cli.processes.stop_request import StopRequest
from tests.broker.waiting import wait_until


@pytest.fixture(autouse=True)
def own_handler() -> Iterator[None]:
    """A handler that no test of this process sees afterwards."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("kind", [StopRequest, InterruptBySignal])
def test_the_second_hangup_of_a_closed_terminal_may_come_when_all_is_closed(
    kind: type[StopRequest],
) -> None:
    stop = kind()
    with suppress(Interrupted), stop.by_signals():
        signal.raise_signal(signal.SIGHUP)

    assert stop.requested
    signal.raise_signal(signal.SIGHUP)  # By default it would end this process.


def test_without_a_hangup_the_signal_is_given_back() -> None:
    with StopRequest().by_signals():
        pass

    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


@pytest.mark.parametrize("kind", [StopRequest, InterruptBySignal])
def test_a_signal_that_comes_twice_at_once_asks_once(
    kind: type[StopRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from `timeout`, which sends it to the process and then to its group."""
    ended: list[int] = []
    for module in (stop_request, interruption):
        monkeypatch.setattr(module, "end_at_once", ended.append)
    stop = kind()
    with stop.by_signals():
        with suppress(Interrupted):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert (stop.requested, ended) == (True, [])

        def ends() -> bool:
            signal.raise_signal(signal.SIGTERM)
            return bool(ended)

        wait_until(ends, "the end that a later one brings")
