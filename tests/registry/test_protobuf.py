"""Protobuf messages in Confluent's wire format, beside Confluent's own serializers."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from pystreams import ConfigError, SchemaRegistryError, StreamsBuilder, serdes
from pystreams.registry import SchemaRegistry, SchemaUse, SubjectNameStrategy
from pystreams.testing import TopologyTestDriver
from tests.registry.messages import Line, Note, Order, Refund, classes, field, message

CONTEXT = SerializationContext("t", MessageField.VALUE)
TOPIC_SUBJECT = {"subject.name.strategy.type": "TOPIC"}
ORDER = Order(id="A-1", lines=[Line(product="tea", cents=310)], tags={"b": 2, "a": 1})


@pytest.fixture
def registry() -> SchemaRegistry:
    return SchemaRegistry({"url": "mock://"})


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (Refund(order="A-1"), b"\x00"),
        (ORDER, b"\x02\x02"),
        (Note(text="soon"), b"\x04\x02\x00"),
        (Refund(), b"\x00"),
    ],
)
def test_each_reads_what_the_other_wrote_and_the_bytes_are_the_same(
    registry: SchemaRegistry, value: Any, place: bytes
) -> None:
    model = type(value)
    serde = registry.protobuf(model)
    theirs = ProtobufSerializer(model, registry.client, TOPIC_SUBJECT)

    data = serde.serializer("t")(value)

    assert data == theirs(value, CONTEXT)
    assert data[5:] == place + value.SerializeToString()
    assert serde.deserializer("t")(data) == value
    read: Any = ProtobufDeserializer(model, TOPIC_SUBJECT, registry.client)
    assert read(data, CONTEXT) == value


def test_imported_files_are_registered_as_references(registry: SchemaRegistry) -> None:
    registry.protobuf(Order).serializer("orders")(ORDER)

    assert sorted(registry.client.get_subjects()) == ["orders-value", "shop/line.proto"]
    registered = registry.client.get_latest_version("orders-value").schema
    named = [(found.name, found.subject, found.version) for found in registered.references]
    assert named == [("shop/line.proto", "shop/line.proto", 1)]


def test_a_schema_that_is_looked_up_is_not_registered(registry: SchemaRegistry) -> None:
    lookup = registry.protobuf(Order, write_with=SchemaUse.LOOK_UP)

    with pytest.raises(SchemaRegistryError, match=r"shop/line\.proto.*register it there"):
        lookup.serializer("t")(ORDER)
    assert registry.client.get_subjects() == []
    data = registry.protobuf(Order).serializer("t")(ORDER)

    assert lookup.serializer("t")(ORDER) == data
    latest = registry.protobuf(Order, write_with=SchemaUse.LATEST)
    assert latest.serializer("t")(ORDER) == data


def test_the_message_names_the_subject(registry: SchemaRegistry) -> None:
    serde = registry.protobuf(Refund, subject=SubjectNameStrategy.TOPIC_RECORD)

    serde.serializer("t")(Refund())

    assert sorted(registry.client.get_subjects()) == ["shop/line.proto", "t-shop.Refund"]


def test_what_a_newer_file_has_more_is_kept_and_what_it_has_less_is_empty(
    registry: SchemaRegistry,
) -> None:
    text = field("order", 1, 9)
    old = FileDescriptorProto(
        name="refund.proto", package="shop", syntax="proto3", message_type=[message("Refund", text)]
    )
    new = FileDescriptorProto()
    new.CopyFrom(old)
    new.message_type[0].field.append(field("reason", 2, 9))
    OldRefund, NewRefund = (classes(file)["shop.Refund"] for file in (old, new))  # noqa: N806
    write_old = registry.protobuf(OldRefund).serializer("t")
    write_new = registry.protobuf(NewRefund).serializer("t")

    data = write_new(NewRefund(order="A-1", reason="late"))
    read_by_old = registry.protobuf(OldRefund).deserializer("t")(data)

    assert read_by_old.order == "A-1"
    assert NewRefund.FromString(read_by_old.SerializeToString()).reason == "late"
    read_by_new = registry.protobuf(NewRefund).deserializer("t")
    assert read_by_new(write_old(OldRefund(order="A-2"))) == NewRefund(order="A-2")


def test_another_message_of_the_file_is_a_bad_record(registry: SchemaRegistry) -> None:
    note = registry.protobuf(Note).serializer("t")(Note(text="A-1"))

    with pytest.raises(ValueError, match=r"'t' \(schema id \d\): it is a message Order\.Note, and"):
        registry.protobuf(Refund).deserializer("t")(note)


PROTO = """
syntax = "proto3"; // message Comment {
package other;
/* message Block { */
option java_package = "message Text {";
enum Kind { A = 0; }
message Refund {
  oneof any { string order = 1; }
}
message Order { message Note { string text = 1; } enum Size { S = 0; } message Last {} }
"""


@pytest.mark.parametrize(
    ("place", "model", "message_text"),
    [
        (b"\x00", Refund, None),
        (b"\x04\x02\x00", Note, None),
        (b"\x04\x02\x02", Note, r"a message Order\.Last"),
        (b"\x02\x02", Refund, "a message Order"),
    ],
)
def test_a_file_registered_as_text_tells_which_message_it_is(
    registry: SchemaRegistry, place: bytes, model: Any, message_text: str | None
) -> None:
    schema_id = registry.client.register_schema("t-value", Schema(PROTO, "PROTOBUF"))
    read = registry.protobuf(model).deserializer("t")
    data = struct.pack(">bI", 0, schema_id) + place

    if message_text is None:
        assert read(data) == model()
    else:
        with pytest.raises(ValueError, match=message_text):
            read(data)


@pytest.mark.parametrize("end", [b"", b"\x04\x02", b"\x00\xff", b"\xff\xff\xff\xff\xff\xff"])
def test_bytes_that_are_no_message_are_a_bad_record(registry: SchemaRegistry, end: bytes) -> None:
    prefix = registry.protobuf(Refund).serializer("t")(Refund())[:5]

    with pytest.raises(ValueError, match=r"its bytes end before|it is no Refund"):
        registry.protobuf(Refund).deserializer("t")(prefix + end)


def test_another_class_is_refused_when_it_is_written(registry: SchemaRegistry) -> None:
    with pytest.raises(ValueError, match=r"values of topic 't'.*: expected a Refund, not Note"):
        registry.protobuf(Refund).serializer("t")(Note())


def test_a_class_that_is_no_message_is_refused_at_once(registry: SchemaRegistry) -> None:
    with pytest.raises(ConfigError, match=r"takes a message class that protoc has generated"):
        registry.protobuf(dict)


def test_equal_keys_are_equal_bytes(registry: SchemaRegistry) -> None:
    serialize = registry.protobuf(Order, is_key=True).serializer("t")
    tags = [("b", 2), ("a", 1), ("c", 3)]

    written = {serialize(Order(tags=dict(some))) for some in (tags, tags[::-1])}

    assert len(written) == 1


def test_a_topology_aggregates_messages(registry: SchemaRegistry) -> None:
    orders_serde = registry.protobuf(Order)
    builder = StreamsBuilder()
    orders = builder.stream("orders", key_serde=serdes.STRING, value_serde=orders_serde)
    merged = orders.group_by_key().reduce(_merge, name="merged", value_serde=orders_serde)
    merged.to_stream().to("merged")

    with TopologyTestDriver(builder.build()) as driver:
        orders_in = driver.create_input_topic("orders", serdes.STRING, orders_serde)
        merged_out = driver.create_output_topic("merged", serdes.STRING, orders_serde)
        orders_in.pipe_input("ada", ORDER)
        orders_in.pipe_input("ada", Order(lines=[Line(product="milk")]))
        assert [len(order.lines) for _, order in merged_out.read_key_values()] == [1, 2]


def _merge(old: Any, new: Any) -> Any:
    merged = Order()
    merged.CopyFrom(old)
    merged.MergeFrom(new)
    return merged
