"""Avro values in Confluent's wire format, read and written beside Confluent's own serializers."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import math
import pickle
import struct
import uuid
from dataclasses import dataclass, field, make_dataclass
from typing import Any, NamedTuple, TypedDict

import msgspec
import orjson
import pydantic
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pystreams import ConfigError, SchemaRegistryError, Serde, StreamsBuilder, serdes
from pystreams.readable_values import bytes_of_json, json_of_value, plain_of_value
from pystreams.registry import SchemaRegistry, SchemaUse, SubjectNameStrategy
from pystreams.testing import TopologyTestDriver


class Size(enum.Enum):
    SMALL = "S"
    LARGE = "L"


@dataclass
class Line:
    product: str
    price: decimal.Decimal


@dataclass
class Order:
    id: uuid.UUID
    placed_at: dt.datetime
    size: Size
    lines: list[Line]
    note: str | None = None
    tags: dict[str, int] = field(default_factory=dict)


LINE: dict[str, Any] = {
    "type": "record",
    "name": "Line",
    "fields": [
        {"name": "product", "type": "string"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
    ],
}
ORDER_SCHEMA = orjson.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "placed_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "size", "type": {"type": "enum", "name": "Size", "symbols": ["S", "L"]}},
            {"name": "lines", "type": {"type": "array", "items": LINE}},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "tags", "type": {"type": "map", "values": "int"}, "default": {}},
        ],
    }
).decode()
ORDER = Order(
    uuid.UUID(int=7),
    dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    Size.LARGE,
    [Line("tea", decimal.Decimal("3.10"))],
    "soon",
    {"a": 1},
)


def record(name: str, *fields: tuple[str, Any] | tuple[str, Any, Any]) -> str:
    described = [
        dict(zip(("name", "type", "default"), described_field, strict=False))
        for described_field in fields
    ]
    return orjson.dumps({"type": "record", "name": name, "fields": described}).decode()


POINT = record("Point", ("x", "int"))
POINT_WITH_Y = record("Point", ("x", "int"), ("y", "int", 9))


@pytest.fixture
def registry() -> SchemaRegistry:
    return SchemaRegistry({"url": "mock://"})


class Frozen:
    """Refuses what comes, to show that the registry is not asked any more."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the registry was asked for {name}")


def context(topic: str = "t") -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_a_class_comes_back_equal(registry: SchemaRegistry) -> None:
    serde: Serde[Order] = registry.avro(Order, schema=ORDER_SCHEMA)

    assert serde.deserializer("t")(serde.serializer("t")(ORDER)) == ORDER


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_has_not_is_shown_and_read_by_its_name(
    registry: SchemaRegistry, number: float
) -> None:
    serde = registry.avro(
        schema=record("Measured", ("low", "double"), ("high", ["null", "double"]))
    )
    data = serde.serializer("t")({"low": number, "high": None})
    shown = json_of_value(plain_of_value(serde.deserializer("t")(data)))

    assert isinstance(orjson.loads(shown)["low"], str)
    assert bytes_of_json(orjson.loads(shown), serde, "t") == data


@pytest.mark.parametrize("model", ["msgspec", "pydantic"])
def test_models_of_other_packages_come_back_equal(registry: SchemaRegistry, model: str) -> None:
    class Struct(msgspec.Struct):
        x: int

    class Model(pydantic.BaseModel):
        x: int

    kind: Any = {"msgspec": Struct, "pydantic": Model}[model]
    serde = registry.avro(kind, schema=POINT)

    assert serde.deserializer("t")(serde.serializer("t")(kind(x=3))) == kind(x=3)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (POINT, {"x": 3}),
        ('"string"', "text"),
        ("string", "text"),
        ('"bytes"', b"\x01\x02"),
        ('{"type": "bytes"}', b""),
        ('["null", "int", "string"]', "text"),
        ('{"type": "array", "items": "long"}', [1, 2, 2**40]),
    ],
)
def test_bytes_are_those_of_confluents_serializer(
    registry: SchemaRegistry, schema: str, value: Any
) -> None:
    serde = registry.avro(schema=schema)
    theirs = AvroSerializer(
        registry.client, schema if schema[0] in '{["' else f'"{schema}"', conf=TOPIC_SUBJECT
    )

    ours = serde.serializer("t")(value)

    assert theirs(value, context()) == ours
    assert serde.deserializer("t")(ours) == value
    if len(ours) > 5:
        assert AvroDeserializer(registry.client, conf=TOPIC_SUBJECT)(ours, context()) == value


