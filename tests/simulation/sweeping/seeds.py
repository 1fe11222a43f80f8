"""Runs seeds, one after the other, and makes a failing one small."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import structlog

from pystreams import StreamsError
from tests.simulation.sweeping.planted import PLANTS
from tests.simulation.sweeping.run import STEPS, TROUBLE, SweepRun


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed that failed, with as little of it as still does.

    Attributes:
        error: How it failed.
        trace: What was called, and what happened.
        scenario: What the run was about.
    """

    seed: int
    error: BaseException
    trace: tuple[str, ...]
    scenario: str
    steps: int = STEPS
    without: tuple[str, ...] = ()
    plant: str | None = None

    @property
    def is_told(self) -> bool:
        """Whether a check or the runtime says it: it is no mistake of the planted bug itself."""
        return isinstance(self.error, AssertionError | StreamsError)

    def command(self) -> str:
        """Return the command that replays it."""
        words = ["python -m tests.simulation.sweep", f"--seeds {self.seed}:{self.seed + 1}"]
        words += [f"--steps {self.steps}"] if self.steps != STEPS else []
        words += [f"--without {','.join(self.without)}"] if self.without else []
        words += [f"--plant {self.plant}"] if self.plant else []
        return " ".join(words)


def run_seed(
    seed: int, *, steps: int = STEPS, without: Collection[str] = (), plant: str | None = None
) -> Failure | None:
    """Run one seed; return how it failed, if it did."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    planted = PLANTS[plant]() if plant else nullcontext()
    with tempfile.TemporaryDirectory(prefix="sweep-") as root, planted:
        run = SweepRun(seed, Path(root), steps, without)
        try:
            run.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed has failed
            trace = tuple(run.faults.trace)
            return Failure(seed, error, trace, str(run.scenario), steps, tuple(without), plant)
    return None


def first_failure(
    seeds: Iterable[int],
    *,
    steps: int = STEPS,
    plant: str | None = None,
    told: Callable[[int], None] = lambda _: None,
) -> Failure | None:
    """Run seeds up to the first that fails; `told` is called after each that does not."""
    for seed in seeds:
        failure = run_seed(seed, steps=steps, plant=plant)
        if failure is not None:
            return failure
        told(seed)
    return None


def shrunk(failure: Failure) -> Failure:
    """Return a failure of the same seed with fewer steps and fewer kinds of trouble."""
    least = failure
    width = least.steps // 2
    while width:
        steps = least.steps - width
        again = run_seed(failure.seed, steps=steps, without=least.without, plant=failure.plant)
        least = again or least
        if again is None or least.steps <= width:
            width //= 2
    for kind in TROUBLE:
        without = (*least.without, kind)
        again = run_seed(failure.seed, steps=least.steps, without=without, plant=failure.plant)
        least = again or least
    return least
