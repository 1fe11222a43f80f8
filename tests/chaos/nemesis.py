"""Does what the plan says to members, brokers and the connections between them."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

from tests.chaos.cluster import Cluster
from tests.chaos.members import Member
from tests.chaos.plan import MEMBERS, Fault

_LOOK_EVERY_S = 0.1
Step = Callable[[], None]


class Nemesis:
    """Carries a plan out, and puts all in order again.

    A fault whose target has another trouble just then is left out. Brokers have one at a time, and
    none before all replicas are as far as each other.

    Args:
        members: The members, and behind them the guests.
        cluster: The brokers.
        tell: Where to say what is done.

    Attributes:
        done: How often each kind of fault was done.
        skipped: How many were left out.
    """

    def __init__(
        self, members: Sequence[Member], cluster: Cluster, tell: Callable[[str], None] = print
    ) -> None:
        self.done: Counter[str] = Counter()
        self.skipped = 0
        self._members = members
        self._cluster = cluster
        self._tell = tell
        self._ends: list[tuple[float, int, Step]] = []
        self._numbers = itertools.count()
        self._broker_troubled = self._net_troubled = False
        self._broker_error: Exception | None = None
        self._begin_s = 0.0

    def run(self, faults: Sequence[Fault], seconds: float) -> None:
        """Do all of it; returns when all troubles are over and everything runs again."""
        self._begin_s = time.monotonic()
        for fault in faults:
            self._wait_until(fault.at_s)
            self._do(fault)
        self._wait_until(seconds)
        while self._ends:
            self._end_one()
        self._cluster.proxy.heal()
        while self._broker_troubled:
            self._wait_until(self._since_begin_s() + _LOOK_EVERY_S)
        if self._broker_error is not None:
            raise self._broker_error

    def tend(self) -> None:
        """Start members again that have ended by themselves."""
        for member in self._members:
            member.tend()

    def _since_begin_s(self) -> float:
        return time.monotonic() - self._begin_s

    def _wait_until(self, at_s: float) -> None:
        while True:
            self.tend()
            if self._ends and self._ends[0][0] <= self._since_begin_s():
                self._end_one()
            elif self._since_begin_s() >= at_s:
                return
            else:
                threading.Event().wait(_LOOK_EVERY_S)

    def _end_one(self) -> None:
        heapq.heappop(self._ends)[2]()

    def _later(self, fault: Fault, *steps: Step) -> None:
        def end() -> None:
            for step in steps:
                step()
            self._tell(f"{self._since_begin_s():6.1f} s  over: {fault.kind}")

        at_s = self._since_begin_s() + fault.length_s
        heapq.heappush(self._ends, (at_s, next(self._numbers), end))

    def _do(self, fault: Fault) -> None:
        if fault.kind.startswith("broker"):
            done = self._do_to_broker(fault)
        elif fault.kind in {"cut", "refuse", "silence", "delay"}:
            done = self._do_to_connections(fault)
        elif fault.kind == "kill all":
            done = self._kill_all(fault)
        else:
            guests = fault.kind == "guest"
            members = self._members[MEMBERS:] if guests else self._members[:MEMBERS]
            member = members[fault.target % len(members)]
            done = not member.troubled and self._do_to_member(fault, member)
        self._tell(f"{self._since_begin_s():6.1f} s  {'' if done else 'left out: '}{fault.kind}")
        self.done[fault.kind] += done
        self.skipped += not done

    # ------------------------------------------------------------------ members

    def _do_to_member(self, fault: Fault, member: Member) -> bool:
        def over() -> None:
            member.troubled = False

        if fault.kind == "skew":
            member.move_clock(round(fault.amount))
            return True
        if fault.kind != "guest" and not member.alive:
            return False
        member.troubled = True
        if fault.kind == "hold":
            member.hold()
            self._later(fault, member.let_go, over)
        elif fault.kind == "guest":
            member.start()
            self._later(fault, member.leave, over)
        elif fault.kind == "full disk":
            member.fill_disk()
            self._later(fault, member.free_disk, over)
        else:
            member.leave() if fault.kind == "leave" else member.kill()
            if fault.kind == "move":
                member.lose_state()
            self._later(fault, member.start, over)
        return True

    def _kill_all(self, fault: Fault) -> bool:
        members = [member for member in self._members if member.alive and not member.troubled]
        for member in members:
            member.troubled = True
            member.kill()

        def again() -> None:
            for member in members:
                member.start()
                member.troubled = False

        self._later(fault, again)
        return bool(members)

    # ------------------------------------------------------------------ brokers and connections

    def _do_to_broker(self, fault: Fault) -> bool:
        if self._broker_troubled or not self._cluster.is_whole():
            return False
        number, cluster = fault.target % len(self._cluster), self._cluster
        self._broker_troubled = True
        if fault.kind == "broker hold":

            def over() -> None:
                cluster.let_go(number)
                self._broker_troubled = False

            cluster.hold(number)
            self._later(fault, over)
            return True

        def restart() -> None:
            try:
                cluster.stop(number) if fault.kind == "broker stop" else cluster.kill(number)
                threading.Event().wait(fault.length_s)
                cluster.start(number)
                self._tell(f"{self._since_begin_s():6.1f} s  over: {fault.kind}")
            except Exception as error:  # noqa: BLE001 - told in the end.
                self._broker_error = error
            self._broker_troubled = False

        # Java takes its time, and the other troubles go on meanwhile.
        threading.Thread(target=restart, name="broker", daemon=True).start()
        return True

    def _do_to_connections(self, fault: Fault) -> bool:
        proxy, draw = self._cluster.proxy, Random(fault.seed)
        if fault.kind == "cut":
            proxy.cut(fault.amount, draw)
            return True
        if self._net_troubled:
            return False
        self._net_troubled = True

        def over() -> None:
            self._net_troubled = False

        if fault.kind == "refuse":
            proxy.refuse()
        elif fault.kind == "silence":
            proxy.silence(fault.amount, draw)
        else:
            proxy.delay_ms = round(fault.amount)
        self._later(fault, proxy.heal, over)
        return True


@contextmanager
def closing(members: Sequence[Member]) -> Iterator[None]:
    """Kill all members at the end of the block, and give back their disks."""
    try:
        yield
    finally:
        for member in members:
            member.close()
