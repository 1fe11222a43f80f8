"""What a left or outer join of two streams holds back, and its bytes.

    key       int64 timestamp | 01 of the left stream, 00 of the right one | key
    value     01 of the left stream, 00 of the right one | value

All integers are big-endian. Example: the left record ("k", "v") of time 5 is held back under
00 00 00 00 00 00 00 05 01 6b as 01 76. So the order of keys is that of time, right before left.

Spec: Kafka TimestampedKeyAndJoinSideSerializer, LeftOrRightValueSerializer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from pystreams.errors import ConfigError
from pystreams.serdes import Serde, filled, is_complete
from pystreams.topology.contracts.outer_serde import OuterSerde

_KEY_HEAD = struct.Struct(">qb")
_LEFT, _RIGHT = b"\x01", b"\x00"


class TimestampedKeyAndJoinSide(NamedTuple):
    """What a record is held back under.

    Attributes:
        timestamp: Its time (ms).
        left: Whether it is of the left stream.
    """

    timestamp: int
    left: bool
    key: Any


class LeftOrRightValue(NamedTuple):
    """The value of a record that is held back.

    Attributes:
        left: Whether it is of the left stream.
    """

    left: bool
    value: Any


class TimestampedKeyAndJoinSideSerde(OuterSerde[Any]):
    """Serde of keys; `inner` is that of the records' keys."""

    def serializer(self, topic: str) -> Callable[[TimestampedKeyAndJoinSide], bytes]:
        """Return the function that turns a key into bytes.

        Raises:
            ConfigError: There is neither an inner serde nor a default.
        """
        serialize_key = _known(self.inner, "key").serializer(topic)
        pack = _KEY_HEAD.pack

        def serialize(waiting: TimestampedKeyAndJoinSide) -> bytes:
            timestamp, left, key = waiting
            return pack(timestamp, left) + serialize_key(key)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], TimestampedKeyAndJoinSide]:
        """Return the function that turns bytes into a key; raises as `serializer` does."""
        deserialize_key = _known(self.inner, "key").deserializer(topic)
        unpack, skipped = _KEY_HEAD.unpack_from, _KEY_HEAD.size

        def deserialize(data: bytes) -> TimestampedKeyAndJoinSide:
            timestamp, left = unpack(data)
            return TimestampedKeyAndJoinSide(timestamp, left == 1, deserialize_key(data[skipped:]))

        return deserialize

    def __repr__(self) -> str:
        """Return the serde's name."""
        return f"TimestampedKeyAndJoinSideSerde({self.inner!r})"


class LeftOrRightValueSerde:
    """Serde of values.

    Args:
        left: Serde of the left stream's values; None takes the configured default.
        right: Serde of the right stream's values; likewise.
    """

    def __init__(self, left: Serde[Any] | None, right: Serde[Any] | None) -> None:
        self._left = left
        self._right = right

    def with_default(self, default: Serde[Any] | None) -> LeftOrRightValueSerde:
        """Return this serde with the configured default where inner ones were not given."""
        return LeftOrRightValueSerde(filled(self._left, default), filled(self._right, default))

    def is_complete(self) -> bool:
        """Return whether it needs no default."""
        return is_complete(self._left) and is_complete(self._right)

    def serializer(self, topic: str) -> Callable[[LeftOrRightValue], bytes]:
        """Return the function that turns a value into bytes.

        Raises:
            ConfigError: A serde is neither given nor configured.
        """
        serialize_left = _known(self._left, "value").serializer(topic)
        serialize_right = _known(self._right, "value").serializer(topic)

        def serialize(waiting: LeftOrRightValue) -> bytes:
            left, value = waiting
            return _LEFT + serialize_left(value) if left else _RIGHT + serialize_right(value)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], LeftOrRightValue]:
        """Return the function that turns bytes into a value; raises as `serializer` does."""
        deserialize_left = _known(self._left, "value").deserializer(topic)
        deserialize_right = _known(self._right, "value").deserializer(topic)

        def deserialize(data: bytes) -> LeftOrRightValue:
            if data[0] == 1:
                return LeftOrRightValue(True, deserialize_left(data[1:]))
            return LeftOrRightValue(False, deserialize_right(data[1:]))

        return deserialize

    def __repr__(self) -> str:
        """Return the serde's name."""
        return f"LeftOrRightValueSerde({self._left!r}, {self._right!r})"


def _known(serde: Serde[Any] | None, part: str) -> Serde[Any]:
    if serde is None:
        message = (
            f"the {part}s of a join of two streams have no serde: give the join or the streams a "
            f"{part}_serde=..., or set default.{part}.serde"
        )
        raise ConfigError(message)
    return serde
