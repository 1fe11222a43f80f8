"""How large a batch may be: what topics take, and what a refused batch teaches.

A broker refuses a batch as a whole, and librdkafka does not split it as Java's client does. No
record may be lost, and no application may end, because of its neighbours in a batch. So:

- Batches are kept below what every topic takes, which is read when a producer is made: then a
  record that is too large goes alone. librdkafka counts a batch with all that surrounds it, and
  before it is compressed: it never undercounts.
- A batch may be refused all the same: the topic was made or changed later, or may not be described.
  Then the producer begins anew with smaller batches, and what was not committed is processed again.
  That ends when every record that is refused has no neighbours.

Differs from Kafka: its producer splits the batch (`ProducerBatch.split`) and sends the parts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from pystreams.kernel.clock import Clock
from pystreams.record import ProducedRecord
from pystreams.runtime.adapters.connection.confluent_errors import OVERSIZED, SPOILED

_ANSWER_HOLDS_MS = 5_000.0
"""For how long a topic is not asked about again: each of many records may be too large."""
_IN_VAIN_HOLDS_MS = 30_000.0
"""The same for a topic of which nothing was learnt. Without a broker each question takes seconds,
in which the thread neither polls nor hears of a stop."""

_SHRINK = 8
"""What the size of a batch is divided by when one is refused and nobody says what is taken."""

_LEAST_OVERHEAD_BYTES = 68
"""A batch's header (61), and the seven numbers of a record that take one byte at least each."""
_LEAST_HEADER_OVERHEAD_BYTES = 2
_NEIGHBOUR_BYTES = 36
"""What librdkafka counts for the smallest record, at least."""

_ONE_BY_ONE: dict[str, Any] = {"batch.size": 1, "queue.buffering.max.messages": 1000}
"""Records alone travel slowly: no more may wait than are delivered in time."""


