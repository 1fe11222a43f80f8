"""JSON with a schema in the registry, beside Confluent's own serializers."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pystreams import ConfigError, SchemaRegistryError
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


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ('{"required": ["id"]}', {}, r"\$ does not fit the schema's 'required': \['id'\]"),
        (
            '{"properties": {"a": {"items": {"enum": [1, 2]}}}}',
            {"a": [1, 99]},
            r"\$\.a\[1\] does not fit the schema's 'enum': \[1, 2\]",
        ),
        ('{"type": "string", "maxLength": 3}', "secret", "'maxLength': 3"),
        ('{"anyOf": [{"type": "integer"}, {"type": "null"}]}', "secret", "'anyOf'"),
        ('{"additionalProperties": false}', {"a": 1}, "'additionalProperties': False"),
        ("false", 1, r"\$ does not fit the schema's false"),
        ('{"items": {"type": "integer"}}', [dt.date(2026, 1, 2)], r"\$\[0\].*'type': 'integer'"),
    ],
)
def test_the_rule_that_is_broken_is_told(
    registry: SchemaRegistry, schema: str, value: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        registry.json_schema(schema=schema).serializer("t")(value)
    assert "secret" not in str(caught.value)


def test_a_format_is_a_remark_as_in_confluents_serializers(registry: SchemaRegistry) -> None:
    schema = '{"type": "string", "format": "date"}'

    assert registry.json_schema(schema=schema).serializer("t")("soon")[5:] == b'"soon"'
    JSONSerializer(schema, registry.client, conf=CONF)("soon", CONTEXT)


@pytest.mark.parametrize("reference", ["other.json", "http://127.0.0.1:9/other.json"])
def test_what_is_not_among_the_references_is_looked_for_nowhere(
    registry: SchemaRegistry, reference: str
) -> None:
    text = f'{{"$ref": "{reference}"}}'
    registry.client.register_schema("point", Schema("{}", "JSON"))
    beside = Schema(text, "JSON", [SchemaReference("point.json", "point", 1)])
    write = registry.json_schema(schema=beside).serializer("t")

    with pytest.raises(SchemaRegistryError, match=r"of the values of topic 't'.*other\.json"):
        write(1)
    with pytest.raises(ConfigError, match=r"is no JSON schema: .*other\.json"):
        registry.json_schema(schema=text)


def test_a_reference_of_a_reference_is_found(registry: SchemaRegistry) -> None:
    client = registry.client
    client.register_schema("number", Schema('{"type": "integer"}', "JSON"))
    inner = [SchemaReference("number.json", "number", 1)]
    point = Schema('{"properties": {"x": {"$ref": "number.json"}}}', "JSON", inner)
    client.register_schema("point", point)
    outer = Schema('{"$ref": "point.json"}', "JSON", [SchemaReference("point.json", "point", 1)])
    write = registry.json_schema(schema=outer).serializer("t")

    assert write({"x": 1})[5:] == b'{"x":1}'
    with pytest.raises(ValueError, match=r"\$\.x does not fit the schema's 'type'"):
        write({"x": "one"})
