"""What happens to a group of processes, and how long each partition is without output for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.harness.members import Members
from benchmarks.harness.processes import ProgramError
from benchmarks.harness.silence import Arrivals

_LOOK_S = 0.1
_FLOWS_S = 1.5
_CALM_S = 3.0
_IN_VAIN_S = 150.0

Happening = Callable[[Members], Iterator[str]]
"""Does something to the members; yields who is away for it, once for each interruption."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """A row of the table.

    Attributes:
        name: What the command line calls it.
        title: What tables call it.
        members: How many processes there are before.
        happens: What happens.
        standbys: `num.standby.replicas`.
        second_life: Whether the processes have run before, on these disks.
    """

    name: str
    title: str
    members: int
    happens: Happening
    standbys: int = 0
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
    yield ""


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
    yield "all"


_NOT_BACK = "killed, does not come back"
INTERRUPTIONS = {
    interruption.name: interruption
    for interruption in (
        Interruption("kill", "SIGKILL, starts again on its disk", 3, _killed),
        Interruption("kill-standby", "the same, with a standby", 3, _killed, standbys=1),
        Interruption("rolling", "rolling restart, disks stay", 3, _rolled, second_life=True),
        Interruption("scale-up", "scale-up from 2 to 3", 2, _added),
        Interruption("scale-up-standby", "the same, with a standby", 2, _added, standbys=1),
        Interruption("moved-pod", "SIGKILL, starts again on an empty disk", 3, _moved),
        Interruption("moved-pod-standby", "the same, with a standby", 3, _moved, standbys=1),
        Interruption("deployment", "SIGTERM, starts again on an empty disk", 3, _replaced),
        Interruption("lost", _NOT_BACK, 3, _lost),
        Interruption("lost-standby", "the same, with a standby", 3, _lost, standbys=1),
        Interruption("edited", "all stop, an edited topology starts", 3, _edited, second_life=True),
    )
}


@dataclass(frozen=True, slots=True)
class Silence:
    """How long one partition was without output, beyond what is usual.

    Attributes:
        seconds: How long.
        moved: Whether its task left a process, or its process ended; else it could have gone on.
    """

    seconds: float
    moved: bool


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
        away = next(happening, None)
        if away is None:
            return found
        usual_s = arrivals.steady_s(began_s)
        seen = until_calm(members, arrivals)
        longest_s = arrivals.longest_s(began_s, time.perf_counter())
        for partition, seconds in longest_s.items():
            owners = {owners[partition] for owners in (before, *seen) if partition in owners}
            moved = away == "all" or away in owners or len(owners) > 1
            found.append(Silence(round(max(seconds - usual_s, 0.0), 3), moved))
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