TOPIC_SUBJECT = {"subject.name.strategy.type": "TOPIC"}


@pytest.mark.parametrize(
    ("strategy", "is_key", "subject"),
    [
        (SubjectNameStrategy.TOPIC, False, "orders-value"),
        (SubjectNameStrategy.TOPIC, True, "orders-key"),
        (SubjectNameStrategy.RECORD, False, "shop.Order"),
        (SubjectNameStrategy.TOPIC_RECORD, True, "orders-shop.Order"),
        (lambda topic, part, name: f"{name}/{part}/{topic}", True, "shop.Order/key/orders"),
    ],
)
def test_subjects_are_named_by_the_strategy(
    registry: SchemaRegistry, strategy: Any, is_key: bool, subject: str
) -> None:
    serde = registry.avro(Order, schema=ORDER_SCHEMA, is_key=is_key, subject=strategy)

    serde.serializer("orders")(ORDER)

    assert registry.client.get_subjects() == [subject]


def test_a_subject_named_after_a_record_needs_a_record(registry: SchemaRegistry) -> None:
    serde = registry.avro(schema='"string"', subject=SubjectNameStrategy.RECORD)

    with pytest.raises(ConfigError, match=r"'t'.*named after a record.*SubjectNameStrategy\.TOPIC"):
        serde.serializer("t")("text")


