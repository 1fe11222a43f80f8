"""JSON with a schema in the registry, beside Confluent's own serializers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pystreams.registry import SchemaRegistry, SubjectNameStrategy

POINT = '{"title": "Point", "type": "object", "properties": {"x": {"type": "integer"}}}'
CONTEXT = SerializationContext("t", MessageField.VALUE)
CONF = {"subject.name.strategy.type": "TOPIC"}


@dataclass
class Point:
    x: int


@pytest.fixture
def registry() -> SchemaRegistry:
    return SchemaRegistry({"url": "mock://"})


def test_each_reads_what_the_other_wrote(registry: SchemaRegistry) -> None:
    serde = registry.json_schema(schema=POINT)
    write, read = serde.serializer("t"), serde.deserializer("t")
    theirs: Any = JSONDeserializer(POINT, schema_registry_client=registry.client, conf=CONF)

    assert theirs(write({"x": 1}), CONTEXT) == {"x": 1}
    assert read(JSONSerializer(POINT, registry.client, conf=CONF)({"x": 2}, CONTEXT)) == {"x": 2}


@pytest.mark.parametrize("validate", [True, False])
def test_a_class_comes_back_equal(registry: SchemaRegistry, validate: bool) -> None:
    serde = registry.json_schema(Point, schema=POINT, validate=validate)

    assert serde.deserializer("t")(serde.serializer("t")(Point(3))) == Point(3)


def test_what_does_not_fit_is_named_by_path_and_rule_without_the_value(
    registry: SchemaRegistry,
) -> None:
    serde = registry.json_schema(schema=POINT)
    loose = registry.json_schema(schema=POINT, validate=False)
    data = loose.serializer("t")({"x": "secret"})

    for refuse in (
        lambda: serde.serializer("t")({"x": "secret"}),
        lambda: serde.deserializer("t")(data),
    ):
        with pytest.raises(ValueError, match=r"'t' \(schema id 1\): \$\.x .*'type'.*in") as caught:
            refuse()
        assert "secret" not in str(caught.value)
    assert loose.deserializer("t")(data) == {"x": "secret"}


def test_the_title_names_the_subject(registry: SchemaRegistry) -> None:
    serde = registry.json_schema(schema=POINT, subject=SubjectNameStrategy.TOPIC_RECORD)

    serde.serializer("t")({"x": 1})

    assert registry.client.get_subjects() == ["t-Point"]


def test_references_are_found_in_the_registry(registry: SchemaRegistry) -> None:
    registry.client.register_schema("point", Schema(POINT, "JSON"))
    line = '{"type": "object", "properties": {"start": {"$ref": "point.json"}}}'
    references = [SchemaReference("point.json", "point", 1)]
    write = registry.json_schema(schema=Schema(line, "JSON", references)).serializer("t")

    assert write({"start": {"x": 1}})[5:] == b'{"start":{"x":1}}'
    with pytest.raises(ValueError, match=r"\$\.start\.x does not fit the schema"):
        write({"start": {"x": "one"}})
