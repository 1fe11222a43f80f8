"""How the records of a queue are decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pystreams.record import Headers

Deserialize = Callable[..., Any]


class Deserializers(NamedTuple):
    """How a queue's records are decoded.

    Attributes:
        see_headers: Whether both take a record's headers as well.
    """

    key: Deserialize
    value: Deserialize
    see_headers: bool = False


def seeing(
    deserialize: Deserialize, raw: Sequence[bytes | None], headers: Sequence[Headers]
) -> list[Any]:
    """Return a batch decoded, each with its record's headers."""
    return [
        None if data is None else deserialize(data, seen)
        for data, seen in zip(raw, headers, strict=True)
    ]
