"""What goes wrong in a simulation, when: all of it drawn from one seed.

Every call of a port and every write to a disk passes `Lifeline.pulse`. There a simulated process
may die: `SimulatedCrash` leaves through the runtime like kill -9 would, and from then on
whatever the dying code still tries has no effect and raises again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from pystreams.errors import StreamsError


class SimulatedCrash(BaseException):
    """The process was killed. Nothing may catch it but the simulation."""


@dataclass(frozen=True, slots=True)
class FaultRates:
    """How often (0 to 1, a call) each kind of trouble comes.

    Attributes:
        no_answer: A call fails with `RetriableClientError`.
        abort: A send, flush or commit of a transaction ends with `TransactionAbortableError`;
            without transactions, a flush loses what was not delivered yet.
        empty_poll: A poll returns nothing although there is something.
        short_poll: A poll returns fewer records than it could.
        background: Something the broker or a client does by itself, between two calls: a
            transaction marker is written, queued records are delivered, a memtable is flushed.
        repeated: A request that sends the offsets of a transaction, or ends it, is sent twice; the
            broker meets one of the two late, when the next transaction may have begun.
    """

    no_answer: float = 0.02
    abort: float = 0.02
    empty_poll: float = 0.1
    short_poll: float = 0.5
    background: float = 0.3
    repeated: float = 0.2


NO_FAULTS = FaultRates(no_answer=0, abort=0, empty_poll=0, short_poll=0, background=0.3, repeated=0)
"""Everything works; the order of things in the background still varies."""


class Faults:
    """Draws what goes wrong, and keeps the trace of all calls.

    Args:
        rates: How often; may be replaced at any time.

    Attributes:
        random: The one source of randomness of a simulation.
        rates: How often things go wrong now.
        trace: Every call, in order; two runs of one seed have the same.
    """

    def __init__(self, seed: int, rates: FaultRates = NO_FAULTS) -> None:
        self.random = Random(seed)
        self.rates = rates
        self.trace: list[str] = []
        self._scripted: dict[str, list[StreamsError | None]] = {}

    def fail_next(self, call: str, error: StreamsError, *, after: int = 0) -> None:
        """Let the next call of a client's method of this name fail, after those scripted before.

        Args:
            call: The method's name; "write" for the commit of a store on a disk.
            after: How many calls succeed until then.
        """
        self._scripted.setdefault(call, []).extend([*[None] * after, error])

    def scripted(self, call: str) -> StreamsError | None:
        """Return the error this call was scripted to fail with, once."""
        waiting = self._scripted.get(call)
        return waiting.pop(0) if waiting else None

    def maybe_fail(self, call: str) -> None:
        """Raise the error this call was scripted to fail with, if there is one."""
        error = self.scripted(call)
        if error is not None:
            raise error

    def forget_scripted(self, call: str) -> int:
        """Let no call of this name fail any more; return how many were still to come."""
        return len(self._scripted.pop(call, []))

    def happens(self, rate: float) -> bool:
        """Return whether something of this rate happens now."""
        return rate > 0 and self.random.random() < rate

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(what)


class Lifeline:
    """The life of one process, from start to crash or stop.

    Args:
        name: The process, for the trace.

    Attributes:
        alive: Whether it has not crashed.
        pulses: Calls so far.
    """

    def __init__(self, name: str, faults: Faults) -> None:
        self.name = name
        self.alive = True
        self.pulses = 0
        self._faults = faults
        self._crash_at: int | None = None
        self._crash_at_call: str | None = None
        self._stands_still_at: int | str = 0
        self._meanwhile: Callable[[], None] | None = None

    def crash_in(self, pulses: int | None) -> None:
        """Crash at the call after this many others; None takes that back."""
        self._crash_at = None if pulses is None else self.pulses + pulses

    def crash_at(self, call: str) -> None:
        """Crash at the next call whose line in the trace contains this text."""
        self._crash_at_call = call

    def stand_still(self, where: int | str, meanwhile: Callable[[], None] | None) -> None:
        """Stand still once, as if stopped by a signal.

        Args:
            where: After how many calls, or at a call whose line in the trace contains this text.
            meanwhile: What others do until it goes on; None takes that back.
        """
        self._stands_still_at = where if isinstance(where, str) else self.pulses + where
        self._meanwhile = meanwhile

    def pulse(self, call: str) -> None:
        """Pass one call, or crash.

        Raises:
            SimulatedCrash: The process dies here, or is dead.
        """
        if not self.alive:
            raise SimulatedCrash(self.name)
        due = self._crash_at is not None and self.pulses >= self._crash_at
        if due or (self._crash_at_call is not None and self._crash_at_call in call):
            self.alive = False
            self._faults.note(f"{self.name} CRASH at {call}")
            raise SimulatedCrash(self.name)
        self.pulses += 1
        self._faults.note(f"{self.name} {call}")
        if self._meanwhile is not None and self._stands_still(call):
            meanwhile, self._meanwhile = self._meanwhile, None
            self._faults.note(f"{self.name} stands still")
            meanwhile()
            self._faults.note(f"{self.name} goes on")

    def _stands_still(self, call: str) -> bool:
        where = self._stands_still_at
        return where in call if isinstance(where, str) else self.pulses > where
