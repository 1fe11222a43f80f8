"""The bytes of states: what each begins with, and lists of values within.

Equal input in equal order gives equal bytes, on whatever machine. A mark is never used for another
layout: one that changes gets a new mark, and the former stays readable.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pystreams.kernel.async_functions import deserializer_of, serializer_of
from pystreams.serdes import JSON, FunctionSerde, Serde

COUNT = 0x01
SUM = 0x02
MEAN = 0x03
VARIANCE = 0x04
MIN = 0x05
MAX = 0x06
FIRST = 0x07
LAST = 0x08
TOP = 0x09
BOTTOM = 0x0A
COLLECT_LAST = 0x0B
COLLECT_FIRST = 0x0C
DISTINCT = 0x0D
HLL = 0x0E
TDIGEST = 0x0F
SEVERAL_BY_PLACE = 0x10
"""Read, and no more written."""
SEVERAL = 0x11

Parts = Mapping[str, "Serde[Any] | str | int"]
"""What states are made of, by name: serdes within theirs, and words that two versions compare."""
_NO_PARTS: Parts = {}

_WRITE_JSON, _READ_JSON = JSON.serializer(""), JSON.deserializer("")
_SCALARS = frozenset((str, int, float, bool))
_LENGTH = struct.Struct(">I")
_TIMED = struct.Struct(">qI")
_TIME = struct.Struct(">q")


def wrong_mark(name: str, mark: int, data: bytes) -> ValueError:
    """Return the error of a state that was written as another one.

    Args:
        mark: How its own states begin.
    """
    return ValueError(
        f"aggregations.{name} can't read a state that begins with {data[:1].hex()!r} and not "
        f"'{mark:02x}': another aggregation, or a later version, has written it; give the store "
        "another name, or reset the application"
    )


def plain(write: Callable[[Any], bytes], read: Callable[[bytes], Any]) -> Serde[Any]:
    """Return the serde of a state that has no serde of the user's within it."""
    return _Plain(write, read, "state")


def marked(mark: int, name: str, body: Serde[Any], parts: Parts | None = None) -> Serde[Any]:
    """Return a serde whose bytes begin with one that says what they are, and in which version.

    Args:
        parts: What can differ between two of one name; None for nothing.
    """
    return _Marked(mark, name, body, parts or _NO_PARTS)


class OfParts:
    """Marks a serde of ours, which tells what can differ between two of one name."""

    parts: Parts = _NO_PARTS


def image_with(serde: Serde[Any]) -> Callable[[Any], Any] | None:
    """Return the function that makes of a value what its serde gives back; None where it does.

    What is compared with what is kept had better be alike: JSON makes lists of tuples.
    """
    return json_image if serde is JSON else None


def json_image(value: Any) -> Any:
    """Return a value as JSON gives it back: tuples as lists.

    Raises:
        ValueError: JSON gives back something else, as of a date its text.
    """
    if type(value) in _SCALARS:
        return value
    image = _READ_JSON(_WRITE_JSON(value))
    if image != _with_lists(value):
        raise ValueError(
            f"a {type(value).__name__} does not come back from JSON as it was: select text, "
            "numbers or lists of them, or give the aggregation another serde="
        )
    return image


def _with_lists(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_with_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_lists(item) for key, item in value.items()}
    return value


def frozen(value: Any) -> Any:
    """Return a value of JSON that can be in a set: lists as tuples."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def frozen_set(values: list[Any]) -> frozenset[Any]:
    """Return values of JSON as a set."""
    try:
        return frozenset(values)
    except TypeError:
        return frozenset(map(frozen, values))


class _Plain(FunctionSerde[Any], OfParts):
    pass


class _Marked(OfParts):
    def __init__(self, mark: int, name: str, body: Serde[Any], parts: Parts) -> None:
        self.parts = parts
        self._mark = mark
        self._name = name
        self._body = body

    def serializer(self, topic: str) -> Callable[[Any], bytes]:
        first, write = bytes((self._mark,)), serializer_of(self._body, topic)
        return lambda state: first + write(state)

    def deserializer(self, topic: str) -> Callable[[bytes], Any]:
        mark, name, read = self._mark, self._name, deserializer_of(self._body, topic)

        def deserialize(data: bytes) -> Any:
            if data[0] != mark:
                raise wrong_mark(name, mark, data)
            return read(data[1:])

        return deserialize


class TimedValue:
    """A value with its timestamp (int64, ms) before it."""

    def __init__(self, value_serde: Serde[Any]) -> None:
        self._serde = value_serde

    def serializer(self, topic: str) -> Callable[[tuple[int, Any]], bytes]:
        """Return the function that writes (timestamp, value)."""
        write, pack = serializer_of(self._serde, topic), _TIME.pack
        return lambda timed: pack(timed[0]) + write(timed[1])

    def deserializer(self, topic: str) -> Callable[[bytes], tuple[int, Any]]:
        """Return the function that reads them."""
        read, unpack = deserializer_of(self._serde, topic), _TIME.unpack_from
        return lambda data: (unpack(data)[0], read(data[8:]))


class Values:
    """Values, each with its length (int32) before it.

    Args:
        make: Makes the state of the values.
        in_order: Whether they keep their order; else they are in that of their bytes.
    """

    def __init__(
        self,
        value_serde: Serde[Any],
        make: Callable[[list[Any]], Any] = list,
        *,
        in_order: bool = True,
    ) -> None:
        self._serde = value_serde
        self._make = make
        self._in_order = in_order

    def serializer(self, topic: str) -> Callable[[Iterable[Any]], bytes]:
        """Return the function that writes values."""
        write, pack, in_order = serializer_of(self._serde, topic), _LENGTH.pack, self._in_order

        def serialize(values: Iterable[Any]) -> bytes:
            parts: list[bytes] = []
            written = [write(value) for value in values]
            if not in_order:
                written.sort()
            for raw in written:
                parts += (pack(len(raw)), raw)
            return b"".join(parts)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], Any]:
        """Return the function that reads them."""
        read, unpack, make = deserializer_of(self._serde, topic), _LENGTH.unpack_from, self._make

        def deserialize(data: bytes) -> Any:
            values, at, end = [], 0, len(data)
            while at < end:
                start = at + 4
                at = start + unpack(data, at)[0]
                values.append(read(data[start:at]))
            return make(values)

        return deserialize


class TimedValues:
    """Values in their order, each with its timestamp (int64, ms) and length (int32) before it."""

    def __init__(self, value_serde: Serde[Any]) -> None:
        self._serde = value_serde

    def serializer(self, topic: str) -> Callable[[list[tuple[int, Any]]], bytes]:
        """Return the function that writes [(timestamp, value), ...]."""
        write, pack = serializer_of(self._serde, topic), _TIMED.pack

        def serialize(timed: list[tuple[int, Any]]) -> bytes:
            parts: list[bytes] = []
            for timestamp, value in timed:
                raw = write(value)
                parts += (pack(timestamp, len(raw)), raw)
            return b"".join(parts)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], list[tuple[int, Any]]]:
        """Return the function that reads them."""
        read, unpack = deserializer_of(self._serde, topic), _TIMED.unpack_from

        def deserialize(data: bytes) -> list[tuple[int, Any]]:
            timed, at, end = [], 0, len(data)
            while at < end:
                timestamp, length = unpack(data, at)
                start = at + 12
                at = start + length
                timed.append((timestamp, read(data[start:at])))
            return timed

        return deserialize
