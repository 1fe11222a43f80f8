"""The moments at which something may be due while the test driver's wall clock moves on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pystreams.runtime.core.task import StreamTask


def moments(tasks: Sequence[StreamTask], now_ms: int, advance_ms: int) -> Iterator[int]:
    """Return each time (ms) at which a task tries a record again, and at last the end.

    What is done at one of them may make others due.
    """
    until_ms = now_ms + advance_ms
    while True:
        times_ms = [task.held.retry_at_ms for task in tasks]
        due_ms = min((at_ms for at_ms in times_ms if at_ms is not None), default=until_ms)
        if due_ms >= until_ms:
            break
        now_ms = max(due_ms, now_ms)
        yield now_ms
    yield until_ms
