"""Conditions and transforms of schemas: carried out in each format, and told where they fail."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from confluent_kafka.schema_registry import RuleSet, Schema, SchemaReference

from pystreams import SchemaRegistryError, SerializationError, StreamsBuilder, serdes
from pystreams.registry import SchemaIdPlace, SchemaRegistry, SchemaUse, SubjectNameStrategy
from pystreams.serdes import HeadersSerde
from pystreams.testing import TopologyTestDriver
from tests.registry.messages import LINE_FILE, Note, Order
from tests.registry.rule_sets import (
    AVRO,
    BILL_AVRO,
    CONFIG,
    FORMATS,
    JSON,
    Format,
    condition,
    registry_with,
    rule,
    transform,
)

every_format = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.schema_type)
CONTINUE = {
    "deserialization.exception.handler": "continue",
    "production.exception.handler": "continue",
}


@dataclass
class Bill:
    card: str
    cents: int


@every_format
def test_a_value_that_does_not_meet_a_condition_is_not_written(form: Format) -> None:
    registry = registry_with(form, condition("to be paid", "message.cents > 0"))
    write = form.serde(registry).serializer("bills")

    read = form.serde(registry).deserializer("bills")
    assert form.plain(read(write(form.bill("A", 1)))) == {"card": "A", "cents": 1}
    with pytest.raises(
        ValueError,
        match=r"values of topic 'bills' \(schema id 1\): rule 'to be paid' \(CEL condition on "
        r"WRITE\): not met: message\.cents > 0",
    ):
        write(form.bill("A", 0))


@every_format
def test_a_value_that_does_not_meet_a_condition_of_reading_is_not_read(form: Format) -> None:
    registry = registry_with(
        form, condition("small", "message.cents < 10", mode="READ", doc="ask the bank first")
    )
    data = form.serde(registry).serializer("bills")(form.bill("A", 10))

    with pytest.raises(ValueError, match=r"'small' \(CEL condition on READ\): not met: ask the b"):
        form.serde(registry).deserializer("bills")(data)


@every_format
def test_a_condition_of_fields_names_the_one_that_does_not_meet_it(form: Format) -> None:
    of_cards = rule(
        "numbers", "CEL_FIELD", "CONDITION", "WRITE", "name == 'card' ; value != ''", tags=["PII"]
    )
    write = form.serde(registry_with(form, of_cards)).serializer("bills")

    write(form.bill("A", 1))
    with pytest.raises(ValueError, match=rf"'numbers' .*, field {form.card.replace('$', '.')}: no"):
        write(form.bill("", 1))


@every_format
@pytest.mark.parametrize("of_fields", [False, True])
def test_transforms_change_what_is_written_and_what_is_read(form: Format, of_fields: bool) -> None:
    louder = "{'card': message.card + 'MARK', 'cents': message.cents + 1}"
    rules = [transform("write", louder.replace("MARK", "!"))]
    rules += [transform("read", louder.replace("MARK", "?"), mode="READ")]
    if of_fields:
        louder = "typeName == 'STRING' ? value + 'MARK' : value + 1"
        rules = [
            rule("write", "CEL_FIELD", "TRANSFORM", "WRITE", louder.replace("MARK", "!")),
            rule("read", "CEL_FIELD", "TRANSFORM", "READ", louder.replace("MARK", "?")),
        ]
    registry = registry_with(form, *rules)
    bill = form.bill("A", 1)

    data = form.serde(registry).serializer("bills")(bill)
    read = form.serde(registry).deserializer("bills")(data)

    assert b"A!" in data
    assert b"?" not in data
    assert form.plain(read) == {"card": "A!?", "cents": 3}
    assert [type(value) for value in form.plain(read).values()] == [str, int]
    assert form.plain(bill) == {"card": "A", "cents": 1}


@pytest.mark.parametrize("form", [AVRO, JSON], ids=lambda form: form.schema_type)
def test_a_class_is_written_and_read_by_rules(form: Format) -> None:
    louder = rule("stress", "CEL_FIELD", "TRANSFORM", "WRITE", "name == 'card' ; value + '!'")
    serde = form.serde(registry_with(form, louder), model=Bill)

    assert serde.deserializer("bills")(serde.serializer("bills")(Bill("A", 1))) == Bill("A!", 1)


@pytest.mark.parametrize("form", [AVRO, JSON], ids=lambda form: form.schema_type)
def test_what_a_transform_makes_has_to_fit_the_schema(form: Format) -> None:
    registry = registry_with(form, transform("wrong", "{'card': message.cents}"))

    of_card = (
        r"^the values of topic 'bills' \(schema id 1\): (TypeError: must be string|\$\.card d)"
    )
    with pytest.raises(ValueError, match=of_card):
        form.serde(registry).serializer("bills")(form.bill("A", 1))


def test_a_transform_that_leaves_nothing_is_an_error() -> None:
    nothing = rule("nothing", "JSONATA", "TRANSFORM", "WRITE", "$.number")
    write = AVRO.serde(registry_with(AVRO, nothing)).serializer("bills")

    with pytest.raises(ValueError, match=r"'bills' \(schema id 1\): a rule has left nothing of it"):
        write(AVRO.bill("A", 1))


def test_an_expression_that_fails_is_told_with_its_rule() -> None:
    write = AVRO.serde(registry_with(AVRO, condition("odd", "message.sum > 0"))).serializer("bills")

    with pytest.raises(ValueError, match=r"'odd' .*: CELEvalError: no such member.*'sum'"):
        write(AVRO.bill("A", 1))


@pytest.mark.parametrize(
    ("action", "is_written"),
    [("NONE", True), ("NONE,ERROR", True), ("ERROR", False), ("ERROR,NONE", False), ("DLQ", False)],
)
def test_what_a_failure_leads_to_is_the_rules_to_say(action: str, is_written: bool) -> None:
    checked = condition("paid", "message.cents > 0", mode="WRITEREAD", on_failure=action)
    serde = AVRO.serde(registry_with(AVRO, checked))
    write = serde.serializer("bills")

    if not is_written:
        with pytest.raises(ValueError, match="rule 'paid'"):
            write(AVRO.bill("A", 0))
        return
    data = write(AVRO.bill("A", 0))
    if action == "NONE":
        assert serde.deserializer("bills")(data) == {"card": "A", "cents": 0}
    else:
        with pytest.raises(ValueError, match=r"rule 'paid' \(CEL condition on READ\)"):
            serde.deserializer("bills")(data)


def test_a_disabled_rule_is_not_carried_out() -> None:
    never = condition("never", "false", disabled=True)
    serde = AVRO.serde(registry_with(AVRO, never))

    assert serde.deserializer("bills")(serde.serializer("bills")(AVRO.bill("A", 1)))


@pytest.mark.parametrize(
    ("unknown", "told"),
    [
        (rule("audit", "SQL", "CONDITION", "READ", "x"), "'audit' of type SQL, which is not carri"),
        (condition("paid", "true", on_failure="MAIL"), "'paid' with the action MAIL"),
        (condition("paid", "true", on_success="NONE,MAIL"), "'paid' with the action MAIL"),
    ],
)
def test_what_is_not_known_here_is_refused_by_name(unknown: Any, told: str) -> None:
    registry = registry_with(AVRO, unknown)
    data = registry.avro(schema=BILL_AVRO).serializer("other")(AVRO.bill("A", 1))

    for use in (
        lambda: AVRO.serde(registry).serializer("bills")(AVRO.bill("A", 1)),
        lambda: registry.avro().deserializer("bills")(b"\x00\x00\x00\x00\x01" + data[5:]),
    ):
        with pytest.raises(SchemaRegistryError, match=told):
            use()


@every_format
def test_records_that_break_rules_go_to_the_handlers(form: Format) -> None:
    registry = registry_with(form, condition("small", "message.cents < 10", mode="READ"))
    registry.client.register_schema(
        "paid-value", form.schema(condition("to be paid", "message.cents > 0"))
    )
    bills = form.serde(registry)
    builder = StreamsBuilder()
    stream = builder.stream("bills", key_serde=serdes.STRING, value_serde=bills)
    stream.to("paid", value_serde=bills)
    topology = builder.build()
    write = bills.serializer("bills")

    def pipe(driver: TopologyTestDriver) -> None:
        for cents in (1, 10, 0, 2):
            driver.pipe_raw("bills", b"k", write(form.bill("A", cents)), 0)

    with TopologyTestDriver(topology, CONTINUE) as driver:
        pipe(driver)
        read = bills.deserializer("paid")
        values = [value for _, value, _, _ in driver.produced_raw("paid")]
        paid = [form.plain(read(value))["cents"] for value in values if value is not None]
    assert paid == [1, 2]
    with TopologyTestDriver(topology) as driver, pytest.raises(SerializationError, match="'small'"):
        pipe(driver)


@every_format
@pytest.mark.parametrize("place", list(SchemaIdPlace))
def test_rules_are_carried_out_wherever_the_schemas_id_is(
    form: Format, place: SchemaIdPlace
) -> None:
    registry = SchemaRegistry({"url": "mock://"}, schema_ids=place)
    louder = rule("stress", "CEL_FIELD", "TRANSFORM", "WRITEREAD", "name == 'card' ; value + '!'")
    registry.client.register_schema("bills-value", form.schema(louder))
    serde = form.serde(registry)
    assert isinstance(serde, HeadersSerde)
    write, read = serde.headers_serializer("bills"), serde.headers_deserializer("bills")
    assert write is not None
    assert read is not None

    data, headers = write(form.bill("A", 1), (("other", b""),))

    assert data.startswith(b"\x00") == (place is SchemaIdPlace.PREFIX)
    names = ["other", "__value_schema_id"][: 2 - (place is SchemaIdPlace.PREFIX)]
    assert [name for name, _ in headers] == names
    assert form.plain(read(data, headers)) == {"card": "A!!", "cents": 1}


@pytest.mark.parametrize("form", [AVRO, JSON], ids=lambda form: form.schema_type)
def test_subjects_are_named_by_the_strategy_and_rules_by_the_subject(form: Format) -> None:
    registry = SchemaRegistry({"url": "mock://"})
    name = "shop.Bill" if form is AVRO else "Bill"
    subject = f"bills-{name}"
    registry.client.register_schema(subject, form.schema(condition("paid", "message.cents > 0")))
    serde = form.serde(registry, schema=form.text, subject=SubjectNameStrategy.TOPIC_RECORD)
    write = serde.serializer("bills")

    assert serde.deserializer("bills")(write(form.bill("A", 1))) == form.bill("A", 1)
    with pytest.raises(ValueError, match="rule 'paid'"):
        write(form.bill("A", 0))


def test_rules_see_what_references_bring() -> None:
    registry = SchemaRegistry({"url": "mock://"})
    registry.client.register_schema("bill", Schema(BILL_AVRO, "AVRO"))
    text = '{"type": "record", "name": "Sent", "fields": [{"name": "bill", "type": "shop.Bill"}]}'
    paid = condition("paid", "message.bill.cents > 0", mode="WRITEREAD")
    schema = Schema(
        text, "AVRO", [SchemaReference("shop.Bill", "bill", 1)], None, RuleSet(None, [paid])
    )
    serde = registry.avro(schema=schema)
    write = serde.serializer("sent")

    value = {"bill": {"card": "A", "cents": 1}}
    assert serde.deserializer("sent")(write(value)) == value
    with pytest.raises(ValueError, match="rule 'paid'"):
        write({"bill": {"card": "A", "cents": 0}})


def test_protobuf_files_that_are_imported_are_found() -> None:
    registry = SchemaRegistry({"url": "mock://"})
    registry.protobuf(Order).serializer("orders")(Order(id="A-1"))
    found = registry.client.get_latest_version("orders-value").schema
    named = condition("named", "message.id != ''")
    ruled = Schema(found.schema_str, "PROTOBUF", found.references, None, RuleSet(None, [named]))
    registry.client.register_schema("orders-value", ruled)
    serde = registry.protobuf(Order, write_with=SchemaUse.LATEST)
    write = serde.serializer("orders")

    assert LINE_FILE.name in [reference.name for reference in found.references]
    assert serde.deserializer("orders")(write(Order(id="A-1"))) == Order(id="A-1")
    with pytest.raises(ValueError, match="rule 'named'"):
        write(Order())


def test_equal_protobuf_keys_are_equal_bytes_with_rules_too() -> None:
    registry = SchemaRegistry({"url": "mock://"})
    registry.protobuf(Order, is_key=True).serializer("orders")(Order(id="A-1"))
    found = registry.client.get_latest_version("orders-key").schema
    named = RuleSet(None, [condition("named", "message.id != ''")])
    ruled = Schema(found.schema_str, "PROTOBUF", found.references, None, named)
    registry.client.register_schema("orders-key", ruled)
    write = registry.protobuf(Order, is_key=True, write_with=SchemaUse.LATEST).serializer("orders")
    letters = "abcdefgh"

    data = {
        write(Order(id="A-1", tags=dict.fromkeys(order, 1)))
        for order in (letters, reversed(letters))
    }

    assert len(data) == 1


def test_a_message_within_another_is_refused_with_rules() -> None:
    registry = SchemaRegistry({"url": "mock://"})
    registry.protobuf(Note).serializer("notes")(Note(text="soon"))
    found = registry.client.get_latest_version("notes-value").schema
    ruled = Schema(
        found.schema_str,
        "PROTOBUF",
        found.references,
        None,
        RuleSet(None, [condition("said", "message.text != ''")]),
    )
    registry.client.register_schema("notes-value", ruled)

    with pytest.raises(
        SchemaRegistryError, match=r"messages that stand in no other, and Note does"
    ):
        registry.protobuf(Note, write_with=SchemaUse.LATEST).serializer("notes")(Note(text="soon"))


def test_a_schema_of_ones_own_resolves_what_the_rules_of_the_writers_have_left() -> None:
    louder = rule("stress", "CEL_FIELD", "TRANSFORM", "READ", "name == 'card' ; value + '!'")
    registry = registry_with(AVRO, louder)
    data = AVRO.serde(registry).serializer("bills")(AVRO.bill("A", 1))
    newer = BILL_AVRO.replace(
        '"long"}', '"long"},{"name":"currency","type":"string","default":"EUR"}'
    )
    older = BILL_AVRO.replace(',{"name":"cents","type":"long"}', "")

    read = registry.avro(schema=newer).deserializer("bills")(data)
    assert read == {"card": "A!", "cents": 1, "currency": "EUR"}
    assert registry.avro(schema=older).deserializer("bills")(data) == {"card": "A!"}
    with pytest.raises(ValueError, match=r"values of topic 'bills' \(schema id 1\)"):
        registry.avro(schema=older.replace('"card"', '"number"')).deserializer("bills")(data)


def test_without_its_packages_a_schema_with_rules_is_refused_with_the_cure() -> None:
    program = """