class BatchLimits:
    """How many bytes a batch may have, by topic; shared by a process's producers, on any thread.

    Args:
        ask: Returns what topics take (bytes), leaving out those of which nothing is said.

    Attributes:
        refused: Whether a batch was ever refused: producers then look closer at what fails.
        one_by_one: Client ids of producers that have to find out which record of a batch is wrong.
            Who takes the place of one goes on with that.
    """

    def __init__(self, ask: Callable[[Collection[str]], Mapping[str, int]], clock: Clock) -> None:
        self.refused = False
        self.one_by_one: set[str] = set()
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._refusing: set[str] = set()
        self._said: dict[str, int] = {}
        self._guesses: dict[str, int] = {}
        self._asked_ms: dict[str, float] = {}
        self._asked_in_vain: set[str] = set()

    def of(self, topics: Collection[str]) -> dict[str, int]:
        """Return what is known of these topics, and of all that have refused a batch."""
        with self._lock:
            wanted = self._refusing.union(topics)
            self._learn(topic for topic in wanted - self._said.keys() if not self._fresh(topic))
            return {
                topic: min(known)
                for topic in wanted
                if (known := [by[topic] for by in (self._said, self._guesses) if topic in by])
            }

    def now(self, topic: str) -> int | None:
        """Return what the broker says that a topic takes, seconds ago at most, or None."""
        with self._lock:
            if not self._fresh(topic):
                self._learn([topic])
            return None if topic in self._asked_in_vain else self._said[topic]

    def one_has_refused(self, topics: Iterable[str]) -> None:
        """Learn that one of these topics has refused a batch."""
        with self._lock:
            self.refused = True
            self._refusing.update(topics)
            self._learn(self._refusing)

    def has_refused(self, topic: str, batch_bytes: int) -> None:
        """Learn that a topic has refused a batch; the next ones are smaller.

        Args:
            batch_bytes: What the batch had at most.
        """
        with self._lock:
            self.refused = True
            self._refusing.add(topic)
            self._learn([topic])
            if topic in self._asked_in_vain or self._said[topic] >= batch_bytes:
                guess = max(batch_bytes // _SHRINK, 1)
                # Another producer may have come further.
                self._guesses[topic] = min(guess, self._guesses.get(topic, guess))

    def _fresh(self, topic: str) -> bool:
        """Return whether a topic was asked about lately."""
        asked_ms = self._asked_ms.get(topic)
        if asked_ms is None:
            return False
        holds_ms = _IN_VAIN_HOLDS_MS if topic in self._asked_in_vain else _ANSWER_HOLDS_MS
        return self._clock.monotonic_ms() - asked_ms < holds_ms

    def _learn(self, topics: Iterable[str]) -> None:
        """Ask what topics take."""
        asked = set(topics)
        if not asked:
            return
        found = self._ask(asked)
        self._said |= found
        self._asked_in_vain -= found.keys()
        self._asked_in_vain |= asked - found.keys()
        self._asked_ms |= dict.fromkeys(asked, self._clock.monotonic_ms())


class BatchSize:
    """How large the batches of one producer are.

    Args:
        config: librdkafka's configuration of the producer.

    Attributes:
        topics: The same, as far as they are known.
        limited: Topics that take less than the client does -> bytes, as far as is known. Empty
            where records are compressed: only the broker knows then.
        outdated: Whether the next client's `settings` are others than the last one's.
    """

    def __init__(
        self, config: Mapping[str, Any], limits: BatchLimits, topics: Collection[str]
    ) -> None:
        self._limits = limits
        self.topics = topics
        self._message_max_bytes = int(config["message.max.bytes"])
        self._configured_bytes = min(int(config["batch.size"]), self._message_max_bytes)
        codec = config.get("compression.codec", config.get("compression.type", "none"))
        self._compressed = str(codec) != "none"
        self._bytes = self._configured_bytes
        self._client_id = str(config.get("client.id", ""))
        self.limited: dict[str, int] = {}
        self.outdated = False

    def settings(self) -> dict[str, Any]:
        """Return what is laid over the configuration of the next client."""
        self.outdated = False
        known = self._limits.of(self.topics)
        if not self._compressed:
            largest = self._message_max_bytes
            self.limited = {topic: limit for topic, limit in known.items() if limit < largest}
        if self._client_id in self._limits.one_by_one:
            self._bytes = 1
            return _ONE_BY_ONE
        self._bytes = min([self._configured_bytes, *known.values()])
        return {"batch.size": self._bytes}

    def had_neighbours(self, code: int, record: ProducedRecord) -> bool:
        """Return whether a record may have been refused because of others in its batch."""
        if code not in OVERSIZED | SPOILED:
            return False
        return least_bytes(record) + _NEIGHBOUR_BYTES <= self._bytes

    def narrow(self, code: int, topic: str) -> None:
        """Make the next client's batches smaller, after a topic has refused one."""
        if code in OVERSIZED:
            self._limits.has_refused(topic, self._bytes)
        else:
            self._limits.one_has_refused([topic])
            self._limits.one_by_one.add(self._client_id)
        self.outdated = True

    def look_closer(self, topics: Iterable[str]) -> None:
        """Let the next client find out which of these topics has refused a batch."""
        self._limits.one_has_refused(topics)
        self.outdated = True

    def widen(self) -> None:
        """Go back to full batches, once all is delivered that was sent one by one."""
        if self._client_id in self._limits.one_by_one:
            self._limits.one_by_one.remove(self._client_id)
            self.outdated = True

    def any_suspect(self, topic: str, records: Iterable[ProducedRecord]) -> bool:
        """Return whether a record is large enough to be worth a closer look; made to be quick."""
        limit = self.limited[topic] - _LEAST_OVERHEAD_BYTES
        return any(
            headers or len(value or b"") + len(key or b"") > limit
            for key, value, _, headers in records
        )

    def oversized(self, topic: str, record: ProducedRecord) -> int | None:
        """Return what a topic takes at most when a record is larger for certain, else None."""
        size = least_bytes(record)
        if size <= self.limited[topic]:
            return None
        limit = self._limits.now(topic)
        if limit is None:  # The broker will say so itself, or take it: what we had was a guess.
            return None
        self.limited[topic] = limit
        return limit if size > limit else None


def least_bytes(record: ProducedRecord) -> int:
    """Return what a record takes, alone in a batch and not compressed, at the very least."""
    key, value, _, headers = record
    size = _LEAST_OVERHEAD_BYTES + len(value or b"") + len(key or b"")
    for name, content in headers:
        size += _LEAST_HEADER_OVERHEAD_BYTES + len(name.encode()) + len(content or b"")
    return size
