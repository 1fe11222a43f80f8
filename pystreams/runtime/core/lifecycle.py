"""The life of a task, as a table.

                 open                 start
    CREATED ------------> RESTORING ----------> RUNNING
       |                   |   ^                 |  |
       |                   |   +-----------------+  |
       |                   |   ^     revive         | suspend
       |                   |   |                    v
       |                   |   +--------------- SUSPENDED
       |                   v         revive         |
       +--------------> CLOSED <--------------------+
            close                    close

Spec: KIP-129 "Better handling runtime errors" (revive: abort, rewind, go on).
Differs from Kafka: a revived task keeps its stores open and whole.
"""

from __future__ import annotations

from enum import Enum

from pystreams.errors import FatalStreamsError
from pystreams.ids import TaskId


class TaskState(Enum):
    """Where a task is in its life."""

    CREATED = "created"
    RESTORING = "restoring"
    RUNNING = "running"
    SUSPENDED = "suspended"
    CLOSED = "closed"


class TaskEvent(Enum):
    """What moves a task on."""

    OPEN = "open"
    START = "start"
    REVIVE = "revive"
    SUSPEND = "suspend"
    CLOSE = "close"


TRANSITIONS: dict[TaskState, dict[TaskEvent, TaskState]] = {
    TaskState.CREATED: {
        TaskEvent.OPEN: TaskState.RESTORING,
        TaskEvent.CLOSE: TaskState.CLOSED,
    },
    TaskState.RESTORING: {
        TaskEvent.START: TaskState.RUNNING,
        TaskEvent.REVIVE: TaskState.RESTORING,
        TaskEvent.CLOSE: TaskState.CLOSED,
    },
    TaskState.RUNNING: {
        TaskEvent.REVIVE: TaskState.RESTORING,
        TaskEvent.SUSPEND: TaskState.SUSPENDED,
        TaskEvent.CLOSE: TaskState.CLOSED,
    },
    TaskState.SUSPENDED: {
        TaskEvent.REVIVE: TaskState.RESTORING,
        TaskEvent.CLOSE: TaskState.CLOSED,
    },
    TaskState.CLOSED: {
        TaskEvent.CLOSE: TaskState.CLOSED,
    },
}
"""State -> event -> next state; a missing event is illegal."""


def next_state(task_id: TaskId, state: TaskState, event: TaskEvent) -> TaskState:
    """Return the state after an event.

    Raises:
        FatalStreamsError: The event is illegal in this state; a bug of ours.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        message = f"task {task_id}: {event.value!r} is not possible while {state.value} (our bug)"
        raise FatalStreamsError(message) from None
