"""What happens to a group of processes, and how long each partition is without output for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from benchmarks.harness.members import Members
from benchmarks.harness.processes import ProgramError
from benchmarks.harness.silence import Arrivals

_LOOK_S = 0.1
_FLOWS_S = 1.5
_CALM_S = 3.0
_IN_VAIN_S = 150.0

ALL = "all"
NOBODY = ""

Happening = Callable[[Members], Iterator[str]]
"""Does something to the members; yields who has ended, once for each interruption."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """A row of the table.

    Attributes:
        name: What the command line calls it.
        title: What tables call it.
        members: How many processes there are before.
        happens: What happens.
        second_life: Whether the processes have run before, on these disks.
    """

    name: str
    title: str
    members: int
    happens: Happening
    second_life: bool = False

    @property
    def names(self) -> list[str]:
        """The processes that are there before."""
        return [f"member-{number}" for number in range(self.members)]


def _killed(members: Members) -> Iterator[str]:
    members.kill("member-1")
    members.start("member-1")
    yield "member-1"


def _rolled(members: Members) -> Iterator[str]:
    for name in list(members.running):
        members.stop(name)
        members.start(name)
        yield name


def _added(members: Members) -> Iterator[str]:
    members.start(f"member-{len(members.running)}")
    yield NOBODY


def _moved(members: Members) -> Iterator[str]:
    members.kill("member-1")
    members.lose_disk("member-1")
    members.start("member-1")
    yield "member-1"


def _replaced(members: Members) -> Iterator[str]:
    members.stop("member-1")
    members.lose_disk("member-1")
    members.start("member-1")
    yield "member-1"


def _lost(members: Members) -> Iterator[str]:
    members.kill("member-1")
    yield "member-1"


def _edited(members: Members) -> Iterator[str]:
    names = list(members.running)
    for name in names:
        members.stop(name)
    members.edit()
    members.start(*names)
    yield ALL


INTERRUPTIONS = {
    interruption.name: interruption
    for interruption in (
        Interruption("kill", "SIGKILL, starts again on its disk", 3, _killed),
        Interruption("rolling", "rolling restart, disks stay", 3, _rolled, second_life=True),
        Interruption("scale-up", "scale-up from 2 to 3", 2, _added),
        Interruption("moved-pod", "SIGKILL, starts again on an empty disk", 3, _moved),
        Interruption("deployment", "SIGTERM, starts again on an empty disk", 3, _replaced),
        Interruption("lost", "killed, does not come back", 3, _lost),
        Interruption("edited", "all stop, an edited topology starts", 3, _edited, second_life=True),
    )
}


class Fate(Enum):
    """What became of the task of a partition."""

    STAYS = "stay"
    """Its process lives and keeps it: it could have gone on."""
    ENDED = "ended"
    """Its process ended, wherever it is now."""
    PASSED = "passed"
    """It went from one living process to another, be it for a moment: shares are made anew."""


@dataclass(frozen=True, slots=True)
class Silence:
    """How long one partition was without output, beyond what is usual.

    Attributes:
        seconds: How long.
        fate: What became of its task.
    """

    seconds: float
    fate: Fate


def fate_of(
    partition: int, ended: str, before: Mapping[int, str], seen: Sequence[Mapping[int, str]]
) -> Fate:
    """Return what became of a partition's task.

    Args:
        partition: The partition.
        ended: The process that has ended; `ALL`, or `NOBODY`.
        before: Who had which partition before.
        seen: The same since then, each time that it changed.
    """
    owner = before.get(partition)
    if ended in (ALL, owner):
        return Fate.ENDED
    stays = all(owners.get(partition, owner) == owner for owners in seen)
    return Fate.STAYS if stays else Fate.PASSED


def interrupt(members: Members, arrivals: Arrivals, kind: Interruption) -> list[Silence]:
    """Let it happen; return what came of it for each partition, once for each interruption.

    Raises:
        ProgramError: A program ended by itself, or some partition is silent for ever.
    """
    found: list[Silence] = []
    before = until_calm(members, arrivals)[-1]
    happening = kind.happens(members)
    while True:
        began_s = time.perf_counter()
        ended = next(happening, None)
        if ended is None:
            return found
        usual_s = arrivals.steady_s(began_s)
        seen = until_calm(members, arrivals)
        longest_s = arrivals.longest_s(began_s, time.perf_counter())
        for partition, seconds in longest_s.items():
            fate = fate_of(partition, ended, before, seen)
            found.append(Silence(round(max(seconds - usual_s, 0.0), 3), fate))
        before = seen[-1]


def until_calm(
    members: Members, arrivals: Arrivals, *, calm_s: float = _CALM_S
) -> list[Mapping[int, str]]:
    """Wait until each partition has output and each process a share, for a while.

    Args:
        members: The processes.
        arrivals: Their output.
        calm_s: For how long.

    Returns:
        Who had which task, each time that changed.

    Raises:
        ProgramError: A program ended by itself, or it does not become calm.
    """
    seen: list[Mapping[int, str]] = []
    begin_s = calm_since_s = time.perf_counter()
    while True:
        members.watch()
        owners = members.owners()
        now_s = time.perf_counter()
        if owners is not None and seen[-1:] != [owners]:
            seen.append(owners)
            calm_since_s = now_s
        is_calm = (
            owners is not None
            and set(owners.values()) == set(members.running)
            and len(owners) == len(arrivals.partitions)
            and arrivals.flows(now_s - _FLOWS_S)
        )
        if not is_calm:
            calm_since_s = now_s
        if now_s - calm_since_s > calm_s:
            return seen
        if now_s - begin_s > _IN_VAIN_S:
            logs = "\n".join(program.log_tail() for program in members.running.values())
            raise ProgramError(f"not calm after {_IN_VAIN_S:g} s, {owners}:\n{logs}")
        time.sleep(_LOOK_S)


def until_warm(members: Members, tasks: int, copies: int) -> None:
    """Wait until the state of each task lies on so many disks.

    Raises:
        ProgramError: A program ended by itself, or it never does.
    """
    deadline_s = time.perf_counter() + _IN_VAIN_S
    while True:
        members.watch()
        lying = members.copies()
        if len(lying) >= tasks and min(lying.values()) >= copies:
            return
        if time.perf_counter() > deadline_s:
            raise ProgramError(f"not warm after {_IN_VAIN_S:g} s, copies: {dict(lying)}")
        time.sleep(_LOOK_S)
