"""Keys and values as lines of text and as JSON, by their serdes."""

from __future__ import annotations

import json
import math
import pickle
import struct
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any, NamedTuple

import pytest

from pystreams import (
    Serde,
    Window,
    Windowed,
    serde_of,
    serdes,
    session_windowed_serde,
    time_windowed_serde,
)
from pystreams.readable_values import (
    bytes_of_json,
    bytes_of_text,
    json_of_value,
    plain_of_value,
    text_of_value,
)

A_UUID = "00000000-0000-0000-0000-00000000002a"


@dataclass
class Order:
    total: int


class Place(NamedTuple):
    x: int
    y: int


class Side(Enum):
    LEFT = "L"


COMMA: Serde[Any] = serde_of(
    lambda place: f"{place['x']},{place['y']}".encode(),
    lambda data: dict(zip("xy", map(int, data.split(b",")), strict=True)),
    "comma",
)


@pytest.mark.parametrize(
    ("text", "serde", "data"),
    [
        ("12", serdes.STRING, b"12"),
        ("12", serdes.BYTES, b"12"),
        ("12", serdes.INT, b"\0\0\0\x0c"),
        ("-1", serdes.LONG, b"\xff" * 8),
        ("0", serdes.DOUBLE, b"\0" * 8),
        (A_UUID, serdes.UUID, A_UUID.encode()),
        ('{"a": 1}', serdes.JSON, b'{"a":1}'),
        ('{"total": 3, "more": 1}', serdes.json_of(Order), b'{"total":3}'),
        ("3,4", COMMA, b"3,4"),
        ('{"x": 3, "y": 4}', COMMA, b"3,4"),
    ],
)
def test_a_line_becomes_what_its_serde_writes(text: str, serde: Serde[Any], data: bytes) -> None:
    assert bytes_of_text(text, serde, "in") == data


@pytest.mark.parametrize(
    ("value", "serde", "data"),
    [
        ("a", serdes.STRING, b"a"),
        ("a", serdes.BYTES, b"a"),
        (A_UUID, serdes.UUID, A_UUID.encode()),
        (12, serdes.INT, b"\0\0\0\x0c"),
        ({"total": 3}, serdes.json_of(Order), b'{"total":3}'),
        ({"x": 3, "y": 4}, COMMA, b"3,4"),
    ],
)
def test_json_becomes_what_the_serde_writes(value: Any, serde: Serde[Any], data: bytes) -> None:
    assert bytes_of_json(value, serde, "in") == data


@pytest.mark.parametrize(
    ("text", "serde", "why"),
    [
        ("twelve", serdes.LONG, r"'twelve' does not fit serdes.LONG: invalid literal"),
        ("no json", serdes.JSON, r"'no json' does not fit serdes.JSON"),
        ('{"total": "x"}', serdes.json_of(Order), r"does not fit serdes.json_of\(Order\): .*total"),
        ("x", serdes.UUID, r"does not fit serdes.UUID"),
    ],
)
def test_what_does_not_fit_is_told_with_the_serde(text: str, serde: Serde[Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        bytes_of_text(text, serde, "in")


def test_a_number_is_no_text_in_json() -> None:
    with pytest.raises(ValueError, match="written as a JSON string"):
        bytes_of_json(5, serdes.STRING, "in")


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (Order(3), b'{"total":3}'),
        (Place(1, 2), b'{"x":1,"y":2}'),
        (b"text", b'"text"'),
        (b"\xff\0", b'"/wA="'),
        ({1: uuid.UUID(A_UUID)}, f'{{"1":"{A_UUID}"}}'.encode()),
        ({"b"}, b'["b"]'),
    ],
)
def test_values_of_classes_are_objects_and_bytes_are_text(value: Any, json: bytes) -> None:
    assert json_of_value(value) == json


def test_a_text_is_shown_as_it_is_and_all_else_as_json() -> None:
    assert text_of_value('say "hi"') == 'say "hi"'
    assert text_of_value({"a": 1}) == '{"a":1}'
    assert text_of_value(uuid.UUID(A_UUID)) == A_UUID
    assert (text_of_value(b"AP8="), text_of_value(b"\x00\xff")) == ("AP8=", '{"base64":"AP8="}')


