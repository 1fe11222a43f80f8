"""Serializers of the user's own: what they return that is no bytes is an error of its record.

A client would refuse it much later, when nobody knows any more what it was made of. One that makes
nothing (None) of a value deletes its key, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams.kernel.async_functions import serializer_of
from pystreams.serdes import Serde


class NoBytesError(TypeError):
    """A serializer returned something else."""


def bytes_serializer(serde: Serde[Any], topic: str) -> Callable[[Any], bytes]:
    """Return a serde's function for values, one that raises `NoBytesError` where it gives no bytes.

    That is not looked for where the serde says that it does: its attribute `gives_bytes`.
    """
    serialize = serializer_of(serde, topic)
    if gives_bytes(serde):
        return serialize

    def checking(value: Any) -> bytes:
        data = serialize(value)
        if type(data) is not bytes:
            check_bytes(data)
        return data

    return checking


def gives_bytes(serde: Serde[Any]) -> bool:
    """Return whether a serde says that it gives bytes, or raises, whatever it is given."""
    return getattr(serde, "gives_bytes", False)


def check_bytes(data: object) -> None:
    """Refuse what a serializer has returned if it is neither bytes nor None.

    Raises:
        NoBytesError: It is not.
    """
    if data is not None and not isinstance(data, bytes):
        raise NoBytesError(f"its serializer returned a {type(data).__name__}; let it return bytes")
