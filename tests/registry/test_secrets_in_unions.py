"""Fields of records in Avro unions are encrypted, or the schema is refused."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from confluent_kafka.schema_registry import RuleSet, Schema, SchemaReference

from pystreams import Serde
from pystreams.errors import SchemaRegistryError
from pystreams.registry import SchemaRegistry, SchemaUse
from tests.registry.rule_sets import CONFIG, encryption, rule

SECRET = "4000-1234"
VALUE = {"id": "7", "card": SECRET}


def record(name: str, *names: str, tagged: str = "") -> dict[str, Any]:
    fields = [
        {"name": each, "type": "string"} | ({"confluent:tags": ["PII"]} if each == tagged else {})
        for each in names
    ]
    return {"type": "record", "name": name, "fields": fields}


PAID, REFUNDED = record("Paid", "id"), record("Refunded", "id", "card", tagged="card")


def holding(name: str, field: str, kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind}]}


def encrypted(schema: Any, references: dict[str, Any], *before: Any) -> Serde[Any]:
    """Return the serde of a schema whose tagged fields are encrypted, behind other rules."""
    registry = SchemaRegistry({"url": "mock://"}, rule_config=CONFIG)
    for name, referenced in references.items():
        registry.client.register_schema(name, Schema(orjson.dumps(referenced).decode(), "AVRO"))
    told = [SchemaReference(name, name, 1) for name in references]
    rules = RuleSet(None, [*before, encryption()])
    whole = Schema(orjson.dumps(schema).decode(), "AVRO", told, None, rules)
    registry.client.register_schema("t-value", whole)
    return registry.avro(write_with=SchemaUse.LATEST)


@pytest.mark.parametrize("is_referenced", [False, True])
def test_a_field_of_a_record_in_a_union_is_encrypted_and_read_again(is_referenced: bool) -> None:
    inner = holding("Inner", "what", [PAID, REFUNDED])
    references = {"Inner": inner} if is_referenced else {}
    schema = holding("Event", "inner", "Inner" if is_referenced else inner)
    serde, value = encrypted(schema, references), {"inner": {"what": VALUE}}

    data = serde.serializer("t")(value)

    assert SECRET.encode() not in data
    assert serde.deserializer("t")(data) == value


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_union_of_references_is_refused_where_fields_are_to_be_encrypted(is_inside: bool) -> None:
    union = ["Paid", "Refunded"]
    schema = holding("Event", "what", union) if is_inside else union
    serde = encrypted(schema, {"Paid": PAID, "Refunded": REFUNDED})

    with pytest.raises(SchemaRegistryError, match="define the records of the union in it"):
        serde.serializer("t")({"what": VALUE} if is_inside else VALUE)


def test_encryption_behind_a_rule_about_the_whole_is_refused_where_there_are_unions() -> None:
    whole = rule("whole", "CEL", "TRANSFORM", "WRITE", "{'what': message.what}")
    serde = encrypted(holding("Event", "what", [PAID, REFUNDED]), {}, whole)

    with pytest.raises(SchemaRegistryError, match="let a rule about fields"):
        serde.serializer("t")({"what": VALUE})
