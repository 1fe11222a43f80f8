"""The built-in serdes write and read the bytes that Kafka's serdes write."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from pystreams import serdes
from tests.parity import golden

pytestmark = pytest.mark.parity

PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "int": int,
    "long": int,
    "double": float,
    "uuid": uuid.UUID,
    "bytes": bytes.fromhex,
}
VECTORS = [
    pytest.param(kind, vector, id=f"{kind} {vector['value']!r}")
    for kind, vectors in golden.read("serdes").items()
    for vector in vectors
]


@pytest.mark.parametrize(("kind", "vector"), VECTORS)
def test_serde_writes_and_reads_javas_bytes(kind: str, vector: dict[str, str]) -> None:
    serde = serdes.BY_NAME[kind]
    value, data = PARSERS[kind](vector["value"]), golden.decoded(vector["bytes"])
    assert data is not None

    assert serde.serializer("topic")(value) == data
    # Compared as text, because NaN equals nothing.
    assert str(serde.deserializer("topic")(data)) == str(value)
