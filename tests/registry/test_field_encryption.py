"""Encryption that a schema's rules ask for: fields and whole values, keys, and what is told."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka.schema_registry import Metadata, MetadataTags, RuleSet, Schema
from packaging.version import Version

from pystreams import Materialized, SchemaRegistryError, StreamsBuilder, serdes
from pystreams.registry import SchemaIdPlace, SchemaRegistry, SchemaUse, SubjectNameStrategy
from pystreams.serdes import HeadersSerde
from pystreams.testing import TopologyTestDriver
from tests.registry.rule_sets import (
    AVRO,
    BILL_AVRO,
    BILL_FILE,
    CARD,
    CONFIG,
    FORMATS,
    PROTOBUF,
    Format,
    condition,
    encryption,
    rule,
)
from tests.registry.rules_registry import RulesRegistry

every_format = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.schema_type)


@pytest.fixture
def rules_registry() -> Iterator[RulesRegistry]:
    with RulesRegistry() as registry:
        yield registry


def connect(registry: RulesRegistry, **said: Any) -> SchemaRegistry:
    return SchemaRegistry(registry.config, **{"rule_config": CONFIG, **said})


@every_format
@pytest.mark.parametrize("whole", [False, True], ids=["a field", "the whole"])
def test_what_is_to_be_secret_is_nowhere_in_what_is_written(form: Format, whole: bool) -> None:
    registry = SchemaRegistry({"url": "mock://"}, rule_config=CONFIG)
    hidden = RuleSet(None, [encryption()])
    if whole:
        hidden = RuleSet(None, None, [encryption(whole=True)])
    schema = Schema(form.text, form.schema_type, [], None, hidden)
    registry.client.register_schema("bills-value", schema)
    bill = form.bill(CARD, 310)

    data = form.serde(registry).serializer("bills")(bill)

    assert CARD.encode() not in data
    assert form.plain(bill) == {"card": CARD, "cents": 310}
    read = form.serde(registry).deserializer("bills")(data)
    assert form.plain(read) == {"card": CARD, "cents": 310}


@every_format
@pytest.mark.parametrize("latest", [False, True])
def test_confluents_serializers_read_what_is_written_and_write_what_is_read(
    form: Format, latest: bool, rules_registry: RulesRegistry
) -> None:
    registry = connect(rules_registry)
    paid = condition("paid", "message.cents > 0")
    schema = form.schema(encryption(), encryption("all", whole=False, tags=["other"]), paid)
    registry.client.register_schema("bills-value", schema)
    serde = form.serde(registry)
    bill = form.bill(CARD, 310)

    ours = serde.serializer("bills")(bill)
    asked = {
        "registry": rules_registry.config,
        **CONFIG,
        "type": form.schema_type,
        "data": ours.hex(),
        "latest": latest,
        "file": BILL_FILE.SerializeToString().hex(),
    }
    theirs = confluent_alone(asked)

    assert theirs["read"] == {"card": CARD, "cents": 310}
    data = bytes.fromhex(theirs["data"])
    assert data[:5] == ours[:5]
    assert CARD.encode() not in data
    assert form.plain(serde.deserializer("bills")(data)) == {"card": CARD, "cents": 310}


def confluent_alone(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what a process has read and written that has none of our modules."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("confluent_alone.py"))],
        input=orjson.dumps(asked),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    answer: dict[str, Any] = orjson.loads(done.stdout)
    return answer


@every_format
@pytest.mark.parametrize("place", list(SchemaIdPlace))
def test_another_process_with_the_secret_reads_it(
    form: Format, place: SchemaIdPlace, rules_registry: RulesRegistry
) -> None:
    writers = connect(rules_registry, schema_ids=place)
    writers.client.register_schema("bills-value", form.schema(encryption()))
    readers = connect(rules_registry)
    written, read = form.serde(writers), form.serde(readers, write_with=SchemaUse.LOOK_UP)
    assert isinstance(written, HeadersSerde)
    assert isinstance(read, HeadersSerde)
    serialize = written.headers_serializer("bills")
    deserialize = read.headers_deserializer("bills")
    assert serialize is not None
    assert deserialize is not None

    data, headers = serialize(form.bill(CARD, 310), ())

    assert form.plain(deserialize(data, headers)) == {"card": CARD, "cents": 310}
    if place is SchemaIdPlace.HEADERS:
        assert any("/schemas/guids/" in path for path in rules_registry.asked)


def test_each_registry_has_the_secret_that_it_was_given(rules_registry: RulesRegistry) -> None:
    ours = connect(rules_registry)
    ours.client.register_schema("bills-value", AVRO.schema(encryption()))
    data = AVRO.serde(ours).serializer("bills")(AVRO.bill(CARD, 310))
    others = AVRO.serde(connect(rules_registry, rule_config={"secret": "another one"}))

    with pytest.raises(
        SchemaRegistryError,
        match=r"'hide the card' \(ENCRYPT transform on READ\), field shop\.Bill\.card: failed to "
        r"decrypt with all KEKs.*rule_config=",
    ):
        others.deserializer("bills")(data)
    again = pickle.loads(pickle.dumps(AVRO.serde(ours)))
    assert again.deserializer("bills")(data) == {"card": CARD, "cents": 310}


@pytest.mark.parametrize("fault", ["the registry's keys", "no secret", "no package"])
def test_a_fault_of_the_keys_stops_the_application_and_costs_no_record(
    fault: str, rules_registry: RulesRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCAL_SECRET", raising=False)
    hiding = encryption()
    if fault == "no package":
        hiding = encryption(kms="aws-kms")
    registry = connect(rules_registry, rule_config={} if fault == "no secret" else CONFIG)
    registry.client.register_schema("bills-value", AVRO.schema(hiding))
    rules_registry.keys_are_down = fault == "the registry's keys"
    told = {
        "the registry's keys": "could not get kek bills.*no keys today",
        "no secret": "failed to encrypt with all KEKs.*cannot load secret",
        "no package": r"keys of aws-kms:// need packages: pip install 'confluent-kafka\[rules\]'",
    }[fault]
    bills = AVRO.serde(registry)
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.JSON)
    stream.to("bills", value_serde=bills)
    handlers = {
        "production.exception.handler": "continue",
        "processing.exception.handler": "continue",
        "deserialization.exception.handler": "continue",
    }

    with TopologyTestDriver(builder.build(), handlers) as driver:
        with pytest.raises(SchemaRegistryError, match=rf"{told}.*no record was skipped"):
            driver.pipe_raw("in", b"k", orjson.dumps(AVRO.bill(CARD, 310)), 0)
        assert driver.produced_raw("bills") == []


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.schema_type)
def test_keys_are_encrypted_into_equal_bytes_or_not_at_all(form: Format) -> None:
    registry = SchemaRegistry({"url": "mock://"}, rule_config=CONFIG)
    register = registry.client.register_schema
    register("bills-key", form.schema(encryption(algorithm="AES256_SIV")))
    keys = form.serde(registry, is_key=True)

    data = [keys.serializer("bills")(form.bill(CARD, 310)) for _ in range(2)]

    assert data[0] == data[1]
    assert CARD.encode() not in data[0]
    assert form.plain(keys.deserializer("bills")(data[0])) == {"card": CARD, "cents": 310}
    for topic, hiding in {
        "random": encryption(),
        "rotated": encryption(algorithm="AES256_SIV", expiry_days="7"),
    }.items():
        register(f"{topic}-key", form.schema(hiding))
        write = form.serde(registry, is_key=True).serializer(topic)
        with pytest.raises(SchemaRegistryError, match=r"keys must be equal bytes.*to AES256_SIV"):
            write(form.bill(CARD, 310))


def test_protobuf_keys_whose_bytes_rules_change_are_refused() -> None:
    registry = SchemaRegistry({"url": "mock://"}, rule_config=CONFIG)
    hidden = RuleSet(None, None, [encryption(whole=True, algorithm="AES256_SIV")])
    schema = Schema(PROTOBUF.text, "PROTOBUF", [], None, hidden)
    registry.client.register_schema("bills-key", schema)

    with pytest.raises(SchemaRegistryError, match="the bytes of a key that is a Protobuf message"):
        PROTOBUF.serde(registry, is_key=True).serializer("bills")(PROTOBUF.bill(CARD, 310))


@pytest.mark.parametrize("algorithm", ["AES256_SIV", "AES256_GCM"])
def test_a_foreign_key_join_compares_encrypted_rows_or_refuses_to(algorithm: str) -> None:
    registry = SchemaRegistry({"url": "mock://"}, rule_config=CONFIG)
    bills = registry.avro(schema=AVRO.schema(encryption(algorithm=algorithm)))
    builder = StreamsBuilder()
    table = builder.table("bills", key_serde=serdes.STRING, value_serde=bills)
    shops = builder.table("shops", key_serde=serdes.STRING, value_serde=serdes.STRING)
    named = table.join(
        shops, lambda bill, shop: f"{bill['card']} {shop}", foreign_key=lambda _: "s-1"
    )
    named.to_stream().to("named", value_serde=serdes.STRING)
    data = bills.serializer("bills")(AVRO.bill(CARD, 310))

    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_raw("shops", b"s-1", b"Ada's", 0)
        if algorithm == "AES256_GCM":
            with pytest.raises(SchemaRegistryError, match="values that a foreign-key join comp"):
                driver.pipe_raw("bills", b"b-1", data, 0)
            return
        driver.pipe_raw("bills", b"b-1", data, 0)
        driver.pipe_raw("shops", b"s-1", b"Bob's", 1)
        values = [value for _, value, _, _ in driver.produced_raw("named")]
    assert values == [f"{CARD} Ada's".encode(), f"{CARD} Bob's".encode()]


def test_state_is_encrypted_by_rules_too(rules_registry: RulesRegistry) -> None:
    bills = connect(rules_registry).avro(schema=AVRO.schema(encryption()))
    builder = StreamsBuilder()
    stream = builder.stream("bills", key_serde=serdes.STRING, value_serde=bills)
    materialized = Materialized("kept", key_serde=serdes.STRING, value_serde=bills)
    kept = stream.to_table(materialized=materialized)
    kept.to_stream().map_values(lambda bill: bill["card"]).to("cards", value_serde=serdes.STRING)
    data = bills.serializer("bills")(AVRO.bill(CARD, 310))

    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_raw("bills", b"b-1", data, 0)
        ((_, row, _, _),) = driver.produced_raw("test-driver-kept-changelog")
        assert driver.get_key_value_store("kept").get("b-1") == AVRO.bill(CARD, 310)
        assert [value for _, value, _, _ in driver.produced_raw("cards")] == [CARD.encode()]
    assert row is not None
    assert CARD.encode() not in row
    assert any(
        path.endswith("/deks/test-driver-kept-changelog-value") for path in rules_registry.asked
    )


def test_keys_of_fields_are_those_of_the_subject(rules_registry: RulesRegistry) -> None:
    bills = connect(rules_registry).avro(
        schema=AVRO.schema(encryption()), subject=SubjectNameStrategy.RECORD
    )
    data = bills.serializer("bills")(AVRO.bill(CARD, 310))

    reader = connect(rules_registry).avro(subject=SubjectNameStrategy.RECORD)
    assert reader.deserializer("other")(data) == AVRO.bill(CARD, 310)
    assert any(path.endswith("/deks/shop.Bill") for path in rules_registry.asked)


@pytest.mark.parametrize("use", [SchemaUse.REGISTER, SchemaUse.LOOK_UP])
@pytest.mark.parametrize("place", list(SchemaIdPlace))
def test_rules_that_the_registry_has_for_a_schema_that_was_given_without_are_carried_out(
    use: SchemaUse, place: SchemaIdPlace, rules_registry: RulesRegistry
) -> None:
    registry = connect(rules_registry, schema_ids=place)
    others = connect(rules_registry)
    others.client.register_schema("bills-value", AVRO.schema(encryption()))
    bills = registry.avro(schema=BILL_AVRO, write_with=use)
    assert isinstance(bills, HeadersSerde)
    assert bills.deserializer("bills")(
        others.avro(schema=BILL_AVRO).serializer("bills")(AVRO.bill(CARD, 310))
    ) == AVRO.bill(CARD, 310)

    for _ in range(2):  # Two tasks: what the client remembers are ids, not rules.
        write, read = bills.headers_serializer("bills"), bills.headers_deserializer("bills")
        assert write is not None
        assert read is not None
        data, headers = write(AVRO.bill(CARD, 310), ())
        assert CARD.encode() not in data
        assert read(data, headers) == AVRO.bill(CARD, 310)


def test_a_schema_with_tags_in_its_metadata_needs_a_newer_client(
    rules_registry: RulesRegistry,
) -> None:
    text = BILL_AVRO.replace(',"confluent:tags":["PII"]', "")
    tags = Metadata(MetadataTags({"shop.Bill.card": ["PII"]}), None, None)
    body = Schema(text, "AVRO", [], tags, RuleSet(None, [encryption()])).to_dict()
    rules_registry.register("bills-value", body)
    bills = AVRO.serde(connect(rules_registry))

    if Version(version("confluent-kafka")) < Version("2.16.1"):
        with pytest.raises(SchemaRegistryError, match=r"metadata has tags, confluent-kafka 2\.16"):
            bills.serializer("bills")(AVRO.bill(CARD, 310))
        return
    assert CARD.encode() not in bills.serializer("bills")(AVRO.bill(CARD, 310))


@every_format
def test_no_secret_and_nothing_encrypted_is_shown(
    form: Format, rules_registry: RulesRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    registry = connect(rules_registry)
    checked = condition("short", "size(message.card) < 20 && int(message.card) > 0")
    if form is not PROTOBUF:
        checked = rule("short", "JSONATA", "CONDITION", "WRITE", "$number(card) < 1e20")
    schema = form.schema(checked, encryption())
    registry.client.register_schema("bills-value", schema)
    bills = form.serde(registry)
    told = [repr(registry), repr(bills), repr(registry.__dict__)]
    write = bills.serializer("bills")
    read = bills.deserializer("bills")
    assert form.plain(read(write(form.bill(CARD, 310)))) == {"card": CARD, "cents": 310}

    wrong: list[Any] = [form.bill(CARD * 2, 310), form.bill("secret", 310)]
    if form is not PROTOBUF:
        wrong += [{"card": CARD, "cents": "secret"}, {"card": CARD, "cents": {CARD: 1}}]
    for value in wrong:
        with pytest.raises(ValueError, match="values of topic 'bills'") as caught:
            write(value)
        told.append(str(caught.value))

    shown = [text for text in (*told, caplog.text) if CARD in text or "secret" in text]
    assert shown == []
