"""What happens to a group of processes, and how long each partition is without output for it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from benchmarks.harness.members import Members
from benchmarks.harness.processes import ProgramError
from benchmarks.harness.silence import Arrivals

_LOOK_S = 0.1
_FLOWS_S = 1.5
_CALM_S = 3.0
_AT_REST_S = 5.0
_AT_REST_SHARE = 0.01

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


@dataclass(frozen=True, slots=True)
class Calm:
    """What the members came to.

    Attributes:
        owners: Who had which task, each time that it changed.
        since_s: Since when it is calm (`time.perf_counter`); None if tasks flow, but shares are
            still uneven: a process has none, or fewer than its part.
    """

    owners: Sequence[Mapping[int, str]]
    since_s: float | None


@dataclass(slots=True)
class Findings:
    """What came of an interruption.

    Attributes:
        silences: Of each partition, once for each time that something happened.
        calm_after_s: How long it was until all was calm again, once for each; None for never.
    """

    silences: list[Silence] = field(default_factory=list)
    calm_after_s: list[float | None] = field(default_factory=list)


def interrupt(
    members: Members, arrivals: Arrivals, kind: Interruption, in_vain_s: float
) -> Findings:
    """Let it happen; return what came of it.

    A newcomer that has no share when the time is up has been given none: that is a finding too.

    Args:
        members: The processes.
        arrivals: Their output.
        kind: What happens.
        in_vain_s: After how long nothing more is waited for.

    Raises:
        ProgramError: A program ended by itself, or some partition is silent for ever.
    """
    found = Findings()
    before = until_calm(members, arrivals, in_vain_s).owners[-1]
    happening = kind.happens(members)
    while True:
        began_s = time.perf_counter()
        ended = next(happening, None)
        if ended is None:
            return found
        usual_s = arrivals.steady_s(began_s)
        calm = _until_flowing(members, arrivals, in_vain_s, _CALM_S)
        longest_s = arrivals.longest_s(began_s, time.perf_counter())
        for partition, seconds in longest_s.items():
            fate = fate_of(partition, ended, before, calm.owners)
            found.silences.append(Silence(round(max(seconds - usual_s, 0.0), 3), fate))
        after_s = None if calm.since_s is None else round(calm.since_s - began_s, 1)
        found.calm_after_s.append(after_s)
        before = calm.owners[-1]


def until_calm(
    members: Members, arrivals: Arrivals, in_vain_s: float, *, calm_s: float = _CALM_S
) -> Calm:
    """Wait until each partition has output and each process its part of them, for a while.

    Args:
        members: The processes.
        arrivals: Their output.
        in_vain_s: After how long it is given up.
        calm_s: For how long it must be so.

    Raises:
        ProgramError: A program ended by itself, or it does not become calm.
    """
    calm = _until_flowing(members, arrivals, in_vain_s, calm_s)
    if calm.since_s is None:
        raise _in_vain(members, f"shares are uneven after {in_vain_s:g} s, {calm.owners[-1]}")
    return calm


def is_shared_out(owners: Mapping[int, str], running: Collection[str]) -> bool:
    """Return whether those that run, and no others, have the tasks, each its part at least."""
    shares = Counter(owners.values())
    part = len(owners) // len(running)
    return shares.keys() <= set(running) and all(shares[name] >= part for name in running)


def _until_flowing(members: Members, arrivals: Arrivals, in_vain_s: float, calm_s: float) -> Calm:
    """Wait until it is calm; when the time is up, be content with output of each partition."""
    seen: list[Mapping[int, str]] = []
    begin_s = calm_since_s = flowing_since_s = time.perf_counter()
    while True:
        members.watch()
        owners = members.owners()
        now_s = time.perf_counter()
        if owners is not None and seen[-1:] != [owners]:
            seen.append(owners)
            calm_since_s = flowing_since_s = now_s
        flows = (
            owners is not None
            and len(owners) == len(arrivals.partitions)
            and arrivals.flows(now_s - _FLOWS_S)
        )
        if not flows:
            flowing_since_s = now_s
        if not flows or owners is None or not is_shared_out(owners, members.running):
            calm_since_s = now_s
        if now_s - calm_since_s > calm_s:
            return Calm(seen, calm_since_s)
        if now_s - begin_s > in_vain_s:
            if now_s - flowing_since_s > calm_s:
                return Calm(seen, None)
            raise _in_vain(members, f"not calm after {in_vain_s:g} s, {owners}")
        time.sleep(_LOOK_S)


def _in_vain(members: Members, what: str) -> ProgramError:
    logs = "\n".join(program.log_tail() for program in members.running.values())
    return ProgramError(f"{what}:\n{logs}")


def until_warm(
    members: Members, tasks: int, copies: int, in_vain_s: float, *, at_rest: bool = False
) -> None:
    """Wait until the state of each task lies on so many disks.

    Args:
        members: The processes.
        tasks: How many tasks there are.
        copies: How many disks.
        in_vain_s: After how long it is given up.
        at_rest: Whether disks must have stopped to fill, too: large copies take their time.

    Raises:
        ProgramError: A program ended by itself, or it never does.
    """
    deadline_s = time.perf_counter() + in_vain_s
    rests_since_s, size = time.perf_counter(), 0
    while True:
        members.watch()
        lying = members.copies()
        now_s = time.perf_counter()
        if at_rest and abs((found := members.state_bytes()) - size) > _AT_REST_SHARE * found:
            rests_since_s, size = now_s, found
        rests = not at_rest or now_s - rests_since_s > _AT_REST_S
        if rests and len(lying) >= tasks and min(lying.values()) >= copies:
            return
        if now_s > deadline_s:
            raise ProgramError(f"not warm after {in_vain_s:g} s, copies: {dict(lying)}")
        time.sleep(_LOOK_S)