import sys
sys.modules["celpy"] = None
from tests.registry.rule_sets import FORMATS, condition, registry_with
for form in FORMATS:
    serde = form.serde(registry_with(form, condition("paid", "message.cents > 0")))
    for use in (
        lambda: serde.serializer("bills")(form.bill("A", 1)),
        lambda: serde.deserializer("bills")(b"\\x00\\x00\\x00\\x00\\x01\\x00"),
    ):
        try:
            use()
        except Exception as error:
            print(type(error).__name__, error)
"""
    lines = run(program).splitlines()

    assert len(lines) == 6
    for line in lines:
        assert line.startswith("ConfigError rules of schemas")
        assert "pip install 'pystreams-kafka[rules]'" in line


def test_schemas_without_rules_do_not_load_what_carries_them_out() -> None:
    program = f"""
import sys
from pystreams.registry import SchemaRegistry
serde = SchemaRegistry({{"url": "mock://"}}, rule_config={CONFIG!r}).avro(schema={BILL_AVRO!r})
serde.deserializer("t")(serde.serializer("t")({{"card": "A", "cents": 1}}))
print([name for name in sys.modules if "celpy" in name or "ruled_serdes" in name or "tink" in name])
"""
    assert run(program) == "[]\n"


def run(program: str) -> str:
    """Return what a program prints in a process of its own."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


