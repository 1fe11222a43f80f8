"""Bytes of a change on a repartition topic. Spec: KIP-904."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystreams.serdes import LONG, STRING
from pystreams.topology.operators.tables.change_serde import ChangeSerde

EXAMPLES = [
    (("abc", None), b"abc\x01"),
    ((None, "abc"), b"abc\x00"),
    (("abc", "x"), b"\x06abcx\x02"),
    (("", "x"), b"\x00x\x02"),
    (("a" * 64, "x"), b"\x80\x01" + b"a" * 64 + b"x\x02"),
]


@pytest.mark.parametrize(("change", "data"), EXAMPLES)
def test_change_is_written_as_kafka_writes_it(change: Any, data: bytes) -> None:
    assert ChangeSerde(STRING).serializer("topic")(change) == data


@pytest.mark.parametrize(("change", "data"), EXAMPLES)
def test_change_is_read_back(change: Any, data: bytes) -> None:
    assert ChangeSerde(STRING).deserializer("topic")(data) == change


@pytest.mark.parametrize(
    ("data", "change"),
    [
        (b"abc\x01\x03", (None, "abc")),
        (b"abc\x00\x04", ("abc", None)),
        (b"\x06abcx\x01\x05", ("abc", "x")),
    ],
)
def test_change_of_kafka_3_5_is_read(data: bytes, change: Any) -> None:
    assert ChangeSerde(STRING).deserializer("topic")(data) == change


def test_change_from_nothing_to_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        ChangeSerde(STRING).serializer("topic")((None, None))


def test_bytes_of_an_unknown_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="not 9"):
        ChangeSerde(STRING).deserializer("topic")(b"abc\x09")


def test_default_serde_takes_the_place_of_a_missing_one() -> None:
    assert ChangeSerde(None).with_default(LONG).inner is LONG
    assert ChangeSerde(STRING).with_default(LONG).inner is STRING


@pytest.mark.property
@given(st.one_of(st.none(), st.text()), st.text())
def test_any_change_survives_the_way(new: str | None, old: str) -> None:
    serde = ChangeSerde(STRING)

    data = serde.serializer("topic")((new, old))

    assert serde.deserializer("topic")(data) == (new, old)
