"""How a sink makes bytes of records: with serdes that see headers, and with those that do not.

Which of the two is decided once a task, so that records of serdes without headers pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pystreams.errors import SerializationError
from pystreams.record import Headers
from pystreams.serdes import (
    Serde,
    headers_serializer,
    seeing_serializer,
    serialize_or_raise,
)
from pystreams.stores.typed_stores.given_bytes import (
    NoBytesError,
    bytes_serializer,
    check_bytes,
    gives_bytes,
)
from pystreams.topology.contracts.operator import TaskContext
from pystreams.topology.contracts.record_parts import checked_headers
from pystreams.topology.graph.nodes import SinkNode

Serialize = Callable[[Any], bytes]
HeadersSerialize = Callable[[Any, Headers], tuple[bytes, Headers]]
Encoded = tuple[bytes | None, bytes | None, Headers]
Encode = Callable[[Any, Any, Headers], Encoded | None]


def sees_headers(node: SinkNode, task: TaskContext, topic: str) -> bool:
    """Return whether a serde of a sink looks at headers."""
    serdes = _serdes(node, task)
    return any(headers_serializer(serde, topic) is not None for serde in serdes)


def record_encoder(node: SinkNode, task: TaskContext, topic: str) -> Encode:
    """Return the function that serializes a record of a sink, with the headers that go with it.

    It returns None for a record that the production handler drops.
    """
    key_serde, value_serde = _serdes(node, task)
    if sees_headers(node, task, topic):
        return _with_headers(
            _seeing_bytes_serializer(key_serde, topic),
            _seeing_bytes_serializer(value_serde, topic),
            node.name,
            task,
            topic,
        )
    serialize_key = bytes_serializer(key_serde, topic)
    serialize_value = bytes_serializer(value_serde, topic)
    name = node.name

    def encode(key: Any, value: Any, headers: Headers) -> Encoded | None:
        try:
            raw_key = None if key is None else serialize_key(key)
            raw_value = None if value is None else serialize_value(value)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            again = once_more(task, name, topic, (serialize_key, key), (serialize_value, value))
            return None if again is None else (*again, headers)
        return raw_key, raw_value, headers

    return encode


def _with_headers(
    serialize_key: HeadersSerialize,
    serialize_value: HeadersSerialize,
    name: str,
    task: TaskContext,
    topic: str,
) -> Encode:
    def encode(key: Any, value: Any, headers: Headers) -> Encoded | None:
        given, raw_key, raw_value = headers, None, None
        try:
            if key is not None:
                raw_key, headers = serialize_key(key, headers)
            if value is not None:
                raw_value, headers = serialize_value(value, headers)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            return encode_again(key, value, given)
        return raw_key, raw_value, headers

    def encode_again(key: Any, value: Any, headers: Headers) -> Encoded | None:
        last = headers

        def noting(serialize: HeadersSerialize, part: Any) -> bytes:
            nonlocal last
            data, last = serialize(part, last)
            return data

        again = once_more(
            task,
            name,
            topic,
            (partial(noting, serialize_key), key),
            (partial(noting, serialize_value), value),
        )
        return None if again is None else (*again, last)

    return encode


def _seeing_bytes_serializer(serde: Serde[Any], topic: str) -> HeadersSerialize:
    serialize = seeing_serializer(serde, topic)
    if gives_bytes(serde):
        return serialize

    def checking(value: Any, headers: Headers) -> tuple[bytes, Headers]:
        data, headers = serialize(value, headers)
        check_bytes(data)
        return data, checked_headers("headers from its serde", headers)

    return checking


def _serdes(node: SinkNode, task: TaskContext) -> tuple[Serde[Any], Serde[Any]]:
    return task.key_serde(node.key_serde, node.name), task.value_serde(node.value_serde, node.name)


def once_more(
    task: TaskContext,
    node: str,
    topic: str,
    key: tuple[Serialize, Any],
    value: tuple[Serialize, Any],
) -> tuple[bytes | None, bytes | None] | None:
    """Serialize once more what has failed, to learn which part it was.

    Returns:
        Key and value, where they can be serialized after all: what a serde asks elsewhere, a
        registry for one, may answer now. None when the production handler drops the record.
    """
    try:
        raw_key, raw_value = (
            None if data is None else serialize_or_raise(serialize, data, topic, part)
            for part, (serialize, data) in (("key", key), ("value", value))
        )
    except SerializationError as error:
        if isinstance(cause := error.__cause__, NoBytesError):
            text = f"the serde of a record for topic {topic!r} gives no bytes: {cause}"
            error = SerializationError(text, topic=topic)
        task.report_serialization_error(error, node)
        return None
    return raw_key, raw_value
