"""The order to stop that a thread was given, and how long it waits for brokers from then on.

A stop is to be over in 25 s (`--stop-timeout`), also where a coordinator says nothing. First the
last commit has its time, then what it leaves open is aborted, then producers are released, which
tries it once more; what is left is the consumer's. Whatever is not committed by then is processed
again, and what is not aborted is ended by the next use of its transactional id, or by its time
limit. A commit that begins late, behind a slow function say, is given up only where brokers are
silent: they have their 3 s first; when those have passed once, others get half a second each, and
two seconds all together from then or from the last commit that succeeded. What has not begun by
then is not tried: with a producer a task there may be hundreds, of which some wait at a time, and
their half seconds would add up.
"""

from __future__ import annotations

import math
import threading

from pystreams.kernel.clock import Clock

_COMMITS_FOR_S = 10.0
_ABORTS_UNTIL_S = 15.0
_RELEASES_UNTIL_S = 17.0

_PATIENCE_S = 3.0
"""How long a broker may say nothing, however late it is."""
_ABORT_S = 5.0
"""An abort is repeated, and goes on where it was; between two tries an order to stop is heard."""
_RELEASE_S = 3.0
_LEAST_S = 0.5
"""What a broker that answers needs."""
_OTHERS_S = 2.0
"""How long all others have together, once brokers were silent, without a commit that succeeds."""


class StopOrder:
    """Tells a thread to stop; may be given and looked at from any thread.

    Args:
        event: What is set then; pauses wait on it.
    """

    def __init__(self, event: threading.Event, clock: Clock) -> None:
        self._event = event
        self._clock = clock
        self._given_ms = math.inf
        self._silent_since_ms = math.inf

    def give(self) -> None:
        """Give the order; a second one changes nothing."""
        self._given_ms = min(self._given_ms, self._clock.monotonic_ms())
        self._event.set()

    @property
    def is_given(self) -> bool:
        """Whether to stop."""
        return self._event.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Pause until the order is given, or for as long (s); return whether it is given."""
        return self._event.wait(timeout_s)

    def gives_up(self, silent_s: float) -> bool:
        """Return whether a commit waits no longer for a broker that is silent for so long (s)."""
        if self._left_s(_COMMITS_FOR_S) > 0:
            return False
        is_silence = self._silent_since_ms < math.inf
        given_up = silent_s >= (_LEAST_S if is_silence else _PATIENCE_S)
        if given_up:
            self.note_silence()
        return given_up

    def note_silence(self) -> None:
        """Take note that a broker has said nothing for as long as there was.

        What was before the order does not count: that outage may be over.
        """
        if self.is_given:
            self._silent_since_ms = min(self._silent_since_ms, self._clock.monotonic_ms())

    def note_answer(self) -> None:
        """Take note that a commit has succeeded.

        Where brokers were silent, others get their time anew. Late, the 3 s are over for good: of
        hundreds of producers some may have a coordinator that answers, and some one that does not.
        """
        if self._silent_since_ms < math.inf:
            is_late = self._left_s(_COMMITS_FOR_S) <= 0
            self._silent_since_ms = self._clock.monotonic_ms() if is_late else math.inf

    @property
    def has_no_time_left(self) -> bool:
        """Whether brokers were silent, and all others have had their time: no more is tried."""
        silent_s = (self._clock.monotonic_ms() - self._silent_since_ms) / 1000
        return self._left_s(_COMMITS_FOR_S) <= 0 and silent_s >= _OTHERS_S

    @property
    def abort_s(self) -> float:
        """How long a try to abort may take (s); 0: it is left to the release of the producer."""
        return min(_ABORT_S, max(self._left_s(_ABORTS_UNTIL_S), 0.0))

    @property
    def release_s(self) -> float:
        """How long a producer may take that is released with an open transaction (s); 0: no try."""
        least_s = 0.0 if self.has_no_time_left else _LEAST_S
        return min(_RELEASE_S, max(self._left_s(_RELEASES_UNTIL_S), least_s))

    def _left_s(self, until_s: float) -> float:
        """Return what is left of a time that began with the order (s); without one, no end."""
        return until_s - (self._clock.monotonic_ms() - self._given_ms) / 1000
