"""When to kill: moments drawn from a seed, over the whole life of a process."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass

from tests.broker.application import Running


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment to kill at.

    Attributes:
        phase: What to wait for first: the process's start, its membership in the group, the
            restore of its stores, the start of its tasks, or output.
        delay_s: How long after that (s).
        records: With "output": how many new output records, committed or not, come first.
    """

    phase: str
    delay_s: float
    records: int = 0

    def wait(self, running: Running, written: Callable[[], int]) -> None:
        """Wait for the moment.

        Args:
            running: The process.
            written: Returns how many output records there are, committed or not.
        """
        if self.phase in _LOG_MESSAGES:
            running.wait_for(*_LOG_MESSAGES[self.phase])
        elif self.phase == "output":
            wanted = written() + self.records
            running.wait_until(
                lambda: written() >= wanted,
                f"{self.records} records of output",
            )
        # The moment itself: a delay drawn from the seed, not a wait for anything.
        threading.Event().wait(self.delay_s)


_LOG_MESSAGES = {
    "assigned": ("partitions assigned",),
    # A store that was flushed right before the kill has nothing to restore.
    "restoring": ("restoring", "task running"),
    "running": ("task running",),
}


def seeded_draws(fixed: int | None) -> random.Random:
    """Return the source of all randomness of a test; prints its seed.

    Args:
        fixed: The seed, unless the environment gives another one; None draws a new one.
    """
    given = os.environ.get("KILL_SEED")
    seed = int(given) if given is not None else fixed
    if seed is None:
        seed = random.SystemRandom().getrandbits(32)
    print(f"KILL_SEED={seed}")
    return random.Random(seed)


def moments(count: int, draw: random.Random) -> list[Moment]:
    """Draw moments; each five in a row cover a whole life."""
    drawn: list[Moment] = []
    while len(drawn) < count:
        five = [
            Moment("start", draw.uniform(0.0, 1.2)),
            Moment(draw.choice(["assigned", "restoring"]), draw.uniform(0.0, 0.05)),
            Moment("running", draw.uniform(0.0, 0.3)),
            Moment("output", draw.uniform(0.0, 0.05), records=draw.randint(1, 3000)),
            Moment("output", draw.uniform(0.0, 0.2), records=draw.randint(1, 10_000)),
        ]
        draw.shuffle(five)
        drawn += five
    return drawn[:count]


def kill_one_process(running: Running, draw: random.Random) -> None:
    """Kill the parent or one of its children, which is started again; then all end.

    The children of a parent that was killed notice, and end by themselves.
    """
    parent = running.process.pid
    killed = draw.choice([parent, *running.wait_for("started")[0]["pids"]])
    os.kill(killed, signal.SIGKILL)
    if killed != parent:
        running.wait_for("a process was killed, starting it again")
        os.kill(parent, signal.SIGKILL)
    running.wait_until(lambda: not running.alive(), "the parent's end")
