"""Serdes of windowed keys, as they stand in topics.

    time window    key | start (int64, ms)                  its end is not written: start + size
    session        key | end (int64, ms) | start (int64, ms)

In a changelog the key of a time window has a sequence number (int32) behind the start; that is the
store's key (`stores.kinds.window.keys`), not this one. A stream's records with such a key are
written to the partition of the key inside, so that a key's windows stay together; what travels
through a repartition topic goes by the whole key, as in Kafka Streams.

Spec: Kafka TimeWindowedSerializer, SessionWindowedSerializer, WindowKeySchema.toBinary,
SessionKeySchema.toBinary, WindowedStreamPartitioner.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

from pystreams.errors import TopologyError
from pystreams.kernel.partitioner import partition_of
from pystreams.record import MAX_TIME, Headers
from pystreams.serdes import BYTES, Serde, headers_deserializer, headers_serializer
from pystreams.stores.contracts.window import Window, Windowed
from pystreams.topology.contracts.numbers import check_number
from pystreams.topology.contracts.outer_serde import OuterSerde

K = TypeVar("K")

_START = struct.Struct(">q")
_END_AND_START = struct.Struct(">qq")
_REMEMBERED_KEYS = 4096


@dataclass(frozen=True)
class WindowedSerde(OuterSerde[K]):
    """What serdes of windowed keys have in common; `inner` is that of the key inside."""

    suffix_bytes = 0
    missing = (
        "windowed keys have no serde for the key inside: give key_serde=... to the grouping, or "
        "set default.key.serde"
    )

    @property
    def gives_bytes(self) -> bool:
        """Whether the serde inside gives bytes for certain."""
        return getattr(self.inner, "gives_bytes", False)

    def serializer(self, topic: str) -> Callable[[Windowed[K]], bytes]:
        """Return the function that turns a windowed key into bytes."""
        raise NotImplementedError

    def deserializer(self, topic: str) -> Callable[[bytes], Windowed[K]]:
        """Return the function that turns bytes into a windowed key."""
        raise NotImplementedError

    def bytes_of_plain(
        self, plain: Any, topic: str, bytes_of: Callable[[Any, Serde[Any], str], bytes]
    ) -> bytes:
        """Return the bytes of a key that is given as JSON has it.

        Args:
            plain: An object of its key and its window.
            topic: Where it goes.
            bytes_of: Makes bytes of the plain key inside, by its serde.

        Raises:
            ValueError: It is none, or its window is not as long as this serde's are.
        """
        try:
            key, window = plain["key"], Window(plain["window"]["start"], plain["window"]["end"])
        except (TypeError, KeyError):
            form = '{"key": ..., "window": {"start": ms, "end": ms}}'
            raise ValueError(f"a windowed key is written as {form}") from None
        around = self._around_bytes()
        inner = bytes_of(key, self.known_inner(), topic)
        data = around.serializer(topic)(Windowed(inner, window))
        read = around.deserializer(topic)(data).window
        if read != window:
            raise ValueError(f"with this start its window ends at {read.end}, not at {window.end}")
        return data

    def headers_serializer(
        self, topic: str
    ) -> Callable[[Windowed[K], Headers], tuple[bytes, Headers]] | None:
        """Return the function that knows a record's headers, if that of the key inside does."""
        serialize_key = headers_serializer(self.known_inner(), topic)
        if serialize_key is None:
            return None
        seeing, around = serialize_key, self._around_bytes().serializer(topic)

        def serialize(windowed: Windowed[K], headers: Headers) -> tuple[bytes, Headers]:
            data, headers = seeing(windowed.key, headers)
            return around(Windowed(data, windowed.window)), headers

        return serialize

    def headers_deserializer(self, topic: str) -> Callable[[bytes, Headers], Windowed[K]] | None:
        """Return the function that knows a record's headers, if that of the key inside does."""
        deserialize_key = headers_deserializer(self.known_inner(), topic)
        if deserialize_key is None:
            return None
        seeing, around = deserialize_key, self._around_bytes().deserializer(topic)

        def deserialize(data: bytes, headers: Headers) -> Windowed[K]:
            windowed = around(data)
            return Windowed(seeing(windowed.key, headers), windowed.window)

        return deserialize

    def _around_bytes(self) -> WindowedSerde[Any]:
        around: WindowedSerde[Any] = self
        return replace(around, inner=BYTES)


