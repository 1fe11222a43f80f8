"""Migrations between versions of a subject: up and down, in each format."""

from __future__ import annotations

from base64 import standard_b64encode
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from pystreams import SchemaRegistryError
from pystreams.registry import SchemaIdPlace, SchemaRegistry, SchemaUse
from pystreams.serdes import HeadersSerde
from tests.registry.messages import classes
from tests.registry.rule_sets import (
    AVRO,
    BILL_AVRO,
    BILL_FILE,
    CARD,
    CONFIG,
    JSON,
    PROTOBUF,
    Format,
    condition,
    encryption,
    migration,
    rule,
)
from tests.registry.rules_registry import RulesRegistry

UP = migration("rename", "$merge([$sift($, function($v, $k) {$k != 'card'}), {'number': card}])")
DOWN = migration(
    "rename back",
    "$merge([$sift($, function($v, $k) {$k != 'number'}), {'card': number}])",
    "DOWNGRADE",
)
NEWER_FILE = FileDescriptorProto.FromString(BILL_FILE.SerializeToString())
NEWER_FILE.message_type[0].field[0].name = "number"
NewerMessage: Any = classes(NEWER_FILE)["shop.Bill"]


def newer(form: Format, *rules: Any, migrations: tuple[Any, ...] = (UP, DOWN)) -> Schema:
    """Return the schema in which the card is called number."""
    return renamed(form.schema(*rules, migrations=migrations))


def renamed(schema: Schema) -> Schema:
    text = str(schema.schema_str).replace('"card"', '"number"')
    if schema.schema_type == "PROTOBUF":
        text = standard_b64encode(NEWER_FILE.SerializeToString()).decode()
    return Schema(text, schema.schema_type, [], None, schema.rule_set)


def versions(form: Format, older: Schema | None = None) -> SchemaRegistry:
    registry = SchemaRegistry({"url": "mock://"}, rule_config=CONFIG)
    registry.client.register_schema("bills-value", older or form.schema())
    return registry


@pytest.mark.parametrize("form", [AVRO, JSON, PROTOBUF], ids=lambda form: form.schema_type)
@pytest.mark.parametrize("place", list(SchemaIdPlace))
def test_old_values_are_read_as_the_latest_version(form: Format, place: SchemaIdPlace) -> None:
    registry = SchemaRegistry({"url": "mock://"}, schema_ids=place)
    registry.client.register_schema("bills-value", form.schema())
    serde = form.serde(registry)
    assert isinstance(serde, HeadersSerde)
    write = serde.headers_serializer("bills")
    assert write is not None
    data, headers = write(form.bill("A", 1), ())
    registry.client.register_schema("bills-value", newer(form))

    model = {"model": NewerMessage} if form is PROTOBUF else {}
    latest = form.serde(registry, **model)
    assert isinstance(latest, HeadersSerde)
    read = latest.headers_deserializer("bills")
    assert read is not None
    value = read(data, headers)

    if form is PROTOBUF:
        assert type(value) is NewerMessage
        value = {"number": value.number, "cents": value.cents}
    assert value == {"number": "A", "cents": 1}


@pytest.mark.parametrize("form", [AVRO, JSON], ids=lambda form: form.schema_type)
def test_values_are_read_as_the_version_that_was_given_up_and_down(form: Format) -> None:
    older = form.schema(condition("paid", "message.cents > 0", mode="READ"))
    registry = versions(form, older)
    registry.client.register_schema("bills-value", newer(form))
    make = registry.avro if form is AVRO else registry.json_schema
    old, new = make(schema=older), make(schema=newer(form))

    old_data = old.serializer("bills")({"card": "A", "cents": 1})
    new_data = new.serializer("bills")({"number": "A", "cents": 0})

    assert new.deserializer("bills")(old_data) == {"number": "A", "cents": 1}
    assert new.deserializer("bills")(new_data) == {"number": "A", "cents": 0}
    with pytest.raises(ValueError, match="rule 'paid'"):
        old.deserializer("bills")(new_data)
    assert make().deserializer("bills")(new_data) == {"number": "A", "cents": 0}


def test_migrations_of_versions_in_between_are_carried_out() -> None:
    registry = versions(AVRO)
    data = registry.avro(schema=BILL_AVRO).serializer("bills")(AVRO.bill("A", 1))
    register = registry.client.register_schema
    register("bills-value", newer(AVRO))
    text = str(newer(AVRO).schema_str).replace(
        '"long"}', '"long"},{"name":"currency","type":"string","default":"EUR"}'
    )
    register("bills-value", Schema(text, "AVRO"))

    latest = registry.avro(write_with=SchemaUse.LATEST).deserializer("bills")

    assert latest(data) == {"number": "A", "cents": 1, "currency": "EUR"}