@dataclass
class Paid:
    card: str


@dataclass
class Refunded:
    card: str
    reason: str = ""


@dataclass
class Cancelled:
    card: str


@dataclass
class Event:
    what: Refunded | Paid


@dataclass
class EventOfTwins:
    what: Paid | Cancelled


def _record_of(name: str, *names: str) -> dict[str, Any]:
    fields = [{"name": field, "type": "string", "default": ""} for field in names]
    return {"type": "record", "name": name, "fields": fields}


def _registry_of(*choices: dict[str, Any]) -> SchemaRegistry:
    event = {"type": "record", "name": "Event", "fields": [{"name": "what", "type": choices}]}
    registry = SchemaRegistry({"url": "mock://"})
    rules = RuleSet([], [rule("stress", "CEL_FIELD", "TRANSFORM", "READ", "value + '!'")])
    schema = Schema(orjson.dumps(event).decode(), "AVRO", [], None, rules)
    registry.client.register_schema("t-value", schema)
    return registry


@pytest.mark.parametrize("value", [Paid("A"), Refunded("A"), Refunded("A", "b")], ids=str)
def test_rules_leave_a_value_of_a_union_of_classes_its_class(value: Any) -> None:
    registry = _registry_of(_record_of("Refunded", "card", "reason"), _record_of("Paid", "card"))
    serde = registry.avro(Event, write_with=SchemaUse.LATEST)
    read = serde.deserializer("t")(serde.serializer("t")(Event(value)))

    assert type(read.what) is type(value)
    assert read.what.card == "A!"


