"""When and what to kill of a backfill: moments drawn from a seed, over the whole of its life.

Each waits for an event of the run, which the staging directory, the log or the output topics show;
a delay of a part of the time until the next one follows.
"""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.broker.application import Running
from tests.broker.backfill.spark_processes import java_of, kill, workers_of
from tests.broker.waiting import wait_until

SPARK_DEADLINE_S = 300.0

PHASES = {
    "starting": 4.0,
    "first stage": 1.5,
    "first stage is written": 0.3,
    "between the stages": 0.05,
    "second stage": 1.5,
    "second stage is written": 0.3,
    "staged": 0.3,
    "claimed": 0.1,
    "publishing": 0.1,
    "before the hand-over": 0.02,
    "handed over": 0.05,
}
"""The phases of a life, in order, and how long after each begins the kill may come (s)."""

ONCE = frozenset({"between the stages", "staged", "claimed", "before the hand-over", "handed over"})
"""Phases that a killed backfill does not go through again."""

ON_SPARK = tuple(PHASES)[1:6]
EVERYBODY, COMMAND, JAVA, WORKER = "everybody", "the command alone", "Java alone", "a worker"


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment to kill at.

    Attributes:
        phase: One of `PHASES`.
        victim: Who is killed.
        delay_s: How long after the phase has begun (s).
        part: With "publishing": which part of the output that was missing comes first.
    """

    phase: str
    victim: str
    delay_s: float
    part: float


def moments(kills: int, draw: random.Random) -> list[Moment]:
    """Draw moments in the order of their phases; they are spread over them as far as they go."""
    strata = [
        ["starting"],
        ["first stage", "first stage is written"],
        ["second stage", "second stage is written", "between the stages"],
        ["claimed", "publishing", "before the hand-over"],
    ]
    if kills < len(strata):
        strata = draw.sample(strata, kills)
    phases = [draw.choice(stratum) for stratum in strata]
    others = [phase for phase in PHASES if phase not in phases]
    draw.shuffle(others)
    phases += others
    while len(phases) < kills:
        phases.append(draw.choice([phase for phase in PHASES if phase not in ONCE]))
    chosen = sorted(phases[:kills], key=tuple(PHASES).index)
    return [_moment(phase, number, draw) for number, phase in enumerate(chosen)]


def _moment(phase: str, number: int, draw: random.Random) -> Moment:
    victims = [EVERYBODY, COMMAND]
    if phase in ON_SPARK and phase != "between the stages":
        # Each in turn, so that three kills have one of each.
        victims = [[WORKER], [EVERYBODY, COMMAND], [JAVA]][number % 3 - 1]
    victim = draw.choice(victims)
    return Moment(phase, victim, draw.uniform(0, PHASES[phase]), draw.uniform(0.0, 0.6))


@dataclass(frozen=True, slots=True)
class Life:
    """One process of a backfill that is to be killed.

    Attributes:
        running: The process.
        staging: Its staging directory.
        written: Returns how many output records there are, committed or not.
        expected: How many there are when all are published.
    """

    running: Running
    staging: Path
    written: Callable[[], int]
    expected: int

    def wait(self, moment: Moment) -> bool:
        """Wait for a moment; return whether the process still lives then."""
        begun = self._begun(moment)
        wait_until(
            lambda: begun() or not self.running.alive(),
            moment.phase,
            deadline_s=SPARK_DEADLINE_S,
            told=self.running.tail,
        )
        # The moment itself: a delay drawn from the seed, not a wait for anything.
        threading.Event().wait(moment.delay_s)
        return self.running.alive()

    def kill(self, moment: Moment) -> bool:
        """Kill whom the moment says; return whether it was alive to be killed.

        Waits for the end of the process, if it is to end.
        """
        process = self.running.process
        if moment.victim == EVERYBODY:
            self.running.kill()
            return process.returncode == -signal.SIGKILL
        if moment.victim == COMMAND:
            kill(process.pid)
            return process.wait(SPARK_DEADLINE_S) == -signal.SIGKILL
        if moment.victim == JAVA:
            java = java_of(process.pid)
            if java is None or not kill(java):
                return False
            code = self.running.ended(deadline_s=SPARK_DEADLINE_S)
            # It may have been through with Spark just now.
            assert code in {0, 1}, self.running.tail()
            return True
        wait_until(
            lambda: workers_of(process.pid) or not self.running.alive(),
            "a worker",
            deadline_s=SPARK_DEADLINE_S,
        )
        return any(map(kill, workers_of(process.pid)[:1]))

    def _begun(self, moment: Moment) -> Callable[[], object]:
        missing = self.expected - self.written() if moment.phase == "publishing" else 0
        wanted = self.expected - round(missing * (1 - moment.part))
        return {
            "starting": lambda: True,
            "first stage": lambda: self._has("stage-0*"),
            "first stage is written": lambda: self._has("stage-0*/**/*.parquet"),
            "between the stages": lambda: self._has("stage-0/_stage.json"),
            "second stage": lambda: self._has("stage-1*"),
            "second stage is written": lambda: self._has("stage-1*/**/*.parquet"),
            "staged": lambda: self._has("manifest.json"),
            "claimed": lambda: self.running.lines("group claimed"),
            "publishing": lambda: self.written() > wanted,
            "before the hand-over": lambda: self.written() >= self.expected,
            "handed over": lambda: self.running.lines("group handed over"),
        }[moment.phase]

    def _has(self, pattern: str) -> bool:
        try:
            return any(True for _ in self.staging.glob(pattern))
        except OSError:
            return False  # Spark removed a directory while it was listed.
