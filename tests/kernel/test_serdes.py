"""The built-in serdes refuse what is not of their type, rather than write something else."""

from __future__ import annotations

import json
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
    ],
)
def test_json_refuses_numbers_that_it_would_make_null_of(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        serdes.JSON.serializer("t")(value)


@pytest.mark.parametrize(
    "value", [None, "null", {"null": 1.5, "n": None}, [None, {"n": [None, 1.5]}], {"n": [None]}]
)
def test_json_writes_nulls_that_are_none(value: object) -> None:
    assert serdes.JSON.deserializer("t")(serdes.JSON.serializer("t")(value)) == value


LARGE = [2**64 - 1, 2**64, 10**19, -(2**63), -(2**63) - 1, 10**30, -(10**30)]


@pytest.mark.parametrize("number", LARGE)
def test_json_writes_and_reads_integers_of_any_size_as_they_are(number: int) -> None:
    for value in (number, [1.5, {"n": number, "null": None}], {"n": (number, "text")}):
        data = serdes.JSON.serializer("t")(value)

        assert json.loads(data) == json.loads(json.dumps(value))
        read = serdes.JSON.deserializer("t")(data)
        assert read == json.loads(json.dumps(value))
    assert type(serdes.JSON.deserializer("t")(b"%d" % number)) is int


def test_json_reads_other_numbers_and_long_digits_in_texts_as_before() -> None:
    for data in (b'{"n":"12345678901234567890123"}', b"[123456789012345678901.5]", b"1e25"):
        assert serdes.JSON.deserializer("t")(data) == json.loads(data)
        assert type(serdes.JSON.deserializer("t")(data)) is type(json.loads(data))
    with pytest.raises(ValueError, match="JSON"):
        serdes.JSON.deserializer("t")(b"[123456789012345678901, NaN]")


def test_json_says_what_has_no_form_in_it_beside_a_large_integer() -> None:
    with pytest.raises(TypeError, match="object"):
        serdes.JSON.serializer("t")([2**70, object()])
