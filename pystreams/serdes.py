"""Serdes: how keys and values become bytes and come back.

A `Serde` is asked once per topic for a plain function of one argument; the hot path then calls
that function and nothing else. The runtime never calls it with None: a null key or value is
null on both sides, as in Kafka. Byte layouts are Kafka's (big-endian, fixed width), so that a
Java application reads what is written here.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import orjson

from pystreams.errors import NOT_OF_ONE_RECORD, SerializationError
from pystreams.exception_texts import exception_text
from pystreams.kernel.async_functions import COROUTINES, not_async, told_coroutine
from pystreams.record import Headers
from pystreams.typed_values.finite_numbers import check_integers, check_nulls
from pystreams.typed_values.json_functions import json_functions

T = TypeVar("T")

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_DOUBLE = struct.Struct(">d")

_SHOWN_KEY_CHARACTERS = 60


class Serde(Protocol[T]):
    """Turns values of one type into bytes and back; implement it for a type of your own.

    Both methods are called when a task starts, never a record. The functions they return must
    be plain (no `async def`) and pure, may raise anything for a value they can't handle (the
    runtime adds the record's coordinates), and are called from the task's thread only.
    """

    def serializer(self, topic: str) -> Callable[[T], bytes]:
        """Return the function that turns a value (never None) into bytes for `topic`."""

    def deserializer(self, topic: str) -> Callable[[bytes], T]:
        """Return the function that turns bytes (never None) read from `topic` into a value."""


@runtime_checkable
class HeadersSerde(Serde[T], Protocol[T]):
    """A serde that also sees the headers of records.

    Sources and sinks, repartition topics among them, take its functions for headers, or those
    that every serde has where it returns None for them. State has no headers: stores, their
    changelogs and what waits in a join take those that every serde has. Of a record the key is
    first.
    """

    def headers_serializer(
        self, topic: str
    ) -> Callable[[T, Headers], tuple[bytes, Headers]] | None:
        """Return the function that turns a value (never None) into bytes for `topic`.

        It is given the record's headers, and returns those that go with it.
        """

    def headers_deserializer(self, topic: str) -> Callable[[bytes, Headers], T] | None:
        """Return the function that turns bytes (never None) read from `topic` into a value."""


def headers_serializer(
    serde: Serde[Any], topic: str
) -> Callable[[Any, Headers], tuple[bytes, Headers]] | None:
    """Return a serde's function for records with headers, or None if it does not look at them."""
    return serde.headers_serializer(topic) if isinstance(serde, HeadersSerde) else None


def headers_deserializer(serde: Serde[Any], topic: str) -> Callable[[bytes, Headers], Any] | None:
    """Return a serde's function for records with headers, or None if it does not look at them."""
    return serde.headers_deserializer(topic) if isinstance(serde, HeadersSerde) else None


def sees_headers(serde: Serde[Any], topic: str) -> bool:
    """Return whether what is read from a topic is read with the records' headers."""
    return headers_deserializer(serde, topic) is not None


def seeing_serializer(
    serde: Serde[Any], topic: str
) -> Callable[[Any, Headers], tuple[bytes, Headers]]:
    """Return a serde's function for records with headers, made of the plain one if it has none."""
    seeing = headers_serializer(serde, topic)
    if seeing is not None:
        return not_async(seeing, serde, "headers_serializer")
    serialize = not_async(serde.serializer(topic), serde, "serializer")
    return lambda value, headers: (serialize(value), headers)


def seeing_deserializer(serde: Serde[Any], topic: str) -> Callable[[bytes, Headers], Any]:
    """Return a serde's function for records with headers, made of the plain one if it has none."""
    seeing = headers_deserializer(serde, topic)
    if seeing is not None:
        return not_async(seeing, serde, "headers_deserializer")
    deserialize = not_async(serde.deserializer(topic), serde, "deserializer")
    return lambda data, _: deserialize(data)


@runtime_checkable
class WrappingSerde(Serde[Any], Protocol):
    """A serde around another one that may be left to the configuration."""

    def with_default(self, default: Serde[Any] | None) -> Serde[Any]:
        """Return the serde to use, given the configured default for what is inside it."""

    def is_complete(self) -> bool:
        """Return whether nothing inside it is left to the configuration."""


@runtime_checkable
class KeyWrappingSerde(Serde[Any], Protocol):
    """A serde of values around one of keys that may be left to the configuration."""

    def with_key_default(self, default: Serde[Any] | None) -> Serde[Any]:
        """Return the serde to use, given the configured default of keys."""

    def is_complete(self) -> bool:
        """Return whether nothing inside it is left to the configuration."""


@runtime_checkable
class StateSerde(Serde[Any], Protocol):
    """A serde of what a store keeps, where those who query the store see something else.

    A mean is kept as a sum and a count; queries see the mean.
    """

    def result_deserializer(self, topic: str) -> Callable[[bytes], Any]:
        """Return the function that turns bytes into what queries see."""


