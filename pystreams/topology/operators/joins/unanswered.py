"""Which rows of an inner join by a foreign key wait for an answer that comes in any case.

A row whose foreign key stays asks only to be told of a foreign row that is there: without one it
has no result that would have to go. That is so unless the row changes again before it has heard
that its foreign row went, or that the one it moved to is not there: what it then hears is of a
former value. So

- a row that changes while it waits asks to be told in any case, and
- a row that waits for nothing and is told of a former value that there is no foreign row asks
  again: that may have been what deletes its result.

The second alone would do, also after a restart, when nobody knows which rows have waited; the first
keeps a row that changes again and again from asking twice each time.

In a backfill a row is answered before the next time of the history begins, and nobody asks again.
There a row that has moved asks to be told in any case until then, and who asks for a foreign row
that has gone meanwhile is told.

Differs from Kafka, where the result then stays for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams.record import Headers, TaskTime


class Unanswered:
    """The rows of one task whose present value is answered in any case, and has not been yet.

    Attributes:
        keys: Their keys, serialized.
        ask: Sends a subscription to a foreign key: called with the row's key, the foreign key, the
            hash of the row's value, its timestamp, and headers.
    """

    __slots__ = ("ask", "keys")

    def __init__(self) -> None:
        self.keys: set[bytes] = set()
        self.ask: Callable[[Any, Any, bytes | None, int, Headers], None]

    def asks(self, key: bytes, *, moved: bool, names: bool) -> bool:
        """Return whether a row that changes asks to be told in any case.

        Args:
            key: The row's.
            moved: Whether it has named another row before.
            names: Whether it names one now.
        """
        answered = moved or (names and key in self.keys)
        (self.keys.add if answered else self.keys.discard)(key)
        return answered


class KeysOfNow:
    """Keys to which something has happened at the present stream time.

    Attributes:
        keys: The keys, perhaps of a time that has passed.
    """

    __slots__ = ("_stream_time", "_time", "keys")

    def __init__(self, time: TaskTime) -> None:
        self.keys: set[bytes] = set()
        self._time = time
        self._stream_time = -1

    def add(self, key: bytes) -> None:
        """Take note of a key."""
        if self._time.stream_time != self._stream_time:
            self.keys.clear()
            self._stream_time = self._time.stream_time
        self.keys.add(key)

    def has(self, key: bytes) -> bool:
        """Return whether it was added at the present stream time."""
        return key in self.keys and self._time.stream_time == self._stream_time

    def asks(self, key: bytes, *, moved: bool, names: bool) -> bool:
        """Return whether a row that changes asks to be told in any case, as `Unanswered.asks`."""
        if moved:
            self.add(key)
        return self.has(key)