def test_the_registry_is_asked_once_a_schema_and_not_a_record(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    serde = registry.avro(schema=POINT)
    write, read = serde.serializer("t"), serde.deserializer("t")
    read(write({"x": 1}))

    monkeypatch.setattr(registry._client, "_client", Frozen())

    assert read(write({"x": 2})) == {"x": 2}


def test_nothing_is_asked_before_the_first_record(registry: SchemaRegistry) -> None:
    registry._client._client = Frozen()

    serde = registry.avro(schema=POINT)

    assert serde.serializer("t") is not serde.deserializer("t")


def test_what_was_written_with_another_schema_is_resolved_to_the_readers(
    registry: SchemaRegistry,
) -> None:
    old = registry.avro(schema=POINT).serializer("t")({"x": 1})
    new = registry.avro(schema=POINT_WITH_Y).serializer("t")({"x": 1, "y": 2})
    read_new = registry.avro(schema=POINT_WITH_Y).deserializer("t")
    read_old = registry.avro(schema=POINT).deserializer("t")
    read_any = registry.avro().deserializer("t")

    assert [read_new(old), read_new(new)] == [{"x": 1, "y": 9}, {"x": 1, "y": 2}]
    assert [read_old(old), read_old(new)] == [{"x": 1}, {"x": 1}]
    assert [read_any(old), read_any(new)] == [{"x": 1}, {"x": 1, "y": 2}]


def test_latest_writes_with_the_newest_version_and_needs_no_schema(
    registry: SchemaRegistry,
) -> None:
    registry.client.register_schema("t-value", Schema(POINT, "AVRO"))
    newest = registry.client.register_schema("t-value", Schema(POINT_WITH_Y, "AVRO"))

    data = registry.avro(write_with=SchemaUse.LATEST).serializer("t")({"x": 1})

    assert struct.unpack(">bI", data[:5]) == (0, newest)


def test_an_id_writes_with_that_schema(registry: SchemaRegistry) -> None:
    first = registry.client.register_schema("elsewhere", Schema(POINT, "AVRO"))
    registry.client.register_schema("t-value", Schema(POINT_WITH_Y, "AVRO"))

    data = registry.avro(write_with=first).serializer("t")({"x": 1})

    assert data == struct.pack(">bI", 0, first) + b"\x02"


def test_a_schema_that_is_looked_up_must_be_there(registry: SchemaRegistry) -> None:
    serde = registry.avro(schema=POINT, write_with=SchemaUse.LOOK_UP)

    with pytest.raises(SchemaRegistryError, match=r"'t-value'.*values of topic 't'.*register it"):
        serde.serializer("t")({"x": 1})
    registry.client.register_schema("t-value", Schema(POINT, "AVRO"))

    assert serde.serializer("t")({"x": 1})[5:] == b"\x02"


def test_writing_without_any_schema_is_refused_with_the_cure(registry: SchemaRegistry) -> None:
    with pytest.raises(ConfigError, match=r"values of topic 't'.*give schema=.*LATEST"):
        registry.avro(Order).serializer("t")(ORDER)


def test_references_are_found_also_where_two_ways_lead_to_one(registry: SchemaRegistry) -> None:
    client = registry.client
    client.register_schema("point", Schema(POINT, "AVRO"))
    point = SchemaReference("Point", "point", 1)
    for name in ("Line", "Circle"):
        text = record(name, ("at", "Point"))
        client.register_schema(name.lower(), Schema(text, "AVRO", [point]))
    references = [SchemaReference("Line", "line", 1), SchemaReference("Circle", "circle", 1)]
    drawing = record("Drawing", ("line", "Line"), ("circle", "Circle"))
    serde = registry.avro(schema=Schema(drawing, "AVRO", references))
    value = {"line": {"at": {"x": 1}}, "circle": {"at": {"x": 2}}}

    data = serde.serializer("t")(value)

    assert serde.deserializer("t")(data) == value
    assert registry.avro().deserializer("t")(data) == value


def test_a_value_that_does_not_fit_names_field_topic_and_schema(registry: SchemaRegistry) -> None:
    write = registry.avro(schema=POINT).serializer("t")

    with pytest.raises(ValueError, match=r"values of topic 't' \(schema id 1\): .* x"):
        write({"x": "one"})


def test_a_record_that_does_not_fit_the_class_names_the_field(registry: SchemaRegistry) -> None:
    data = registry.avro(schema=record("Line", ("product", "string"), ("price", "int"))).serializer(
        "t"
    )({"product": "tea", "price": 3})

    @dataclass
    class Other:
        product: int

    with pytest.raises(ValueError, match=r"id 1\): Other\.product: expected an integer, found a s"):
        registry.avro(Other).deserializer("t")(data)


def test_what_pydantic_refuses_is_told_without_the_value(registry: SchemaRegistry) -> None:
    class Model(pydantic.BaseModel):
        product: int

    data = registry.avro(schema=record("Line", ("product", "string"))).serializer("t")(
        {"product": "secret"}
    )

    with pytest.raises(ValueError, match=r"Model\.product: ") as caught:
        registry.avro(Model).deserializer("t")(data)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not in Confluent's format.*begins with nothing"),
        (b"\x00\x00", "not in Confluent's format"),
        (b'{"x": 1}', "not in Confluent's format.*begins with 7b22782"),
        (b"\x00\x00\x00\x00\x63\x02", "does not know schema id 99"),
    ],
)
def test_a_record_of_another_format_is_a_bad_record(
    registry: SchemaRegistry, data: bytes, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        registry.avro().deserializer("t")(data)


def test_a_schema_of_another_format_is_told(registry: SchemaRegistry) -> None:
    schema_id = registry.client.register_schema("t-value", Schema("{}", "JSON"))

    with pytest.raises(ValueError, match=r"schema id 1 is of JSON, and this serde reads AVRO"):
        registry.avro().deserializer("t")(struct.pack(">bI", 0, schema_id) + b"{}")


def test_a_serde_is_sent_to_workers_without_its_client(registry: SchemaRegistry) -> None:
    serde = registry.avro(Order, schema=ORDER_SCHEMA)
    data = serde.serializer("t")(ORDER)

    again = pickle.loads(pickle.dumps(serde))

    assert again.serializer("t")(ORDER) == data
    assert repr(again) == "SchemaRegistry('mock://').avro(Order)"


def test_a_topology_counts_what_avro_brings(registry: SchemaRegistry) -> None:
    orders_serde = registry.avro(Order, schema=ORDER_SCHEMA)
    keys = registry.avro(str, schema='"string"', is_key=True)
    builder = StreamsBuilder()
    orders = builder.stream("orders", key_serde=keys, value_serde=orders_serde)
    orders.group_by_key().reduce(lambda _, new: new, name="last").to_stream().to("last")

    with TopologyTestDriver(builder.build()) as driver:
        orders_in = driver.create_input_topic("orders", keys, orders_serde)
        last_out = driver.create_output_topic("last", keys, orders_serde)
        orders_in.pipe_input("ada", ORDER)
        assert last_out.read_key_values() == [("ada", ORDER)]
        assert driver.get_key_value_store("last").get("ada") == ORDER
    assert "last-value" in registry.client.get_subjects()


def closed_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


@pytest.fixture
def silent() -> SchemaRegistry:
    """A registry at an address where nobody answers."""
    return SchemaRegistry({"url": f"http://127.0.0.1:{closed_port()}", "max.retries": 0})


CONTINUE = {
    "deserialization.exception.handler": "continue",
    "processing.exception.handler": "continue",
    "production.exception.handler": "continue",
}


def test_a_registry_that_does_not_answer_is_no_bad_record_on_reading(
    silent: SchemaRegistry,
) -> None:
    builder = StreamsBuilder()
    points = builder.stream("in", key_serde=serdes.STRING, value_serde=silent.avro())
    points.to("out", value_serde=serdes.JSON)

    with TopologyTestDriver(builder.build(), CONTINUE) as driver:
        with pytest.raises(
            SchemaRegistryError, match=r"schema id 1 of the values of topic 'in'.*no"
        ):
            driver.pipe_raw("in", b"k", b"\x00\x00\x00\x00\x01\x02", 0)
        assert driver.produced_raw("out") == []


def test_a_registry_that_does_not_answer_is_no_bad_record_on_writing(
    silent: SchemaRegistry,
) -> None:
    builder = StreamsBuilder()
    points = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.JSON)
    points.to("out", value_serde=silent.avro(schema=POINT))

    with TopologyTestDriver(builder.build(), CONTINUE) as driver:
        points_in = driver.create_input_topic("in", serdes.STRING, serdes.JSON)
        with pytest.raises(SchemaRegistryError, match=r"'out-value' for the values of topic 'out'"):
            points_in.pipe_input("k", {"x": 1})