def readers_deserializer(serde: Serde[Any], topic: str) -> Callable[[bytes], Any]:
    """Return the function by which those who query a store see its values."""
    # Asked for each query; Python 3.11 takes 5 us to see whether an object follows a protocol.
    of_results: Callable[[str], Callable[[bytes], Any]] = getattr(
        serde, "result_deserializer", serde.deserializer
    )
    return of_results(topic)


def filled(serde: Serde[Any] | None, default: Serde[Any] | None) -> Serde[Any] | None:
    """Return a serde with the configured default where it, or what it wraps, was left open."""
    # Asked for each store of each task; Python 3.11 takes 10 us to see that it is no such protocol.
    with_default: Callable[[Serde[Any] | None], Serde[Any]] | None = getattr(
        serde, "with_default", None
    )
    return serde or default if with_default is None else with_default(default)


def filled_value(
    serde: Serde[Any] | None, default: Serde[Any] | None, key_default: Serde[Any] | None
) -> Serde[Any] | None:
    """Return a serde of values as `filled` does; the keys in them have the default of keys."""
    with_key_default: Callable[[Serde[Any] | None], Serde[Any]] | None = getattr(
        serde, "with_key_default", None
    )
    return filled(serde, default) if with_key_default is None else with_key_default(key_default)


def is_complete(serde: Serde[Any] | None) -> bool:
    """Return whether there is a serde, and in it all that it wraps, after defaults were filled."""
    return serde is not None and (
        not isinstance(serde, WrappingSerde | KeyWrappingSerde) or serde.is_complete()
    )


class FunctionSerde(Generic[T]):
    """A serde made of two functions, the same for every topic.

    Args:
        serialize: Turns a value into bytes.
        deserialize: Turns bytes into a value.
        name: What `repr` and error messages call it.
        lasting_type: The type of which each value that is taken comes back equal and of that type,
            and can't be changed meanwhile; None without such a type.
        value_type: The type of all values, where that is known; `lasting_type` when None.
        gives_bytes: Whether `serialize` returns bytes, whatever it is given, or raises.
    """

    def __init__(
        self,
        serialize: Callable[[T], bytes],
        deserialize: Callable[[bytes], T],
        name: str,
        lasting_type: type | None = None,
        value_type: type | None = None,
        *,
        gives_bytes: bool = False,
    ) -> None:
        self.gives_bytes = gives_bytes
        self.lasting_type = lasting_type
        self.value_type = value_type or lasting_type
        self._serialize = serialize
        self._deserialize = deserialize
        self._name = name

    def serializer(self, topic: str) -> Callable[[T], bytes]:
        """Return the serializing function."""
        return self._serialize

    def deserializer(self, topic: str) -> Callable[[bytes], T]:
        """Return the deserializing function."""
        return self._deserialize

    def __repr__(self) -> str:
        """Return the serde's name."""
        return f"serdes.{self._name}"


def _fixed_width(width: struct.Struct) -> Callable[[bytes], Any]:
    unpack = width.unpack

    def deserialize(data: bytes) -> Any:
        return unpack(data)[0]

    return deserialize


def _bytes_as_they_are(value: bytes) -> bytes:
    # `bytes(value)` would make NUL bytes of a number.
    if type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise _wrong_type("BYTES", "bytes, a bytearray or a memoryview", value)


def _uuid_to_text(value: uuid.UUID) -> bytes:
    if not isinstance(value, uuid.UUID):
        raise _wrong_type("UUID", "a uuid.UUID", value)
    return str(value).encode()


def _json_bytes(value: Any) -> bytes:
    try:
        data = orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        if "64-bit" in str(error):
            check_integers(value)
        raise
    # `in` would first look whether the bytes it is given are a number.
    if data.find(b"null") >= 0:
        check_nulls(value, data)
    return data


def _wrong_type(serde: str, takes: str, value: object) -> TypeError:
    return TypeError(f"serdes.{serde} takes {takes}, not {type(value).__name__}")


def _uuid_from_text(data: bytes) -> uuid.UUID:
    return uuid.UUID(data.decode())


def serde_of(
    serialize: Callable[[T], bytes],
    deserialize: Callable[[bytes], T],
    name: str = "custom",
    *,
    value_type: type[T] | None = None,
) -> Serde[T]:
    """Make a serde from two functions.

    Args:
        serialize: Turns a value (never None) into bytes.
        deserialize: Turns bytes (never None) into a value.
        name: What error messages call it.
        value_type: The type of its values. Operations whose functions are annotated to return it
            keep the serde.
    """
    return FunctionSerde(serialize, deserialize, name, value_type=value_type)