def _registry_with(rule: Any, *choices: dict[str, Any]) -> SchemaRegistry:
    event = {"type": "record", "name": "Event", "fields": [{"name": "what", "type": choices}]}
    registry = SchemaRegistry({"url": "mock://"})
    schema = Schema(orjson.dumps(event).decode(), "AVRO", [], None, RuleSet([], [rule]))
    registry.client.register_schema("t-value", schema)
    return registry


@pytest.mark.parametrize("mode", ["WRITE", "READ"])
@pytest.mark.parametrize("is_named", [False, True])
def test_rules_about_tags_find_the_fields_of_the_record_that_is_in_a_union(
    mode: str, is_named: bool
) -> None:
    """A record with fewer fields before it in the union would take it too, without the tag."""
    refunded = _record_of("Refunded", "card", "reason")
    refunded["fields"][1]["confluent:tags"] = ["PII"]
    tagged = rule("stress", "CEL_FIELD", "TRANSFORM", mode, "value + '!'", tags=["PII"])
    registry = _registry_with(tagged, _record_of("Paid", "card"), refunded)
    serde = registry.avro(write_with=SchemaUse.LATEST)
    value = {"card": "A", "reason": "late"}
    data = serde.serializer("t")({"what": ("Refunded", value) if is_named else value})

    assert (b"late!" in data) is (mode == "WRITE")
    assert serde.deserializer("t")(data) == {"what": {"card": "A", "reason": "late!"}}


