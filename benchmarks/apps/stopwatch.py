"""Exclusive time by stage, for one thread, with functions of the product wrapped from outside.

A stage's time excludes the stages called from within it. Garbage collection is a stage: it strikes
wherever an object is made, and would otherwise be blamed on whoever made it.

What the stopwatch itself costs is measured at the start and taken off: see `calibrate`.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

GARBAGE_COLLECTION = "garbage collection"
_CALIBRATION_CALLS = 40_000
_CALIBRATION_ROUNDS = 5


@dataclass(slots=True)
class StageTime:
    """What one stage has taken.

    Attributes:
        calls: How often it was entered.
        wall_ns: Wall-clock time, stages within it excluded.
        cpu_ns: The thread's CPU time likewise; 0 if not measured.
        inner_calls: How often stages within it were entered.
    """

    calls: int = 0
    wall_ns: int = 0
    cpu_ns: int = 0
    inner_calls: int = 0


def _no_clock() -> int:
    return 0


@dataclass(slots=True)
class Stopwatch:
    """Times the stages of the thread that first enters one.

    Args:
        with_cpu: Measure CPU time as well, for a microsecond a call: for stages a batch only.

    Attributes:
        stages: What was measured, by name.
    """

    with_cpu: bool
    stages: dict[str, StageTime] = field(default_factory=dict)
    _stack: list[StageTime] = field(default_factory=list)
    _thread: int | None = None
    _wall_mark: int = 0
    _cpu_mark: int = 0
    _cpu_clock: Callable[[], int] = _no_clock

    def __post_init__(self) -> None:
        if self.with_cpu:
            self._cpu_clock = time.thread_time_ns

    def wrap(self, owner: Any, attribute: str, stage: str) -> None:
        """Time a function of a class or module from now on.

        Raises:
            AttributeError: There is no such function any more: bring the list of stages up to date.
        """
        setattr(owner, attribute, self.timed(getattr(owner, attribute), stage))

    def timed(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """Return the function with a stage around it."""
        enter, leave = self.enter, self.leave
        time_of = self.stages.setdefault(stage, StageTime())

        def timed(*arguments: Any, **keywords: Any) -> Any:
            enter(time_of)
            try:
                return function(*arguments, **keywords)
            finally:
                leave()

        return timed

    def watch_garbage_collection(self) -> None:
        """Make the collector's work a stage of its own."""
        time_of = self.stages.setdefault(GARBAGE_COLLECTION, StageTime())

        def on_collection(phase: str, _info: dict[str, int]) -> None:
            if threading.get_ident() != self._thread or not self._stack:
                return
            if phase == "start":
                self.enter(time_of)
            elif self._stack[-1] is time_of:
                self.leave()

        gc.callbacks.append(on_collection)

    def enter(self, time_of: StageTime) -> None:
        """Begin a stage."""
        wall, cpu = time.perf_counter_ns(), self._cpu_clock()
        stack = self._stack
        if stack:
            around = stack[-1]
            around.wall_ns += wall - self._wall_mark
            around.cpu_ns += cpu - self._cpu_mark
            around.inner_calls += 1
        else:
            self._thread = threading.get_ident()
        time_of.calls += 1
        stack.append(time_of)
        self._wall_mark, self._cpu_mark = wall, cpu

    def leave(self) -> None:
        """End the innermost stage."""
        wall, cpu = time.perf_counter_ns(), self._cpu_clock()
        time_of = self._stack.pop()
        time_of.wall_ns += wall - self._wall_mark
        time_of.cpu_ns += cpu - self._cpu_mark
        self._wall_mark, self._cpu_mark = wall, cpu

    def reset(self) -> None:
        """Forget what was measured so far; stages that are open go on."""
        for time_of in self.stages.values():
            time_of.calls = time_of.wall_ns = time_of.cpu_ns = time_of.inner_calls = 0

    def wall_ns_by_stage(self, own_ns: float, callers_ns: float) -> dict[str, float]:
        """Return each stage's wall-clock time without the stopwatch's own.

        Args:
            own_ns: What the stopwatch adds to a stage a call; see `calibrate`.
            callers_ns: What it adds to the stage around it.
        """
        return {
            name: max(stage.wall_ns - stage.calls * own_ns - stage.inner_calls * callers_ns, 0.0)
            for name, stage in self.stages.items()
        }


def calibrate(*, with_cpu: bool) -> tuple[float, float]:
    """Return what the stopwatch adds to a stage a call, and to the stage around it (ns).

    The least of some rounds: in one that the machine disturbs it would seem to cost more than the
    stages that it times.
    """
    rounds = [_calibrated(with_cpu=with_cpu) for _ in range(_CALIBRATION_ROUNDS)]
    return min(own for own, _ in rounds), min(around for _, around in rounds)


def _calibrated(*, with_cpu: bool) -> tuple[float, float]:
    def nothing() -> None:
        return

    def loop(function: Callable[[], None]) -> None:
        for _ in range(_CALIBRATION_CALLS):
            function()

    stopwatch = Stopwatch(with_cpu=with_cpu)
    began = time.perf_counter_ns()
    loop(nothing)
    plain_ns = (time.perf_counter_ns() - began) / _CALIBRATION_CALLS
    stopwatch.timed(loop, "around")(stopwatch.timed(nothing, "within"))
    within = stopwatch.stages["within"].wall_ns / _CALIBRATION_CALLS
    around = stopwatch.stages["around"].wall_ns / _CALIBRATION_CALLS
    # An unwrapped call costs something too: it belongs half to each side, and is all but nothing.
    return within - plain_ns / 2, around - plain_ns / 2