def test_a_registry_that_does_not_answer_is_no_bad_record_in_a_store(
    silent: SchemaRegistry,
) -> None:
    builder = StreamsBuilder()
    points = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.JSON)
    grouped = points.group_by_key()
    grouped.aggregate(
        lambda: {"x": 0},
        lambda _key, value, _sum: value,
        name="last",
        value_serde=silent.avro(schema=POINT),
    )

    with TopologyTestDriver(builder.build(), CONTINUE) as driver:
        points_in = driver.create_input_topic("in", serdes.STRING, serdes.JSON)
        with pytest.raises(SchemaRegistryError, match=r"last-changelog"):
            points_in.pipe_input("k", {"x": 1})


def test_a_wrong_configuration_is_no_bad_record() -> None:
    serde = SchemaRegistry({"url": "http://localhost:8081", "retries": 3}).avro(schema=POINT)
    builder = StreamsBuilder()
    points = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.JSON)
    points.to("out", value_serde=serde)

    with TopologyTestDriver(builder.build(), CONTINUE) as driver:
        points_in = driver.create_input_topic("in", serdes.STRING, serdes.JSON)
        with pytest.raises(
            ConfigError, match="configuration is wrong: Unrecognized properties: retries"
        ):
            points_in.pipe_input("k", {"x": 1})


class LineTuple(NamedTuple):
    product: int
    price: decimal.Decimal


class LineDict(TypedDict):
    product: int
    price: decimal.Decimal


class LineStruct(msgspec.Struct):
    product: int
    price: decimal.Decimal


class LineModel(pydantic.BaseModel):
    product: int
    price: decimal.Decimal


@dataclass
class LineClass:
    product: int
    price: decimal.Decimal


def order_of(line: Any) -> Any:
    """Return the class of an order of such lines, of the same kind as they are."""
    if line is LineStruct:
        return msgspec.defstruct("Other", [("lines", list[line])])
    if line is LineModel:
        return pydantic.create_model("Other", lines=(list[line], ...))
    return make_dataclass("Other", [("lines", list[line])])


@pytest.mark.parametrize("line", [LineTuple, LineDict, LineStruct, LineModel, LineClass])
def test_a_field_that_does_not_fit_is_named_by_its_path_in_each_kind_of_class(
    registry: SchemaRegistry, line: Any
) -> None:
    data = registry.avro(Order, schema=ORDER_SCHEMA).serializer("t")(ORDER)

    with pytest.raises(ValueError, match=r"'t' \(schema id 1\): Other\.lines\[0\]\.product: "):
        registry.avro(order_of(line)).deserializer("t")(data)


@pytest.mark.parametrize("line", [LineTuple, LineDict, LineStruct, LineModel, LineClass])
def test_a_value_of_another_class_is_refused_even_if_its_fields_look_alike(
    registry: SchemaRegistry, line: Any
) -> None:
    write = registry.avro(order_of(line), schema=ORDER_SCHEMA).serializer("t")
    alike = make_dataclass("Alike", [("lines", list[Any])])([])

    with pytest.raises(ValueError, match=r"'t' \(schema id 1\): expected a Other, not Alike"):
        write(alike)
