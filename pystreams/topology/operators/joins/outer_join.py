"""One side of a left or outer join of two streams: what finds no match is joined with None.

    no match --> held back by both sides' common store, in order of time
                   |                          |
                   | match came               | stream time passes its window and the grace period
                   v                          v
                 forgotten                  joined with None, by whichever side sees that

The stream time is that of both sides together. When it passes the end of windows, what was held
back is joined with None by the record that moved it, and carries that record's headers.

Kafka looks at what is held back at most once a second of the wall clock, because the look is
expensive, and decides with some haste whether it is worth it: by the time of the record that the
last look ended with, or of an earlier one that came since. Records of one key, side and time count
one by one there, though they share an entry of the store. Both are kept here, for equal input to
give equal output; so a result may come later than its window closes, but never before, and never
twice. A backfill looks every time.

While the input is silent the wall clock may move that stream time (`idle_time`), and so let go of
what waits. A record that is late by it is dropped before it is kept: it would meet others that came
out alone.

After a restart what is held back is still there, and the stream time is known: the left side
commits it with the offsets, and the stores of both sides tell it where none was committed. Differs
from Kafka, where it begins anew, so that a late record is held back which would have been joined at
once.

Spec: Kafka KStreamKStreamJoin, TimeTracker; KAFKA-10847 (no result that a later match makes wrong),
KIP-962 (records without a key).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from pystreams.errors import SerializationError
from pystreams.record import Headers
from pystreams.stores.kinds.list.store import ListValueStore
from pystreams.topology.contracts.operator import STREAM_TIME_PREFIX, NodeContext, Step
from pystreams.topology.operators.idle_time import NOTHING_WAITS, go_on_while_idle
from pystreams.topology.operators.joins.held_back_serdes import (
    LeftOrRightValue,
    TimestampedKeyAndJoinSide,
)
from pystreams.topology.operators.joins.stream_stream_join import JoinTime, PairJoiner

HeldBack = ListValueStore[TimestampedKeyAndJoinSide, LeftOrRightValue]


@dataclass(frozen=True, slots=True)
class OuterJoinOperator:
    """One side of a left or outer join.

    Attributes:
        other_store: The window store of the other side's records.
        held_back: The store, common to both sides, of records without a match.
        left: Whether this is the left side.
        outer: Whether records of this side without a match are joined with None.
        other_outer: Whether those of the other side are.
        before_ms: How much earlier than this side's record the other's may be (ms, inclusive).
        after_ms: How much later (ms, inclusive).
        grace_period_ms: How long after a window's end records still join, in stream time.
        idle_timeout_ms: How long the input is silent before the wall clock moves the stream time;
            None on the side that leaves that to the other one, or if it never does.
    """

    other_store: str
    held_back: str
    join: PairJoiner
    _: KW_ONLY
    left: bool
    outer: bool
    other_outer: bool
    before_ms: int
    after_ms: int
    grace_period_ms: int
    idle_timeout_ms: int | None = None

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        return _OuterJoin(self, node).step


class _OuterJoin:
    """The side in one task; see `OuterJoinOperator`."""

    def __init__(self, side: OuterJoinOperator, node: NodeContext) -> None:
        task = node.task
        self._side = side
        self._name = node.name
        self._forward = node.forward
        self._record = task.record
        self._task_time = task.time
        self._record_dropped = task.record_dropped
        self._report_error = task.report_error
        self._look_interval_ms = task.settings.outer_join_emit_interval_ms
        self._other_store = task.store(side.other_store)
        self._near = task.store_kind(side.other_store).values_near(self._other_store)
        self._held_back: HeldBack = task.store(side.held_back)
        self._time: JoinTime = task.shared(side.held_back, JoinTime)
        task.on_init(self._start)
        if side.left:
            self._commit_stream_time(node)
        if side.idle_timeout_ms is not None:
            name, time = f"idle-time {node.name}", self._time
            time.idle_time = task.committed_number(name, -1)
            task.commit_number(name, lambda: time.idle_time)
            go_on_while_idle(
                node,
                side.idle_timeout_ms,
                stream_time=lambda: time.stream_time,
                waits_until=self._waits_until,
                move_to=self._move_to,
            )

    def step(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Join one record with all its partners, or hold it back."""
        side, time = self._side, self._time
        if timestamp > time.stream_time:
            time.stream_time = timestamp
        if key is None or value is None:
            if side.outer and value is not None:
                self._join_alone(key, value, timestamp, headers)
            else:
                self._record_dropped(self._name, "null key or value")
            return
        try:
            if timestamp == time.stream_time:
                self._let_go(timestamp, headers)
            if self._join_with_others(key, value, timestamp, headers) or not side.outer:
                return
            if max(0, timestamp + side.after_ms) < time.stream_time:
                # Its window has closed already; Kafka does not wait for the grace period here.
                self._join_alone(key, value, timestamp, headers)
                return
            self._record.timestamp, self._record.headers = timestamp, headers
            self._held_back.put(
                TimestampedKeyAndJoinSide(timestamp, side.left, key),
                LeftOrRightValue(side.left, value),
            )
        except SerializationError as error:
            # Of one of the stores; what failed further down was reported there.
            self._report_error(error, self._name)
            return
        if time.earliest is None or timestamp < time.earliest:
            time.earliest = timestamp
        if timestamp > time.latest:
            time.latest = timestamp

    def _commit_stream_time(self, node: NodeContext) -> None:
        """Go on from the stream time that was committed, and commit it with the offsets."""
        time, name = self._time, f"{STREAM_TIME_PREFIX}{node.name}"
        time.stream_time = max(time.stream_time, node.task.committed_number(name, -1))
        node.task.commit_number(name, lambda: time.stream_time)

    def _start(self) -> None:
        """See what was held back before a restart, and until when."""
        time = self._time
        # What is held back was kept before by the store of its side.
        time.latest = max(time.latest, self._other_store.stream_time)
        time.stream_time = max(time.stream_time, time.latest, time.idle_time)
        entries = self._held_back.all()
        first = next(entries, None)
        entries.close()
        if first is not None:
            time.earliest = first[0].timestamp

    def _waits_until(self) -> int:
        """Return when the last record that is held back is joined with None."""
        entries = self._held_back.all()
        waits = next(entries, None) is not None
        entries.close()
        if not waits:
            return NOTHING_WAITS
        side = self._side
        after_ms = max(side.after_ms, side.before_ms)
        return self._time.latest + after_ms + side.grace_period_ms + 1

    def _move_to(self, stream_time: int) -> None:
        """Join with None what silence has shown to have no match."""
        self._time.stream_time = self._time.idle_time = stream_time
        try:
            self._release(stream_time, ())
        except SerializationError as error:
            self._report_error(error, self._name)

    def _join_with_others(self, key: Any, value: Any, timestamp: int, headers: Headers) -> bool:
        """Join a record with each partner; return whether there was one."""
        side, record, join = self._side, self._record, self._side.join
        forward, discard = self._forward, self._held_back.discard
        other_outer, other_is_left = side.other_outer, not side.left
        found = False
        # Of a window that ends before time 0 Kafka looks at the first millisecond.
        first, last = timestamp - side.before_ms, max(0, timestamp + side.after_ms)
        for other_time, other in self._near(key, first, last):
            found = True
            if other_outer:
                record.timestamp, record.headers = timestamp, headers
                discard(TimestampedKeyAndJoinSide(other_time, other_is_left, key))
            try:
                joined = join(key, value, other)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                self._report_error(error, self._name)
                return True
            forward(key, joined, max(other_time, timestamp), headers)
        return found

    def _join_alone(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Join a record of this side with None."""
        try:
            joined = self._side.join(key, value, None)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self._report_error(error, self._name)
            return
        self._forward(key, joined, timestamp, headers)

    def _may_look(self) -> bool:
        """Return whether a record may be found whose window has closed; if so, take note of it."""
        side, time = self._side, self._time
        waits_ms = side.after_ms + side.grace_period_ms
        if time.earliest is None:
            # Kafka adds to the highest time there is, and overflows: an empty store is looked at
            # too, which decides when the next look is.
            if waits_ms <= 0:
                return False
        elif time.earliest + waits_ms >= time.stream_time:
            return False
        now_ms = self._task_time.monotonic_ms
        if now_ms < time.next_look_ms:
            return False
        time.next_look_ms = now_ms + self._look_interval_ms
        return True

    def _let_go(self, timestamp: int, headers: Headers) -> None:
        """Join with None what is held back and whose window has closed, if it is time to look."""
        if self._may_look():
            self._release(timestamp, headers)

    def _release(self, timestamp: int, headers: Headers) -> None:
        """Join with None what is held back and whose window has closed."""
        side, time, record = self._side, self._time, self._record
        time.earliest = None
        before_ms, after_ms = side.before_ms, side.after_ms
        # A window seen from the left side, whichever side this is.
        left_after_ms, right_after_ms = (
            (after_ms, before_ms) if side.left else (before_ms, after_ms)
        )
        closed = time.stream_time - side.grace_period_ms
        left_open = right_open = False
        for waiting, values in self._held_back.all():
            time.earliest = waiting.timestamp
            if left_open and right_open:
                break
            if waiting.timestamp + (left_after_ms if waiting.left else right_after_ms) >= closed:
                left_open, right_open = left_open or waiting.left, right_open or not waiting.left
                if left_open and right_open and sum(1 for _ in values) > 1:
                    break  # The second of them is one to end with, too.
                continue
            for _, value in values:
                self._join_waiting(waiting, value, headers)
            record.timestamp, record.headers = timestamp, headers
            self._held_back.delete(waiting)

    def _join_waiting(
        self, waiting: TimestampedKeyAndJoinSide, value: Any, headers: Headers
    ) -> None:
        """Join a record that was held back, of either side, with None."""
        own = waiting.left == self._side.left
        try:
            joined = self._side.join(waiting.key, value if own else None, None if own else value)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self._report_error(error, self._name)
            return
        self._forward(waiting.key, joined, waiting.timestamp, headers)