@pytest.mark.parametrize("kind", [Paid, Cancelled])
def test_rules_about_fields_leave_records_that_only_their_names_tell_apart(kind: Any) -> None:
    registry = _registry_of(_record_of("Paid", "card"), _record_of("Cancelled", "card"))
    serde = registry.avro(EventOfTwins, write_with=SchemaUse.LATEST)

    read = serde.deserializer("t")(serde.serializer("t")(EventOfTwins(kind("A"))))

    assert read == EventOfTwins(kind("A!"))


@pytest.mark.parametrize("mode", ["WRITE", "READ"])
@pytest.mark.parametrize("kind", ["CONDITION", "TRANSFORM"])
def test_rules_about_the_whole_see_plain_records_of_unions(mode: str, kind: str) -> None:
    expression = "message.what.card == 'A'"
    if kind == "TRANSFORM":
        expression = "{'what': {'card': message.what.card, 'reason': message.what.reason}}"
    whole = rule("whole", "CEL", kind, mode, expression)
    choices = _record_of("Paid", "card"), _record_of("Refunded", "card", "reason")
    serde = _registry_with(whole, *choices).avro(write_with=SchemaUse.LATEST)
    value = {"what": {"card": "A", "reason": "late"}}

    assert serde.deserializer("t")(serde.serializer("t")(value)) == value


def test_classes_that_only_the_names_of_records_tell_apart_are_refused_with_other_rules() -> None:
    rule_of_all = transform("copy", "{'what': message.what}", mode="READ")
    choices = _record_of("Paid", "card"), _record_of("Cancelled", "card")
    serde = _registry_with(rule_of_all, *choices).avro(EventOfTwins, write_with=SchemaUse.LATEST)
    data = serde.serializer("t")(EventOfTwins(Cancelled("A")))

    with pytest.raises(SchemaRegistryError, match="Paid and Cancelled can't be told apart"):
        serde.deserializer("t")(data)