def json_of(model: type[T], *, strict: bool = False) -> Serde[T]:
    """Make a serde of a class's values as JSON.

    Takes dataclasses, `NamedTuple`, `TypedDict`, and models of pydantic and msgspec where these
    are installed. Reading checks each field, and an error names the one that does not fit; writing
    trusts the types. Enumerations are their values; dates, UUIDs and decimals are strings.

    Args:
        model: The class; fields may be of classes, `X | None`, lists, dicts and so on.
        strict: Refuse fields that the class does not have, rather than ignore them.

    Raises:
        TypeError: A field is of a type that can't be read.
    """
    return _ModelSerde(model, strict=strict)


class _ModelSerde(FunctionSerde[T]):
    def __init__(self, model: type[T], *, strict: bool) -> None:
        serialize, deserialize = json_functions(model, strict=strict)
        name = f"json_of({model.__name__})"
        super().__init__(serialize, deserialize, name, value_type=model, gives_bytes=True)
        self._made_of = (model, strict)

    def __reduce__(self) -> tuple[Callable[[type[T], bool], Serde[T]], tuple[type[T], bool]]:
        # A backfill's workers make the functions anew: what other packages compile can't be sent.
        return _json_of, self._made_of


def _json_of(model: type[T], strict: bool) -> Serde[T]:  # noqa: FBT001 - pickled arguments
    return json_of(model, strict=strict)


_own = partial(FunctionSerde[Any], gives_bytes=True)
BYTES: Serde[bytes] = _own(_bytes_as_they_are, bytes, "BYTES", bytes)
"""Bytes as they are; a bytearray or a memoryview is copied."""
STRING: Serde[str] = _own(str.encode, bytes.decode, "STRING", str)
"""UTF-8 text."""
INT: Serde[int] = _own(_INT.pack, _fixed_width(_INT), "INT", int)
"""A 4-byte signed integer, big-endian (Kafka's IntegerSerde)."""
LONG: Serde[int] = _own(_LONG.pack, _fixed_width(_LONG), "LONG", int)
"""An 8-byte signed integer, big-endian (Kafka's LongSerde)."""
DOUBLE: Serde[float] = _own(_DOUBLE.pack, _fixed_width(_DOUBLE), "DOUBLE", float)
"""An 8-byte IEEE 754 number, big-endian (Kafka's DoubleSerde)."""
UUID: Serde[uuid.UUID] = _own(_uuid_to_text, _uuid_from_text, "UUID", value_type=uuid.UUID)
"""A UUID as its 36 characters of text (Kafka's UUIDSerde)."""
JSON: Serde[Any] = _own(_json_bytes, orjson.loads, "JSON")
"""Any JSON value, through orjson. Nan and infinite numbers are refused: JSON has none."""

BY_NAME: dict[str, Serde[Any]] = {
    "bytes": BYTES,
    "string": STRING,
    "int": INT,
    "long": LONG,
    "double": DOUBLE,
    "uuid": UUID,
    "json": JSON,
}
"""The serdes a configuration file can name (`default.key.serde=string`)."""


def lasting_type(serde: Serde[Any]) -> type | None:
    """Return the type of which values need not become bytes to stay as they are, if there is one.

    A value of exactly this type that was serialized once may be kept in place of its bytes.
    """
    return serde.lasting_type if isinstance(serde, FunctionSerde) else None


def value_type(serde: Serde[Any]) -> type | None:
    """Return the type of a serde's values, if it says one: its attribute `value_type`."""
    found = getattr(serde, "value_type", None)
    return found if isinstance(found, type) else None


def serialize_or_raise(serialize: Callable[[T], bytes], value: T, topic: str, part: str) -> bytes:
    """Serialize one value again after a failure, to raise the error with its coordinates.

    The error shows the beginning of a key, as nothing else tells which record it is. Values are
    never shown.

    Args:
        serialize: The function that failed in the fast path.
        value: What it failed on.
        topic: Where the record was going.
        part: "key" or "value".

    Raises:
        SerializationError: `serialize` has raised again.
        ConfigError: It has, for a reason that is not the value's.
        SchemaRegistryError: Likewise.
    """
    try:
        return serialize(value)
    except NOT_OF_ONE_RECORD:
        raise
    except Exception as error:
        if isinstance(value, COROUTINES):
            raise SerializationError(
                f"the {part} of a record for topic {topic!r} is {told_coroutine(value)}: let the "
                "function that makes it call no async function, or map_values_async await it "
                "before",
                topic=topic,
            ) from error
        kind = type(value).__name__
        shown = f"a {part} of type {kind}"
        if part == "key":
            shown = f"{repr(value)[:_SHOWN_KEY_CHARACTERS]} ({kind})"
        message = (
            f"can't serialize the {part} of a record for topic {topic!r}: {shown} does not fit its "
            f"serde ({exception_text(error)}); set the right {part}_serde on the operation that "
            f"writes it, or let its functions make a {part} that fits"
        )
        raise SerializationError(message, topic=topic) from error
