"""Ids of schemas in headers, beside Confluent's own serializers, and headers that must not stay."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pystreams import StreamsBuilder, TimeWindows, serdes
from pystreams.registry import SchemaIdPlace, SchemaRegistry
from pystreams.serdes import HeadersSerde
from pystreams.testing import TopologyTestDriver
from tests.registry.messages import Note

POINT = '{"type": "record", "name": "Point", "fields": [{"name": "x", "type": "long"}]}'
POINT_JSON = '{"title": "Point", "type": "object", "properties": {"x": {"type": "integer"}}}'
CONF: dict[str, Any] = {
    "subject.name.strategy.type": "TOPIC",
    "schema.id.serializer": header_schema_id_serializer,
}
READ_CONF = {"subject.name.strategy.type": "TOPIC"}
VALUE_ID = "__value_schema_id"


@pytest.fixture
def registry() -> SchemaRegistry:
    return SchemaRegistry({"url": "mock://"}, schema_ids=SchemaIdPlace.HEADERS)


def seeing(serde: Any) -> HeadersSerde[Any]:
    assert isinstance(serde, HeadersSerde)
    return serde


def formats(registry: SchemaRegistry) -> dict[str, tuple[Any, Any, Any, Any]]:
    """Return for each format a serde, Confluent's two, and a value."""
    client = registry.client
    return {
        "avro": (
            registry.avro(schema=POINT),
            AvroSerializer(client, POINT, conf=CONF),
            AvroDeserializer(client, conf=READ_CONF),
            {"x": 2**40},  # Theirs refuses what is shorter than a prefix, wherever the id is.
        ),
        "json": (
            registry.json_schema(schema=POINT_JSON),
            JSONSerializer(POINT_JSON, client, conf=CONF),
            JSONDeserializer(POINT_JSON, schema_registry_client=client, conf=READ_CONF),
            {"x": 1},
        ),
        "protobuf": (
            registry.protobuf(Note),
            ProtobufSerializer(Note, client, CONF),
            ProtobufDeserializer(Note, READ_CONF, client),
            Note(text="soon"),
        ),
    }


@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
def test_each_reads_what_the_other_wrote(registry: SchemaRegistry, name: str) -> None:
    serde, their_write, their_read, value = formats(registry)[name]
    write, read = seeing(serde).headers_serializer("t"), seeing(serde).headers_deserializer("t")
    assert write is not None
    assert read is not None

    data, headers = write(value, (("trace", b"7"),))
    their_headers: Any = [("trace", b"7")]
    theirs = their_write(value, SerializationContext("t", MessageField.VALUE, their_headers))

    assert headers == tuple(their_headers)
    if name != "json":  # They put a blank behind each colon.
        assert data == theirs
    assert their_read(data, SerializationContext("t", MessageField.VALUE, list(headers))) == value
    assert read(theirs, tuple(their_headers)) == value


@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
def test_what_has_its_id_before_the_data_is_read_as_well(
    registry: SchemaRegistry, name: str
) -> None:
    serde, _, _, value = formats(registry)[name]
    read = seeing(serde).headers_deserializer("t")
    assert read is not None

    # State has no headers: there it stands before the data.
    assert read(serde.serializer("t")(value), ()) == value


def test_a_guid_before_the_data_is_read(registry: SchemaRegistry) -> None:
    guid = registry.client.register_schema_full_response("t-value", Schema(POINT, "AVRO")).guid
    read = registry.avro().deserializer("t")

    for _ in range(2):
        assert read(b"\x01" + uuid.UUID(guid).bytes + b"\x02") == {"x": 1}


def test_keys_have_a_header_of_their_own(registry: SchemaRegistry) -> None:
    keys = registry.avro(schema='"string"', is_key=True)
    write = seeing(keys).headers_serializer("t")
    assert write is not None

    data, headers = write("ada", ())

    assert data == b"\x06ada"
    assert [name for name, _ in headers] == ["__key_schema_id"]


def test_a_topology_reads_repartitions_stores_and_writes_with_ids_in_headers(
    registry: SchemaRegistry,
) -> None:
    keys, points = registry.avro(schema='"string"', is_key=True), registry.avro(schema=POINT)
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=keys, value_serde=points)
    grouped = stream.group_by(lambda key, _: key.upper(), key_serde=keys, value_serde=points)
    grouped.reduce(lambda _, new: new, name="last").to_stream().to("out")

    with TopologyTestDriver(builder.build()) as driver:
        points_in = driver.create_input_topic("in", keys, points)
        points_in.pipe_input("ada", {"x": 1}, headers=(("trace", b"7"),))
        assert driver.get_key_value_store("last").get("ADA") == {"x": 1}
        ((raw_key, raw_value, _, headers),) = driver.produced_raw("out")
    assert (raw_key, raw_value) == (b"\x06ADA", b"\x02")
    assert [name for name, _ in headers] == ["trace", "__key_schema_id", VALUE_ID]


def test_windowed_keys_have_their_id_in_the_header_too(registry: SchemaRegistry) -> None:
    keys = registry.avro(schema='"string"', is_key=True)
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=keys, value_serde=serdes.LONG)
    windows = stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))
    windows.count().to_stream().to("out", value_serde=serdes.LONG)

    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", keys, serdes.LONG).pipe_input("ada", 1, 25)
        ((raw_key, _, _, headers),) = driver.produced_raw("out")
    assert raw_key == b"\x06ada" + (20).to_bytes(8, "big")
    assert [name for name, _ in headers] == ["__key_schema_id"]


def test_a_sinks_prefix_is_not_contradicted_by_the_sources_header(
    registry: SchemaRegistry,
) -> None:
    before = SchemaRegistry({"url": "mock://"})
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=registry.avro(schema=POINT))
    stream.to("out", value_serde=before.avro(schema=POINT))

    with TopologyTestDriver(builder.build()) as driver:
        points_in = driver.create_input_topic("in", serdes.STRING, registry.avro(schema=POINT))
        points_in.pipe_input("k", {"x": 1}, headers=(("trace", b"7"),))
        ((_, raw_value, _, headers),) = driver.produced_raw("out")
    assert raw_value == b"\x00\x00\x00\x00\x01\x02"
    assert headers == (("trace", b"7"),)
