"""Bytes of what a left or outer join of two streams holds back."""

from __future__ import annotations

from typing import Any

import pytest

from pystreams import ConfigError
from pystreams.serdes import LONG, STRING
from pystreams.topology.operators.joins.held_back_serdes import (
    LeftOrRightValue,
    LeftOrRightValueSerde,
    TimestampedKeyAndJoinSide,
    TimestampedKeyAndJoinSideSerde,
)


@pytest.mark.parametrize(
    ("left", "expected"),
    [(True, "0000000000000005016b"), (False, "0000000000000005006b")],
)
def test_keys_are_time_side_and_key(left: bool, expected: str) -> None:
    serde = TimestampedKeyAndJoinSideSerde(STRING)
    waiting = TimestampedKeyAndJoinSide(5, left, "k")

    data = serde.serializer("topic")(waiting)

    assert data.hex() == expected
    assert serde.deserializer("topic")(data) == waiting


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (LeftOrRightValue(True, "v"), "0176"),
        (LeftOrRightValue(True, ""), "01"),
        (LeftOrRightValue(False, 3), "000000000000000003"),
    ],
)
def test_values_are_side_and_value_by_the_sides_serde(
    value: LeftOrRightValue, expected: str
) -> None:
    serde = LeftOrRightValueSerde(STRING, LONG)

    data = serde.serializer("topic")(value)

    assert data.hex() == expected
    assert serde.deserializer("topic")(data) == value


def test_keys_sort_by_time_and_right_before_left() -> None:
    serialize = TimestampedKeyAndJoinSideSerde(STRING).serializer("topic")
    waiting = [
        TimestampedKeyAndJoinSide(time, left, key)
        for time in (0, 1, 255, 256, 2**40)
        for left in (False, True)
        for key in ("", "a", "b")
    ]

    assert sorted(waiting, key=serialize) == waiting


def test_defaults_are_taken_where_no_serde_was_given() -> None:
    key = TimestampedKeyAndJoinSide(0, True, "k")
    keys = TimestampedKeyAndJoinSideSerde(None).with_default(STRING)
    values = LeftOrRightValueSerde(LONG, None).with_default(STRING)

    assert keys.serializer("t")(key)[9:] == b"k"
    assert values.serializer("t")(LeftOrRightValue(False, "v")) == b"\x00v"
    assert values.serializer("t")(LeftOrRightValue(True, 1)) == b"\x01" + bytes(7) + b"\x01"


@pytest.mark.parametrize(
    ("serde", "part"),
    [
        (TimestampedKeyAndJoinSideSerde(None), "key"),
        (LeftOrRightValueSerde(STRING, None), "value"),
        (LeftOrRightValueSerde(None, STRING), "value"),
    ],
)
def test_serdes_that_nobody_gave_are_asked_for(serde: Any, part: str) -> None:
    for method in (serde.serializer, serde.deserializer):
        with pytest.raises(ConfigError, match=f"the {part}s of a join.*give .* {part}_serde"):
            method("topic")