@dataclass(frozen=True)
class TimeWindowedSerde(WindowedSerde[K]):
    """Serde of keys in time windows.

    Attributes:
        window_size_ms: How long a window is: what is read has no end.
    """

    window_size_ms: int
    suffix_bytes = _START.size

    def serializer(self, topic: str) -> Callable[[Windowed[K]], bytes]:
        """Return the function that turns a windowed key into bytes."""
        serialize_key, pack = self.known_inner().serializer(topic), _START.pack

        def serialize(windowed: Windowed[K]) -> bytes:
            key, (start, _) = windowed
            return serialize_key(key) + pack(start)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], Windowed[K]]:
        """Return the function that turns bytes into a windowed key."""
        deserialize_key, unpack = self.known_inner().deserializer(topic), _START.unpack_from
        size_ms = self.window_size_ms

        def deserialize(data: bytes) -> Windowed[K]:
            (start,) = unpack(data, len(data) - 8)
            window = Window(start, min(start + size_ms, MAX_TIME))
            return Windowed(deserialize_key(data[:-8]), window)

        return deserialize


@dataclass(frozen=True)
class SessionWindowedSerde(WindowedSerde[K]):
    """Serde of keys in sessions."""

    suffix_bytes = _END_AND_START.size

    def serializer(self, topic: str) -> Callable[[Windowed[K]], bytes]:
        """Return the function that turns a windowed key into bytes."""
        serialize_key, pack = self.known_inner().serializer(topic), _END_AND_START.pack

        def serialize(windowed: Windowed[K]) -> bytes:
            key, (start, end) = windowed
            return serialize_key(key) + pack(end, start)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], Windowed[K]]:
        """Return the function that turns bytes into a windowed key."""
        deserialize_key = self.known_inner().deserializer(topic)
        unpack = _END_AND_START.unpack_from

        def deserialize(data: bytes) -> Windowed[K]:
            end, start = unpack(data, len(data) - 16)
            return Windowed(deserialize_key(data[:-16]), Window(start, end))

        return deserialize


@dataclass(frozen=True, slots=True)
class WindowedStreamPartitioner:
    """Chooses the partition of the key inside, for sinks of windowed keys without another choice.

    Attributes:
        serde: How windowed keys are written; for a task it needs no default.
    """

    serde: WindowedSerde[Any]

    def bound(self, serde: Serde[Any]) -> Callable[[str, Any, Any, int], int | None]:
        """Return the function that chooses, for one task.

        Args:
            serde: The same serde, with the default inside.
        """
        assert isinstance(serde, WindowedSerde), "the default is inside"
        inner: Serde[Any] = serde.known_inner()
        serializers: dict[str, Callable[[Any], bytes]] = {}
        known_partition_of = lru_cache(_REMEMBERED_KEYS)(partition_of)

        def choose(topic: str, key: Any, _: Any, num_partitions: int) -> int | None:
            if key is None:
                return None
            serialize = serializers.get(topic)
            if serialize is None:
                serialize = serializers[topic] = bytes_in_records(inner, topic)
            return known_partition_of(serialize(key.key), num_partitions)

        return choose

    def __call__(self, topic: str, key: Any, value: Any, num_partitions: int) -> int | None:
        """Return the partition of a record."""
        return self.bound(self.serde)(topic, key, value, num_partitions)


def bytes_in_records(serde: Serde[Any], topic: str) -> Callable[[Any], bytes]:
    """Return the function that makes the bytes which a record's key has."""
    seeing = headers_serializer(serde, topic)
    return serde.serializer(topic) if seeing is None else lambda key: seeing(key, ())[0]


def time_windowed_serde(inner: Serde[K], window_size_ms: int) -> Serde[Windowed[K]]:
    """Return a serde of keys in time windows, for topics that hold them.

    Args:
        inner: How the key inside is written.
        window_size_ms: How long the windows are: it is not written.

    Raises:
        TopologyError: The size is not above 0.

    Spec: Kafka WindowedSerdes.timeWindowedSerdeFrom.
    """
    check_number("time_windowed_serde", "window_size_ms", window_size_ms, None)
    if window_size_ms <= 0:
        raise TopologyError(
            f"time_windowed_serde: window_size_ms must be above 0, not {window_size_ms}"
        )
    return TimeWindowedSerde(inner, window_size_ms)


def session_windowed_serde(inner: Serde[K]) -> Serde[Windowed[K]]:
    """Return a serde of keys in sessions, for topics that hold them.

    Spec: Kafka WindowedSerdes.sessionWindowedSerdeFrom.
    """
    return SessionWindowedSerde(inner)
