"""How a backfill shows its progress: as bars on a terminal, else as lines of text or of the log.

All three are told the same, and decide what of it to show: how far a stage is, by a thread of the
backfill, and how far publishing is, by the main thread.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import click

from pystreams.backfill.execution.progress import StagePhase
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.rate import duration

if TYPE_CHECKING:
    from rich.progress import TaskID

    from pystreams.backfill.execution.progress import StageProgress
    from pystreams.backfill.publishing.progress import PublishingProgress

LINE_INTERVAL_S = 10.0
"""How often a line tells how far a running stage, or publishing, is (s)."""

_UNDER_WAY = {StagePhase.READING, StagePhase.PROCESSING}

_log = get_logger("pystreams.backfill")


class BackfillDisplay(ABC):
    """Shows how far a backfill is; a context manager around what it shows."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027 - lines leave nothing to be put right
        """Leave the terminal as it was, with the last of it standing."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Show what happens between stages."""

    @abstractmethod
    def stage(self, now: StageProgress) -> None:
        """Take note of how far a stage is."""

    @abstractmethod
    def publishing(self, now: PublishingProgress) -> None:
        """Take note of how far publishing is."""


def display_for(log_format: str) -> BackfillDisplay:
    """Return what fits standard error."""
    if log_format == "json":
        return LogLines()
    return Bars() if sys.stderr.isatty() else TextLines()


def stage_name(now: StageProgress) -> str:
    """Return a stage's name for readers, who count from 1."""
    return f"Stage {now.position + 1} of {now.num_stages}"


def stage_words(now: StageProgress) -> str:
    """Return how far a stage is, in words."""
    if now.phase is StagePhase.BEGUN:
        return f"{now.records:,} records of {', '.join(now.topics)}"
    if now.phase is StagePhase.READING:
        done = now.spark_tasks
        return f"no records yet{f', Spark at {done[0]} of {done[1]} tasks' if done else ''}"
    if now.phase is StagePhase.PROCESSING:
        how_far = f"{now.taken:,} of {now.records:,} records"
        return how_far + _speed(now.records_per_second, now.seconds_left)
    if now.phase is StagePhase.STAGED_BEFORE:
        return "staged before"
    return f"done in {duration(now.seconds)}" + _speed(now.records_per_second, None)


def publishing_words(now: PublishingProgress) -> str:
    """Return how far publishing is, in words."""
    how_far = f"{now.records:,} of {now.of_records:,} records"
    return how_far + _speed(now.records_per_second, now.seconds_left)


def _speed(records_per_second: float | None, seconds_left: float | None) -> str:
    speed = f", {records_per_second:,.0f}/s" if records_per_second else ""
    return speed + (f", {duration(seconds_left)} left" if seconds_left is not None else "")


class Bars(BackfillDisplay):
    """A bar for each stage and one for publishing, on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        self._progress = Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=8)),
            TextColumn("{task.fields[words]}", table_column=Column(no_wrap=True), markup=False),
            console=Console(stderr=True, highlight=False),
            # Output that goes to a file must not land on the terminal.
            redirect_stdout=sys.stdout.isatty(),
            expand=True,
        )
        self._bars: dict[str, TaskID] = {}

    def __exit__(self, *_: object) -> None:
        """Leave the bars standing, and the terminal as it was."""
        if self._bars:
            self._progress.stop()

    def note(self, text: str) -> None:
        """Print above the bars."""
        self._progress.console.print(text, markup=False)

    def stage(self, now: StageProgress) -> None:
        """Move the stage's bar; it swings until tasks take records."""
        records = max(1, now.records)
        if now.phase in {StagePhase.BEGUN, StagePhase.READING}:
            self._show(stage_name(now), None, 0, stage_words(now))
        elif now.phase is StagePhase.PROCESSING:
            self._show(stage_name(now), records, now.taken, stage_words(now))
        else:
            words = stage_words(now)
            if now.phase is StagePhase.DONE:
                words = f"{now.records:,} records, {words}"
            self._show(stage_name(now), records, records, words)

    def publishing(self, now: PublishingProgress) -> None:
        """Move the bar of publishing."""
        self._show("Publishing", max(1, now.of_records), now.records, publishing_words(now))

    def _show(self, name: str, total: int | None, completed: int, words: str) -> None:
        if not self._bars:
            self._progress.start()
        bar = self._bars.get(name)
        if bar is None:
            bar = self._bars[name] = self._progress.add_task(name, total=None, words="")
        self._progress.update(bar, total=total, completed=completed, words=words)


class _AtIntervals(BackfillDisplay):
    """Tells the beginning and the end of each stage, and between them no more than it must."""

    def __init__(self) -> None:
        self._told_s: dict[str, float] = {}

    def stage(self, now: StageProgress) -> None:
        """Tell it, if its time has come."""
        if now.phase not in _UNDER_WAY or self._is_time(stage_name(now), now.seconds):
            self._tell_stage(now)

    def publishing(self, now: PublishingProgress) -> None:
        """Tell it, if its time has come."""
        if self._is_time("publishing", now.seconds):
            self._tell_publishing(now)

    def _is_time(self, what: str, seconds: float) -> bool:
        if seconds - self._told_s.get(what, 0.0) < LINE_INTERVAL_S:
            return False
        self._told_s[what] = seconds
        return True

    @abstractmethod
    def _tell_stage(self, now: StageProgress) -> None: ...

    @abstractmethod
    def _tell_publishing(self, now: PublishingProgress) -> None: ...


class TextLines(_AtIntervals):
    """Lines of text on standard error."""

    def note(self, text: str) -> None:
        """Print it."""
        click.echo(text, err=True)

    def _tell_stage(self, now: StageProgress) -> None:
        click.echo(f"{stage_name(now)}: {stage_words(now)}", err=True)

    def _tell_publishing(self, now: PublishingProgress) -> None:
        click.echo(f"Publishing: {publishing_words(now)}", err=True)


class LogLines(_AtIntervals):
    """Lines of the log, with fields."""

    def note(self, text: str) -> None:
        """Log it."""
        _log.info(text)

    def _tell_stage(self, now: StageProgress) -> None:
        fields: dict[str, Any] = {
            "stage": now.position + 1,
            "stages": now.num_stages,
            "phase": now.phase.value,
            "records": now.records,
            "taken": now.taken,
            "seconds": round(now.seconds, 1),
        }
        _log.info("backfill stage", **fields, **_rates(now))

    def _tell_publishing(self, now: PublishingProgress) -> None:
        _log.info("publishing", records=now.of_records, published=now.records, **_rates(now))


def _rates(now: StageProgress | PublishingProgress) -> dict[str, int]:
    rates = {"records_per_second": now.records_per_second, "seconds_left": now.seconds_left}
    return {name: round(rate) for name, rate in rates.items() if rate is not None}
