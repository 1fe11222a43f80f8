"""Hands on the first record of each identity, and drops those that repeat it within a time.

    identity = key, or (key, by(key, value)) behind the length of the key
    store:  (identity, stretch of time) --> timestamp of the record that was handed on in it

A record repeats one that was handed on if their timestamps are `within_ms` or less apart, whichever
of the two is the older. What is dropped prolongs nothing. Time is cut into stretches of
`within_ms + 1`, so that at most one record of an identity is handed on in each: to know whether one
repeats another takes a look at its own stretch, the one before and, if it is out of order, the one
after. These are lookups of single keys in a window store, whose segments expire by themselves.

The stream time is that of the records that were handed on, of all identities, rounded down to the
beginning of its stretch: the store knows it, also after a restart. A record that is older than that
by more than `within_ms` and the grace period is dropped as late: whether it repeats one is not kept
for longer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystreams.kernel.async_functions import serializer_of
from pystreams.record import Headers
from pystreams.serdes import Serde
from pystreams.topology.contracts.operator import NodeContext, Step

_LENGTH = struct.Struct(">I")

Identity = Callable[[Any, Any], bytes | None]


@dataclass(frozen=True, slots=True)
class DistinctOperator:
    """Drops records that repeat another one.

    Attributes:
        store: Name of the window store: timestamps by identity.
        within_ms: How far apart in time (ms) records may be to be the same.
        grace_period_ms: How much later records are still answered.
        key_serde: How keys are told apart; the configured default when None.
        by: Called with (key, value); returns what is told apart beside the key, None to hand the
            record on. None tells keys apart.
    """

    store: str
    within_ms: int
    grace_period_ms: int
    key_serde: Serde[Any] | None
    by: Callable[[Any, Any], Any] | None
    by_serde: Serde[Any]

    @property
    def stretch_ms(self) -> int:
        """How long a stretch of time is in which at most one record is handed on."""
        return self.within_ms + 1

    @property
    def retention_ms(self) -> int:
        """How long what was handed on must be kept."""
        return self.within_ms + self.grace_period_ms + 2 * self.stretch_ms

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        task, name, forward = node.task, node.name, node.forward
        store, record = task.store(self.store), task.record
        fetch, put = store.fetch, store.put
        report_error, record_dropped = task.report_error, task.record_dropped
        within_ms, stretch_ms = self.within_ms, self.stretch_ms
        late_ms = within_ms + self.grace_period_ms
        identity_of = self._identity(task.key_serde(self.key_serde, name), name)

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                record_dropped(name, "null key")
                return
            try:
                identity = identity_of(key, value)
                if identity is not None:
                    stream_time = store.stream_time
                    if timestamp < stream_time - late_ms:
                        record_dropped(name, "late")
                        return
                    start = timestamp - timestamp % stretch_ms
                    if fetch(identity, start) is not None:
                        return
                    other = fetch(identity, start - stretch_ms) if start else None
                    if other is not None and timestamp - other <= within_ms:
                        return
                    if start < stream_time:
                        other = fetch(identity, start + stretch_ms)
                        if other is not None and other - timestamp <= within_ms:
                            return
                    record.timestamp, record.headers = timestamp, headers
                    put(identity, timestamp, start)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            forward(key, value, timestamp, headers)

        return step

    def _identity(self, key_serde: Serde[Any], topic: str) -> Identity:
        """Return the function that makes the identity of (key, value); None for no identity."""
        serialize_key, by = serializer_of(key_serde, topic), self.by
        if by is None:
            return lambda key, _value: serialize_key(key)
        chosen, serialize, pack = by, serializer_of(self.by_serde, topic), _LENGTH.pack

        def identity(key: Any, value: Any) -> bytes | None:
            own = chosen(key, value)
            if own is None:
                return None
            raw_key = serialize_key(key)
            return pack(len(raw_key)) + raw_key + serialize(own)

        return identity