OWN_TEXT: Serde[str] = serde_of(str.encode, bytes.decode, "own text")
PICKLED: Serde[Any] = serde_of(pickle.dumps, pickle.loads, "pickled")
IN_A_MINUTE = time_windowed_serde(serdes.STRING, 60)


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (IN_A_MINUTE, Windowed("shop-1", Window(60, 120))),
        (time_windowed_serde(serdes.BYTES, 60), Windowed(b"\xff", Window(60, 120))),
        (session_windowed_serde(serdes.STRING), Windowed("customer-000001", Window(60, 70))),
        (serdes.DOUBLE, math.inf),
        (serdes.DOUBLE, -math.inf),
        (serdes.BYTES, b"\xff\x00"),
        (serdes.BYTES, b""),
        (OWN_TEXT, "a"),
        (PICKLED, {"total": 3}),
        (serdes.JSON, {"base64": "AA=="}),
        (serdes.JSON, "NaN"),
    ],
)
def test_what_is_shown_in_json_becomes_the_same_bytes_again(serde: Serde[Any], value: Any) -> None:
    data = serde.serializer("in")(value)
    shown = json_of_value(plain_of_value(serde.deserializer("in")(data)))

    assert bytes_of_json(json.loads(shown), serde, "in") == data


def test_a_number_that_is_none_is_shown_and_read_by_its_name() -> None:
    data = bytes_of_json(plain_of_value(math.nan), serdes.DOUBLE, "in")

    assert math.isnan(serdes.DOUBLE.deserializer("in")(data))
    assert (text_of_value(math.nan), text_of_value(-math.inf)) == ("NaN", "-Infinity")
    assert bytes_of_text("NaN", serdes.DOUBLE, "in") == data


@dataclass
class Measured:
    celsius: float | None
    several: tuple[float, ...] = ()
    _own: float = math.nan


class Model:
    def model_dump(self) -> dict[str, Any]:
        return {"low": -math.inf, "none": None}


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (math.nan, '"NaN"'),
        (
            {"x": math.nan, "y": None, "z": [1.5, math.inf]},
            '{"x":"NaN","y":null,"z":[1.5,"Infinity"]}',
        ),
        (Measured(math.nan, (-math.inf, 2.0)), '{"celsius":"NaN","several":["-Infinity",2.0]}'),
        (Model(), '{"low":"-Infinity","none":null}'),
        ({"a": Measured(None, (math.nan,))}, '{"a":{"celsius":null,"several":["NaN"]}}'),
        ({math.nan: Place(1, 2)}, '{"NaN":{"x":1,"y":2}}'),
        (
            Windowed(Measured(math.nan), Window(60, 120)),
            '{"key":{"celsius":"NaN","several":[]},"window":{"start":60,"end":120}}',
        ),
        (
            [None, uuid.UUID(A_UUID), datetime(2026, 1, 2, tzinfo=UTC), Side.LEFT, b"a", True],
            f'[null,"{A_UUID}","2026-01-02T00:00:00+00:00","L","a",true]',
        ),
    ],
)
def test_numbers_that_are_none_have_their_names_within_values_too(value: Any, json: str) -> None:
    """JSON's writers make null of them, which says that there is nothing."""
    assert json_of_value(value).decode() == json
    assert text_of_value({"in": [value]}) == f'{{"in":[{json}]}}'


@dataclass
class Amount:
    amount: float | None
    note: str = "x"


def test_a_value_is_shown_alike_whether_a_null_or_a_number_that_is_none_is_in_it() -> None:
    """What was set on it later is shown, too, as in a value of which orjson can write all."""
    shown = []
    for number in (1.5, None, math.nan):
        value = Amount(number)
        value.total = 3  # type: ignore[attr-defined]
        shown.append(json.loads(json_of_value([value, {"at": date(2026, 1, 2)}, {1: None}])))
    assert [row[0] for row in shown] == [
        {"amount": amount, "note": "x", "total": 3} for amount in (1.5, None, "NaN")
    ]
    assert all(row[1:] == [{"at": "2026-01-02"}, {"1": None}] for row in shown)


DOUBLES: Serde[dict[str, float]] = serde_of(
    lambda named: struct.pack(">2d", named["x"], named["y"]),
    lambda data: dict(zip("xy", struct.unpack(">2d", data), strict=True)),
    "two doubles",
)


