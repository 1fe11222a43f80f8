"""A value of a union of classes is written and read as the record that is named after it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, TypedDict

import orjson
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference

from pystreams import ConfigError
from pystreams.registry import SchemaRegistry, SchemaUse


@dataclass
class Paid:
    order: str


@dataclass
class Refunded:
    order: str
    reason: str = ""


@dataclass
class Cancelled:
    order: str


@dataclass
class Event:
    what: Paid | Refunded | Cancelled | None


@dataclass
class Events:
    all: list[Paid | Cancelled]
    by_name: dict[str, Paid | Cancelled] = field(default_factory=dict)
    anything: Any = None


def described(name: str, *fields: str) -> dict[str, Any]:
    texts = [{"name": field, "type": "string", "default": ""} for field in fields]
    return {"type": "record", "name": name, "fields": texts}


def schema_of(*choices: Any, name: str = "Event") -> str:
    what = {"name": "what", "type": list(choices)}
    return orjson.dumps(
        {"type": "record", "name": name, "namespace": "shop", "fields": [what]}
    ).decode()


PAID, CANCELLED = described("Paid", "order"), described("Cancelled", "order")
REFUNDED = described("Refunded", "order", "reason")
EVENT = schema_of("null", REFUNDED, PAID, CANCELLED)
EVENTS = orjson.dumps(
    {
        "type": "record",
        "name": "Events",
        "fields": [
            {"name": "all", "type": {"type": "array", "items": [PAID, CANCELLED]}},
            {
                "name": "by_name",
                "type": {"type": "map", "values": ["Paid", "Cancelled"]},
                "default": {},
            },
            {"name": "anything", "type": ["null", "Paid", "Cancelled"], "default": None},
        ],
    }
).decode()


@pytest.fixture
def registry() -> SchemaRegistry:
    return SchemaRegistry({"url": "mock://"})


@pytest.mark.parametrize(
    ("value", "index"),
    [(None, 0), (Refunded("A"), 1), (Refunded("A", "b"), 1), (Paid("A"), 2), (Cancelled("A"), 3)],
    ids=str,
)
def test_a_value_is_the_record_that_is_named_after_its_class(
    registry: SchemaRegistry, value: Any, index: int
) -> None:
    serde = registry.avro(Event, schema=EVENT)
    data = serde.serializer("t")(Event(value))

    assert data[5] == 2 * index
    assert serde.deserializer("t")(data) == Event(value)


def test_records_in_lists_and_maps_are_named_and_what_may_be_anything_stays_plain(
    registry: SchemaRegistry,
) -> None:
    serde = registry.avro(Events, schema=EVENTS)
    events = Events([Paid("A"), Cancelled("B")], {"c": Cancelled("C")}, {"order": "D"})

    assert serde.deserializer("t")(serde.serializer("t")(events)) == events


class PaidKeys(TypedDict):
    order: str


class Size(enum.Enum):
    LARGE = "L"


class Parcel(TypedDict):
    order: str
    size: Size


@dataclass
class Delivery:
    what: Paid | Cancelled | PaidKeys | Parcel


@dataclass
class Noted:
    what: Paid | Cancelled
    notes: list[Any] | Paid


@pytest.mark.parametrize(
    "value",
    [Paid("A"), Cancelled("A"), {"order": "A"}, {"order": "A", "size": Size.LARGE}],
    ids=str,
)
def test_a_typed_dict_is_the_record_of_its_name_beside_classes_that_look_like_it(
    registry: SchemaRegistry, value: Any
) -> None:
    parcel = described("Parcel", "order")
    size = {"type": "enum", "name": "Size", "symbols": ["L"]}
    parcel["fields"].append({"name": "size", "type": size})
    schema = schema_of(PAID, CANCELLED, described("PaidKeys", "order"), parcel, name="Delivery")
    serde = registry.avro(Delivery, schema=schema)

    assert serde.deserializer("t")(serde.serializer("t")(Delivery(value))) == Delivery(value)


def test_a_record_is_no_list_where_a_field_may_be_either(registry: SchemaRegistry) -> None:
    notes = {"name": "notes", "type": [{"type": "array", "items": "string"}, "Paid", "Cancelled"]}
    schema = orjson.loads(schema_of(PAID, CANCELLED))
    schema["fields"].append(notes)
    serde = registry.avro(Noted, schema=orjson.dumps(schema).decode())

    for given in (["a", "b"], Paid("B")):
        noted = Noted(Paid("A"), given)
        assert serde.deserializer("t")(serde.serializer("t")(noted)) == noted


def test_records_that_a_schema_refers_to_are_found_by_name(registry: SchemaRegistry) -> None:
    for record in (PAID, CANCELLED, REFUNDED):
        text = orjson.dumps({**record, "namespace": "shop"}).decode()
        registry.client.register_schema(record["name"], Schema(text, "AVRO"))
    names = ["Paid", "Cancelled", "Refunded"]
    references = [SchemaReference(f"shop.{name}", name, 1) for name in names]
    schema = Schema(schema_of("null", *(f"shop.{name}" for name in names)), "AVRO", references)
    serde = registry.avro(Event, schema=schema)

    for value in (Cancelled("A"), Paid("A"), Refunded("A")):
        assert serde.deserializer("t")(serde.serializer("t")(Event(value))) == Event(value)


def test_what_was_written_with_other_places_and_fields_is_resolved_by_name(
    registry: SchemaRegistry,
) -> None:
    with_at = described("Cancelled", "at", "order")
    older = registry.avro(schema=schema_of("null", with_at, described("Paid", "order", "at")))
    values = [
        older.serializer("t")({"what": ("shop.Cancelled", {"order": "A", "at": "now"})}),
        older.serializer("t")({"what": ("shop.Paid", {"order": "A", "at": "now"})}),
    ]

    for read in (registry.avro(Event, schema=EVENT), registry.avro(Event)):
        read_values = [read.deserializer("t")(data).what for data in values]
        assert read_values == [Cancelled("A"), Paid("A")]


def test_records_of_other_names_are_told_by_their_fields(registry: SchemaRegistry) -> None:
    @dataclass
    class Payment:
        what: Paid | Refunded

    schema = schema_of(described("R", "order", "reason"), described("P", "order"))
    data = [
        registry.avro(schema=schema).serializer("t")({"what": (f"shop.{name}", value)})
        for name, value in (("P", {"order": "A"}), ("R", {"order": "A", "reason": ""}))
    ]
    read = registry.avro(Payment).deserializer("t")

    assert [read(value).what for value in data] == [Paid("A"), Refunded("A")]


def test_a_schema_without_the_names_of_classes_that_look_alike_is_refused_with_the_cure(
    registry: SchemaRegistry,
) -> None:
    schema = schema_of(PAID, described("Void", "order"))

    with pytest.raises(
        ConfigError,
        match=r"Paid and Cancelled have the same fields, and the schema has no records of both "
        "names .*: name the records as the classes",
    ):
        registry.avro(Event, schema=schema)


def test_such_a_schema_of_the_registry_is_told_at_the_record(registry: SchemaRegistry) -> None:
    other = registry.avro(schema=schema_of(PAID, described("Void", "order")))
    data = other.serializer("t")({"what": ("shop.Void", {"order": "A"})})
    serde = registry.avro(Event, write_with=SchemaUse.LATEST)

    with pytest.raises(
        ValueError, match=r"Event\.what: expected a record named Paid or Cancelled, "
    ):
        serde.deserializer("t")(data)
    with pytest.raises(ValueError, match="name the records as the classes"):
        serde.serializer("t")(Event(Cancelled("A")))
