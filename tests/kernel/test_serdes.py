"""The built-in serdes refuse what is not of their type, rather than write something else."""

from __future__ import annotations

import math
import struct
import uuid
from typing import Any

import pytest

from pystreams import serdes

WRONG: list[tuple[str, Any]] = [
    ("bytes", 3),
    ("bytes", "text"),
    ("bytes", [1, 2]),
    ("bytes", None),
    ("uuid", "x"),
    ("uuid", str(uuid.UUID(int=1))),
    ("uuid", 1),
    ("uuid", None),
    ("string", 3),
    ("string", b"text"),
    ("int", "3"),
    ("int", 3.0),
    ("long", "3"),
    ("long", 3.0),
    ("double", "3"),
    ("json", object()),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_of_another_type_is_refused(name: str, value: Any) -> None:
    with pytest.raises((TypeError, struct.error)):
        serdes.BY_NAME[name].serializer("topic")(value)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("bytes", 3, r"serdes\.BYTES takes bytes, a bytearray or a memoryview, not int"),
        ("uuid", "x", r"serdes\.UUID takes a uuid\.UUID, not str"),
    ],
)
def test_the_error_says_what_came_and_what_is_taken(name: str, value: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        serdes.BY_NAME[name].serializer("topic")(value)


@pytest.mark.parametrize("value", [b"ab", bytearray(b"ab"), memoryview(b"ab")])
def test_bytes_are_taken_in_each_of_their_forms(value: Any) -> None:
    written = serdes.BYTES.serializer("topic")(value)

    assert written == b"ab"
    assert type(written) is bytes


def test_a_uuid_is_written_as_its_text_and_read_again() -> None:
    one = uuid.uuid4()

    written = serdes.UUID.serializer("topic")(one)

    assert written == str(one).encode()
    assert serdes.UUID.deserializer("topic")(written) == one


def test_bytes_that_are_no_utf_8_are_refused_and_a_serde_that_reads_them_as_java_is_one_line() -> (
    None
):
    broken = b"caf\xe9"
    with pytest.raises(UnicodeDecodeError):
        serdes.STRING.deserializer("topic")(broken)

    like_java = serdes.serde_of(str.encode, lambda data: data.decode(errors="replace"))

    assert like_java.deserializer("topic")(broken) == "caf\ufffd"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "nan has no form in JSON: make it None, or write numbers with serdes.DOUBLE"),
        ({"mean": -math.inf, "n": None}, r"^mean: -inf has no form in JSON"),
        ({"rows": [{"n": None}, (1, math.nan)]}, r"^rows\[1\]\[1\]: nan has no form in JSON"),
        (2**64, r"^an integer beyond 64 bits, which readers of JSON may not hold: make it a str"),
        ({"a": -(2**63), "rows": [1, (-(2**63) - 1,)]}, r"^rows\[1\]\[0\]: an integer beyond 64"),
        ({"n": 1 << 20_000}, "^n: an integer beyond 64"),
    ],
)
def test_json_refuses_numbers_that_it_has_no_form_for(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        serdes.JSON.serializer("t")(value)


@pytest.mark.parametrize(
    "value", [None, "null", {"null": 1.5, "n": None}, [None, {"n": [None, 1.5]}], {"n": [None]}]
)
def test_json_writes_nulls_that_are_none(value: object) -> None:
    assert serdes.JSON.deserializer("t")(serdes.JSON.serializer("t")(value)) == value
