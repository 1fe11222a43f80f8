"""The writer made for a schema writes what fastavro does, and leaves to it what is unusual."""

from __future__ import annotations

import datetime as dt
import io
import itertools
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams.registry.avro_writer import writer_of

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", INTS),
    ("long", LONGS),
    ("float", st.floats(width=32)),
    ("double", st.floats() | INTS),
    ("bytes", st.binary()),
    ("string", TEXTS | st.just("x" * 9000)),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        st.datetimes().map(lambda time: time.replace(year=2026, tzinfo=dt.UTC)) | LONGS,
    ),
    ({"type": "string", "logicalType": "uuid"}, st.uuids()),
    ({"type": "int", "logicalType": "date"}, st.dates()),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        st.decimals(-999, 999, places=2),
    ),
    ({"type": "long", "logicalType": "unheard-of"}, LONGS),
]
_numbers = itertools.count()
Case = tuple[Any, Any]
"""A schema and a value of it."""


def cases_within(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    def name() -> str:
        return f"n{next(_numbers)}"

    def record(fields: list[Case]) -> Case:
        described = [{"name": f"f{at}", "type": schema} for at, (schema, _) in enumerate(fields)]
        values = {f"f{at}": value for at, (_, value) in enumerate(fields)}
        return {"type": "record", "name": name(), "fields": described}, values

    def optional(case: Case, null_first: bool, absent: bool) -> Case:
        schema, value = case
        if isinstance(schema, list) or schema == "null":
            return case
        union = ["null", schema] if null_first else [schema, "null"]
        return union, None if absent else value

    return st.one_of(
        st.lists(inner, max_size=5).map(record),
        st.builds(optional, inner, st.booleans(), st.booleans()),
        st.tuples(inner, st.integers(0, 3)).map(
            lambda drawn: ({"type": "array", "items": drawn[0][0]}, [drawn[0][1]] * drawn[1])
        ),
        st.tuples(inner, st.lists(TEXTS, unique=True, max_size=3)).map(
            lambda drawn: (
                {"type": "map", "values": drawn[0][0]},
                dict.fromkeys(drawn[1], drawn[0][1]),
            )
        ),
        st.sampled_from(["A", "B"]).map(
            lambda symbol: ({"type": "enum", "name": name(), "symbols": ["A", "B"]}, symbol)
        ),
        st.binary(min_size=3, max_size=3).map(
            lambda data: ({"type": "fixed", "name": name(), "size": 3}, data)
        ),
    )


scalars: st.SearchStrategy[Case] = st.one_of(
    [st.tuples(st.just(schema), values) for schema, values in SCALARS]
)
cases = st.recursive(scalars, cases_within, max_leaves=12)


def written(parsed: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    schemaless_writer(buffer, parsed, value)
    return buffer.getvalue()


@pytest.mark.property
@settings(deadline=None, max_examples=300)
@given(cases)
def test_the_bytes_are_fastavros(case: Case) -> None:
    schema, value = case
    named: dict[str, Any] = {}
    parsed = parse_schema(schema, named_schemas=named)
    write = writer_of(parsed, named)
    assert write is not None

    try:
        expected = written(parsed, value)
    except Exception:  # noqa: BLE001 - a float too large for its width, for one
        return
    assert write(value) == expected


RECORD: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "x", "type": "int"}, {"name": "s", "type": "string", "default": "d"}],
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (RECORD, {"x": "1", "s": "a"}),
        (RECORD, {"x": 2**31, "s": "a"}),
        (RECORD, {"x": True, "s": "a"}),
        (RECORD, {"s": "a"}),
        (RECORD, {"x": 1}),
        (RECORD, [1, "a"]),
        (["null", RECORD], {"-type": "Other", "x": 1, "s": "a"}),
        ("long", 2**63),
        ("float", 1e300),
        ("string", "\ud800"),
        ("string", b"a"),
        ("bytes", "a"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "fixed", "name": "F", "size": 2}, b"abc"),
        ({"type": "array", "items": "int"}, (1, 2)),
        ({"type": "map", "values": "int"}, {1: 2}),
        (["null", "string"], 7),
        ("null", 0),
        ({"type": "long", "logicalType": "timestamp-millis"}, "soon"),
    ],
)
def test_what_is_of_another_type_is_left_to_fastavro(schema: Any, value: Any) -> None:
    named: dict[str, Any] = {}
    write = writer_of(parse_schema(schema, named_schemas=named), named)
    assert write is not None

    with pytest.raises(Exception):  # noqa: B017 - whatever it is
        write(value)


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}
DEEP: Any = "int"
for _ in range(30):
    DEEP = {"type": "array", "items": DEEP}


def test_a_type_within_a_type_is_the_inner_one() -> None:
    schema = {"type": {"type": "array", "items": {"type": "int"}}}
    named: dict[str, Any] = {}
    write = writer_of(schema, named)
    assert write is not None

    assert write([1, 2]) == b"\x04\x02\x04\x00"


@pytest.mark.parametrize("schema", [["null", "int", "string"], ["null"], NODE, DEEP])
def test_a_schema_that_is_not_known_has_no_writer(schema: Any) -> None:
    named: dict[str, Any] = {}

    assert writer_of(parse_schema(schema, named_schemas=named), named) is None


def test_a_type_that_is_named_twice_is_written_twice() -> None:
    named: dict[str, Any] = {}
    pair = {
        "type": "record",
        "name": "Pair",
        "fields": [{"name": "a", "type": RECORD}, {"name": "b", "type": "R"}],
    }
    parsed = parse_schema(pair, named_schemas=named)
    value = {"a": {"x": 1, "s": "a"}, "b": {"x": 2, "s": ""}}
    write = writer_of(parsed, named)
    assert write is not None

    assert write(value) == written(parsed, value)
