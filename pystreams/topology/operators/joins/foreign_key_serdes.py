"""What travels between two tables that are joined by a foreign key, and its bytes.

    subscription    <version> <instruction> [<hash>] <primary key> <primary partition: int32>
    response        <version> [<hash>] [<value of the foreign row>]
    stored key      <length: int32> <foreign key> <primary key>

The highest bit of the version says that there is no hash; a response without a value has none. The
hash is murmur3 (128 bits, x64, seed 104729) of the primary row's value: it tells whether a response
is still about the row that asked. Version 0 of a subscription, read and never written, has no
partition. These bytes stand in internal topics and in changelogs: do not change them.

Primary and foreign keys are serialized for topics that don't exist, `...-pk` and `-fk`, so that a
schema registry keeps their schemas apart from those of the topics they stand in.

Spec: Kafka SubscriptionWrapperSerde, SubscriptionResponseWrapperSerde, CombinedKeySchema, Murmur3.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import mmh3

from pystreams.kernel.async_functions import deserializer_of, serializer_of
from pystreams.serdes import Serde, filled, is_complete
from pystreams.topology.contracts.outer_serde import OuterSerde

PRIMARY_KEY_SUFFIX = "-pk"
FOREIGN_KEY_SUFFIX = "-fk"
VALUE_HASH_SUFFIX = "-vh"

_SUBSCRIPTION_VERSION, _RESPONSE_VERSION = 1, 0
_NO_HASH = 0x80
_HASH_SEED = 104729
_HASH = struct.Struct(">qq")
_INT = struct.Struct(">i")


class Instruction(IntEnum):
    """What the foreign table's side is to do with a subscription."""

    DELETE_KEY_NO_PROPAGATE = 0
    DELETE_KEY_AND_PROPAGATE = 1
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3


class Subscription(NamedTuple):
    """A primary row that wants to hear of a foreign one. Was: SubscriptionWrapper.

    Attributes:
        hash: Of the primary row's value, 16 bytes; None without one.
        primary_partition: Where the answer goes; None of version 0.
    """

    hash: bytes | None
    instruction: Instruction
    primary_key: Any
    primary_partition: int | None


class Response(NamedTuple):
    """What a primary row hears of the foreign one. Was: SubscriptionResponseWrapper.

    Attributes:
        hash: That of the subscription.
        foreign_value: The foreign row's value; None without one.
        primary_partition: Where it goes; not written.
    """

    hash: bytes | None
    foreign_value: Any
    primary_partition: int | None


def hash_of(value: bytes) -> bytes:
    """Return the hash of a primary row's value."""
    return _HASH.pack(*mmh3.hash64(value, _HASH_SEED))


def combined_key(foreign_key: bytes, primary_key: bytes) -> bytes:
    """Return what a subscription is stored under."""
    return _INT.pack(len(foreign_key)) + foreign_key + primary_key


def primary_key_in(stored_key: bytes) -> bytes:
    """Return the primary key of a stored key."""
    (length,) = _INT.unpack_from(stored_key)
    return stored_key[_INT.size + length :]


class SubscriptionSerde:
    """Serde of subscriptions.

    Args:
        inner: Serde of primary keys; None takes the configured default of keys.
        topic: The subscription topic, as it is called without the application's prefix.
    """

    def __init__(self, inner: Serde[Any] | None, topic: str, store: str) -> None:
        self._inner = inner
        self._topic = topic
        self._store = store

    def with_key_default(self, default: Serde[Any] | None) -> SubscriptionSerde:
        """Return this serde with the configured default of keys where it has none inside."""
        return SubscriptionSerde(filled(self._inner, default), self._topic, self._store)

    def is_complete(self) -> bool:
        """Return whether it needs no default."""
        return is_complete(self._inner)

    def serializer(self, topic: str) -> Callable[[Subscription], bytes]:
        """Return the function that turns a subscription into bytes."""
        serialize_key = serializer_of(self._known_inner(), self._key_topic(topic))
        pack_partition = _INT.pack

        def serialize(subscription: Subscription) -> bytes:
            digest, instruction, primary_key, partition = subscription
            assert partition is not None, "of version 0, which is never written"
            key = serialize_key(primary_key)
            if digest is None:
                head = bytes((_SUBSCRIPTION_VERSION | _NO_HASH, instruction))
            else:
                head = bytes((_SUBSCRIPTION_VERSION, instruction)) + digest
            return head + key + pack_partition(partition)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], Subscription]:
        """Return the function that turns bytes into a subscription.

        The function raises ValueError for a version that came after these.
        """
        deserialize_key = deserializer_of(self._known_inner(), self._key_topic(topic))

        def deserialize(data: bytes) -> Subscription:
            version, digest, at = _version_and_hash(data, _SUBSCRIPTION_VERSION, "subscription", 2)
            end, partition = len(data), None
            if version:
                end -= _INT.size
                (partition,) = _INT.unpack_from(data, end)
            key = deserialize_key(data[at:end])
            return Subscription(digest, Instruction(data[1]), key, partition)

        return deserialize

    def _key_topic(self, topic: str) -> str:
        """Return the topic that primary keys are serialized for: the same from topic and store."""
        prefix = topic.removesuffix(f"{self._store}-changelog").removesuffix(self._topic)
        return f"{prefix}{self._topic}{PRIMARY_KEY_SUFFIX}"

    def _known_inner(self) -> Serde[Any]:
        assert self._inner is not None, "checked when the topology is built"
        return self._inner


class ResponseSerde(OuterSerde[Any]):
    """Serde of responses; `inner` is that of the foreign table's values."""

    def serializer(self, topic: str) -> Callable[[Response], bytes]:
        """Return the function that turns a response into bytes."""
        assert self.inner is not None, "checked when the topology is built"
        serialize_value = serializer_of(self.inner, topic)

        def serialize(response: Response) -> bytes:
            digest, value, _ = response
            data = b"" if value is None else serialize_value(value)
            if digest is None:
                return bytes((_RESPONSE_VERSION | _NO_HASH,)) + data
            return bytes((_RESPONSE_VERSION,)) + digest + data

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], Response]:
        """Return the function that turns bytes into a response.

        The function raises ValueError for a version that came after these.
        """
        assert self.inner is not None, "checked when the topology is built"
        deserialize_value = deserializer_of(self.inner, topic)

        def deserialize(data: bytes) -> Response:
            _, digest, at = _version_and_hash(data, _RESPONSE_VERSION, "response", 1)
            value = data[at:]
            return Response(digest, deserialize_value(value) if value else None, None)

        return deserialize


def _version_and_hash(
    data: bytes, newest: int, what: str, at: int
) -> tuple[int, bytes | None, int]:
    """Return version, hash and where the rest begins."""
    version = data[0] & ~_NO_HASH
    if version > newest:
        raise ValueError(
            f"a {what} of a foreign-key join has version {version}, and this one reads up to "
            f"{newest}: a newer application wrote it; upgrade this one"
        )
    if data[0] & _NO_HASH:
        return version, None, at
    return version, data[at : at + _HASH.size], at + _HASH.size
