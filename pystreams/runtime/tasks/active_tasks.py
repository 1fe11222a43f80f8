"""The tasks of one thread that have something to do: what the loop goes over, instead of all.

A thread may have a thousand tasks of which one has a record. So whoever calls into a running task
says so afterwards (`note`, `ran`), and the task is kept where it belongs:

- while it may process records, among those that `in_turn` returns;
- from the first write to the commit in `uncommitted`;
- while its changelogs have records of others, which are undone after a commit, in `_undoing`;
- while operators of it await answers in `awaiting`;
- from its start to its first commit, where a rebalance has interrupted it, in `_gone_on`;
- with its next punctuation on the wall clock in a heap.

What happens once an iteration or once a run then costs what these are, however many others rest.

Threads: belongs to the thread of the tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import count

from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.core.task import StreamTask


class ActiveTasks:
    """Running tasks, by what is to be done for them."""

    def __init__(self) -> None:
        # Dicts as sets that keep their order.
        self._waking: dict[StreamTask, None] = {}
        self._uncommitted: dict[StreamTask, None] = {}
        self._undoing: set[StreamTask] = set()
        self._awaiting: dict[StreamTask, None] = {}
        self._asking: set[StreamTask] = set()
        self._gone_on: set[StreamTask] = set()
        self._noted: set[StreamTask] = set()
        self._due_ms: dict[StreamTask, int] = {}
        # Entries that are not in `_due_ms` any more are left out when they are met.
        self._heap: list[tuple[int, int, StreamTask]] = []
        self._numbers = count()

    def in_turn(self) -> list[StreamTask]:
        """Return the tasks that may process records, those that have run first last."""
        return list(self._waking)

    def uncommitted(self) -> list[StreamTask]:
        """Return the tasks that have anything to commit or to flush, in the order of their ids."""
        return sorted(self._uncommitted, key=_id_of)

    def to_be_committed(self, now_ms: float) -> list[StreamTask]:
        """Return these, and those that have something to undo now, in that order, too.

        Args:
            now_ms: The monotonic clock's.
        """
        undoing = {task for task in self._undoing if task.state_manager.to_be_undone(now_ms)}
        return sorted(undoing.union(self._uncommitted), key=_id_of)

    def awaiting(self) -> list[StreamTask]:
        """Return the tasks whose operators hold records back, until answers come."""
        return list(self._awaiting)

    @property
    def commit_requested(self) -> bool:
        """Whether a processor of any task has asked for a commit, or any that went on has begun."""
        return bool(self._asking) or not self._gone_on.isdisjoint(self._uncommitted)

    def goes_on(self, task: StreamTask) -> None:
        """Take note that a task starts which a rebalance has interrupted, here or elsewhere.

        Readers have waited for it since: they are not to wait for a commit interval more.
        """
        self._gone_on.add(task)
        self.note(task)

    def committed(self, tasks: Iterable[StreamTask]) -> None:
        """Take note that tasks were committed, or that it was tried."""
        for task in tasks:
            self._gone_on.discard(task)
            self.note(task)

    def note(self, task: StreamTask) -> None:
        """Take note that a task was given records, started, wrote or committed."""
        if task.state is not TaskState.RUNNING:
            self.forget(task)
            return
        self._noted.add(task)
        if task.at_rest:
            self._waking.pop(task, None)
        else:
            self._waking[task] = None
        if len(task.held):
            self._awaiting[task] = None
        else:
            self._awaiting.pop(task, None)
        if task.needs_commit():
            self._uncommitted[task] = None
        else:
            self._uncommitted.pop(task, None)
        if task.state_manager.with_unexpected_offsets():
            self._undoing.add(task)
        else:
            self._undoing.discard(task)
        if task.commit_requested:
            self._asking.add(task)
        else:
            self._asking.discard(task)
        due_ms = task.wall_clock_due_ms()
        if due_ms != self._due_ms.get(task):
            self._schedule(task, due_ms)

    def ran(self, task: StreamTask) -> None:
        """Take note that a task has processed records: all others come before it."""
        self._waking.pop(task, None)
        self.note(task)

    def forget(self, task: StreamTask) -> None:
        """Take note that a task does not run any more."""
        self._waking.pop(task, None)
        self._uncommitted.pop(task, None)
        self._undoing.discard(task)
        self._awaiting.pop(task, None)
        self._asking.discard(task)
        self._gone_on.discard(task)
        self._noted.discard(task)
        if self._due_ms.pop(task, None) is not None:
            # At once, not when they are due: the task is not to be kept in memory until then.
            self._heap = [entry for entry in self._heap if entry[2] is not task]
            heapify(self._heap)

    def noted(self) -> set[StreamTask]:
        """Return the tasks that were noted since the last call."""
        noted, self._noted = self._noted, set()
        return noted

    def punctuations_due(self, now_ms: int) -> list[StreamTask]:
        """Return the tasks for which the wall clock has made a punctuation due, earliest first."""
        heap, due = self._heap, []
        while heap and heap[0][0] <= now_ms:
            entry = heappop(heap)
            if self._due_ms.get(entry[2]) == entry[0]:
                due.append(entry)
        for entry in due:  # Until it is noted that they have fired.
            heappush(heap, entry)
        return [task for _, _, task in due]

    def _schedule(self, task: StreamTask, due_ms: int | None) -> None:
        if due_ms is None:
            self._due_ms.pop(task, None)
        else:
            self._due_ms[task] = due_ms
            heappush(self._heap, (due_ms, next(self._numbers), task))


def _id_of(task: StreamTask) -> tuple[int, int]:
    return task.task_id.subtopology, task.task_id.partition