@pytest.mark.parametrize("numbers", [(math.nan, 1.5), (2.5, -math.inf), (math.nan, math.inf)])
def test_numbers_that_are_none_within_a_value_are_read_by_their_names(
    numbers: tuple[float, float],
) -> None:
    data = struct.pack(">2d", *numbers)
    shown = json_of_value(plain_of_value(DOUBLES.deserializer("in")(data)))

    assert bytes_of_json(json.loads(shown), DOUBLES, "in") == data
    assert bytes_of_text(shown.decode(), DOUBLES, "in") == data


def test_a_line_may_be_a_windowed_key() -> None:
    windowed = Windowed("shop-1", Window(60, 120))

    data = bytes_of_text(text_of_value(windowed), IN_A_MINUTE, "in")

    assert data == IN_A_MINUTE.serializer("in")(windowed)


@pytest.mark.parametrize(
    ("plain", "why"),
    [
        ("shop-1", "a windowed key is written as"),
        ({"key": "shop-1"}, "a windowed key is written as"),
        (
            {"key": "shop-1", "window": {"start": 60, "end": 70}},
            "window ends at 120, not at 70",
        ),
        ({"key": 5, "window": {"start": 60, "end": 120}}, "it is written as a JSON string"),
        ({"key": "shop-1", "window": {"start": "60", "end": 120}}, "does not fit"),
    ],
)
def test_what_is_no_windowed_key_is_refused(plain: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        bytes_of_json(plain, IN_A_MINUTE, "in")
    with pytest.raises(ValueError, match="does not fit"):
        bytes_of_text("shop-1 without a window", IN_A_MINUTE, "in")


@pytest.mark.parametrize("wrong", [{"base64": "no base64"}, {"base64": 5}, {"more": "AA=="}])
def test_what_is_no_base64_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"does not fit serdes\.BYTES"):
        bytes_of_json(wrong, serdes.BYTES, "in")


ROUND: list[Any] = [1]
ROUND.append(ROUND)
DEEP: Any = 1
for _ in range(5_000):
    DEEP = [DEEP]


class Sullen:
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2**64, 2**64),
        (-(2**70), -(2**70)),
        ({"n": [2**70, math.nan, None, True]}, {"n": [2**70, "NaN", None, True]}),
        ({(1, 2): 3}, {"[1,2]": 3}),
        ({b"a": {2**70: 1}, None: 2}, {"a": {str(2**70): 1}, "null": 2}),
        ("a\ud800b", "a\ud800b"),
        ([Order(2**70), Place(2**70, 1)], [{"total": 2**70}, {"x": 2**70, "y": 1}]),
        ([2**70, date(2025, 1, 31), Side.LEFT], [2**70, "2025-01-31", "L"]),
        (ROUND, [1, "[1, [...]]"]),
        ([2**70, Sullen()], [2**70, "<Sullen>"]),
    ],
)
def test_what_json_can_t_say_is_told_as_far_as_it_can(value: Any, shown: Any) -> None:
    assert json.loads(json_of_value(value)) == shown


def test_what_is_nested_too_deeply_ends_in_a_text() -> None:
    told = json_of_value({"deep": DEEP}).decode()

    assert told.startswith('{"deep":[[[[')
    assert json.loads(told)


def test_integers_that_python_does_not_write_are_told_in_hexadecimal() -> None:
    assert json.loads(json_of_value(16**5000)) == hex(16**5000)


def test_keys_that_are_alike_as_texts_are_both_told() -> None:
    assert json_of_value({1: 2**70, "1": 2}).decode() == f'{{"1":{2**70},"1":2}}'


@pytest.mark.parametrize("value", ["\ud800", "ä\udfff"])
def test_a_line_of_text_can_be_written_whatever_is_in_it(value: str) -> None:
    assert text_of_value(value).encode()


@pytest.mark.parametrize("text", [str(2**64), f'{{"n": {2**70}}}'])
def test_a_number_that_json_s_serde_would_round_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"does not fit serdes\.JSON"):
        bytes_of_text(text, serdes.JSON, "t")
    with pytest.raises(ValueError, match=r"does not fit serdes\.JSON"):
        bytes_of_json(json.loads(text), serdes.JSON, "t")


def test_a_number_of_any_size_is_taken_where_the_serde_reads_it() -> None:
    pickled: Serde[Any] = serde_of(pickle.dumps, pickle.loads, "pickled")

    assert pickle.loads(bytes_of_json({"n": 2**70}, pickled, "t")) == {"n": 2**70}
    assert pickle.loads(bytes_of_text(str(2**70), pickled, "t")) == 2**70
