"""What a stop still waits for: threads that have not ended, and where they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pystreams.runtime.application.watchdog import stack_of
from pystreams.runtime.loop.reports.thread_metadata import ThreadMetadata


@dataclass(frozen=True, slots=True)
class UnfinishedThread:
    """A thread that has not ended.

    Attributes:
        doing: What it does, for people.
        stack: Where it is, innermost call last.
    """

    name: str
    doing: str
    stack: str


def unfinished_among(
    threads: Iterable[ThreadMetadata], others: Iterable[tuple[str, str]]
) -> list[UnfinishedThread]:
    """Return those that have not ended.

    Args:
        threads: What the stream threads say of themselves.
        others: Further threads, by name, with what each does.
    """
    known = [(thread.thread_name, _doing(thread)) for thread in threads]
    found = [UnfinishedThread(name, doing, stack_of(name)) for name, doing in (*known, *others)]
    return [thread for thread in found if thread.stack]


def _doing(thread: ThreadMetadata) -> str:
    if thread.at_work:
        return thread.at_work
    tasks = ", ".join(f"{task.task_id} ({task.state})" for task in thread.active_tasks)
    return f"processes no record: commits, closes or waits; its tasks: {tasks or 'none'}"
