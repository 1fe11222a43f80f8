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
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from pystreams.record import ProducedRecord
from pystreams.runtime.adapters.confluent_errors import (
    OVERSIZED,
    SPOILED,
    BrokerOutage,
    error_of,
    make_client,
)

_log = structlog.get_logger("pystreams.producer")

_ANSWER_TIMEOUT_S = 10.0
_TOPIC_LIMITS = ("max.message.bytes", "segment.bytes")

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
        config: librdkafka's configuration of an admin client, which is made for each question.
        outage: Told when brokers can't be reached.

    Attributes:
        refused: Whether a batch was ever refused: producers then look closer at what fails.
    """

    def __init__(self, config: Mapping[str, Any], outage: BrokerOutage) -> None:
        self.refused = False
        self._config = config
        self._outage = outage
        self._lock = threading.Lock()
        self._by_topic: dict[str, int] = {}
        self._refusing: set[str] = set()

    def of(self, topics: Collection[str]) -> dict[str, int]:
        """Return what is known of these topics, and of all that have refused a batch."""
        with self._lock:
            unknown = set(topics) - self._by_topic.keys()
            self._by_topic |= self._asked(unknown)
            wanted = self._refusing.union(topics)
            return {topic: self._by_topic[topic] for topic in wanted if topic in self._by_topic}

    def ask_again(self, topic: str) -> int | None:
        """Return what a topic takes now, or None when that can't be learnt."""
        with self._lock:
            return self._asked([topic]).get(topic)

    def one_has_refused(self, topics: Iterable[str]) -> None:
        """Learn that one of these topics has refused a batch."""
        with self._lock:
            self.refused = True
            self._refusing.update(topics)
            self._by_topic |= self._asked(self._refusing)

    def has_refused(self, topic: str, batch_bytes: int) -> None:
        """Learn that a topic has refused a batch; the next ones are smaller.

        Args:
            topic: The topic.
            batch_bytes: What the batch had at most.
        """
        with self._lock:
            self.refused = True
            self._refusing.add(topic)
            found = self._asked([topic]).get(topic, batch_bytes)
            smaller = found if found < batch_bytes else max(batch_bytes // _SHRINK, 1)
            self._by_topic[topic] = smaller

    def _asked(self, topics: Collection[str]) -> dict[str, int]:
        """Ask the broker; topics that don't exist or may not be described are left out."""
        if not topics:
            return {}
        wanted = [ConfigResource(ResourceType.TOPIC, topic) for topic in sorted(topics)]
        client = make_client(AdminClient, self._config, self._outage)
        answers = client.describe_configs(wanted, request_timeout=_ANSWER_TIMEOUT_S)
        found: dict[str, int] = {}
        for resource, answer in answers.items():
            try:
                settings = answer.result()
            except KafkaException as error:
                why = error_of(error).str()
                _log.debug("topic can't be described", topic=resource.name, why=why)
                continue
            values = [settings[name].value for name in _TOPIC_LIMITS if name in settings]
            found[resource.name] = min(int(value) for value in values if value is not None)
        return found


class BatchSize:
    """How large the batches of one producer are.

    Args:
        config: librdkafka's configuration of the producer.
        limits: What topics take.
        topics: Those it will write to, as far as they are known.

    Attributes:
        limited: Topics that take less than the client does -> bytes. A record above that is
            refused for certain. Empty where records are compressed: only the broker knows then.
        outdated: Whether the next client's `settings` are others than the last one's.
    """

    def __init__(
        self, config: Mapping[str, Any], limits: BatchLimits, topics: Collection[str]
    ) -> None:
        self._limits = limits
        self._topics = topics
        self._message_max_bytes = int(config["message.max.bytes"])
        self._configured_bytes = min(int(config["batch.size"]), self._message_max_bytes)
        codec = config.get("compression.codec", config.get("compression.type", "none"))
        self._compressed = str(codec) != "none"
        self._bytes = self._configured_bytes
        self._one_by_one = False
        self.limited: dict[str, int] = {}
        self.outdated = False

    def settings(self) -> dict[str, Any]:
        """Return what is laid over the configuration of the next client."""
        self.outdated = False
        known = self._limits.of(self._topics)
        if not self._compressed:
            largest = self._message_max_bytes
            self.limited = {topic: limit for topic, limit in known.items() if limit < largest}
        if self._one_by_one:
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
            self._one_by_one = True
        self.outdated = True

    def look_closer(self, topics: Iterable[str]) -> None:
        """Let the next client find out which of these topics has refused a batch."""
        self._limits.one_has_refused(topics)
        self.outdated = True

    def widen(self) -> None:
        """Go back to full batches, once all is delivered that was sent one by one."""
        if self._one_by_one:
            self._one_by_one = False
            self.outdated = True

    def any_suspect(self, topic: str, records: Iterable[ProducedRecord]) -> bool:
        """Return whether a record is large enough to be worth a closer look; made to be quick."""
        limit = self.limited[topic] - _LEAST_OVERHEAD_BYTES
        return any(
            headers or len(value or b"") + len(key or b"") > limit
            for value, key, _, headers in records
        )

    def oversized(self, topic: str, record: ProducedRecord) -> int | None:
        """Return what a topic takes at most when a record is larger for certain, else None."""
        size = least_bytes(record)
        if size <= self.limited[topic]:
            return None
        limit = self._limits.ask_again(topic)
        if limit is None:
            del self.limited[topic]  # It was a guess, or is not known any more.
            return None
        self.limited[topic] = limit
        return limit if size > limit else None


def least_bytes(record: ProducedRecord) -> int:
    """Return what a record takes, alone in a batch and not compressed, at the very least."""
    value, key, _, headers = record
    size = _LEAST_OVERHEAD_BYTES + len(value or b"") + len(key or b"")
    for name, content in headers:
        size += _LEAST_HEADER_OVERHEAD_BYTES + len(name.encode()) + len(content or b"")
    return size
