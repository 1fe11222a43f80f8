"""The stream time of an operator goes on while its task's input is silent, if it waits for that.

    last record       timeout         wall clock goes on ...
    |-----------------|-------------------------------------->
    stream time: t    t               t + 1 s, t + 2 s, ... until nothing waits

An operator says what its stream time is, until when something of it waits, and what is to be done
when its time moves; all in event time. Nothing here is called for a record.

Decided in ADR 9. Not in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable

from pystreams.errors import TopologyError
from pystreams.record import MAX_TIME
from pystreams.topology.contracts.operator import NodeContext

NEVER = -1
"""An `idle_timeout_ms` that says: only records move the stream time of this operation."""

NOTHING_WAITS = -1


def go_on_while_idle(
    node: NodeContext,
    timeout_ms: int | None,
    *,
    stream_time: Callable[[], int],
    waits_until: Callable[[], int],
    move_to: Callable[[int], None],
) -> None:
    """Move an operator's stream time while the input of its task is silent.

    Args:
        timeout_ms: How long silence is to last first, on the wall clock (ms); None moves nothing.
        stream_time: Returns the operator's stream time (ms), -1 before the first record.
        waits_until: Returns the stream time (ms) at which nothing waits any more;
            `NOTHING_WAITS` if nothing does now. It may be later than any record can be.
        move_to: Called with the new stream time (ms), which is higher: sends on what that closes,
            and sees to it that it is committed.
    """
    if timeout_ms is None:
        return
    silent_since_ms, told_ms = -1, 0

    def go_on(since_ms: int, elapsed_ms: int) -> bool:
        nonlocal silent_since_ms, told_ms
        if since_ms != silent_since_ms:
            silent_since_ms, told_ms = since_ms, 0
        # No record comes later than the last time: what waits for a later one stays.
        now, end = stream_time(), min(waits_until(), MAX_TIME)
        # Not from where silence began: what other operators sent meanwhile may have moved it.
        then = min(now + elapsed_ms - told_ms, end)
        told_ms = elapsed_ms
        if now >= 0 and then > now:
            move_to(then)
            return then < min(waits_until(), MAX_TIME)
        return now < end

    node.task.on_idle_input(timeout_ms, go_on)


def checked_timeout(timeout_ms: object, where: str) -> int | None:
    """Return an `idle_timeout_ms` that was given.

    Args:
        where: The operation, for the error.

    Raises:
        TopologyError: It is neither None, 1 or more, nor `NEVER`.
    """
    if timeout_ms is None:
        return None
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int):
        raise TopologyError(f"{where}: idle_timeout_ms must be a whole number, not {timeout_ms!r}")
    if timeout_ms < 1 and timeout_ms != NEVER:
        raise TopologyError(
            f"{where}: idle_timeout_ms must be 1 or more ms, or -1 to wait for records alone, "
            f"not {timeout_ms}"
        )
    return timeout_ms
