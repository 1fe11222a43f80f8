"""The life of a task: every pair of state and event."""

from __future__ import annotations

from itertools import product

import pytest

from pystreams import FatalStreamsError, TaskId
from pystreams.runtime.core.lifecycle import TaskEvent, TaskState, next_state

LEGAL = {
    ("created", "open"): "restoring",
    ("created", "close"): "closed",
    ("restoring", "start"): "running",
    ("restoring", "revive"): "restoring",
    ("restoring", "close"): "closed",
    ("running", "revive"): "restoring",
    ("running", "suspend"): "suspended",
    ("running", "close"): "closed",
    ("suspended", "revive"): "restoring",
    ("suspended", "close"): "closed",
    ("closed", "close"): "closed",
}


@pytest.mark.parametrize(("state", "event"), list(product(TaskState, TaskEvent)), ids=str)
def test_an_event_leads_where_the_picture_says_or_names_the_bug(
    state: TaskState, event: TaskEvent
) -> None:
    expected = LEGAL.get((state.value, event.value))

    if expected is not None:
        assert next_state(TaskId(1, 2), state, event).value == expected
        return
    with pytest.raises(FatalStreamsError) as caught:
        next_state(TaskId(1, 2), state, event)
    for named in ("1_2", repr(event.value), state.value, "our bug"):
        assert named in str(caught.value)


def test_the_table_is_the_one_above_and_no_more() -> None:
    legal = 0
    for state, event in product(TaskState, TaskEvent):
        try:
            next_state(TaskId(0, 0), state, event)
        except FatalStreamsError:
            continue
        legal += 1

    assert legal == len(LEGAL)