def test_a_rule_that_is_not_known_is_told_in_versions_in_between_too() -> None:
    registry = versions(AVRO)
    data = registry.avro(schema=BILL_AVRO).serializer("bills")(AVRO.bill("A", 1))
    unknown = rule("old", "SQL", "TRANSFORM", "UPGRADE", "x")
    registry.client.register_schema("bills-value", newer(AVRO, migrations=(unknown,)))
    registry.client.register_schema("bills-value", Schema(BILL_AVRO + " ", "AVRO"))

    with pytest.raises(ValueError, match=r"'bills' .*: Could not find rule executor of type SQL"):
        AVRO.serde(registry).deserializer("bills")(data)


def test_what_a_migration_makes_has_to_fit_the_version() -> None:
    registry = versions(AVRO)
    data = registry.avro(schema=BILL_AVRO).serializer("bills")(AVRO.bill("A", 1))
    wrong = migration("wrong", "{'number': cents}")
    registry.client.register_schema("bills-value", newer(AVRO, migrations=(wrong,)))

    with pytest.raises(
        ValueError, match=r"values of topic 'bills' .*: must be string on field number"
    ):
        AVRO.serde(registry).deserializer("bills")(data)


def test_a_migration_that_fails_is_told_with_its_rule() -> None:
    registry = versions(AVRO)
    data = registry.avro(schema=BILL_AVRO).serializer("bills")(AVRO.bill("A", 1))
    wrong = migration("odd", "$number(card)")
    registry.client.register_schema("bills-value", newer(AVRO, migrations=(wrong,)))

    with pytest.raises(
        ValueError, match=r"rule 'odd' \(JSONATA transform on UPGRADE\): ValueError"
    ):
        AVRO.serde(registry).deserializer("bills")(data)


def test_what_was_encrypted_is_decrypted_as_the_newer_version_says() -> None:
    registry = versions(AVRO, AVRO.schema(encryption()))
    data = AVRO.serde(registry).serializer("bills")(AVRO.bill(CARD, 1))
    register = registry.client.register_schema

    register("bills-value", newer(AVRO, encryption()))
    assert AVRO.serde(registry).deserializer("bills")(data) == {"number": CARD, "cents": 1}


def test_what_does_not_fit_after_a_migration_is_not_shown_where_it_is_encrypted() -> None:
    registry = versions(AVRO, AVRO.schema(encryption()))
    data = AVRO.serde(registry).serializer("bills")(AVRO.bill(CARD, 1))
    number_for_cents = migration("mixed", "{'number': card, 'cents': card}")
    registry.client.register_schema(
        "bills-value", newer(AVRO, encryption(), migrations=(number_for_cents,))
    )

    with pytest.raises(ValueError, match="what its rules have left does not fit") as caught:
        AVRO.serde(registry).deserializer("bills")(data)
    assert CARD not in str(caught.value)
    assert caught.value.__suppress_context__


def test_what_would_stay_encrypted_is_refused_after_a_migration_and_read_without_one() -> None:
    registry = versions(AVRO, AVRO.schema(encryption()))
    data = AVRO.serde(registry).serializer("bills")(AVRO.bill(CARD, 1))
    register = registry.client.register_schema

    register("bills-value", AVRO.schema(condition("paid", "message.cents > 0")))
    assert AVRO.serde(registry).deserializer("bills")(data) == AVRO.bill(CARD, 1)
    register("bills-value", newer(AVRO))
    with pytest.raises(SchemaRegistryError, match=r"subject 'bills-value' .* no rule that dec"):
        AVRO.serde(registry).deserializer("bills")(data)


def test_versions_without_migrations_are_read_as_they_were_written() -> None:
    registry = versions(AVRO)
    data = registry.avro(schema=BILL_AVRO).serializer("bills")(AVRO.bill("A", 1))
    longer = BILL_AVRO.replace('"long"}', '"long"},{"name":"x","type":"int","default":1}')
    registry.client.register_schema("bills-value", Schema(longer, "AVRO"))

    latest = AVRO.serde(registry)

    assert latest.deserializer("bills")(data) == AVRO.bill("A", 1)
    assert latest.deserializer("no-such-subject")(data) == AVRO.bill("A", 1)


def test_protobuf_is_migrated_where_the_registry_gives_text_unless_it_is_asked() -> None:
    with RulesRegistry() as server:
        registry = SchemaRegistry(server.config, rule_config=CONFIG)
        registry.client.register_schema("bills-value", PROTOBUF.schema(encryption()))
        data = PROTOBUF.serde(registry).serializer("bills")(PROTOBUF.bill(CARD, 1))
        registry.client.register_schema("bills-value", newer(PROTOBUF, encryption()))
        readers = SchemaRegistry(server.config, rule_config=CONFIG)

        value = PROTOBUF.serde(readers, model=NewerMessage).deserializer("bills")(data)

    assert (value.number, value.cents) == (CARD, 1)
