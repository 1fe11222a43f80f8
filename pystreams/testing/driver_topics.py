"""The topics of a `TopologyTestDriver`: records go in by topic, and come out by topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from pystreams.errors import NOT_OF_ONE_RECORD, SerializationError, StreamsError
from pystreams.exception_texts import exception_text
from pystreams.record import Headers, ProducedRecord, Record
from pystreams.serdes import Serde, seeing_deserializer, seeing_serializer
from pystreams.testing.driver_arguments import (
    check_serdes,
    checked_advance,
    checked_entry,
)
from pystreams.topology.contracts.record_parts import checked_time

K = TypeVar("K")
V = TypeVar("V")

_Serialize = Callable[[Any, Headers], tuple[bytes, Headers]]
_Deserialize = Callable[[bytes, Headers], Any]
Pipe = Callable[[str, bytes | None, bytes | None, int, Headers], None]


class TestInputTopic(Generic[K, V]):
    """Pipes records into a topology.

    Args:
        start_timestamp: Timestamp of the first record without one of its own (ms).
        auto_advance_ms: What is added to it after each such record (ms).
    """

    __test__ = False

    def __init__(
        self,
        topic: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        pipe: Pipe,
        *,
        start_timestamp: int,
        auto_advance_ms: int,
    ) -> None:
        where = f"topic {topic!r} of the test"
        check_serdes(where, key_serde=key_serde, value_serde=value_serde)
        self._where = where
        self._topic = topic
        self._serialize_key = seeing_serializer(key_serde, topic)
        self._serialize_value = seeing_serializer(value_serde, topic)
        self._pipe = pipe
        self._timestamp = checked_time(f"{where}: start_timestamp", start_timestamp)
        self._auto_advance_ms = checked_advance(f"{where}: auto_advance_ms", auto_advance_ms)

    def pipe_input(
        self, key: K | None, value: V | None, timestamp: int | None = None, headers: Headers = ()
    ) -> None:
        """Pipe one record and process all that follows from it.

        Args:
            value: The value, or None for a tombstone.
            timestamp: Event time (ms); the topic's own time when None.

        Raises:
            SerializationError: Key or value does not fit the serde that the topic was given.
            TypeError: Timestamp or headers are none.
        """
        if timestamp is None:
            timestamp = self._timestamp
            self._timestamp += self._auto_advance_ms
        raw_key, raw_value = None, None
        if key is not None:
            raw_key, headers = self._serialized("key", self._serialize_key, key, headers)
        if value is not None:
            raw_value, headers = self._serialized("value", self._serialize_value, value, headers)
        self._pipe(self._topic, raw_key, raw_value, timestamp, headers)

    def pipe_value(self, value: V | None, timestamp: int | None = None) -> None:
        """Pipe one record without a key."""
        self.pipe_input(None, value, timestamp)

    def pipe_key_values(self, entries: Iterable[tuple[K | None, V | None]]) -> None:
        """Pipe several records at the topic's own time."""
        for entry in entries:
            self.pipe_input(*checked_entry(f"{self._where}: pipe_key_values", entry))

    def advance_time_ms(self, advance_ms: int) -> None:
        """Move the topic's own time on (ms)."""
        self._timestamp += checked_advance(f"{self._where}: advance_ms", advance_ms)

    def _serialized(
        self, part: str, serialize: _Serialize, given: Any, headers: Headers
    ) -> tuple[bytes, Headers]:
        try:
            return serialize(given, headers)
        except NOT_OF_ONE_RECORD:
            raise
        except Exception as error:
            raise SerializationError(
                f"{self._where}: the {part} {given!r} does not fit its serde "
                f"({exception_text(error)}): give create_input_topic the {part}_serde "
                "of what you pipe, or pipe what fits",
                topic=self._topic,
            ) from error


class TestOutputTopic(Generic[K, V]):
    """Reads what a topology has written to a topic, oldest first, each record once.

    Args:
        queue: The raw records, shared with the driver.
    """

    __test__ = False

    def __init__(
        self,
        topic: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        queue: Callable[[], list[ProducedRecord]],
    ) -> None:
        where = f"topic {topic!r} of the test"
        check_serdes(where, key_serde=key_serde, value_serde=value_serde)
        self._where = where
        self._topic = topic
        self._deserialize_key = seeing_deserializer(key_serde, topic)
        self._deserialize_value = seeing_deserializer(value_serde, topic)
        self._queue = queue

    def is_empty(self) -> bool:
        """Return whether there is nothing left to read."""
        return not self._queue()

    def queue_size(self) -> int:
        """Return how many records are left to read."""
        return len(self._queue())

    def read_record(self) -> Record[Any, Any]:
        """Return the next record.

        Raises:
            StreamsError: There is none.
            SerializationError: The serdes that the topic was given can't read it.
        """
        queue = self._queue()
        if not queue:
            raise StreamsError(f"topic {self._topic!r} holds no more records")
        key, value, timestamp, headers = queue.pop(0)
        return Record(
            self._deserialized("key", self._deserialize_key, key, headers),
            self._deserialized("value", self._deserialize_value, value, headers),
            timestamp,
            headers,
        )

    def read_key_value(self) -> tuple[Any, Any]:
        """Return key and value of the next record."""
        record = self.read_record()
        return record.key, record.value

    def read_value(self) -> Any:
        """Return the value of the next record."""
        return self.read_record().value

    def read_records(self) -> list[Record[Any, Any]]:
        """Return all records left."""
        return [self.read_record() for _ in range(self.queue_size())]

    def read_key_values(self) -> list[tuple[Any, Any]]:
        """Return key and value of all records left."""
        return [(record.key, record.value) for record in self.read_records()]

    def read_key_values_to_map(self) -> dict[Any, Any]:
        """Return the last value of each key among the records left."""
        return dict(self.read_key_values())

    def read_values(self) -> list[Any]:
        """Return the values of all records left."""
        return [record.value for record in self.read_records()]

    def _deserialized(
        self, part: str, deserialize: _Deserialize, data: bytes | None, headers: Headers
    ) -> Any:
        if data is None:
            return None
        try:
            return deserialize(data, headers)
        except NOT_OF_ONE_RECORD:
            raise
        except Exception as error:
            raise SerializationError(
                f"{self._where}: its {part}_serde can't read {data[:80]!r} "
                f"({exception_text(error)}): give create_output_topic the {part}_serde "
                "that the topology writes it with",
                topic=self._topic,
            ) from error
