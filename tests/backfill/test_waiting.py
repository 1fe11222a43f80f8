"""How often a request is repeated that no broker answers."""

from __future__ import annotations

import pytest

from pystreams.backfill.broker_waiting import ATTEMPTS, Waiting
from pystreams.errors import RetriableClientError
from pystreams.testing.simulation import ManualClock


class Request:
    """A request that is answered late.

    Args:
        clock: Passes while it waits.
        lasts_ms: How long it waits each time.
        failures: How often no answer comes.
    """

    def __init__(self, clock: ManualClock, lasts_ms: int, failures: int) -> None:
        self.calls = 0
        self._clock = clock
        self._lasts_ms = lasts_ms
        self._failures = failures

    def __call__(self) -> str:
        self.calls += 1
        self._clock.advance_ms(self._lasts_ms)
        if self.calls <= self._failures:
            raise RetriableClientError("no answer")
        return "answer"


def waiting(clock: ManualClock) -> Waiting:
    return Waiting(pause=lambda seconds: clock.advance_ms(int(seconds * 1000)), clock=clock)


def test_a_request_is_repeated_until_it_is_answered() -> None:
    clock = ManualClock()
    assert waiting(clock).until_answered(Request(clock, 10, ATTEMPTS - 1)) == "answer"


@pytest.mark.parametrize(("lasts_ms", "calls"), [(10, ATTEMPTS), (30_000, 2)])
def test_a_request_that_is_never_answered_ends_after_some_repeats_or_a_minute(
    lasts_ms: int, calls: int
) -> None:
    clock = ManualClock()
    request = Request(clock, lasts_ms, 1000)
    with pytest.raises(RetriableClientError, match="no answer"):
        waiting(clock).until_answered(request)
    assert request.calls == calls
