"""The way of most records through a buffer: each comes as the last, and lets the first one go.

For those it does what `TimeOrderedBuffer.exchange` does. A record that comes late, does not fit its
serdes, or meets what is not in memory goes the long way. All of it is one function: calls between
a join and its buffer would cost as much as the rest of waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystreams.record import Headers, PresentRecord
from pystreams.stores.kinds.buffer.waiting_line import WaitingLine
from pystreams.stores.kinds.buffer.waiting_record import (
    TIMESTAMP,
    Waiting,
    WaitingMessage,
    bytes_of,
    origin_of_message,
)

if TYPE_CHECKING:
    from pystreams.stores.accounting.uncommitted import UncommittedBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """What is to be known of a join whose records wait.

    Attributes:
        waited: Stands for the message of a record that has waited.
        grace_period_ms: How long records wait, in stream time.
        serialize_key: Turns keys into bytes; may raise anything.
        serialize_value: Likewise for values.
        key_type: Of which type keys wait as they are; all others, or all if it is None, as bytes.
        value_type: Likewise for values.
        let_go: Called with the key, value, timestamp (ms) and headers of a record that leaves as
            it came.
        let_go_read: Called with one that may have to be read first.
        otherwise: Called with a record that this way does not fit.
    """

    record: PresentRecord
    waited: WaitingMessage
    grace_period_ms: int
    serialize_key: Callable[[Any], bytes]
    serialize_value: Callable[[Any], bytes]
    key_type: type | None
    value_type: type | None
    let_go: Callable[[Any, Any, int, Headers], None]
    let_go_read: Callable[[Waiting], None]
    otherwise: Callable[[Any, Any, int, Headers], None]

    def through(
        self,
        line: WaitingLine,
        counted: UncommittedBytes,
        leave_until: Callable[[int], Iterable[Waiting]],
    ) -> Callable[[Any, Any, int, Headers], None]:
        """Return the function that takes a record, of a grace period above 0.

        Args:
            counted: The buffer's bytes.
            leave_until: Takes out what is due at a time (ms).
        """
        record, waited, grace_period_ms = self.record, self.waited, self.grace_period_ms
        key_type, value_type = self.key_type, self.value_type
        let_go, let_go_read, otherwise = self.let_go, self.let_go_read, self.otherwise
        serialize_key, serialize_value = self.serialize_key, self.serialize_value
        in_order = line.in_order
        come, leave = in_order.append, in_order.popleft

        def passing(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            message: Any = record.message
            until = timestamp - grace_period_ms
            if (
                until < line.left_until
                or until >= line.quick_until
                or key is None
                or value is None
                or type(message) is not line.message_type
            ):
                otherwise(key, value, timestamp, headers)
                return
            try:
                raw_key, raw_value = serialize_key(key), serialize_value(value)
            except Exception:  # noqa: BLE001 - a serde may raise anything
                otherwise(key, value, timestamp, headers)
                return
            size_bytes = line.overhead_bytes + len(raw_key) + len(raw_value)
            if headers:
                size_bytes += bytes_of(headers)
            source = message
            if len(message.value() or b"") > size_bytes:
                source = origin_of_message(message)
            line.left_until = until
            line.sequence = sequence = line.sequence + 1
            if type(key) is not key_type:
                key = raw_key
            if type(value) is not value_type:
                value = raw_value
            come((timestamp, sequence, key, value, headers, source, size_bytes))
            first = in_order[0]
            if first[TIMESTAMP] > until:
                counted.add(size_bytes)
                return
            if in_order[1][TIMESTAMP] <= until:
                counted.add(size_bytes)
                for waiting in leave_until(until):
                    let_go_read(waiting)
                record.message = message
                return
            leave()
            leaving_at, _, key, value, headers, _, first_bytes = first
            if size_bytes != first_bytes:
                size_bytes += counted.uncommitted_bytes - first_bytes
                counted.uncommitted_bytes = size_bytes
                if size_bytes > counted.watched_bytes:
                    counted.note(size_bytes)
            if not first_bytes:
                line.left.append((first, until))
            if type(key) is key_type and type(value) is value_type:
                record.message, waited.waiting = waited, first
                let_go(key, value, leaving_at, headers)
            else:
                let_go_read(first)
            record.message = message

        return passing
