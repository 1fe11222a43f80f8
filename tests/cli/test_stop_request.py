"""What signals do to a process that is about to end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from pystreams.cli.processes.interruption import InterruptBySignal, Interrupted
from pystreams.cli.processes.stop_request import StopRequest


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
